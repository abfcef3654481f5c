/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/sched.rs calls.
 */
#ifndef _KERNEL_EXT_SCHED_H
#define _KERNEL_EXT_SCHED_H

#include <linux/types.h>

struct task_struct;
struct wait_queue_head;

/*
 * How a task is scheduled, in one word: its policy, its nice value from 0 on, its real-time
 * priority or 0, and whether its scheduling is reset on fork. The fields do not overlap, and
 * the last is filled in only by the functions that say so.
 */
#define KERNEL_EXT_SCHED_NICE_SHIFT	16
#define KERNEL_EXT_SCHED_RT_SHIFT	24
#define KERNEL_EXT_SCHED_RESET_ON_FORK	0x100

/* Returns how the calling task is scheduled; the word without the flag. */
u32 kernel_ext_sched_current(void);

/* Likewise for a task that may be running on another CPU. */
u32 kernel_ext_sched_of(const struct task_struct *task);

/* Returns the flag alone. */
bool kernel_ext_sched_resets_on_fork(const struct task_struct *task);

/*
 * Schedules a task as @wanted says, without checking the task's rights, and returns how it was
 * scheduled before, with the flag. Where policy and real-time priority stay the same, the flag
 * stays, too. What cannot be changed stays as it is.
 */
u32 kernel_ext_sched_set(struct task_struct *task, u32 wanted);

/*
 * Returns the limits of a task: its lowest nice value as a signed byte (20: it may choose
 * none), and from bit 8 on its highest real-time priority (0: none).
 */
u32 kernel_ext_sched_limits(struct task_struct *task);

/* Keep the calling task on its CPU: nothing but an interrupt runs in between. */
void kernel_ext_preempt_disable(void);
void kernel_ext_preempt_enable(void);

/* Whether the calling task can be preempted. False on a kernel that does not count this. */
bool kernel_ext_is_preemptible(void);

/* Lets other tasks run, where the kernel does not preempt and another should run. May sleep. */
void kernel_ext_cond_resched(void);

/* Whether nothing waits on @queue, and whoever has left it has released its lock. */
bool kernel_ext_is_queue_empty(struct wait_queue_head *queue);

#endif /* _KERNEL_EXT_SCHED_H */
