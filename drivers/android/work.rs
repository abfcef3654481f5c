// SPDX-License-Identifier: GPL-2.0

//! What can wait for a thread or for the pool of a process, and whom to wake when it arrives.
//!
//! Work is queued under a spinlock; whoever has to be woken for it comes out as a [`Wake`], which
//! takes effect after the lock is gone.

use crate::{
    defs::Return,
    kernel_ext::{
        box_queue::{BoxQueue, Position, Ticket},
        park::WakeHint,
        sched, //
    },
    node::Node,
    notification::{DeathNotification, FreezeNotification},
    process::Process,
    thread::Thread,
    transaction::Transaction, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// One thing to be told to user space.
pub(crate) enum Work {
    /// A return code that says everything by itself.
    ReturnCode(Return),
    /// The call or the reply that the thread made is on its way; see [`crate::thread::Completions`].
    Completion,
    /// The answer to a command that was refused, for which the thread keeps a place of its own.
    Error(Return),
    /// A call to be served.
    Call(KBox<Transaction>),
    /// A call of this thread that came back: its reply, or why there is none.
    Outcome(KBox<Transaction>),
    /// The counts of a node have changed since its owner was last told.
    Node(Arc<Node>),
    /// A node has died, or the request to be told of that is withdrawn.
    Death(Arc<DeathNotification>),
    /// A node's owner was frozen or thawed, or a request to be told of that is withdrawn.
    Freeze(Arc<FreezeNotification>),
}

/// A queue of work.
pub(crate) type WorkQueue = BoxQueue<Work>;

/// A place in a queue of work.
pub(crate) type WorkTicket = Ticket<Work>;

/// Work that was taken out of a queue, and the place that it had.
pub(crate) type Dequeued = (Work, WorkTicket);

/// Where whatever waits in such a place is.
pub(crate) type WorkPosition = Position<Work>;

/// Whether work ends the sleep of the thread that it is queued for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The thread should come and get it.
    Now,
    /// It can wait until the thread comes for something else (contract LOOP-10).
    Deferred,
}

/// Who has to be woken for work that was queued for one thread.
#[must_use = "work was queued for somebody who may be asleep"]
#[derive(Clone, Copy)]
pub(crate) enum ThreadWake {
    /// Nobody: the thread is awake.
    Nobody,
    /// That thread.
    Thread,
    /// Whoever watches the device with `poll`, for the thread may be one of those.
    Pollers,
}

impl ThreadWake {
    /// Whether there is somebody.
    #[inline]
    pub(crate) fn is_needed(self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Wakes them. To be called with no lock held.
    pub(crate) fn now(self, thread: &Thread, hint: WakeHint) {
        sched::expect_no_spinlock();
        match self {
            Self::Nobody => {}
            Self::Thread => thread.wake(hint),
            Self::Pollers => thread.process.notify_pollers(),
        }
    }

    /// The same, for later.
    pub(crate) fn of(self, thread: &Arc<Thread>) -> Wake {
        match self {
            Self::Nobody => Wake::Nobody,
            Self::Thread => Wake::Thread(thread.clone()),
            Self::Pollers => Wake::Pollers,
        }
    }
}

/// Who has to be woken for work that was queued for a process.
#[must_use = "work was queued for somebody who may be asleep"]
pub(crate) enum Wake {
    /// Everybody concerned is awake.
    Nobody,
    /// The thread that the work was queued for.
    Thread(Arc<Thread>),
    /// Whoever watches the device with `poll`.
    Pollers,
}

impl Wake {
    /// Wakes them. To be called with no lock held.
    pub(crate) fn now(self, process: &Process, hint: WakeHint) {
        sched::expect_no_spinlock();
        match self {
            Self::Nobody => {}
            Self::Thread(thread) => thread.wake(hint),
            Self::Pollers => process.notify_pollers(),
        }
    }
}
