// SPDX-License-Identifier: GPL-2.0

//! Read-side sections of RCU that cost a few instructions, and references that are dropped after a
//! grace period.
//!
//! `kernel::sync::rcu` calls two functions for each end of a section. Here a section is one without
//! preemption, where that excludes the end of a grace period, too.

use super::sched;
use core::{ffi::c_void, marker::PhantomData};
use kernel::{bindings::workqueue_struct, sync::Arc};

// Why one is safe to call: it only counts, for the calling task.
unsafe extern "C" {
    safe fn kernel_ext_begin_reading();
    fn kernel_ext_end_reading();
    fn kernel_ext_drop_later(
        queue: *mut workqueue_struct,
        object: *const c_void,
        drop: unsafe extern "C" fn(*const c_void),
    );
}

/// A section in which no grace period ends that begins in it, and the calling task does not sleep.
///
/// # Invariants
///
/// The calling task is in the section as long as this exists.
pub(crate) struct Reading(PhantomData<*mut ()>);

/// Begins a section.
#[inline(always)]
pub(crate) fn read_lock() -> Reading {
    kernel_ext_begin_reading();
    // INVARIANT: It has begun.
    Reading(PhantomData)
}

impl Drop for Reading {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: By the type invariants the task is in a section that began with the other one.
        unsafe { kernel_ext_end_reading() };
    }
}

/// Drops a reference when a grace period has ended, in a thread of the kernel. Without a
/// [`Worker`](super::sched::Worker) or memory the calling task waits for that. May sleep; no lock
/// may be held.
pub(crate) fn drop_later<T: Send + Sync + 'static>(object: Arc<T>) {
    /// Drops the reference.
    ///
    /// # Safety
    ///
    /// `object` must be from [`Arc::into_raw`], and its count be given up to this call.
    unsafe extern "C" fn drop_now<T>(object: *const c_void) {
        // SAFETY: Promised by the caller.
        drop(unsafe { Arc::<T>::from_raw(object.cast()) });
    }
    let object = Arc::into_raw(object).cast();
    // SAFETY: The queue is null, or exists as long as this may be called. The count is given up
    // above, for one call by any thread: see the bounds.
    unsafe { kernel_ext_drop_later(sched::queue(), object, drop_now::<T>) };
}
