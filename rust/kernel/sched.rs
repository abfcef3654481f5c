// SPDX-License-Identifier: GPL-2.0

//! How a task is scheduled, and how to change that.
//!
//! A policy, a nice value and a real-time priority travel together, in one word, so that finding out
//! that there is nothing to change costs a few instructions and no call into the scheduler:
//!
//! ```text
//!   31       24 23          16 15        9      8       7       0
//!  ┌───────────┬──────────────┬───────────┬───────────┬──────────┐
//!  │ real-time │ nice + 20    │     0     │ reset     │ policy   │
//!  │ priority  │              │           │ on fork   │          │
//!  └───────────┴──────────────┴───────────┴───────────┴──────────┘
//! ```
//!
//! The fields are read by C, for whom the compiler knows where they are in whatever kernel this is
//! built for.

use kernel::{
    ffi::c_void,
    task::Task, //
};

extern "C" {
    fn kernel_ext_sched_current() -> u32;
    fn kernel_ext_sched_of(task: *const c_void) -> u32;
    fn kernel_ext_sched_set(task: *mut c_void, wanted: u32) -> u32;
    fn kernel_ext_sched_limits(task: *mut c_void) -> u32;
    fn kernel_ext_cond_resched();
}

/// How the calling task is scheduled, without the flag. In any context.
#[inline]
pub(crate) fn current() -> u32 {
    // SAFETY: Reads fields of the calling task, which exists.
    unsafe { kernel_ext_sched_current() }
}

/// To be called where nobody may have a spinlock, nor be where nothing sleeps. Kernels that look for that
/// (`DEBUG_ATOMIC_SLEEP`) complain if it is not so; others have no code for it.
#[inline(always)]
#[track_caller]
pub(crate) fn expect_no_spinlock() {
    #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
    kernel::task::might_sleep();
}

/// How `task` is scheduled, without the flag. In any context; of a task that runs elsewhere the answer
/// may be outdated, or mixed of what was and what comes.
pub(crate) fn of(task: &Task) -> u32 {
    // SAFETY: `task` is a valid, counted task for the whole call, which reads some of its fields.
    unsafe { kernel_ext_sched_of(task.as_ptr().cast()) }
}

/// Schedules `task` as `wanted` says, whatever it may do by itself, and gives the word, with the flag,
/// that undoes it. Where policy and real-time priority stay the same, so does the flag.
///
/// On a kernel that does not export `sched_setattr_nocheck` only the nice value changes.
///
/// Process context; takes the scheduler's locks: to be called with none of one's own held.
pub(crate) fn set(task: &Task, wanted: u32) -> u32 {
    // SAFETY: `task` is a valid, counted task for the whole call. Whatever the word, the scheduler
    // refuses what it does not know.
    unsafe { kernel_ext_sched_set(task.as_ptr().cast(), wanted) }
}

/// How far `task` may go: from bit 0 on its lowest nice value as a signed byte, 20 if it may choose
/// none; from bit 8 on its highest real-time priority, 0 if it may have none, or if the kernel gives a
/// module no way to set it.
pub(crate) fn limits(task: &Task) -> u32 {
    // SAFETY: `task` is a valid, counted task for the whole call, which reads its limits and
    // credentials.
    unsafe { kernel_ext_sched_limits(task.as_ptr().cast()) }
}

/// Lets other tasks run, where the kernel does not preempt this one and one should: for loops that user
/// space makes as long as it likes.
///
/// Process context; to be called with no lock held.
pub(crate) fn cond_resched() {
    // SAFETY: The caller holds no lock (see above), so this task may give up the CPU.
    unsafe { kernel_ext_cond_resched() };
}
