/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/sched.rs calls.
 */
#ifndef _KERNEL_EXT_SCHED_H
#define _KERNEL_EXT_SCHED_H

#include <linux/types.h>

struct task_struct;

/*
 * How a task is scheduled, in one word: its policy, its nice value from 0 on, its
 * real-time priority or 0, and whether its children start anew. The fields do not
 * overlap, and the last is filled in only where it says so.
 */
#define KERNEL_EXT_SCHED_NICE_SHIFT	16
#define KERNEL_EXT_SCHED_RT_SHIFT	24
#define KERNEL_EXT_SCHED_RESET_ON_FORK	0x100

/* How the calling task is scheduled; the word without the flag. */
u32 kernel_ext_sched_current(void);

/* Likewise for a task that may be running elsewhere. */
u32 kernel_ext_sched_of(const struct task_struct *task);

/*
 * Schedules a task like @wanted, whatever it may do by itself, and returns how it was
 * scheduled before, with the flag. Where policy and real-time priority stay, so does the
 * flag. What cannot be changed stays as it is.
 */
u32 kernel_ext_sched_set(struct task_struct *task, u32 wanted);

/*
 * How far a task may go: its lowest nice value as a signed byte (20: it may choose none),
 * and from bit 8 on its highest real-time priority (0: none).
 */
u32 kernel_ext_sched_limits(struct task_struct *task);

/* Lets other tasks run, where the kernel does not preempt and one should. May sleep. */
void kernel_ext_cond_resched(void);

#endif /* _KERNEL_EXT_SCHED_H */
