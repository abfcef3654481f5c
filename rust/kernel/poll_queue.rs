// SPDX-License-Identifier: GPL-2.0

//! A condition variable that tasks can poll on, as a part of the object that they poll.
//!
//! The kernel's [`PollCondVar`] waits for a grace period of RCU whenever it is dropped: tasks may
//! poll on it until then, and epoll finds a queue under RCU. A box with a queue alone is freed
//! after a grace period, but it is one more allocation for each file. Here neither is needed, as a
//! rule. `poll(2)` and asynchronous I/O hold the file while they are in the queue, and epoll leaves
//! the queue before the file is released. An object that lives until then drops a queue that is
//! empty.

use core::{
    mem::{needs_drop, size_of},
    ops::Deref,
    ptr,
};
use kernel::{
    bindings,
    fs::File,
    prelude::*,
    sync::{
        poll::{PollCondVar, PollTable},
        CondVar,
        LockClassKey, //
    },
};

extern "C" {
    fn kernel_ext_is_queue_empty(queue: *mut bindings::wait_queue_head) -> bool;
}

/// A condition variable that can be polled on. Its drop sleeps if a task still does.
///
/// # Invariants
///
/// An entry is in the queue until it is removed under RCU, or by the drop. The drop then waits for
/// the end of a grace period, as that of a [`PollCondVar`] does.
#[pin_data(PinnedDrop)]
pub(crate) struct PollQueue {
    #[pin]
    queue: CondVar,
}

// A `PollCondVar` is a `CondVar` with another drop, and begins with the queue.
const _: () = assert!(size_of::<PollCondVar>() == size_of::<CondVar>());
const _: () = assert!(size_of::<CondVar>() == size_of::<bindings::wait_queue_head>());
const _: () = assert!(!needs_drop::<CondVar>());

impl PollQueue {
    /// Creates an empty queue.
    pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        // INVARIANT: It has no entries.
        pin_init!(Self {
            queue <- CondVar::new(name, key),
        })
    }

    /// Has the calling task, which polls `file`, wait on this, too.
    pub(crate) fn register(&self, table: &PollTable<'_>, file: &File) {
        // SAFETY: The queue is all that a `PollCondVar` has: see the assertions above. It is
        // pinned, and by the type invariants its drop does what that of a `PollCondVar` has to.
        let queue = unsafe { &*ptr::from_ref(&self.queue).cast::<PollCondVar>() };
        // INVARIANT: Whoever leaves the queue does so under RCU, as the kernel's pollers do.
        table.register_wait(file, queue);
    }
}

impl Deref for PollQueue {
    type Target = CondVar;

    fn deref(&self) -> &CondVar {
        &self.queue
    }
}

#[pinned_drop]
impl PinnedDrop for PollQueue {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The queue is dropped in place, and not moved out of `self`.
        let queue = ptr::from_mut(unsafe { &mut self.get_unchecked_mut().queue });
        // SAFETY: The queue begins where the `CondVar` does, and is initialised. The function takes
        // its lock: whoever has removed the last entry has released that before.
        if unsafe { kernel_ext_is_queue_empty(queue.cast()) } {
            return;
        }
        // SAFETY: As in `register`. Nothing uses the queue after this, which is not moved, and a
        // `CondVar` has no drop of its own that would follow.
        unsafe { ptr::drop_in_place(queue.cast::<PollCondVar>()) };
    }
}
