// SPDX-License-Identifier: GPL-2.0

//! A thread of a process: its own work, the calls that it has made and serves, and how it rests.
//!
//! A record comes to be with the first command that needs one, and ends with `BINDER_THREAD_EXIT`
//! or with the process. Its state is guarded by the state lock of the process.

use crate::{
    common::{
        error::TransactionError,
        stats::{Counted, Kind}, //
    },
    defs::{ExtendedError, Return},
    kernel_ext::{park::WakeHint, pid::ThreadPid},
    process::{Pid, Process, ProcessState, StateGuard},
    pure::{
        call_stack::{CallStack, FrameId},
        priority_rules::{NodePriority, Priority}, //
    },
    scheduling::{idle::IdlePlace, priority},
    transaction::Transaction,
    work::{ThreadWake, Urgency, Work, WorkPosition, WorkQueue, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc,
        LockedBy, //
    }, //
};

/// A thread of a process.
pub(crate) struct Thread {
    /// The kernel's number for it, in the initial pid namespace.
    pub(crate) id: Pid,
    /// The process that it belongs to.
    pub(crate) process: Arc<Process>,
    /// Names the task, and does not keep it: a thread may exit without a word.
    task: ThreadPid,
    state: LockedBy<ThreadState, ProcessState>,
    /// Nothing can be queued for the thread any more. Set under the state lock.
    pub(crate) has_ended: AtomicFlag,
    /// A flush wants the thread back in user space, whatever it waits for.
    pub(crate) must_return: AtomicFlag,
    /// A refused command stops those behind it until the thread has read of the refusal. Only the
    /// thread itself looks at it.
    pub(crate) has_unread_error: AtomicFlag,
    _counted: Counted,
}

// With its count of references as much as the kernel's allocator gives before the next size, which is twice
// as much.
const _: () = assert!(size_of::<Thread>() <= 248);

/// What changes in the life of a thread.
pub(crate) struct ThreadState {
    pub(crate) looper: Looper,
    pub(crate) wait_state: WaitState,
    /// Its place among the idle threads, while it rests for any work.
    pub(crate) idle_place: IdlePlace<Thread>,
    /// What the thread was before whoever queued a call for it made it more urgent, until it takes
    /// that call.
    pub(crate) raised_from: Option<Priority>,
    /// Calls made and calls being served, the innermost last.
    pub(crate) stack: CallStack<KBox<Transaction>>,
    pub(crate) work: WorkQueue,
    /// Those in `work` that say that a call or a reply is on its way.
    pub(crate) completions: Completions,
    /// Calls that are [reserved](WaitState::Reserved) or in `work`, or have left it and are not yet on the
    /// stack.
    pub(crate) pending_calls: u32,
    /// Whether `work` holds something that ends a wait.
    pub(crate) is_work_urgent: bool,
    pub(crate) extended_error: ExtendedError,
    /// A transaction for the next call, so that it need not be allocated.
    pub(crate) spare_transaction: Option<KBox<Transaction>>,
    /// A place in the queue for the next answer, for the same reason.
    pub(crate) spare_ticket: Option<WorkTicket>,
    /// The place for an answer that must not fail for want of memory. Away while that answer is
    /// unread, and as long nothing is done that could need it again.
    error_ticket: Option<WorkTicket>,
}

/// What a thread waits for while it sleeps in the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitState {
    /// It does not sleep, or somebody has already been told to wake it.
    Awake,
    /// Its own work.
    ForOwnWork,
    /// Its own work or anything for the process; the thread is in the list of idle threads.
    ForAnyWork,
    /// A call that somebody is about to queue for it, who makes it more urgent before. Whatever else
    /// wakes it, it does not go on until that is done: else it could have served the call, and be
    /// what it was, before it is raised. As long it is in the driver, so it and its process do not end.
    Reserved,
}

/// What user space said of the thread's place in the pool.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looper {
    /// Joined because the driver asked for another thread.
    pub(crate) registered: bool,
    /// Joined on its own account.
    pub(crate) entered: bool,
    /// Watches the device with `poll`.
    pub(crate) polls: bool,
}

