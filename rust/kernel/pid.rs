// SPDX-License-Identifier: GPL-2.0

//! Identities of tasks (threads) and of thread groups (processes), which do not keep the task; and
//! user namespaces.
//!
//! A reference to a `task_struct` keeps some KiB for as long as it is held, also after the task has
//! exited. A thread is identified by a number that no other thread gets, which keeps nothing. Its
//! task is found by that, or by a pointer while the thread [sleeps](TaskId::sleep). (A thread
//! that executes another program takes over the number of the thread group's leader, and has that
//! from then on, as everywhere in the kernel.)
//!
//! A thread group is identified by a reference to its `struct pid`. That keeps its pid namespace,
//! and through that a user namespace and what its user may have. So no object that others keep
//! after the end of the group has such a reference.
//!
//! # Sleeping
//!
//! A wait queue costs a lock and a list operation at each end. A waker that can name the task to
//! wake needs none:
//!
//! ```text
//!   sleeper                               waker
//!   lock; nothing to do                   lock; add work; see the announcement; unlock
//!   announce; task state := sleeping      wake(task): runnable again, whatever it was doing
//!   unlock; schedule; lock again
//! ```
//!
//! A wake-up between `unlock` and `schedule` makes the task runnable and `schedule` returns at
//! once.

use super::{
    once::write_once,
    sched::{self, WakeHint},
    spin_lock::{SpinLock, SpinLockGuard}, //
};
use core::ptr::{self, NonNull};
use kernel::{
    bindings,
    current,
    error::{to_result, Result},
    ffi::{c_int, c_void},
    sync::{
        aref::ARef,
        atomic::Atomic, //
    },
    task::Task, //
};

// Why most are safe to call: `helpers/tasks.c` defines them with these arguments. They read fields
// of the calling task, compare pointers, or accept any number. A `GroupPid` and a `UserNamespace`
// are valid by their invariants, and the latter keeps its parent. All may be called in any context.
unsafe extern "C" {
    /// Finds out what [`WakeHint::Sync`] means to the scheduler. At the module's initialisation.
    #[link_name = "kernel_ext_wake_init"]
    pub(crate) safe fn init();

    /// Returns a number of the calling thread, not 0, that no other thread gets as long as the
    /// kernel runs.
    #[link_name = "kernel_ext_thread_number"]
    pub(crate) safe fn current_number() -> u64;

    /// Returns a number of the calling thread's group that no other group gets as long as the
    /// kernel runs.
    #[link_name = "kernel_ext_group_number"]
    pub(crate) safe fn current_group_number() -> u64;

    /// Returns whether the calling thread is the kernel's own: it belongs to no program, and makes
    /// no system calls.
    #[link_name = "kernel_ext_is_kernel_thread"]
    pub(crate) safe fn is_kernel_thread() -> bool;

    /// Returns the number in the initial pid namespace of the thread that has the number `nr` in
    /// the pid namespace of the calling thread; 0 if there is none.
    #[link_name = "kernel_ext_pid_initial_nr"]
    pub(crate) safe fn initial_number(nr: i32) -> i32;

    /// Returns the number of a group in the pid namespace of the calling thread; 0 if it has none
    /// there, or is gone.
    #[link_name = "kernel_ext_pid_group_nr"]
    pub(crate) safe fn number_for_current(group: &GroupPid) -> i32;

    safe fn kernel_ext_preempt_disable();
    safe fn kernel_ext_thread_is_exiting(number: u64, nr: i32) -> bool;
    safe fn kernel_ext_thread_is_gone(number: u64, nr: i32) -> bool;
    safe fn kernel_ext_thread_task(number: u64, nr: i32) -> *mut c_void;
    safe fn kernel_ext_pid_of_group() -> NonNull<c_void>;
    safe fn kernel_ext_pid_is_current_group(group: &GroupPid) -> bool;
    safe fn kernel_ext_pid_may_signal(group: &GroupPid) -> c_int;
    /// Returns the number of a user in the user namespace of the calling task, as
    /// [`Kuid`](kernel::task::Kuid) does, but at no cost in the first one.
    pub(crate) safe fn kernel_ext_uid_here(uid: u32) -> u32;
    safe fn kernel_ext_user_ns_contains(outer: &UserNamespace, inner: &UserNamespace) -> bool;

    fn put_pid(pid: *mut c_void);
    fn kernel_ext_prepare_to_park(sleeper: &Atomic<*mut c_void>);
    fn kernel_ext_wake_and_enable(sleeper: &Atomic<*mut c_void>, is_sync: bool);
    fn kernel_ext_user_ns_get(ns: *mut c_void);
    fn kernel_ext_user_ns_put(ns: *mut c_void);
}

/// The identity of a thread.
///
/// # Invariants
///
/// `sleeper` is null, or a task that has written it and is in [`Self::sleep`].
pub(crate) struct TaskId {
    number: u64,
    /// The number of the thread in the initial pid namespace, which others may get after it.
    nr: i32,
    sleeper: Atomic<*mut c_void>,
}

// SAFETY: Threads share numbers and an atomic pointer, whose task exists by the invariants.
unsafe impl Send for TaskId {}
// SAFETY: As above.
unsafe impl Sync for TaskId {}

impl TaskId {
    /// Returns the identity of the calling thread.
    pub(crate) fn current() -> Self {
        // INVARIANT: Null.
        Self {
            number: current_number(),
            nr: current!().pid(),
            sleeper: Atomic::new(ptr::null_mut()),
        }
    }

    /// Returns the number, which no other thread gets.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether no thread has this identity, now or later. All actions of the thread come
    /// before a result of `true`.
    pub(crate) fn is_gone(&self) -> bool {
        kernel_ext_thread_is_gone(self.number, self.nr)
    }

