/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/park.rs, rust/kernel/pid.rs and rust/kernel/user_namespace.rs call.
 */
#ifndef _KERNEL_EXT_H
#define _KERNEL_EXT_H

#include <linux/types.h>

struct pid;
struct task_struct;
struct user_namespace;

/* Announces that the calling task is about to sleep; signals end the sleep. */
void kernel_ext_prepare_to_park(void);

/* Sleeps, unless the task was woken since the announcement. */
void kernel_ext_park(void);

/*
 * Returns a reference to the pid of the calling thread, or of its thread group; drops a
 * reference.
 */
struct pid *kernel_ext_pid_of_thread(void);
struct pid *kernel_ext_pid_of_group(void);
void kernel_ext_pid_put(struct pid *pid);

/*
 * Drops a reference to the pid that was at a place, after a grace period. The functions below
 * take such a place, where the pid or NULL is, and use the pid until the grace period ends. May
 * sleep. The module's code has to stay until rcu_barrier() has returned.
 */
void kernel_ext_pid_put_later(struct pid *pid);

/* Returns the pid of the calling thread, without a reference. */
struct pid *kernel_ext_pid_current(void);

/* Whether @pid is that of the calling thread, or of its thread group. */
bool kernel_ext_pid_is_current(const struct pid *pid);
bool kernel_ext_pid_is_current_group(const struct pid *pid);

/* Whether the thread is exiting, or gone. */
bool kernel_ext_pid_is_exiting(struct pid *const *place);

/*
 * Whether no thread has the pid, now or later. What the last one did happened before.
 */
bool kernel_ext_pid_is_gone(struct pid *const *place);

/* Returns a reference to the thread; NULL if it is gone. */
struct task_struct *kernel_ext_pid_task(struct pid *const *place);

/* Where a woken thread should run. The values are those of WakeHint in rust/kernel/park.rs. */
enum kernel_ext_wake_hint {
	KERNEL_EXT_WAKE_ANYWHERE = 0,
	KERNEL_EXT_WAKE_SYNC = 1,
	KERNEL_EXT_WAKE_HERE = 2,
};

/* Wakes the thread if it sleeps, and undoes kernel_ext_preempt_disable(). */
void kernel_ext_pid_wake_and_enable(struct pid *const *place, enum kernel_ext_wake_hint hint);

/*
 * Returns the number of a thread group in the pid namespace of the calling task; 0 if it has
 * none there, or is gone.
 */
pid_t kernel_ext_pid_group_nr(struct pid *const *place);

/*
 * Returns the number in the initial pid namespace of the thread that has the number @nr in the
 * pid namespace of the calling task; 0 if there is none.
 */
pid_t kernel_ext_pid_initial_nr(pid_t nr);

/*
 * Whether the calling task may signal a thread group: 0, -EPERM, or -ESRCH if the group is gone.
 */
int kernel_ext_pid_may_signal(struct pid *const *place);

/* Take and drop a reference to a user namespace. */
void kernel_ext_user_ns_get(struct user_namespace *ns);
void kernel_ext_user_ns_put(struct user_namespace *ns);

/* Whether @inner is @outer or a descendant of it. */
bool kernel_ext_user_ns_contains(const struct user_namespace *outer,
				 const struct user_namespace *inner);

/*
 * Returns a number of the calling thread's group that no other group gets: that of the group's
 * pidfds.
 */
u64 kernel_ext_group_number(void);

/* Whether the calling thread is the kernel's own. */
bool kernel_ext_is_kernel_thread(void);

/* Returns a user's number in the user namespace of the calling task; -1 if it has none there. */
u32 kernel_ext_uid_here(u32 uid);

#endif /* _KERNEL_EXT_H */
