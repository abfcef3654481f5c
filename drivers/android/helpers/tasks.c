// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks: macros, inline functions and fields that the kernel's rust/helpers lack and rust/kernel/
 * of this driver needs as functions. In C, because the C compiler has the offsets of task_struct's
 * fields in any kernel. As for rust/helpers/, the declarations are those in Rust, which describe
 * the functions that have no comment here.
 *
 * Those of each call are not traced, which would take one more instruction of each. In a driver in
 * C they are inline, and not traced either.
 */

#include <linux/cache.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/sched/types.h>

/* Sleeping and preemption: rust/kernel/pid.rs and sched.rs */

/*
 * Announces that the calling task, which *sleeper names from now on, is about to sleep. A signal
 * ends the sleep, also one that came before.
 */
void notrace kernel_ext_prepare_to_park(struct task_struct **sleeper)
{
	WRITE_ONCE(*sleeper, current);
	set_current_state(TASK_INTERRUPTIBLE | TASK_FREEZABLE);
}

/*
 * Keep the calling task on its CPU: nothing but an interrupt runs in between. Under PREEMPT_RT a
 * lock may sleep, also while it is released, and a task that waits for one lends its priority to
 * the holder.
 */
void notrace kernel_ext_preempt_disable(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
}

void kernel_ext_preempt_enable(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
}

/* Returns whether the calling task can be preempted. False on a kernel that does not count this. */
bool kernel_ext_is_preemptible(void)
{
	return !IS_ENABLED(CONFIG_PREEMPT_RT) && preemptible();
}

void kernel_ext_cond_resched(void)
{
	cond_resched();
}

/* Returns whether nothing waits on @queue, and tasks that have left it have released its lock. */
bool kernel_ext_is_queue_empty(struct wait_queue_head *queue)
{
	guard(spinlock_irqsave)(&queue->lock);
	return list_empty(&queue->head);
}

/* RCU: rust/kernel/rcu.rs */

/* Under PREEMPT_RT a lock that sleeps may be taken in such a section. */
void notrace kernel_ext_begin_reading(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_lock();
	else
		preempt_disable();
}

void notrace kernel_ext_end_reading(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_unlock();
	else
		preempt_enable();
}

struct later_drop {
	struct rcu_work work;
	void (*drop)(const void *object);
	const void *object;
};

static void drop_now(struct work_struct *work)
{
	struct later_drop *later = container_of(to_rcu_work(work), struct later_drop, work);

	later->drop(later->object);
	kfree(later);
}

/* Calls @drop when a grace period has ended: on @queue, or here if that is NULL. */
void kernel_ext_drop_later(struct workqueue_struct *queue, const void *object,
			   void (*drop)(const void *object))
{
	struct later_drop *later = queue ? kmalloc_obj(*later) : NULL;

	if (!later) {
		synchronize_rcu();
		drop(object);
		return;
	}
	INIT_RCU_WORK(&later->work, drop_now);
	later->drop = drop;
	later->object = object;
	queue_rcu_work(queue, &later->work);
}

/* The calling task: rust/kernel/pid.rs */

/* That of the thread's pidfds. */
u64 notrace kernel_ext_thread_number(void)
{
	return task_pid(current)->ino;
}

/* Returns a reference to the pid of the calling thread's group. */
struct pid *kernel_ext_pid_of_group(void)
{
	return get_pid(task_tgid(current));
}

bool kernel_ext_pid_is_current_group(struct pid *const *group)
{
	return task_tgid(current) == *group;
}

/* That of the group's pidfds. */
u64 kernel_ext_group_number(void)
{
	return task_tgid(current)->ino;
}

bool kernel_ext_is_kernel_thread(void)
{
	return current->flags & PF_KTHREAD;
}

/* Returns a user's number in the user namespace of the calling task; -1 if it has none there. */
u32 notrace kernel_ext_uid_here(u32 uid)
{
	struct user_namespace *here = current_user_ns();

	/* The first one has each number as it is. */
	if (here == &init_user_ns)
		return uid;
	return from_kuid(here, KUIDT_INIT(uid));
}

