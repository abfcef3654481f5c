// SPDX-License-Identifier: GPL-2.0
/*
 * Converts times, for rust/kernel/ticks.rs: HZ is known to the C compiler
 * only, as bindgen takes the one that user space sees. And reads the counter
 * of cycles, for rust/kernel/cycles.rs, which each architecture has its own
 * function for.
 */

#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/time64.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>

#include "time.h"

u64 kernel_ext_milliseconds(u64 ticks)
{
	return mul_u64_u32_div(ticks, MSEC_PER_SEC, HZ);
}

#ifndef __x86_64__
u64 kernel_ext_cycles(void)
{
	/* Defined where there is such a counter. */
#ifdef get_cycles
	return get_cycles();
#else
	return ktime_get_mono_fast_ns();
#endif
}
#endif
