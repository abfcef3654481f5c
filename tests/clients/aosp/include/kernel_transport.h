/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before binderRpcBenchmark.cpp, which calls through the driver only where the C library is
 * bionic. All headers must be read before that: some do have another content with bionic.
 */
#pragma once

#include <BnBinderRpcBenchmark.h>
#include <android-base/logging.h>
#include <benchmark/benchmark.h>
#include <binder/Binder.h>
#include <binder/IPCThreadState.h>
#include <binder/IServiceManager.h>
#include <binder/ProcessState.h>
#include <binder/RpcCertificateFormat.h>
#include <binder/RpcCertificateVerifier.h>
#include <binder/RpcServer.h>
#include <binder/RpcSession.h>
#include <binder/RpcTlsTestUtils.h>
#include <binder/RpcTlsUtils.h>
#include <binder/RpcTransportRaw.h>
#include <binder/RpcTransportTls.h>
#include <openssl/ssl.h>

#include <iostream>
#include <thread>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>

#define __BIONIC__ 1
