// SPDX-License-Identifier: GPL-2.0

//! Work: what can be queued for a thread or for the pool of a process, and what is woken for it.
//!
//! Work is queued under a spinlock. What has to be woken for it is returned as a [`Wake`], which
//! takes effect after the lock is released. In between the calling task is not preempted: whoever
//! is chosen for the work is asleep, and nobody else would be woken for it (lesson T03).

use crate::{
    death_notification::DeathNotification,
    defs::Return,
    freeze_notification::FreezeNotification,
    kernel_ext::{
        box_queue::{queued, BoxQueue, Ticket},
        park::WakeHint,
        sched, //
    },
    node::Node,
    process::Process,
    thread::Thread,
    transaction::TransactionBox, //
};
use kernel::sync::Arc;

/// One thing that user space is to read.
pub(crate) enum Work {
    /// A return code without a payload.
    ReturnCode(Return),
    /// The call or the reply that the thread made is on its way; see
    /// [`crate::pure::completions::Completions`].
    Completion,
    /// The error of the last command of this thread, whose own queue it is in.
    Error(Arc<Thread>),
    /// A call to be served.
    Call(TransactionBox),
    /// A call of this thread that has come back: its reply, or why there is none.
    Outcome(TransactionBox),
    /// A node update: the counts of a node have changed since its owner last read them.
    Node(Arc<Node>),
    /// A death notification: a node has died, or the holder has cleared its request.
    Death(Arc<DeathNotification>),
    /// A freeze notification: the owner of a node was frozen or thawed, or the holder has cleared
    /// its request.
    Freeze(Arc<FreezeNotification>),
}

// These are queued in the places that they bring, and all others in the place of a ticket.
queued!(
    Work,
    Call(TransactionBox),
    Outcome(TransactionBox),
    Node(Arc<Node>),
    Death(Arc<DeathNotification>),
    Freeze(Arc<FreezeNotification>),
    Error(Arc<Thread>)
);

/// A queue of work.
pub(crate) type WorkQueue = BoxQueue<Work>;

/// The memory of a place in a queue of work.
pub(crate) type WorkTicket = Ticket<Work>;

/// Work that was taken out of a queue, and its ticket, if it needs one.
pub(crate) type Dequeued = (Work, Option<WorkTicket>);

/// Whether work ends the sleep of the thread that it is queued for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It does: the thread is woken to read it.
    Now,
    /// It does not: it waits until the thread reads something else (contract LOOP-10).
    Deferred,
}

/// What has to be woken for work that was queued for one thread.
#[must_use = "work was queued for somebody who may be asleep"]
#[derive(Clone, Copy)]
pub(crate) enum ThreadWake {
    /// Nothing: the thread is awake.
    Nobody,
    /// That thread.
    Thread,
    /// The tasks that poll the device, because the thread may be one of them.
    Pollers,
}

impl ThreadWake {
    /// Whether anything has to be woken.
    #[inline]
    pub(crate) fn is_needed(self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Releases `locks` and wakes it.
    #[inline(always)] // Mostly there is nothing to wake.
    pub(crate) fn after(self, locks: impl Sized, thread: &Thread, hint: WakeHint) {
        match self {
            Self::Nobody => drop(locks),
            Self::Thread => thread.wake_after(locks, hint),
            Self::Pollers => thread.process.notify_pollers_after(locks),
        }
    }

    /// Wakes it in a step of [`sched::unpreempted_if`] in which the locks are released already.
    #[inline]
    pub(crate) fn now(self, thread: &Thread, hint: WakeHint) {
        if self.is_needed() {
            sched::expect_unpreempted();
            self.after((), thread, hint);
        }
    }

    /// Returns the same as a [`Wake`], for later.
    pub(crate) fn of(self, thread: &Arc<Thread>) -> Wake {
        match self {
            Self::Nobody => Wake::Nobody,
            Self::Thread => Wake::Thread(thread.clone()),
            Self::Pollers => Wake::Pollers,
        }
    }
}

/// What has to be woken for work that was queued for a process.
#[must_use = "work was queued for somebody who may be asleep"]
pub(crate) enum Wake {
    /// Nothing: a thread that can take it is awake or on its way.
    Nobody,
    /// The thread that the work was queued for.
    Thread(Arc<Thread>),
    /// The tasks that poll the device.
    Pollers,
}

impl Wake {
    /// Whether anything has to be woken.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Releases `locks` and wakes it.
    #[inline(always)] // Mostly there is nothing to wake.
    pub(crate) fn after(&self, locks: impl Sized, process: &Process, hint: WakeHint) {
        match self {
            Self::Nobody => drop(locks),
            Self::Thread(thread) => thread.wake_after(locks, hint),
            Self::Pollers => process.notify_pollers_after(locks),
        }
    }

    /// Wakes it in a step of [`sched::unpreempted_if`] in which the locks are released already.
    #[inline(always)] // Mostly there is nothing to wake.
    pub(crate) fn now(&self, process: &Process, hint: WakeHint) {
        if self.is_needed() {
            sched::expect_unpreempted();
            self.after((), process, hint);
        }
    }
}
