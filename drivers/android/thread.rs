// SPDX-License-Identifier: GPL-2.0

//! A thread of a process: its own work, the calls that it makes and serves, and what it waits for
//! while it sleeps.
//!
//! The record of a thread is allocated for the first command that needs one, and ends with
//! `BINDER_THREAD_EXIT` or with the process. Its state is guarded by the state lock of the process.

use crate::{
    common::{
        failure::Failure,
        netlink::Party,
        stats::{Counted, Counter, Kind}, //
    },
    defs::{no_error, ExtendedError, Return},
    kernel_ext::{
        link::{has_field, Link},
        once::write_once,
        pid::TaskId,
        sched::WakeHint, //
    },
    names::ThreadName,
    node::Node,
    process::{IdlePlace, Pid, Process, ProcessState, StateGuard},
    pure::{
        call_stack::CallStack,
        looper::Looper,
        priority_rules::SavedPriority, //
    },
    transaction::TransactionBox,
    work::{self, Code, CompletionRead, Completions, ThreadWake, Work, WorkQueue, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc,
        LockedBy, //
    }, //
};

/// A thread of a process.
///
/// The fields that others change when they queue work come first: one cache line holds them
/// together with the reference count, which others change before. The fields that do not change
/// come last.
#[repr(C)]
pub(crate) struct Thread {
    /// The state that changes, to be accessed under the state lock of the process.
    pub(crate) state: LockedBy<ThreadState, ProcessState>,
    /// The process that it belongs to.
    pub(crate) process: Arc<Process>,
    /// What the calls that it makes keep of it.
    pub(crate) name: Arc<ThreadName>,
    /// Identifies the task, and does not keep it: a thread may exit without notifying the driver.
    pub(crate) task: TaskId,
    /// The place of an error in its queue, because queueing one must not fail for lack of memory.
    error_place: Link,
    /// The kernel's number for it, in the initial pid namespace.
    pub(crate) id: Pid,
    /// A flush requires the thread to return to user space, whatever it waits for.
    pub(crate) must_return: Atomic<bool>,
    /// A command that failed stops those behind it until the thread has read the error. Only the
    /// thread itself accesses this.
    pub(crate) has_unread_error: Atomic<bool>,
    _counted: Counted,
}

has_field!(impl for Thread, error_place: Link);

// With its reference count as large as the kernel's allocator has room for before the next size.
const _: () = assert!(size_of::<Thread>() <= 184);

/// The state of a thread that changes; its order is that of [`Thread`].
#[repr(C)]
pub(crate) struct ThreadState {
    pub(crate) work: WorkQueue,
    /// Its place among the idle threads, while it waits for any work.
    pub(crate) idle_place: IdlePlace,
    /// Calls that are [reserved](WaitState::Reserved) for the thread or in `work`, or have been
    /// taken out of `work` and are not yet on the stack.
    pub(crate) pending_calls: u32,
    /// The error of the last command, as long as that is queued.
    pub(crate) unread_error: Return,
    pub(crate) wait_state: WaitState,
    pub(crate) urgency: Urgency,
    pub(crate) looper: Looper,
    /// The completions in `work`: each confirms that a call or a reply is on its way.
    pub(crate) completions: Completions,
    /// Calls that the thread makes and serves, the innermost last.
    pub(crate) stack: CallStack<TransactionBox>,
    /// The priority that the thread had before the sender of a call raised it, until the thread
    /// takes that call.
    pub(crate) raised_from: SavedPriority,
    pub(crate) extended_error: ExtendedError,
}

/// The work that a thread waits for while it sleeps in the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitState {
    /// It does not sleep, or another task is already about to wake it.
    Awake,
    /// Its own work.
    ForOwnWork,
    /// Its own work or any work of the process; the thread is in the list of idle threads.
    ForAnyWork,
    /// A call that its sender is about to queue, and that is reserved for the thread; before that
    /// the sender raises the priority of the thread. A thread that is woken by something else waits
    /// until that is done: otherwise it could serve the call and restore its own priority before it
    /// is raised. Until then it is in the driver, so it and its process do not end.
    Reserved,
}

/// The effect of the items in `work` on a wait of the thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Nothing in `work` ends a wait (contract LOOP-10).
    None,
    /// `work` begins with completions of replies that their senders have deferred, and has nothing
    /// that ends a wait: the thread can take the work of the process (contract TXN-33).
    Deferred,
    /// Something in `work` ends a wait.
    Urgent,
}

