// SPDX-License-Identifier: GPL-2.0

//! Reading and changing how a task is scheduled; and work that a task leaves to the kernel's own
//! threads.
//!
//! A policy, a nice value and a real-time priority are stored together in one word. So the check
//! whether anything has to change takes a few instructions and no call into the scheduler:
//!
//! ```text
//!   31       24 23          16 15        9      8       7       0
//!  ┌───────────┬──────────────┬───────────┬───────────┬──────────┐
//!  │ real-time │ nice + 20    │     0     │ reset     │ policy   │
//!  │ priority  │              │           │ on fork   │          │
//!  └───────────┴──────────────┴───────────┴───────────┴──────────┘
//! ```
//!
//! C reads the fields, because the C compiler has their offsets in any kernel that this is built
//! for.

use crate::kernel_ext::once::{read_once, write_once};
use core::ptr;
use kernel::{
    bindings,
    prelude::*,
    str::CStrExt,
    sync::atomic::Atomic,
    task::Task,
    workqueue::Queue, //
};

// Why these are safe to call: `helpers/tasks.c` defines them with these arguments, and `Task` is
// transparent over `task_struct`. They read fields of the calling task, or of a task that is
// borrowed, and therefore valid; the scheduler rejects any word that is invalid.
#[allow(improper_ctypes)] // Of a task, its address is all that is passed on.
unsafe extern "C" {
    /// Returns how `task` is scheduled, without the flag; `None` is the calling task. In any
    /// context; for a task that runs on another CPU the result may be outdated, or mixed of old and
    /// new fields.
    #[link_name = "kernel_ext_sched_of"]
    pub(crate) safe fn of(task: Option<&Task>) -> u32;

    /// Returns whether children of `task` do not inherit how it is scheduled: the flag, which the
    /// other words lack. In any context.
    #[link_name = "kernel_ext_sched_resets_on_fork"]
    pub(crate) safe fn resets_on_fork(task: &Task) -> bool;

    /// Schedules `task` by the word `wanted`, without checking the rights of `task`, and returns
    /// the word, with the flag, that undoes it. If policy and real-time priority stay the same, the
    /// flag stays, too.
    ///
    /// On a kernel that does not export `sched_setattr_nocheck` only the nice value changes.
    ///
    /// Process context; takes the scheduler's locks: the caller must hold no lock of its own.
    #[link_name = "kernel_ext_sched_set"]
    pub(crate) safe fn set(task: &Task, wanted: u32) -> u32;

    /// Returns the limits of `task`. Bits 0 to 7 are its lowest nice value as a signed byte, 20 if
    /// it may choose none. Bits from 8 on are its highest real-time priority, 0 if it may have
    /// none, or if the kernel gives a module no way to set it.
    #[link_name = "kernel_ext_sched_limits"]
    pub(crate) safe fn limits(task: &Task) -> u32;

    /// Lets other tasks run, where the kernel does not preempt this one and another should run: for
    /// loops whose length user space chooses.
    ///
    /// Process context; the caller must hold no lock.
    #[link_name = "kernel_ext_cond_resched"]
    pub(crate) safe fn cond_resched();

    safe fn kernel_ext_preempt_disable();
    #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
    safe fn kernel_ext_is_preemptible() -> bool;
    fn kernel_ext_preempt_enable();
}

/// Runs `step` without the calling task being preempted, if `is_needed`: for a step that others
/// wait for, whatever CPU time the calling task gets. `step` must not sleep, and takes a bounded
/// time.
///
/// On a kernel with `PREEMPT_RT`, whose locks sleep, the task can be preempted nevertheless.
#[inline(always)]
pub(crate) fn unpreempted_if<T>(is_needed: bool, step: impl FnOnce() -> T) -> T {
    if !is_needed {
        return step();
    }
    kernel_ext_preempt_disable();
    let done = step();
    // SAFETY: Undoes the call above.
    unsafe { kernel_ext_preempt_enable() };
    done
}

/// Checks that the calling task cannot be preempted. Kernels with `DEBUG_ATOMIC_SLEEP` print a
/// warning if it can; others have no code for this.
#[inline(always)]
pub(crate) fn expect_unpreempted() {
    #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
    kernel::warn_on!(kernel_ext_is_preemptible());
}

/// Checks that the calling task holds no spinlock, on kernels with `DEBUG_ATOMIC_SLEEP`.
#[inline(always)]
pub(crate) fn expect_unlocked() {
    #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
    kernel::task::might_sleep();
}

/// Where a woken task should run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeHint {
    /// On the CPU that the scheduler chooses.
    Anywhere,
    /// On the CPU that the scheduler chooses, with the hint that the waker is about to sleep.
    Sync,
}

/// The queue, while a [`Worker`] exists.
static QUEUE: Atomic<*mut bindings::workqueue_struct> = Atomic::new(ptr::null_mut());

/// A queue of the module's own: the kernel's shared workqueues cannot be waited for. A module is
/// not unloaded before all that was queued has been done.
pub(crate) struct Worker(());

impl Worker {
    /// Makes the queue, with a name that has no `%`. Fails with `ENOMEM`. Sleeps.
    ///
    /// # Safety
    ///
    /// To be called while no other `Worker` exists and nothing calls [`run_later`] or
    /// [`drop_later`](super::rcu::drop_later).
    pub(crate) unsafe fn begin(name: &CStr) -> Result<Self> {
        // What is queued frees memory, so it must not wait for memory.
        let flags = bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_MEM_RECLAIM;
        // SAFETY: The name is a format without arguments; of 0 the kernel makes the usual number.
        let queue = unsafe { bindings::alloc_workqueue_noprof(name.as_char_ptr(), flags, 0) };
        if queue.is_null() {
            return Err(ENOMEM);
        }
        write_once(&QUEUE, queue);
        Ok(Self(()))
    }

    /// Waits until all has been done, and removes the queue. Sleeps.
    ///
    /// # Safety
    ///
    /// Nothing may call [`run_later`] or [`drop_later`](super::rcu::drop_later) during this call,
    /// but for what was queued before; and after it, nothing the former.
    pub(crate) unsafe fn end(self) {
        let queue = queue();
        // Work that is queued may drop references later.
        // SAFETY: The queue exists as long as `self`.
        unsafe { bindings::__flush_workqueue(queue) };
        write_once(&QUEUE, ptr::null_mut());
        // SAFETY: The first call queues all that waits for a grace period. The caller guarantees
        // that nothing else is queued any more.
        unsafe {
            bindings::rcu_barrier();
            bindings::destroy_workqueue(queue);
        }
    }
}

/// Returns the queue of the `Worker`; null if there is none.
pub(super) fn queue() -> *mut bindings::workqueue_struct {
    read_once(&QUEUE)
}

/// Runs `work` with `on` in a thread of the kernel, because others wait for its end and the calling
/// task may get no CPU time. The task may have a low priority, or be in a cgroup that has used up
/// its share. It runs at once, without waiting for the end of what was queued before. Without
/// memory for that the calling task runs it. Sleeps; no lock may be held.
///
/// # Safety
///
/// A [`Worker`] must exist during this call.
pub(crate) unsafe fn run_later<T: Clone + Send + 'static>(on: T, work: fn(&T)) {
    // SAFETY: By the requirements of this function the queue exists during this call. Its end waits
    // for the work.
    let queue = unsafe { Queue::from_raw(queue().cast_const()) };
    let for_queue = on.clone();
    let queued = queue.try_spawn(GFP_KERNEL, move || work(&for_queue));
    if queued.is_err() {
        work(&on);
    }
}
