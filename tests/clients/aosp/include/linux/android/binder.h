/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's header, with two additions for libbinder, which expects Android's own copy.
 * libbinder tests for commands with #ifdef, and the kernel's header has enumerators for them. Only
 * Android's copy defines the scheduling bits of a node's flags.
 */
#pragma once

#include_next <linux/android/binder.h>

#define BINDER_FREEZE BINDER_FREEZE
#define BINDER_GET_FROZEN_INFO BINDER_GET_FROZEN_INFO
#define BINDER_ENABLE_ONEWAY_SPAM_DETECTION BINDER_ENABLE_ONEWAY_SPAM_DETECTION
#define BR_FROZEN_REPLY BR_FROZEN_REPLY
#define BR_ONEWAY_SPAM_SUSPECT BR_ONEWAY_SPAM_SUSPECT
#define BR_TRANSACTION_PENDING_FROZEN BR_TRANSACTION_PENDING_FROZEN

enum {
	FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT = 9,
	FLAT_BINDER_FLAG_INHERIT_RT = 1 << 11,
};