impl ThreadState {
    fn new() -> Self {
        Self {
            looper: Looper::default(),
            wait_state: WaitState::Awake,
            idle_place: IdlePlace::default(),
            raised_from: SavedPriority::NONE,
            stack: CallStack::new(),
            work: WorkQueue::numbered(),
            completions: Completions::default(),
            pending_calls: 0,
            unread_error: Return::Ok,
            urgency: Urgency::None,
            extended_error: no_error(0),
        }
    }

    /// Returns whether the thread can take any work of the process (contract POLL-3).
    pub(crate) fn is_available(&self) -> bool {
        self.stack.frames.last().is_none() && (self.work.is_empty() || self.has_only_deferred())
    }

    /// Returns whether its work begins with deferred completions, and nothing in it ends a wait.
    pub(crate) fn has_only_deferred(&self) -> bool {
        self.urgency == Urgency::Deferred
    }

    /// Returns whether its own work ends a wait.
    #[inline(always)] // It is one comparison.
    pub(crate) fn ends_wait(&self) -> bool {
        self.urgency == Urgency::Urgent
    }

    /// Takes the oldest work out of the thread's own queue.
    #[inline(always)]
    pub(crate) fn pop_work(&mut self) -> Option<Work> {
        let popped = self.work.pop_front();
        if self.work.is_empty() {
            self.urgency = Urgency::None;
        }
        popped
    }

    /// Takes the node update of a node out of the thread's own queue, wherever it is.
    pub(crate) fn take_update(&mut self, node: &Node) {
        // The dropped reference is not the last: the caller has another.
        drop(self.work.take(node));
        if self.work.is_empty() {
            self.urgency = Urgency::None;
        }
    }

    /// Queues work, which is queued nowhere, for the thread.
    #[inline]
    pub(crate) fn push(&mut self, work: Work) {
        self.pending_calls += u32::from(matches!(work, Work::Call(_)));
        // If `work` is queued already, the dropped reference is not the last: the queue has one.
        let queued = self.work.push(work);
        debug_assert!(queued.is_ok());
    }

    /// Records why a transaction failed.
    pub(crate) fn set_error(&mut self, id: u32, error: Failure) {
        self.extended_error = ExtendedError {
            id,
            command: error.return_code().code(),
            param: error.errno.into(),
        };
    }
}

impl Thread {
    /// Allocates the record of the calling task.
    pub(crate) fn new(process: &Arc<Process>) -> Result<Arc<Self>> {
        let state = ThreadState::new();
        let id = current!().pid();
        let thread = Self {
            id,
            name: ThreadName::new(&process.name, id)?,
            process: process.clone(),
            task: TaskId::current(),
            state: LockedBy::new(&process.state, state),
            must_return: Atomic::new(false),
            has_unread_error: Atomic::new(false),
            error_place: Link::new(),
            _counted: Counted::new(Kind::Thread),
        };
        Ok(Arc::new(thread, GFP_KERNEL)?)
    }

    /// Counts a code of the thread, which is the calling one.
    #[inline(always)]
    pub(crate) fn count(&self, counter: Counter) {
        self.name.counts.count(&self.process.code_counts, counter);
    }

    /// Names the thread, in the initial pid namespace.
    #[inline(always)]
    pub(crate) fn party(&self) -> Party {
        self.process.party(self.id)
    }

    /// Returns whether the thread makes or serves a call.
    pub(crate) fn is_calling(&self, process: &ProcessState) -> bool {
        self.state.access(process).stack.is_calling()
    }

    /// Makes sure that the stack has room for one more frame. `ENOMEM`. To be called with no lock
    /// held.
    pub(crate) fn make_room_on_stack(&self) -> Result {
        let mut process = self.process.state.lock();
        let shortage = self.state.access_mut(&mut process).stack.shortage()?;
        drop(process);
        let Some(shortage) = shortage else {
            return Ok(());
        };
        let room = shortage.allocate(GFP_KERNEL)?;
        let mut process = self.process.state.lock();
        // Only this thread makes its stack grow; other tasks may have made room in the meantime, by
        // ending calls of it.
        let own = self.state.access_mut(&mut process);
        let unneeded = own.stack.frames.add_room(room);
        drop(process);
        drop(unneeded);
        Ok(())
    }

    /// Queues the return code `answer` for the thread, in the place that the caller provides. To be
    /// called with no lock held.
    pub(crate) fn queue_return_code(self: &Arc<Self>, mut ticket: WorkTicket, answer: Return) {
        *ticket = Code::Return(answer);
        let mut process = self.process.state.lock();
        let wake = process.push_to_thread(self, Work::Code(ticket));
        wake.after(process, &self.process, WakeHint::Anywhere);
    }

