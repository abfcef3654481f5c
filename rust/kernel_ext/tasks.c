// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel's rust/helpers lack: C macros and inline functions that rust/kernel/ of this
 * driver needs as functions. Nothing in here knows of Binder.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>

#include "tasks.h"

/*
 * Wake flags of try_to_wake_up(), which the scheduler defines in a private header although
 * default_wake_function() accepts them from any wait entry: the waker is about to sleep, and
 * the woken task should run on the waker's CPU.
 */
#define KERNEL_EXT_WF_SYNC		0x10
#define KERNEL_EXT_WF_CURRENT_CPU	0x40

void kernel_ext_prepare_to_park(void)
{
	set_current_state(TASK_INTERRUPTIBLE | TASK_FREEZABLE);
}

void kernel_ext_park(void)
{
	schedule();
	__set_current_state(TASK_RUNNING);
}

struct pid *kernel_ext_pid_current(void)
{
	return task_pid(current);
}

struct pid *kernel_ext_pid_of_thread(void)
{
	return get_pid(task_pid(current));
}

struct pid *kernel_ext_pid_of_group(void)
{
	return get_pid(task_tgid(current));
}

void kernel_ext_pid_put(struct pid *pid)
{
	put_pid(pid);
}

/* A reference to a pid that is dropped after a grace period. */
struct later_put {
	struct rcu_head rcu;
	struct pid *pid;
};

static void put_now(struct rcu_head *rcu)
{
	struct later_put *later = container_of(rcu, struct later_put, rcu);

	put_pid(later->pid);
	kfree(later);
}

void kernel_ext_pid_put_later(struct pid *pid)
{
	struct later_put *later = kmalloc_obj(*later);

	if (!later) {
		synchronize_rcu();
		put_pid(pid);
		return;
	}
	later->pid = pid;
	call_rcu(&later->rcu, put_now);
}

bool kernel_ext_pid_is_current(const struct pid *pid)
{
	return task_pid(current) == pid;
}

bool kernel_ext_pid_is_current_group(const struct pid *pid)
{
	return task_tgid(current) == pid;
}

/*
 * As pid_task(), under a lock that is cheaper than rcu_read_lock() in a kernel that preempts
 * RCU. The pid at @place stays while that lock is held, as kernel_ext_pid_put_later() waits.
 */
static struct task_struct *thread_of(struct pid *const *place)
{
	struct pid *pid = READ_ONCE(*place);
	struct hlist_node *first;

	if (!pid)
		return NULL;
	first = rcu_dereference_sched(hlist_first_rcu(&pid->tasks[PIDTYPE_PID]));
	return first ? hlist_entry(first, struct task_struct, pid_links[PIDTYPE_PID]) : NULL;
}

bool kernel_ext_pid_is_exiting(struct pid *const *place)
{
	struct task_struct *task;
	bool exiting;

	rcu_read_lock_sched();
	task = thread_of(place);
	exiting = !task || READ_ONCE(task->flags) & PF_EXITING;
	rcu_read_unlock_sched();
	return exiting;
}

/*
 * A thread that executes a program takes over the pid of its group's leader in one step, so a pid
 * that has lost its thread gets no other.
 */
bool kernel_ext_pid_is_gone(struct pid *const *place)
{
	bool gone;

	rcu_read_lock_sched();
	gone = !thread_of(place);
	rcu_read_unlock_sched();
	if (!gone)
		return false;
	/* Pairs with the full barrier in exit_mm(): what the thread did is before what follows. */
	smp_acquire__after_ctrl_dep();
	return true;
}

struct task_struct *kernel_ext_pid_task(struct pid *const *place)
{
	struct task_struct *task;

	rcu_read_lock_sched();
	task = get_pid_task(READ_ONCE(*place), PIDTYPE_PID);
	rcu_read_unlock_sched();
	return task;
}

void kernel_ext_pid_wake_and_enable(struct pid *const *place, enum kernel_ext_wake_hint hint)
{
	static const int flags_of[] = {
		[KERNEL_EXT_WAKE_SYNC] = KERNEL_EXT_WF_SYNC,
		[KERNEL_EXT_WAKE_HERE] = KERNEL_EXT_WF_SYNC | KERNEL_EXT_WF_CURRENT_CPU,
	};
	/* Of this the task is all that the function reads. */
	struct wait_queue_entry entry;
	int flags = flags_of[hint];

	/* Elsewhere this is such a section already. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_lock_sched();
	entry.private = thread_of(place);
	if (entry.private)
		default_wake_function(&entry, TASK_INTERRUPTIBLE, flags, NULL);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_unlock_sched();
	kernel_ext_preempt_enable();
}

pid_t kernel_ext_pid_group_nr(struct pid *const *place)
{
	struct pid *pid;
	pid_t nr = 0;

	rcu_read_lock_sched();
	pid = READ_ONCE(*place);
	if (pid && pid_has_task(pid, PIDTYPE_TGID))
		nr = pid_vnr(pid);
	rcu_read_unlock_sched();
	return nr;
}

pid_t kernel_ext_pid_initial_nr(pid_t nr)
{
	pid_t initial;

	/* The first one has each number as it is. */
	if (task_active_pid_ns(current) == &init_pid_ns)
		return nr;
	rcu_read_lock();
	initial = pid_nr(find_vpid(nr));
	rcu_read_unlock();
	return initial;
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

int kernel_ext_pid_may_signal(struct pid *const *place)
{
	struct task_struct *leader;
	struct pid *group;
	int ret = -ESRCH;

	rcu_read_lock();
	group = READ_ONCE(*place);
	leader = pid_task(group, PIDTYPE_TGID);
	if (task_tgid(current) == group || (leader && may_signal(leader)))
		ret = 0;
	else if (leader)
		ret = -EPERM;
	rcu_read_unlock();
	return ret;
}

void kernel_ext_user_ns_get(struct user_namespace *ns)
{
	get_user_ns(ns);
}

void kernel_ext_user_ns_put(struct user_namespace *ns)
{
	put_user_ns(ns);
}

bool kernel_ext_user_ns_contains(const struct user_namespace *outer,
				 const struct user_namespace *inner)
{
	while (inner->level > outer->level)
		inner = inner->parent;
	return inner == outer;
}

u64 kernel_ext_group_number(void)
{
	return task_tgid(current)->ino;
}

bool kernel_ext_is_kernel_thread(void)
{
	return current->flags & PF_KTHREAD;
}

u32 kernel_ext_uid_here(u32 uid)
{
	struct user_namespace *here = current_user_ns();

	/* The first one has each number as it is. */
	if (here == &init_user_ns)
		return uid;
	return from_kuid(here, KUIDT_INIT(uid));
}
