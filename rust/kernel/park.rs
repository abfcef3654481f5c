// SPDX-License-Identifier: GPL-2.0

//! Puts the calling task to sleep under a spinlock that the caller chooses. A waker that has its
//! [`ThreadPid`](super::pid::ThreadPid) wakes it directly.
//!
//! A wait queue costs a lock and a list operation at each end. Where the waker already knows which
//! task to wake, the task itself is enough: the sleeper announces that it is about to sleep while
//! it holds the lock that protects the state that it waits for; a waker that changes that state
//! under the same lock sees the announcement and wakes the task after the lock is released.
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

use kernel::sync::lock::{
    spinlock::SpinLockBackend,
    Guard,
    Lock, //
};

extern "C" {
    fn kernel_ext_prepare_to_park();
    fn kernel_ext_park();
}

/// Where a woken task should run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeHint {
    /// Where the scheduler chooses.
    Anywhere,
    /// Where the scheduler chooses, which is told that the waker is about to sleep.
    Sync,
}

/// Releases `guard`, sleeps until woken or signalled (interruptible, and freezable by the system or
/// a cgroup), and takes the lock again.
///
/// May return without a reason: the caller checks its condition in a loop. Process context only;
/// the guard must be the only lock held.
pub(crate) fn sleep<T>(guard: Guard<'_, T, SpinLockBackend>) -> Guard<'_, T, SpinLockBackend> {
    let lock: &Lock<T, SpinLockBackend> = guard.lock_ref();
    // SAFETY: Only sets the state of the calling task, which is allowed in any context; every path
    // from here leads through `kernel_ext_park`, which sets it back.
    unsafe { kernel_ext_prepare_to_park() };
    drop(guard);
    // SAFETY: The spinlock is released and the caller holds no other (see above), so this task may
    // sleep.
    unsafe { kernel_ext_park() };
    lock.lock()
}