pid_t kernel_ext_pid_initial_nr(pid_t nr)
{
	/* The first one has each number as it is. */
	if (task_active_pid_ns(current) == &init_pid_ns)
		return nr;
	guard(rcu)();
	return pid_nr(find_vpid(nr));
}

/* Identities of tasks: rust/kernel/pid.rs */

/* Returns the thread of a number, which has or had the pid @nr, under RCU; NULL if it is gone. */
static struct task_struct *thread_of(u64 number, pid_t nr)
{
	struct pid *pid = find_pid_ns(nr, &init_pid_ns);
	struct task_struct *task = pid_task(pid, PIDTYPE_PID);

	if (!task)
		return NULL;
	/* Pairs with attach_pid(): a new pid has its number before it has a task. */
	smp_rmb();
	return READ_ONCE(pid->ino) == number ? task : NULL;
}

/* Returns whether the thread is exiting, or gone. */
bool kernel_ext_thread_is_exiting(u64 number, pid_t nr)
{
	struct task_struct *task;

	guard(rcu)();
	task = thread_of(number, nr);
	return !task || READ_ONCE(task->flags) & PF_EXITING;
}

/*
 * Returns whether no thread has the number, now or later. The actions of the last one happened
 * before. A thread that executes a program takes over the pid of its group's leader in one step,
 * so a pid that has lost its thread gets no other.
 */
bool kernel_ext_thread_is_gone(u64 number, pid_t nr)
{
	scoped_guard(rcu) {
		if (thread_of(number, nr))
			return false;
	}
	/* Pairs with the full barrier in exit_mm(): what the thread did is before what follows. */
	smp_acquire__after_ctrl_dep();
	return true;
}

/* Returns a reference to the thread; NULL if it is gone. */
struct task_struct *kernel_ext_thread_task(u64 number, pid_t nr)
{
	struct task_struct *task;

	guard(rcu)();
	task = thread_of(number, nr);
	return task ? get_task_struct(task) : NULL;
}

/*
 * Returns the number of a thread group in the pid namespace of the calling task; 0 if it has
 * none there, or is gone.
 */
pid_t notrace kernel_ext_pid_group_nr(struct pid *const *group)
{
	return pid_has_task(*group, PIDTYPE_TGID) ? pid_vnr(*group) : 0;
}

/*
 * The comparison that kill(2) makes, with the present credentials of both tasks. No security
 * module is asked: a policy that allows a task to send signals need not allow the null signal.
 */
static bool may_signal(const struct task_struct *task)
{
	const struct cred *own = current_cred();
	const struct cred *other = __task_cred(task);

	return uid_eq(own->euid, other->suid) || uid_eq(own->euid, other->uid) ||
	       uid_eq(own->uid, other->suid) || uid_eq(own->uid, other->uid) ||
	       ns_capable(other->user_ns, CAP_KILL);
}

/* Returns 0 if the calling task may signal a thread group, else -EPERM, or -ESRCH if it is gone. */
int kernel_ext_pid_may_signal(struct pid *const *group)
{
	struct task_struct *leader;

	guard(rcu)();
	leader = pid_task(*group, PIDTYPE_TGID);
	if (task_tgid(current) == *group || (leader && may_signal(leader)))
		return 0;
	return leader ? -EPERM : -ESRCH;
}

/* Wake-ups: rust/kernel/pid.rs */

/*
 * The flag that a synchronous wake-up passes to the waiters of a queue: the waker is about to
 * sleep. Its value is the scheduler's own.
 */
static int sync_flags __read_mostly;

static int note_sync_flags(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	sync_flags = flags;
	return 0;
}

void kernel_ext_wake_init(void)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(queue);
	DEFINE_WAIT_FUNC(entry, note_sync_flags);

	add_wait_queue(&queue, &entry);
	wake_up_interruptible_sync(&queue);
	remove_wait_queue(&queue, &entry);
}

/*
 * Wakes the task at a place, if there is one and it sleeps, and undoes
 * kernel_ext_preempt_disable(). @is_sync: the calling task is about to sleep. A section without
 * preemption excludes the end of a grace period, and is cheaper than rcu_read_lock() in a kernel
 * that preempts RCU.
 */
