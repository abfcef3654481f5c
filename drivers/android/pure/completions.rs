// SPDX-License-Identifier: GPL-2.0

//! The completions that a thread has not read yet, and what becomes of them.

/// The unread completions of a thread, which say that its calls and replies are on their way.
///
/// They are queued early, because nothing may come before them. If the call or the reply fails
/// after that, the queue is not searched; instead, what becomes of the completion is recorded here.
/// It is the last completion in the queue, since a failure stops the thread's commands until the
/// thread has read it.
#[repr(C, packed)] // A thread has no more room.
pub(crate) struct Completions {
    unread: u32,
    last: Completion,
}

/// What becomes of the completion of a call or a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The thread reads it.
    Delivered,
    /// The thread reads it, and until then its commands are stopped: it is that of a reply that
    /// failed (contract TXN-25).
    StopsCommands,
    /// The thread does not read it: it is that of a call that failed (contract TXN-19).
    Withdrawn,
}

impl Completions {
    /// Returns that of a thread that has none.
    pub(crate) const fn none() -> Self {
        Self {
            unread: 0,
            last: Completion::Delivered,
        }
    }

    /// Returns the number of those that are queued.
    pub(crate) fn unread(&self) -> u32 {
        self.unread
    }

    /// Counts one more that is queued.
    #[inline]
    pub(crate) fn add(&mut self) {
        self.unread += 1;
    }

    /// Records that the call or the reply of the one that was queued last has failed, and what
    /// becomes of it.
    pub(crate) fn fail(&mut self, last: Completion) {
        self.last = last;
    }

    /// Removes the one that was queued first, which the thread reads. Returns what becomes of it.
    #[inline]
    pub(crate) fn read(&mut self) -> Completion {
        self.unread -= 1;
        if self.unread == 0 {
            core::mem::replace(&mut self.last, Completion::Delivered)
        } else {
            Completion::Delivered
        }
    }
}