impl Looper {
    /// Whether the thread is one of the pool.
    pub(crate) fn is_in_pool(&self) -> bool {
        self.registered || self.entered
    }
}

/// The unread news that calls and replies of a thread are on their way.
///
/// They are queued early, for nothing may come before them. If the call or the reply fails after that,
/// the news are not searched for, but it is noted what became of them: they are the last ones, since a
/// failure stops the thread's commands until it has read of it.
pub(crate) struct Completions {
    unread: u32,
    last: Completion,
}

/// What becomes of the news that a call or a reply is on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// They are told.
    Delivered,
    /// They are told, and until then they stop commands: it was a reply, and failed (contract TXN-25).
    StopsCommands,
    /// They are not told: it was a call, and failed (contract TXN-19).
    Withdrawn,
}

impl Completions {
    /// One more is queued.
    #[inline]
    pub(crate) fn add(&mut self) {
        self.unread += 1;
    }

    /// What the one that was queued last was for has failed.
    pub(crate) fn fail(&mut self, last: Completion) {
        self.last = last;
    }

    /// The one that was queued first is read.
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

impl ThreadState {
    fn new(error_ticket: WorkTicket) -> Self {
        Self {
            looper: Looper::default(),
            wait_state: WaitState::Awake,
            idle_place: IdlePlace::default(),
            raised_from: None,
            stack: CallStack::new(),
            work: WorkQueue::numbered(),
            completions: Completions {
                unread: 0,
                last: Completion::Delivered,
            },
            pending_calls: 0,
            is_work_urgent: false,
            extended_error: ExtendedError::none(0),
            spare_transaction: None,
            spare_ticket: None,
            error_ticket: Some(error_ticket),
        }
    }

    /// Whether the thread is free for whatever comes for the process (contract POLL-3).
    pub(crate) fn is_available(&self) -> bool {
        self.stack.is_empty() && self.work.is_empty()
    }

    /// Takes the oldest work out of the thread's own queue.
    pub(crate) fn pop_work(&mut self) -> Option<(Work, WorkTicket)> {
        let popped = self.work.pop_front();
        if self.work.is_empty() {
            self.is_work_urgent = false;
        }
        popped
    }

    /// Takes work out of the thread's own queue, wherever it waits there. Gives its place; what waited there
    /// must not be a last reference.
    pub(crate) fn take_work(&mut self, position: &WorkPosition) -> Option<WorkTicket> {
        let taken = self.work.take(position);
        if self.work.is_empty() {
            self.is_work_urgent = false;
        }
        taken.map(|(_, ticket)| ticket)
    }

    /// Takes out what is ready for calls and answers, for a thread that ends: a call that it has made may keep
    /// its record for long. To be dropped without the lock.
    pub(crate) fn take_spares(&mut self) -> impl Sized {
        let tickets = (self.spare_ticket.take(), self.error_ticket.take());
        (self.spare_transaction.take(), tickets)
    }

    /// A refusal was read: its place is for the next one.
    pub(crate) fn put_error_ticket(&mut self, ticket: WorkTicket) {
        self.error_ticket = Some(ticket);
    }

    /// Queues work for the thread.
    #[inline]
    pub(crate) fn push_work(&mut self, ticket: WorkTicket, work: Work) {
        self.pending_calls += u32::from(matches!(work, Work::Call(_)));
        self.work.push_back(ticket, work);
    }

    /// A call that was to come is what the thread serves now. There has to be room on its stack.
    pub(crate) fn serve(&mut self, call: KBox<Transaction>) {
        self.pending_calls -= 1;
        self.stack.push_incoming(call);
    }

    /// Takes out the outcome of the thread's innermost call, if that is there, was waiting for the end of a
    /// call made in its course, and need wait no longer.
    #[inline]
    fn take_kept_outcome(&mut self) -> Option<KBox<Transaction>> {
        if self.pending_calls != 0 {
            return None;
        }
        self.stack.pop_ended()
    }

    /// Ends the innermost call made by the thread, if it is the one of this frame, and the thread need
    /// not reply to others before it hears of that.
    pub(crate) fn end_innermost_call(&mut self, frame: FrameId) -> bool {
        self.pending_calls == 0 && self.stack.pop_outgoing(frame)
    }

