// SPDX-License-Identifier: GPL-2.0
/* What is observed of requests, with functions that Rust calls if it is on. */
#include <linux/jump_label.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

/* On while the latency of some device is measured. */
DEFINE_STATIC_KEY_FALSE(ublk_rust_measures);

void ublk_rust_measure(bool is_on)
{
	if (is_on)
		static_branch_inc(&ublk_rust_measures);
	else
		static_branch_dec(&ublk_rust_measures);
}

void ublk_rust_trace_request(u32 device, u16 queue, u16 tag, u32 operation,
			     u64 sector, u32 sectors)
{
	trace_ublk_rust_request(device, queue, tag, operation, sector, sectors);
}

void ublk_rust_trace_result(u32 device, u16 queue, u16 tag, s32 result)
{
	trace_ublk_rust_result(device, queue, tag, result);
}
