/* SPDX-License-Identifier: GPL-2.0 */
/* C's atomics cannot be used beside C++'s before C++23, but in libc++, where they are the same. */
#pragma once

#include <atomic>

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;