void notrace kernel_ext_wake_and_enable(struct task_struct *const *sleeper, bool is_sync)
{
	struct wait_queue_entry entry;
	struct task_struct *task;

	/* Under PREEMPT_RT the section begins here. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
	task = READ_ONCE(*sleeper);
	if (task) {
		init_waitqueue_entry(&entry, task);
		default_wake_function(&entry, TASK_INTERRUPTIBLE, is_sync ? sync_flags : 0, NULL);
	}
	preempt_enable();
}

/* User namespaces: rust/kernel/pid.rs */

void kernel_ext_user_ns_get(struct user_namespace *ns)
{
	get_user_ns(ns);
}

void kernel_ext_user_ns_put(struct user_namespace *ns)
{
	put_user_ns(ns);
}

/* Returns whether @inner is @outer or a descendant of it. */
bool kernel_ext_user_ns_contains(const struct user_namespace *const *outer,
				 const struct user_namespace *const *inner)
{
	const struct user_namespace *ns = *inner;

	while (ns->level > (*outer)->level)
		ns = ns->parent;
	return ns == *outer;
}

/* Scheduling of tasks: rust/kernel/sched.rs */

/* The fields of a word, which rust/kernel/sched.rs draws. */
#define SCHED_NICE_SHIFT	16
#define SCHED_RT_SHIFT		24
#define SCHED_FORK_RESETS	0x100

/*
 * Not every kernel exports this function. A kernel that does not gives a module no way to set a
 * real-time priority; the module loads nevertheless, and can check this. The address is read from
 * memory: code for arm64 would find that of a weak symbol by a table of offsets, which modules
 * cannot have there.
 */
#pragma weak sched_setattr_nocheck
static typeof(sched_setattr_nocheck) *setattr_nocheck __ro_after_init = sched_setattr_nocheck;

/* NULL is the calling task. */
u32 notrace kernel_ext_sched_of(const struct task_struct *task)
{
	if (!task)
		task = current;
	return task->rt_priority << SCHED_RT_SHIFT |
	       (task->static_prio - MAX_RT_PRIO) << SCHED_NICE_SHIFT |
	       task->policy;
}

bool kernel_ext_sched_resets_on_fork(const struct task_struct *task)
{
	return task->sched_reset_on_fork;
}

static int nice_of(u32 word)
{
	return PRIO_TO_NICE(MAX_RT_PRIO + (word >> SCHED_NICE_SHIFT & 0xff));
}

static void set_policy(struct task_struct *task, u32 wanted)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = wanted & 0xff,
		.sched_priority = wanted >> SCHED_RT_SHIFT,
		.sched_nice = nice_of(wanted),
	};

	if (wanted & SCHED_FORK_RESETS)
		attr.sched_flags = SCHED_FLAG_RESET_ON_FORK;
	/* A task of a fair policy may have a slice of its own; without this it would lose that. */
	if (task->se.custom_slice)
		attr.sched_runtime = task->se.slice;
	READ_ONCE(setattr_nocheck)(task, &attr);
}

/* Sets the priority as far as it can be changed. Returns the former one. */
u32 kernel_ext_sched_set(struct task_struct *task, u32 wanted)
{
	bool resets = task->sched_reset_on_fork;
	u32 before = kernel_ext_sched_of(task);
	u32 changed = before ^ wanted;

	if ((changed & 0xff || changed >> SCHED_RT_SHIFT) && READ_ONCE(setattr_nocheck))
		set_policy(task, wanted);
	/* Also where the policy does not use the nice value: a later policy does. */
	set_user_nice(task, nice_of(wanted));
	if (resets)
		before |= SCHED_FORK_RESETS;
	return before;
}

/*
 * The result of capable() for the calling task, extended to any task: no function that modules may
 * call returns that. Security modules check only the calling task, and do not log a denial: the
 * task has requested nothing, and is served at the priority that it may have.
 */
static bool may_nice(struct task_struct *task)
{
	const struct cred *cred;

	if (task == current)
		return ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE);
	guard(rcu)();
	cred = __task_cred(task);
	return cred->user_ns == &init_user_ns && cap_raised(cred->cap_effective, CAP_SYS_NICE);
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