    /// Records why something failed, unless there is an unread record.
    pub(crate) fn set_error_if_none(&mut self, id: u32, error: TransactionError) {
        if self.extended_error.command == Return::Ok {
            self.set_error(id, error);
        }
    }

    /// Records why something failed.
    pub(crate) fn set_error(&mut self, id: u32, error: TransactionError) {
        self.extended_error = ExtendedError {
            id,
            command: error.return_code,
            param: error.param,
        };
    }
}

impl Thread {
    /// Makes the record of the calling task.
    pub(crate) fn new(process: &Arc<Process>) -> Result<Arc<Self>> {
        let state = ThreadState::new(WorkTicket::new(GFP_KERNEL)?);
        let thread = Self {
            id: current!().pid(),
            process: process.clone(),
            task: ThreadPid::current(),
            state: LockedBy::new(process.state_lock(), state),
            has_ended: AtomicFlag::new(false),
            must_return: AtomicFlag::new(false),
            has_unread_error: AtomicFlag::new(false),
            _counted: Counted::new(Kind::Thread),
        };
        Ok(Arc::new(thread, GFP_KERNEL)?)
    }

    /// The state, for whoever holds the state lock of the process.
    pub(crate) fn state<'a>(&'a self, process: &'a mut ProcessState) -> &'a mut ThreadState {
        self.state.access_mut(process)
    }

    /// Whether the thread makes or serves a call.
    pub(crate) fn is_calling(&self, process: &ProcessState) -> bool {
        self.state.access(process).stack.is_calling()
    }

    /// Whether this is the record of the calling task.
    pub(crate) fn is_current(&self) -> bool {
        self.task.is_current()
    }

    /// Whether the task will never use the device again, although the thread has not said so.
    pub(crate) fn is_exiting(&self) -> bool {
        self.task.is_exiting()
    }

    /// Makes the thread urgent enough to serve a call of `caller` on `node`, which is
    /// [reserved](WaitState::Reserved) to it. Gives what it was, if that changes it. No lock may be held.
    pub(crate) fn raise(&self, caller: Priority, node: &NodePriority) -> Option<Priority> {
        priority::raise_sleeper(&*self.task.task()?, caller, node)
    }

    /// Ends a promise: what was promised is queued under the same lock.
    pub(crate) fn end_reservation(
        &self,
        process: &mut ProcessState,
        raised_from: Option<Priority>,
    ) {
        let state = self.state(process);
        state.pending_calls -= 1;
        state.wait_state = WaitState::ForOwnWork;
        state.raised_from = raised_from;
    }

    /// Makes the thread runnable. To be called with no lock held.
    pub(crate) fn wake(&self, hint: WakeHint) {
        self.task.wake(hint);
    }

    /// Makes sure that the stack has room for one more frame.
    pub(crate) fn make_room_on_stack(&self) -> Result {
        let mut process = self.process.lock_state();
        let shortage = self.state(&mut process).stack.shortage()?;
        drop(process);
        let Some(shortage) = shortage else {
            return Ok(());
        };
        let room = shortage.allocate(GFP_KERNEL)?;
        let mut process = self.process.lock_state();
        // Only this thread makes its stack grow; others may have made room as they ended its calls.
        let unneeded = self.state(&mut process).stack.add_room(room);
        drop(process);
        drop(unneeded);
        Ok(())
    }

    /// Lets the thread read `answer` when it comes for work, in the place that the caller brings.
    pub(crate) fn queue_return_code(self: &Arc<Self>, ticket: WorkTicket, answer: Return) {
        self.push_and_wake(self.process.lock_state(), ticket, Work::ReturnCode(answer));
    }

    /// Lets the thread read of the outcome that was waiting for the end of a call it has served, if
    /// there is one and it need wait no longer. Says whom to wake for that.
    #[inline]
    pub(crate) fn queue_kept_outcome(self: &Arc<Self>, process: &mut ProcessState) -> ThreadWake {
        match self.state(process).take_kept_outcome() {
            None => ThreadWake::Nobody,
            Some(outcome) => self.queue_outcome(process, outcome),
        }
    }

