// SPDX-License-Identifier: GPL-2.0

//! Work: the items that can be queued for a thread or for the pool of a process, and the wake-ups
//! for them.
//!
//! Work is queued under a spinlock. The function that queues it returns a [`Wake`], which takes
//! effect after the lock is released. In between the calling task is not preempted: the thread that
//! is chosen for the work is asleep, and no other thread would be woken for it (lesson T03).

use crate::{
    death_notification::DeathNotification,
    defs::Return,
    freeze_notification::FreezeNotification,
    kernel_ext::{
        link::{queued, NumberedQueue, Placed},
        sched::{self, WakeHint}, //
    },
    node::Node,
    process::Process,
    thread::Thread,
    transaction::TransactionBox, //
};
use core::ops::Deref;
use kernel::{
    alloc::{flags::GFP_KERNEL, AllocError},
    sync::Arc, //
};

/// One thing that user space is to read. It brings its place in a queue.
pub(crate) enum Work {
    /// A code without a payload.
    Code(WorkTicket),
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

queued!(
    Work,
    Code(WorkTicket),
    Call(TransactionBox),
    Outcome(TransactionBox),
    Node(Arc<Node>),
    Death(Arc<DeathNotification>),
    Freeze(Arc<FreezeNotification>),
    Error(Arc<Thread>)
);

/// A code without a payload.
pub(crate) enum Code {
    /// This one.
    Return(Return),
    /// The call or the reply that the thread made is on its way; see [`Completions`].
    Completion,
}

/// A code and its place, or the memory for the next one.
pub(crate) type WorkTicket = Placed<Code>;

/// Allocates memory for a code. May sleep.
pub(crate) fn new_ticket() -> Result<WorkTicket, AllocError> {
    Placed::new(|| Code::Completion, GFP_KERNEL)
}

/// The unread completions of a thread, which confirm that its calls and replies are on their way.
///
/// They are queued early, because nothing may come before them. If the call or the reply fails
/// after that, the queue is not searched; instead, the fate of the completion is recorded here. It
/// is the last completion in the queue, since a failure stops the thread's commands until the
/// thread has read it.
#[derive(Default)]
#[repr(C, packed)] // A thread has no more room.
pub(crate) struct Completions {
    /// The number of completions that are queued.
    pub(crate) unread: u32,
    /// The fate of the completion that was queued last.
    pub(crate) last: CompletionRead,
}

/// The fate of the completion of a call or a reply.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CompletionRead {
    /// The thread reads it.
    #[default]
    Delivered,
    /// The thread reads it, and until then its commands are stopped: it is that of a reply that
    /// failed (contract TXN-25).
    StopsCommands,
    /// The thread does not read it: it is that of a call that failed (contract TXN-19).
    Withdrawn,
}

impl Completions {
    /// Removes the one that was queued first, which the thread reads. Returns its fate.
    #[inline]
    pub(crate) fn read(&mut self) -> CompletionRead {
        self.unread -= 1;
        match self.unread {
            0 => core::mem::take(&mut self.last),
            _ => CompletionRead::Delivered,
        }
    }
}

/// A queue of work.
pub(crate) type WorkQueue = NumberedQueue<Work>;

/// The tasks to wake for work that was queued.
#[must_use = "work was queued for somebody who may be asleep"]
pub(crate) enum Wake<T = Arc<Thread>> {
    /// Nothing: a thread that can take it is awake or on its way.
    Nobody,
    /// The thread that the work was queued for.
    Thread(T),
    /// The tasks that poll the device. One of them may be the thread.
    Pollers,
}

/// The tasks to wake for work that was queued for a thread that the caller refers to.
pub(crate) type ThreadWake<'a> = Wake<&'a Thread>;

impl ThreadWake<'_> {
    /// Returns the same for later.
    pub(crate) fn of(self, thread: &Arc<Thread>) -> Wake {
        match self {
            Self::Nobody => Wake::Nobody,
            Self::Thread(_) => Wake::Thread(thread.clone()),
            Self::Pollers => Wake::Pollers,
        }
    }
}

impl<T: Deref<Target = Thread>> Wake<T> {
    /// Returns the wake of the tasks that poll the device, if they have to look.
    pub(crate) fn pollers_if(they_have_to: bool) -> Self {
        match they_have_to {
            true => Self::Pollers,
            false => Self::Nobody,
        }
    }

    /// Returns whether anything has to be woken.
    pub(crate) fn is_needed(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Releases `locks` and wakes it. The work was queued for `process` or a thread of it. No other
    /// lock may be held.
    #[inline(always)] // Mostly there is nothing to wake.
    pub(crate) fn after(&self, locks: impl Sized, process: &Process, hint: WakeHint) {
        self.release_and_wake(locks, process, hint);
        sched::expect_unlocked();
    }

    /// The same if no tasks that poll are to be woken, on any CPU.
    #[inline(always)] // Mostly there is nothing to wake.
    pub(crate) fn after_without_pollers(&self, locks: impl Sized) {
        match self {
            Self::Thread(thread) => thread.task.wake_after(locks, WakeHint::Anywhere),
            Self::Nobody | Self::Pollers => drop(locks),
        }
        sched::expect_unlocked();
    }

    /// Wakes it in a step of [`sched::unpreempted_if`] in which the locks are released already.
    #[inline(always)] // Mostly there is nothing to wake.
    pub(crate) fn now(&self, process: &Process, hint: WakeHint) {
        if self.is_needed() {
            sched::expect_unpreempted();
            self.release_and_wake((), process, hint);
        }
    }

    #[inline(always)] // Mostly there is nothing to wake.
    fn release_and_wake(&self, locks: impl Sized, process: &Process, hint: WakeHint) {
        match self {
            Self::Nobody => drop(locks),
            Self::Thread(thread) => thread.task.wake_after(locks, hint),
            Self::Pollers => process.notify_waiters_after(locks),
        }
    }
}
