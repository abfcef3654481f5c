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

use kernel::task::Task;

// Why these are safe to call: `helpers/tasks.c` defines them with these arguments, and `Task` is
// transparent over `task_struct`. They read fields of the calling task, or of a task that is
// borrowed, and therefore valid; the scheduler rejects any word that it does not know.
#[allow(improper_ctypes)] // Of a task, its address is all that is passed on.
unsafe extern "C" {
    /// Returns how the calling task is scheduled, without the flag. In any context.
    #[link_name = "kernel_ext_sched_current"]
    pub(crate) safe fn current() -> u32;

    /// Returns how `task` is scheduled, without the flag. In any context; for a task that runs on
    /// another CPU the result may be outdated, or mixed of old and new fields.
    #[link_name = "kernel_ext_sched_of"]
    pub(crate) safe fn of(task: &Task) -> u32;

    /// Returns whether children of `task` do not inherit how it is scheduled: the flag, which the
    /// other words lack. In any context.
    #[link_name = "kernel_ext_sched_resets_on_fork"]
    pub(crate) safe fn resets_on_fork(task: &Task) -> bool;

    /// Schedules `task` as `wanted` says, without checking the rights of `task`, and returns the
    /// word, with the flag, that undoes it. Where policy and real-time priority stay the same, the
    /// flag stays, too.
    ///
    /// On a kernel that does not export `sched_setattr_nocheck` only the nice value changes.
    ///
    /// Process context; takes the scheduler's locks: the caller must hold no lock of its own.
    #[link_name = "kernel_ext_sched_set"]
    pub(crate) safe fn set(task: &Task, wanted: u32) -> u32;

    /// Returns the limits of `task`: from bit 0 on its lowest nice value as a signed byte, 20 if it
    /// may choose none; from bit 8 on its highest real-time priority, 0 if it may have none, or if
    /// the kernel gives a module no way to set it.
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