    #[cold]
    fn queue_outcome(
        self: &Arc<Self>,
        process: &mut ProcessState,
        mut outcome: KBox<Transaction>,
    ) -> ThreadWake {
        // Present: a transaction that waits in no queue has it.
        match outcome.take_ticket() {
            Some(ticket) => {
                process.push_to_thread(self, ticket, Work::Outcome(outcome), Urgency::Now)
            }
            None => ThreadWake::Nobody,
        }
    }

    /// Lets the thread, which is replying, read that it is done with a call, in the place that it
    /// brings. Then it may hear of those below. Says whom to wake.
    #[inline(always)]
    pub(crate) fn complete_reply(
        self: &Arc<Self>,
        process: &mut ProcessState,
        ticket: WorkTicket,
    ) -> ThreadWake {
        self.state(process).completions.add();
        let wake = process.push_to_thread(self, ticket, Work::Completion, Urgency::Now);
        // Whoever is woken for the one is woken for the other.
        let _ = self.queue_kept_outcome(process);
        wake
    }

    /// Ends a reply that has been [begun](crate::pure::call_stack::CallStack::begin_reply). A reply that has
    /// failed stops the commands behind it like a refusal (contract WR-2).
    #[cold]
    pub(crate) fn end_reply(self: &Arc<Self>, has_failed: bool) {
        let mut process = self.process.lock_state();
        let mut ticket = None;
        if !has_failed {
            ticket = self.state(&mut process).spare_ticket.take();
            if ticket.is_none() {
                drop(process);
                ticket = WorkTicket::new(GFP_KERNEL).ok();
                process = self.process.lock_state();
            }
        }
        self.state(&mut process).stack.end_reply();
        let wake = match ticket {
            Some(ticket) => self.complete_reply(&mut process, ticket),
            None => {
                let wake = self.queue_error(&mut process, Return::TransactionComplete);
                // As above.
                let _ = self.queue_kept_outcome(&mut process);
                wake
            }
        };
        drop(process);
        wake.now(self, WakeHint::Anywhere);
    }

    /// The reply of which the thread was to hear that it is on its way has failed. It hears the same, and
    /// its commands stop until then.
    #[cold]
    pub(crate) fn stop_until_completion(self: &Arc<Self>) {
        let mut process = self.process.lock_state();
        let state = self.state(&mut process);
        state.completions.fail(Completion::StopsCommands);
        self.has_unread_error.store(true, Relaxed);
    }

    /// Lets the thread read that its last command was refused.
    pub(crate) fn fail(self: &Arc<Self>, id: u32, error: TransactionError) {
        let mut process = self.process.lock_state();
        self.state(&mut process).set_error(id, error);
        self.queue_error_and_wake(process, error.return_code);
    }

    /// Lets the thread read that there was no memory for its last command.
    pub(crate) fn queue_out_of_memory(self: &Arc<Self>) {
        self.queue_error_and_wake(self.process.lock_state(), Return::Error);
    }

    fn queue_error_and_wake(self: &Arc<Self>, mut process: StateGuard<'_>, answer: Return) {
        let wake = self.queue_error(&mut process, answer);
        drop(process);
        wake.now(self, WakeHint::Anywhere);
    }

    /// Queues an answer in the place that is kept for those that must not fail. Commands behind it
    /// do not run before it has been read, so it finds that place free.
    fn queue_error(self: &Arc<Self>, process: &mut ProcessState, answer: Return) -> ThreadWake {
        match self.state(process).error_ticket.take() {
            Some(ticket) => {
                self.has_unread_error.store(true, Relaxed);
                process.push_to_thread(self, ticket, Work::Error(answer), Urgency::Now)
            }
            None => ThreadWake::Nobody,
        }
    }

    fn push_and_wake(
        self: &Arc<Self>,
        mut process: StateGuard<'_>,
        ticket: WorkTicket,
        work: Work,
    ) {
        let wake = process.push_to_thread(self, ticket, work, Urgency::Now);
        drop(process);
        wake.now(self, WakeHint::Anywhere);
    }
}
