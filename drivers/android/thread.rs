// SPDX-License-Identifier: GPL-2.0

//! A thread of a process: its own work, the calls that it has made and serves, and how it rests.
//!
//! A record comes to be with the first command that needs one, and ends with `BINDER_THREAD_EXIT`
//! or with the process. Its state is guarded by the state lock of the process.

use crate::{
    defs::{ExtendedError, Return},
    error::Refusal,
    idle::IdlePlace,
    kernel_ext::{
        park::WakeHint,
        pid::ThreadPid, //
    },
    node::Node,
    priority,
    priority_rules::Priority,
    process::{Pid, Process, ProcessState, StateGuard},
    stats::{Counted, Kind},
    transaction::Transaction,
    work::{Urgency, Work, WorkPosition, WorkQueue, WorkTicket}, //
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
    pub(crate) has_unread_refusal: AtomicFlag,
    _counted: Counted,
}

/// What changes in the life of a thread.
pub(crate) struct ThreadState {
    pub(crate) looper: Looper,
    pub(crate) rest: Rest,
    /// Its place among the idle threads, while it rests for any work.
    pub(crate) idle_place: IdlePlace,
    /// What the thread was before whoever queued a call for it made it more urgent, until it takes
    /// that call.
    pub(crate) raised_from: Option<Priority>,
    /// Calls made and calls being served, the innermost last.
    pub(crate) stack: KVec<Frame>,
    pub(crate) work: WorkQueue,
    /// Calls that are in `work`, or have left it and are not yet on the stack.
    pub(crate) calls_to_come: u32,
    /// Whether `work` holds something that ends a wait.
    pub(crate) is_work_urgent: bool,
    pub(crate) extended_error: ExtendedError,
    /// A transaction for the next call, so that it need not be allocated.
    pub(crate) spare_transaction: Option<KBox<Transaction>>,
    /// A place in the queue for the next answer, for the same reason.
    pub(crate) spare_ticket: Option<WorkTicket>,
    /// The place for an answer that must not fail for want of memory. Away while that answer is
    /// unread, and as long nothing is done that could need it again.
    refusal_ticket: Option<WorkTicket>,
}

/// What a thread waits for while it sleeps in the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It does not sleep, or somebody has already been told to wake it.
    Awake,
    /// Its own work.
    ForOwnWork,
    /// Its own work or anything for the process; the thread is in the list of idle threads.
    ForAnyWork,
    /// A call that somebody is about to queue for it, who makes it more urgent before. Whatever else
    /// wakes it, it does not go on until that is done: else it could have served the call, and be
    /// what it was, before it is raised. As long it is in the driver, so it and its process do not end.
    Promised,
}

/// What user space said of the thread's place in the pool.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looper {
    /// Joined because the driver asked for another thread.
    pub(crate) registered: bool,
    /// Joined on its own account.
    pub(crate) entered: bool,
    /// Left.
    pub(crate) exited: bool,
    /// Said things that do not go together.
    pub(crate) invalid: bool,
    /// Watches the device with `poll`.
    pub(crate) polls: bool,
}

impl Looper {
    /// Whether the thread is one of the pool.
    pub(crate) fn is_in_pool(&self) -> bool {
        self.registered || self.entered
    }
}

/// One level of a thread's call stack.
pub(crate) enum Frame {
    /// A call that the thread made; the number is the transaction's debug id.
    Outgoing(u32),
    /// A call that the thread made and whose outcome came before it has replied to one made in the
    /// course of that: somebody in between died. It hears of this after its reply (contract TXN-26).
    Ended(KBox<Transaction>),
    /// A call that the thread serves.
    Incoming(KBox<Transaction>),
}

