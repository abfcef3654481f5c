/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/ticks.rs and cycles.rs call.
 */
#ifndef _KERNEL_EXT_TIME_H
#define _KERNEL_EXT_TIME_H

#include <linux/types.h>

/* Returns how long a number of jiffies takes. */
u64 kernel_ext_milliseconds(u64 ticks);

#ifndef __x86_64__
/* Returns what the CPU's counter of cycles says, or where there is none the kernel's clock. */
u64 kernel_ext_cycles(void);
#endif

#endif /* _KERNEL_EXT_TIME_H */
