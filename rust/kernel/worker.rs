// SPDX-License-Identifier: GPL-2.0

//! Work that a task leaves to the kernel's own threads, because others wait for its end and the
//! task may get no CPU time: it may be of low priority, or of a cgroup that has used up its share.
//!
//! The kernel's shared workqueues cannot be waited for. So a module has a queue of its own, and is
//! not unloaded before all that was queued has been done.

use core::ptr;
use kernel::{
    bindings,
    prelude::*,
    str::CStrExt,
    sync::atomic::{Atomic, Relaxed},
    workqueue::Queue, //
};

/// The queue, while a [`Worker`] exists.
static QUEUE: Atomic<*mut bindings::workqueue_struct> = Atomic::new(ptr::null_mut());

/// The queue, while it exists.
pub(crate) struct Worker(());

impl Worker {
    /// Makes the queue, with a name that has no `%`. Fails with `ENOMEM`. Sleeps.
    ///
    /// # Safety
    ///
    /// To be called while no other `Worker` exists and nothing calls [`run_later`].
    pub(crate) unsafe fn begin(name: &CStr) -> Result<Self> {
        // What is queued frees memory, so it must not wait for memory.
        let flags = bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_MEM_RECLAIM;
        // SAFETY: The name is a format without arguments; of 0 the kernel makes the usual number.
        let queue = unsafe { bindings::alloc_workqueue_noprof(name.as_char_ptr(), flags, 0) };
        if queue.is_null() {
            return Err(ENOMEM);
        }
        QUEUE.store(queue, Relaxed);
        Ok(Self(()))
    }

    /// Waits until all has been done, and removes the queue. Sleeps.
    ///
    /// # Safety
    ///
    /// Nothing may call [`run_later`] during or after this call.
    pub(crate) unsafe fn end(self) {
        // SAFETY: Guaranteed by the caller; the queue exists as long as `self`.
        unsafe { bindings::destroy_workqueue(QUEUE.load(Relaxed)) };
    }
}

/// Has a thread of the kernel run `work` with `on`: at once, without waiting for the end of what
/// was queued before. Without memory for that the calling task runs it. Sleeps; no lock may be
/// held.
///
/// # Safety
///
/// A [`Worker`] must exist during this call.
pub(crate) unsafe fn run_later<T: Clone + Send + 'static>(on: T, work: fn(&T)) {
    // SAFETY: By the requirements of this function the queue exists during this call. Its end waits
    // for the work.
    let queue = unsafe { Queue::from_raw(QUEUE.load(Relaxed)) };
    let for_queue = on.clone();
    let queued = queue.try_spawn(GFP_KERNEL, move || work(&for_queue));
    if queued.is_err() {
        work(&on);
    }
}