    /// Returns whether this is the calling thread.
    pub(crate) fn is_current(&self) -> bool {
        self.number == current_number()
    }

    /// Returns whether the thread is exiting or gone: it is in no system call any more, and makes
    /// no other. In any context.
    pub(crate) fn is_exiting(&self) -> bool {
        kernel_ext_thread_is_exiting(self.number, self.nr)
    }

    /// Returns the task of the thread, unless it is gone. In any context.
    pub(crate) fn task(&self) -> Option<ARef<Task>> {
        let task = NonNull::new(kernel_ext_thread_task(self.number, self.nr))?;
        // SAFETY: The function has taken a reference, which the result owns; `Task` is transparent
        // over `task_struct`.
        Some(unsafe { ARef::from_raw(task.cast()) })
    }

    /// Releases `guard`, sleeps until [woken](Self::wake_after) or signalled (interruptible, and
    /// freezable by the system or a cgroup), and takes the lock again. Returns at once if a signal
    /// is pending.
    ///
    /// May return without a reason: the caller checks its condition in a loop. The calling thread
    /// has this identity, and the guard is the only lock that it holds.
    #[inline(always)] // It has one caller.
    pub(crate) fn sleep<'a, T>(&self, guard: SpinLockGuard<'a, T>) -> SpinLockGuard<'a, T> {
        let lock: &SpinLock<T> = guard.lock_ref();
        // SAFETY: Sets the state of the calling task, which is allowed in any context; every path
        // from here leads through `schedule`, which returns to a task that runs. INVARIANT: The
        // function writes the calling task, which is in this function.
        unsafe { kernel_ext_prepare_to_park(&self.sleeper) };
        drop(guard);
        // SAFETY: The spinlock is released and the caller holds no other (see above), so this task
        // may sleep.
        unsafe { bindings::schedule() };
        // INVARIANT: Null. If another task has written the pointer since, that one is not woken:
        // then two have this identity, and the type permits any of them to miss a wake-up.
        write_once(&self.sleeper, ptr::null_mut());
        lock.lock()
    }

    /// Releases `locks`, and makes the thread runnable if it sleeps interruptibly in
    /// [`Self::sleep`], where it has to expect a wake-up without a cause. The calling task
    /// is not preempted in between, see [`unpreempted_if`](sched::unpreempted_if).
    ///
    /// Takes the scheduler's locks: the caller must hold no other lock of its own.
    #[inline]
    pub(crate) fn wake_after(&self, locks: impl Sized, hint: WakeHint) {
        // The counterpart is the last step of the function below.
        kernel_ext_preempt_disable();
        drop(locks);
        sched::expect_unpreempted();
        // SAFETY: Preemption is disabled as above. By the type invariants a task that the pointer
        // names has not exited when it is read, and a task is freed after a grace period, which
        // does not end in the section in which the function reads and uses the pointer.
        unsafe { kernel_ext_wake_and_enable(&self.sleeper, hint == WakeHint::Sync) };
    }
}

/// The identity of a thread group: a process, as user space calls it.
///
/// # Invariants
///
/// `self.0` is a valid `struct pid`, to which this owns a reference.
#[derive(PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct GroupPid(NonNull<c_void>);

// SAFETY: A `struct pid` is counted atomically, and may be used and put by any thread.
unsafe impl Send for GroupPid {}
// SAFETY: As above.
unsafe impl Sync for GroupPid {}

impl GroupPid {
    /// Returns the identity of the calling thread's group.
    pub(crate) fn current() -> Self {
        // INVARIANT: The calling thread's group has a `struct pid`; the result owns the reference.
        Self(kernel_ext_pid_of_group())
    }

    /// Returns whether the calling thread belongs to the group.
    pub(crate) fn is_current(&self) -> bool {
        kernel_ext_pid_is_current_group(self)
    }

    /// Succeeds if the calling thread may signal the group. It may if it belongs to the group, has
    /// the same user as `kill(2)` compares them, or has `CAP_KILL` in the user namespace of the
    /// group. Fails with `EPERM`, or with `ESRCH` if the group is gone. In any context.
    pub(crate) fn may_signal(&self) -> Result {
        to_result(kernel_ext_pid_may_signal(self))
    }
}

impl Drop for GroupPid {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns a reference to put.
        unsafe { put_pid(self.0.as_ptr()) };
    }
}

/// A counted `struct user_namespace`.
///
/// # Invariants
///
/// `self.0` is a valid `struct user_namespace`, to which this owns a reference.
#[repr(transparent)]
pub(crate) struct UserNamespace(NonNull<c_void>);

// SAFETY: A `struct user_namespace` is counted atomically, and may be used and put by any thread.
unsafe impl Send for UserNamespace {}
// SAFETY: The level and the parent of a user namespace, which are all that is read, never change.
unsafe impl Sync for UserNamespace {}

impl UserNamespace {
    /// Takes a reference to a user namespace.
    ///
    /// # Safety
    ///
    /// `ns` must be a valid `struct user_namespace`.
    pub(crate) unsafe fn from_raw(ns: NonNull<c_void>) -> Self {
        // SAFETY: Guaranteed by the caller.
        unsafe { kernel_ext_user_ns_get(ns.as_ptr()) };
        // INVARIANT: The result owns the reference that was taken above.
        Self(ns)
    }

    /// Returns whether `inner` is this namespace or a descendant of it.
    pub(crate) fn contains(&self, inner: &Self) -> bool {
        kernel_ext_user_ns_contains(self, inner)
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns a reference to put.
        unsafe { kernel_ext_user_ns_put(self.0.as_ptr()) };
    }
}
