/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before libbinder's IPCThreadState.cpp, which calls the driver only where __ANDROID__ is
 * defined. All headers must be read before that: they do have another content on Android.
 */
#pragma once

#include <android-base/macros.h>
#include <binder/Binder.h>
#include <binder/BpBinder.h>
#include <binder/IPCThreadState.h>
#include <binder/TextOutput.h>
#include <cutils/sched_policy.h>
#include <utils/CallStack.h>
#include <utils/Log.h>
#include <utils/SystemClock.h>

#include <linux/android/binder.h>

#include <atomic>

#define __ANDROID__ 1