    /// Queues for the thread the outcome that had to wait for the end of a call that the thread
    /// served, if one exists and need not wait any longer. Returns the wake for it.
    #[inline]
    pub(crate) fn queue_kept_outcome(
        self: &Arc<Self>,
        process: &mut ProcessState,
    ) -> ThreadWake<'_> {
        let state = self.state.access_mut(process);
        if state.pending_calls != 0 {
            return ThreadWake::Nobody;
        }
        match state.stack.pop_ended() {
            None => ThreadWake::Nobody,
            Some(outcome) => self.queue_outcome(process, outcome),
        }
    }

    #[cold]
    fn queue_outcome(
        self: &Arc<Self>,
        process: &mut ProcessState,
        outcome: TransactionBox,
    ) -> ThreadWake<'_> {
        process.push_to_thread(self, Work::Outcome(outcome))
    }

    /// Queues the completion of a reply for the thread, which is replying, in the place that it
    /// provides. After that the thread may read the outcomes of calls below the one it has served.
    /// Returns the wake for it.
    #[inline(always)]
    pub(crate) fn complete_reply(
        self: &Arc<Self>,
        process: &mut ProcessState,
        mut ticket: WorkTicket,
        is_deferred: bool,
    ) -> ThreadWake<'_> {
        self.state.access_mut(process).completions.unread += 1;
        *ticket = Code::Completion;
        let completion = Work::Code(ticket);
        let wake = match is_deferred {
            false => process.push_to_thread(self, completion),
            true => process.push_deferred(self, completion),
        };
        // The thread is awake, so both are wakes for the tasks that poll, or for nobody.
        match self.queue_kept_outcome(process) {
            ThreadWake::Nobody => wake,
            both => both,
        }
    }

    /// Ends a reply that has been [begun](crate::pure::call_stack::CallStack::begin_reply), or
    /// whose completion was to be read at once. A reply that has failed stops the commands behind
    /// it like any command that fails (contract WR-2). Otherwise the completion is deferred if
    /// `is_deferred`. To be called with no lock held.
    #[cold]
    pub(crate) fn end_reply(self: &Arc<Self>, has_failed: bool, is_deferred: bool) {
        let mut process = self.process.state.lock();
        let mut ticket = None;
        if !has_failed {
            ticket = process.spare_ticket.take();
            if ticket.is_none() {
                drop(process);
                ticket = work::new_ticket().ok();
                process = self.process.state.lock();
            }
        }
        self.state.access_mut(&mut process).stack.end_reply();
        let wake = match ticket {
            Some(ticket) => self.complete_reply(&mut process, ticket, is_deferred),
            None => {
                let wake = self.queue_error(&mut process, Return::TransactionComplete);
                // As above.
                let _ = self.queue_kept_outcome(&mut process);
                wake
            }
        };
        wake.after(process, &self.process, WakeHint::Anywhere);
    }

    /// Records that a reply has failed whose completion is already queued. The thread reads the
    /// same completion, and its commands are stopped until then.
    #[cold]
    pub(crate) fn stop_until_completion(self: &Arc<Self>) {
        let mut process = self.process.state.lock();
        let state = self.state.access_mut(&mut process);
        state.completions.last = CompletionRead::StopsCommands;
        // It may be deferred, but an error is not.
        state.urgency = Urgency::Urgent;
        write_once(&self.has_unread_error, true);
    }

    /// Queues for the thread the error of its last command, and records the extended error. To be
    /// called with no lock held.
    pub(crate) fn queue_transaction_error(self: &Arc<Self>, id: u32, error: Failure) {
        let mut process = self.process.state.lock();
        self.state.access_mut(&mut process).set_error(id, error);
        self.queue_error_and_wake(process, error.return_code());
    }

    /// Queues for the thread the error of its last command, and releases the state lock.
    pub(crate) fn queue_error_and_wake(
        self: &Arc<Self>,
        mut process: StateGuard<'_>,
        answer: Return,
    ) {
        let wake = self.queue_error(&mut process, answer);
        wake.after(process, &self.process, WakeHint::Anywhere);
    }

    /// Queues a return code in the place that the thread has for those that must not fail. Commands
    /// behind it do not run before it has been read, so the place is free. Nobody reads it if the
    /// thread has ended.
    fn queue_error(self: &Arc<Self>, process: &mut ProcessState, answer: Return) -> ThreadWake<'_> {
        if self.name.has_ended() || self.error_place.is_used() {
            return ThreadWake::Nobody;
        }
        write_once(&self.has_unread_error, true);
        self.state.access_mut(process).unread_error = answer;
        process.push_to_thread(self, Work::Error(self.clone()))
    }
}