impl ThreadState {
    fn new(refusal_ticket: WorkTicket) -> Self {
        Self {
            looper: Looper::default(),
            rest: Rest::Awake,
            idle_place: IdlePlace::default(),
            raised_from: None,
            stack: KVec::new(),
            work: WorkQueue::numbered(),
            calls_to_come: 0,
            is_work_urgent: false,
            extended_error: ExtendedError::none(0),
            spare_transaction: None,
            spare_ticket: None,
            refusal_ticket: Some(refusal_ticket),
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

    /// A refusal was read: its place is for the next one.
    pub(crate) fn put_refusal_ticket(&mut self, ticket: WorkTicket) {
        self.refusal_ticket = Some(ticket);
    }

    /// The call that the thread serves, if that is what it does.
    pub(crate) fn pop_incoming(&mut self) -> Option<KBox<Transaction>> {
        match self.stack.pop() {
            Some(Frame::Incoming(transaction)) => Some(transaction),
            Some(frame) => {
                // There is room for what was taken out a moment ago.
                let _ = self.stack.push_within_capacity(frame);
                None
            }
            None => None,
        }
    }

    /// Queues work for the thread.
    #[inline]
    pub(crate) fn push_work(&mut self, ticket: WorkTicket, work: Work) {
        self.calls_to_come += u32::from(matches!(work, Work::Call(_)));
        self.work.push_back(ticket, work);
    }

    /// A call that was to come is what the thread serves now. There has to be room on its stack.
    pub(crate) fn serve(&mut self, call: KBox<Transaction>) {
        self.calls_to_come -= 1;
        let _ = self.stack.push_within_capacity(Frame::Incoming(call));
    }

    /// A call that was to come will not be on the stack: it is oneway, or was refused.
    pub(crate) fn forgo_call(&mut self) {
        self.calls_to_come -= 1;
        self.hear_of_ended_call();
    }

    /// Whether the outcome of the thread's innermost call is there and was waiting for the end of a call
    /// made in its course.
    pub(crate) fn has_ended_call(&self) -> bool {
        self.calls_to_come == 0 && matches!(self.stack.last(), Some(Frame::Ended(_)))
    }

    /// Lets the thread read of that outcome, if there is one.
    pub(crate) fn hear_of_ended_call(&mut self) {
        if !self.has_ended_call() {
            return;
        }
        if let Some(Frame::Ended(mut outcome)) = self.stack.pop() {
            // Present: a transaction that waits in no queue has it.
            if let Some(ticket) = outcome.take_ticket() {
                self.push_work(ticket, Work::Outcome(outcome));
                self.is_work_urgent = true;
            }
        }
    }

    /// Ends the innermost call made by the thread, if it is the one of this number, and the thread need
    /// not reply to others before it hears of that.
    pub(crate) fn end_innermost(&mut self, id: u32) -> bool {
        self.calls_to_come == 0 && self.pop_outgoing(id)
    }

    /// Takes the innermost call made by the thread off the stack, if it is the one of this number.
    pub(crate) fn pop_outgoing(&mut self, id: u32) -> bool {
        let is_top = matches!(self.stack.last(), Some(Frame::Outgoing(top)) if *top == id);
        if is_top {
            self.stack.pop();
        }
        is_top
    }

    /// The call being served while call `id` was made: who made it is the next one up the chain.
    pub(crate) fn served_during(&self, id: u32) -> Option<&Transaction> {
        match self
            .stack
            .get(self.place_of_outgoing(id)?.checked_sub(1)?)?
        {
            Frame::Incoming(transaction) => Some(transaction),
            Frame::Outgoing(_) | Frame::Ended(_) => None,
        }
    }

    /// The frame of call `id`, which need not be the innermost.
    pub(crate) fn outgoing(&mut self, id: u32) -> Option<&mut Frame> {
        let at = self.place_of_outgoing(id)?;
        self.stack.get_mut(at)
    }

    fn place_of_outgoing(&self, id: u32) -> Option<usize> {
        let is_it = |frame: &Frame| matches!(frame, Frame::Outgoing(outgoing) if *outgoing == id);
        self.stack.iter().position(is_it)
    }

    /// Records why something failed, unless there is an unread record.
    pub(crate) fn set_error_if_none(&mut self, id: u32, refusal: Refusal) {
        if self.extended_error.command == Return::Ok {
            self.set_error(id, refusal);
        }
    }

    /// Records why something failed.
    pub(crate) fn set_error(&mut self, id: u32, refusal: Refusal) {
        self.extended_error = ExtendedError {
            id,
            command: refusal.answer,
            param: refusal.param,
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
            has_unread_refusal: AtomicFlag::new(false),
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
        !self.state.access(process).stack.is_empty()
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
    /// [promised](Rest::Promised) to it. Gives what it was, if that changes it. No lock may be held.
    pub(crate) fn raise(&self, caller: Priority, node: &Node) -> Option<Priority> {
        priority::raise_sleeper(&*self.task.task()?, caller, node)
    }

    /// Ends a promise: what was promised is queued under the same lock.
    pub(crate) fn keep_promise(&self, process: &mut ProcessState, raised_from: Option<Priority>) {
        let state = self.state(process);
        state.rest = Rest::ForOwnWork;
        state.raised_from = raised_from;
    }

    /// Makes the thread runnable. To be called with no lock held.
    pub(crate) fn wake(&self, hint: WakeHint) {
        self.task.wake(hint);
    }

    /// Makes sure that the stack has room for one more frame.
    pub(crate) fn make_room_on_stack(&self) -> Result {
        let needed = {
            let mut process = self.process.lock_state();
            let stack = &self.state(&mut process).stack;
            if stack.len() < stack.capacity() {
                return Ok(());
            }
            stack.len() + 4
        };
        let mut roomier = KVec::with_capacity(needed, GFP_KERNEL)?;
        let mut process = self.process.lock_state();
        let stack = &mut self.state(&mut process).stack;
        for frame in stack.drain_all() {
            // Only this thread makes its stack grow, so all frames fit.
            let _ = roomier.push_within_capacity(frame);
        }
        core::mem::swap(stack, &mut roomier);
        drop(process);
        Ok(())
    }

    /// Lets the thread read `answer` when it comes for work.
    pub(crate) fn answer(self: &Arc<Self>, answer: Return) {
        let mut process = self.process.lock_state();
        let mut ticket = self.state(&mut process).spare_ticket.take();
        if ticket.is_none() {
            drop(process);
            ticket = WorkTicket::new(GFP_KERNEL).ok();
            process = self.process.lock_state();
        }
        match ticket {
            Some(ticket) => self.push_and_wake(process, ticket, Work::Answer(answer)),
            None => self.push_refusal(process, answer),
        }
    }

    /// The same, in a place that the caller brings.
    pub(crate) fn answer_with(self: &Arc<Self>, ticket: WorkTicket, answer: Return) {
        self.push_and_wake(self.process.lock_state(), ticket, Work::Answer(answer));
    }

    /// Lets the thread read of the outcome that was waiting for the end of the call it has served, if
    /// there is one.
    #[cold]
    pub(crate) fn hear_of_ended_call(&self) {
        let mut process = self.process.lock_state();
        self.state(&mut process).hear_of_ended_call();
    }

    /// Lets the thread read that its last command was refused.
    pub(crate) fn refuse(self: &Arc<Self>, id: u32, refusal: Refusal) {
        let mut process = self.process.lock_state();
        self.state(&mut process).set_error(id, refusal);
        self.push_refusal(process, refusal.answer);
    }

    /// Lets the thread read that there was no memory for its last command.
    pub(crate) fn lacks_memory(self: &Arc<Self>) {
        self.push_refusal(self.process.lock_state(), Return::Error);
    }

    /// Lets the thread read that it is done with a call, although its reply went wrong. Like a refusal
    /// that stops the commands behind it (contract WR-2). `is_told`: the same is queued already, as if
    /// all were well.
    pub(crate) fn end_with_failed_reply(self: &Arc<Self>, is_told: bool) {
        let mut process = self.process.lock_state();
        if is_told {
            let state = self.state(&mut process);
            let is_complete =
                |work: &Work| matches!(work, Work::Answer(Return::TransactionComplete));
            if let Some((_, ticket)) = state.work.take_last(is_complete) {
                state.spare_ticket = Some(ticket);
            }
        }
        self.push_refusal(process, Return::TransactionComplete);
    }

    /// Queues an answer in the place that is kept for those that must not fail. Commands behind it
    /// do not run before it has been read, so it finds that place free.
    fn push_refusal(self: &Arc<Self>, mut process: StateGuard<'_>, answer: Return) {
        if let Some(ticket) = self.state(&mut process).refusal_ticket.take() {
            self.has_unread_refusal.store(true, Relaxed);
            self.push_and_wake(process, ticket, Work::Refusal(answer));
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
