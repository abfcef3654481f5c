// SPDX-License-Identifier: GPL-2.0
/*
 * Reads and changes how tasks are scheduled, for rust/kernel/sched.rs: fields of task_struct,
 * whose offsets the C compiler knows in any kernel, and functions of the scheduler. Nothing in
 * here knows of Binder.
 */

#include <linux/cache.h>
#include <linux/capability.h>
#include <linux/compiler.h>
#include <linux/cred.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>
#include <uapi/linux/sched/types.h>

#include "sched.h"

/*
 * Not every kernel exports this function. A kernel that does not gives a module no way to set a
 * real-time priority; the module loads nevertheless, and can check this. The address is read from
 * memory: code for arm64 would find that of a weak symbol by a table of offsets, which modules
 * cannot have there.
 */
#pragma weak sched_setattr_nocheck
static typeof(sched_setattr_nocheck) *setattr_nocheck __ro_after_init = sched_setattr_nocheck;

u32 kernel_ext_sched_of(const struct task_struct *task)
{
	return task->rt_priority << KERNEL_EXT_SCHED_RT_SHIFT |
	       (task->static_prio - MAX_RT_PRIO) << KERNEL_EXT_SCHED_NICE_SHIFT |
	       task->policy;
}

bool kernel_ext_sched_resets_on_fork(const struct task_struct *task)
{
	return task->sched_reset_on_fork;
}

u32 kernel_ext_sched_current(void)
{
	return kernel_ext_sched_of(current);
}

static int nice_of(u32 word)
{
	return PRIO_TO_NICE(MAX_RT_PRIO + (word >> KERNEL_EXT_SCHED_NICE_SHIFT & 0xff));
}

static void set_policy(struct task_struct *task, u32 wanted)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = wanted & 0xff,
		.sched_priority = wanted >> KERNEL_EXT_SCHED_RT_SHIFT,
		.sched_nice = nice_of(wanted),
	};

	if (wanted & KERNEL_EXT_SCHED_RESET_ON_FORK)
		attr.sched_flags = SCHED_FLAG_RESET_ON_FORK;
	/* A task of a fair policy may have a slice of its own; without this it would lose that. */
	if (task->se.custom_slice)
		attr.sched_runtime = task->se.slice;
	READ_ONCE(setattr_nocheck)(task, &attr);
}

u32 kernel_ext_sched_set(struct task_struct *task, u32 wanted)
{
	bool resets = task->sched_reset_on_fork;
	u32 before = kernel_ext_sched_of(task);
	u32 changed = before ^ wanted;

	if ((changed & 0xff || changed >> KERNEL_EXT_SCHED_RT_SHIFT) && READ_ONCE(setattr_nocheck))
		set_policy(task, wanted);
	/* Also where the policy does not use the nice value: a later policy does. */
	set_user_nice(task, nice_of(wanted));
	if (resets)
		before |= KERNEL_EXT_SCHED_RESET_ON_FORK;
	return before;
}

/*
 * The answer of capable() for the calling task, extended to any task: no function that modules
 * may call returns that. Security modules are asked only about the calling task, and do not log
 * it where they deny it: the task has asked for nothing, and is served at what it may have.
 */
static bool may_nice(struct task_struct *task)
{
	bool may;

	if (task == current)
		return ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE);
	rcu_read_lock();
	may = __task_cred(task)->user_ns == &init_user_ns &&
	      cap_raised(__task_cred(task)->cap_effective, CAP_SYS_NICE);
	rcu_read_unlock();
	return may;
}

u32 kernel_ext_sched_limits(struct task_struct *task)
{
	unsigned long nice = NICE_WIDTH;
	unsigned long rt_priority = MAX_RT_PRIO - 1;

	if (!may_nice(task)) {
		nice = min(nice, task_rlimit(task, RLIMIT_NICE));
		rt_priority = min(rt_priority, task_rlimit(task, RLIMIT_RTPRIO));
	}
	if (!READ_ONCE(setattr_nocheck))
		rt_priority = 0;
	return (u8)rlimit_to_nice(nice) | rt_priority << 8;
}

/*
 * Under PREEMPT_RT a lock may sleep, also while it is released, and a task that waits for one lends
 * its priority to the holder.
 */
void kernel_ext_preempt_disable(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
}

void kernel_ext_preempt_enable(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
}

bool kernel_ext_is_preemptible(void)
{
	return !IS_ENABLED(CONFIG_PREEMPT_RT) && preemptible();
}

void kernel_ext_cond_resched(void)
{
	cond_resched();
}

bool kernel_ext_is_queue_empty(struct wait_queue_head *queue)
{
	unsigned long flags;
	bool is_empty;

	spin_lock_irqsave(&queue->lock, flags);
	is_empty = list_empty(&queue->head);
	spin_unlock_irqrestore(&queue->lock, flags);
	return is_empty;
}
