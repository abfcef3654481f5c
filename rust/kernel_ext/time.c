// SPDX-License-Identifier: GPL-2.0
/*
 * Converts times, for rust/kernel/ticks.rs. HZ is known to the C compiler
 * only: bindgen takes the one that user space sees.
 */

#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/time64.h>

#include "time.h"

u64 kernel_ext_milliseconds(u64 ticks)
{
	return mul_u64_u32_div(ticks, MSEC_PER_SEC, HZ);
}
