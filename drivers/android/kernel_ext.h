/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/park.rs and rust/kernel/debug_mask.rs call.
 */
#ifndef _KERNEL_EXT_H
#define _KERNEL_EXT_H

#include <linux/types.h>

struct task_struct;

/* Announces that the calling task is about to sleep, for signals to end it. */
void kernel_ext_prepare_to_park(void);

/* Sleeps, unless woken since the announcement. */
void kernel_ext_park(void);

/* Wakes a task that sleeps, on this CPU if @handoff. */
void kernel_ext_wake(struct task_struct *task, bool handoff);

/* The parameter debug_mask. */
extern unsigned int kernel_ext_debug_mask;

/* Whether another message may be printed now; counts it. */
bool kernel_ext_may_log(void);

#endif /* _KERNEL_EXT_H */
