// SPDX-License-Identifier: GPL-2.0

//! Reading and changing how a task is scheduled.
//!
//! A policy, a nice value and a real-time priority are stored together in one word, so that it
//! takes a few instructions and no call into the scheduler to find that nothing has to change:
//!
//! ```text
//!   31       24 23          16 15        9      8       7       0
//!  ┌───────────┬──────────────┬───────────┬───────────┬──────────┐
//!  │ real-time │ nice + 20    │     0     │ reset     │ policy   │
//!  │ priority  │              │           │ on fork   │          │
//!  └───────────┴──────────────┴───────────┴───────────┴──────────┘
//! ```
//!
//! The fields are read by C, because the C compiler knows their offsets in any kernel that this is
//! built for.

use kernel::{
    ffi::c_void,
    task::Task, //
};

extern "C" {
    fn kernel_ext_sched_current() -> u32;
    fn kernel_ext_sched_of(task: *const c_void) -> u32;
    fn kernel_ext_sched_resets_on_fork(task: *const c_void) -> bool;
    fn kernel_ext_sched_set(task: *mut c_void, wanted: u32) -> u32;
    fn kernel_ext_sched_limits(task: *mut c_void) -> u32;
    fn kernel_ext_preempt_disable();
    fn kernel_ext_preempt_enable();
    #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
    fn kernel_ext_is_preemptible() -> bool;
    fn kernel_ext_cond_resched();
}

/// Returns how the calling task is scheduled, without the flag. In any context.
#[inline]
pub(crate) fn current() -> u32 {
    // SAFETY: Reads fields of the calling task, which exists.
    unsafe { kernel_ext_sched_current() }
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
    // SAFETY: Allowed in any context; the counterpart follows on the only path from here.
    unsafe { kernel_ext_preempt_disable() };
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
    // SAFETY: Reads the state of the calling task.
    kernel::warn_on!(unsafe { kernel_ext_is_preemptible() });
}

/// Returns how `task` is scheduled, without the flag. In any context; for a task that runs on
/// another CPU the result may be outdated, or mixed of old and new fields.
pub(crate) fn of(task: &Task) -> u32 {
    // SAFETY: `task` is a valid, counted task for the whole call, which reads some of its fields.
    unsafe { kernel_ext_sched_of(task.as_ptr().cast()) }
}

/// Returns whether children of `task` do not inherit how it is scheduled: the flag, which the other
/// words lack. In any context.
pub(crate) fn resets_on_fork(task: &Task) -> bool {
    // SAFETY: `task` is a valid, counted task for the whole call, which reads one of its fields.
    unsafe { kernel_ext_sched_resets_on_fork(task.as_ptr().cast()) }
}

/// Schedules `task` as `wanted` says, without checking the rights of `task`, and returns the word,
/// with the flag, that undoes it. Where policy and real-time priority stay the same, the flag
/// stays, too.
///
/// On a kernel that does not export `sched_setattr_nocheck` only the nice value changes.
///
/// Process context; takes the scheduler's locks: the caller must hold no lock of its own.
pub(crate) fn set(task: &Task, wanted: u32) -> u32 {
    // SAFETY: `task` is a valid, counted task for the whole call. The scheduler rejects any word
    // that it does not know.
    unsafe { kernel_ext_sched_set(task.as_ptr().cast(), wanted) }
}

/// Returns the limits of `task`: from bit 0 on its lowest nice value as a signed byte, 20 if it may
/// choose none; from bit 8 on its highest real-time priority, 0 if it may have none, or if the
/// kernel gives a module no way to set it.
pub(crate) fn limits(task: &Task) -> u32 {
    // SAFETY: `task` is a valid, counted task for the whole call, which reads its limits and
    // credentials.
    unsafe { kernel_ext_sched_limits(task.as_ptr().cast()) }
}

/// Lets other tasks run, where the kernel does not preempt this one and another should run: for
/// loops whose length user space chooses.
///
/// Process context; the caller must hold no lock.
pub(crate) fn cond_resched() {
    // SAFETY: The caller holds no lock (see above), so this task may sleep.
    unsafe { kernel_ext_cond_resched() };
}
