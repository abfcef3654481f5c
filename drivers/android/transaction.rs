// SPDX-License-Identifier: GPL-2.0

//! One call, from the thread that makes it to the one that serves it and back.
//!
//! A [`Transaction`] has one owner at any time, and moves:
//!
//! ```text
//!   caller's spare ──► draft ──► queue of the target ──► stack of the serving thread
//!         ▲              │             │                          │
//!         │              │             │ target ends              │ BC_REPLY, or the thread ends
//!         └── outcome ◄──┴─────────────┴───── caller's queue ◄────┘
//! ```
//!
//! Nobody else has a pointer to it. The caller's stack has a frame for it, whose place the transaction
//! knows; whether a call still has a caller is asked in one place, [`Transaction::return_to_caller`],
//! under the caller's lock.
//! What a transaction holds on to depends on how far it came: that is [`Content`], and dropping it
//! undoes exactly that.

use crate::{
    allocation::Buffer,
    common::{
        debug::binder_debug,
        error::TransactionError,
        stats::{Counted, Kind}, //
    },
    defs::{transaction_flags, Return, TransactionRequest},
    kernel_ext::park::WakeHint,
    node::Node,
    process::{Pid, ProcessState, StateGuard},
    pure::{
        call_stack::FrameId,
        freeze_state::Admission,
        node_counts::Uncounted,
        priority_rules::{Priority, SavedPriority}, //
    },
    thread::Thread,
    work::{Urgency, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    task::Kuid, //
};

/// A call from one thread to another process.
pub(crate) struct Transaction {
    /// Unique among transactions, nodes and refs.
    pub(crate) id: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    /// Effective user of the task that sent what is in the buffer.
    pub(crate) sender_euid: Kuid,
    /// The thread that made the call.
    pub(crate) caller: Arc<Thread>,
    /// How that was scheduled when it made the call.
    pub(crate) caller_priority: Priority,
    /// How the thread that serves the call was scheduled before; none until that begins to change.
    pub(crate) saved_priority: SavedPriority,
    content: Content,
    /// A place in whatever queue comes next; `None` while waiting in one.
    ticket: Option<WorkTicket>,
    /// The frame of a call on its caller's stack; in two fields, for the room that it takes.
    frame_serial: u64,
    frame_place: u32,
    _counted: Counted,
}

// As much as the kernel's allocator gives before the next size, which is half as much again.
const _: () = assert!(size_of::<Transaction>() <= 128);

/// How far a transaction has come, and what it holds on to.
pub(crate) enum Content {
    /// Nothing: not in use, or delivered and being served.
    Empty,
    /// A call that is not queued yet.
    Draft { node: Arc<Node>, buffer: Buffer },
    /// A call that is queued; its node is in use.
    Call { node: Arc<Node>, buffer: Buffer },
    /// A oneway call that is queued; its node is in use, and busy with it unless it has to wait.
    Oneway {
        node: Arc<Node>,
        buffer: Buffer,
        turn: Turn,
    },
    /// A reply on its way back, and whether it is queued at the caller.
    Reply { buffer: Buffer, is_queued: bool },
    /// The news that there will be no reply.
    Failed(TransactionError),
}

impl Content {
    /// Drops it.
    #[cold]
    fn free(self) {}
}

/// A thread that was seen to wait for the outcome of a call.
pub(crate) struct Waiter {
    pub(crate) thread: Arc<Thread>,
    pub(crate) frame: FrameId,
}

impl Waiter {
    /// Whether the thread still waits, for whoever holds the state lock of its process.
    pub(crate) fn waits(&self, process: &mut ProcessState) -> bool {
        self.thread.state(process).stack.waits_for(self.frame)
    }

    /// Who waits for a reply to what the thread served when it made the call: the next one up the
    /// chain of calls.
    pub(crate) fn next_up(&self) -> Option<Self> {
        let mut process = self.thread.process.lock_state();
        let served = self
            .thread
            .state(&mut process)
            .stack
            .served_during(self.frame);
        served.map(|served| served.waiter())
    }
}

/// Whether a oneway call is the one that its node is busy with (contract TXN-22).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is, until its buffer is freed.
    Taken,
    /// It stands in line behind another.
    Awaited,
}

impl Transaction {
    /// Makes one for calls of this thread.
    pub(crate) fn new(caller: &Arc<Thread>) -> Result<KBox<Self>> {
        let transaction = Self {
            id: 0,
            code: 0,
            flags: 0,
            sender_euid: Kuid::current_euid(),
            caller: caller.clone(),
            caller_priority: Priority::default(),
            saved_priority: SavedPriority::NONE,
            content: Content::Empty,
            ticket: Some(WorkTicket::new(GFP_KERNEL)?),
            frame_serial: FrameId::NONE.serial,
            frame_place: FrameId::NONE.place,
            _counted: Counted::new(Kind::Transaction),
        };
        Ok(KBox::new(transaction, GFP_KERNEL)?)
    }

    /// Takes note of who sends what. The id stays that of the call while its reply is on its way.
    pub(crate) fn describe(&mut self, id: u32, request: &TransactionRequest) {
        self.id = id;
        self.code = request.code;
        self.flags = request.flags;
        self.sender_euid = Kuid::current_euid();
    }

    /// Takes note of the frame that the call has on its caller's stack.
    pub(crate) fn set_frame(&mut self, frame: FrameId) {
        self.frame_serial = frame.serial;
        self.frame_place = frame.place;
    }

    /// The frame that the call has on its caller's stack.
    pub(crate) fn frame(&self) -> FrameId {
        FrameId {
            place: self.frame_place,
            serial: self.frame_serial,
        }
    }

    /// Who waits for the outcome.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter {
            thread: self.caller.clone(),
            frame: self.frame(),
        }
    }

    /// Whether nobody waits for a reply.
    pub(crate) fn is_oneway(&self) -> bool {
        self.flags & transaction_flags::ONE_WAY != 0
    }

    /// What the sender of a oneway draft hears once it is queued (contract TXN-16).
    pub(crate) fn acknowledgement(&self) -> Return {
        match &self.content {
            Content::Draft { buffer, .. } if buffer.is_spam_suspect => Return::OnewaySpamSuspect,
            _ => Return::TransactionComplete,
        }
    }

    /// Whether this oneway call may take the place of one that waits.
    pub(crate) fn may_supersede(&self) -> bool {
        self.flags & transaction_flags::UPDATE_TXN != 0
    }

    /// Whether `newer`, for the same node, says what this oneway call was to say and is to take its
    /// place (contract TXN-23).
    pub(crate) fn is_superseded_by(&self, newer: &Self) -> bool {
        let both = transaction_flags::ONE_WAY | transaction_flags::UPDATE_TXN;
        self.flags & both == both
            && self.flags == newer.flags
            && self.code == newer.code
            && self.caller.process.group == newer.caller.process.group
    }

    /// The node that is busy with another oneway call, if this one has to wait for that.
    pub(crate) fn node_to_wait_for(&self) -> Option<Arc<Node>> {
        match &self.content {
            Content::Oneway {
                node,
                turn: Turn::Awaited,
                ..
            } => Some(node.clone()),
            _ => None,
        }
    }

    /// The oneway call that its node was busy with has ended: it is this one's turn.
    pub(crate) fn take_turn(&mut self) {
        if let Content::Oneway { turn, .. } = &mut self.content {
            *turn = Turn::Taken;
        }
    }

    /// Turns a draft into a call that counts for its target and its node, if the target is still there
    /// and takes it. Says whether it may have to wait until the target is thawed.
    pub(crate) fn admit(
        &mut self,
        target: &mut ProcessState,
        route: Option<&Thread>,
    ) -> Result<Admission, TransactionError> {
        let Content::Draft { node, .. } = &self.content else {
            return Err(TransactionError::failed(EINVAL));
        };
        let admission = target.freeze.admit(self.is_oneway());
        if admission == Admission::Rejected {
            return Err(TransactionError::FROZEN);
        }
        let is_route_gone = route.is_some_and(|thread| thread.has_ended.load(Relaxed));
        if node.owner.has_ended.load(Relaxed) || is_route_gone {
            return Err(TransactionError::DIED);
        }
        node.begin_call(target)
            .map_err(|Uncounted| TransactionError::failed(EINVAL))?;
        target.freeze.add_transaction();
        if let Content::Draft { node, buffer } = self.take_content() {
            let content = if self.is_oneway() {
                let turn = node.take_turn(target);
                Content::Oneway { node, buffer, turn }
            } else {
                Content::Call { node, buffer }
            };
            self.put_content(content);
        }
        Ok(admission)
    }

    /// The thread that is going to be given this call and has to be made more urgent before, if one
    /// sleeps that will be: the call is promised to it from here on. Threads that share the CPU with
    /// others are left to themselves, for they differ by little.
    pub(crate) fn reserve_thread(
        &self,
        target: &mut ProcessState,
        route: Option<&Arc<Thread>>,
    ) -> Option<Arc<Thread>> {
        let Content::Call { node, .. } = &self.content else {
            return None;
        };
        if node.priority.is_served_as_sharing(self.caller_priority) {
            return None;
        }
        // Under the lock it is not the last reference: the list or the caller has another.
        let server = route.or(target.newest_idle.as_ref())?.clone();
        if !target.reserve_thread(&server) {
            return None;
        }
        // What ends meanwhile of the calls that the thread waits for, it hears of after this one.
        server.state(target).pending_calls += 1;
        Some(server)
    }

    /// Makes the thread to whom the call is promised as urgent as serving it asks for.
    pub(crate) fn raise(&self, server: &Thread) -> Option<Priority> {
        match &self.content {
            Content::Call { node, .. } => server.raise(self.caller_priority, &node.priority),
            _ => None,
        }
    }

    /// The number of the process that made the call, as the calling task sees it; 0 when there is
    /// none, because it cannot see that process or the thread is gone (contract TXN-5).
    pub(crate) fn caller_pid(&self) -> Pid {
        if self.caller.has_ended.load(Relaxed) {
            return 0;
        }
        self.caller.process.group.number_for_current()
    }

    /// Gives an unused transaction something to hold on to.
    #[inline]
    pub(crate) fn put_content(&mut self, content: Content) {
        let replaced = core::mem::replace(&mut self.content, content);
        if matches!(replaced, Content::Empty) {
            // There is nothing to drop, which the compiler would call somebody to find out.
            core::mem::forget(replaced);
        } else {
            replaced.free();
        }
    }

    /// Takes the transaction's place in whatever queue comes next.
    pub(crate) fn take_ticket(&mut self) -> Option<WorkTicket> {
        self.ticket.take()
    }

    /// How far the transaction has come.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// What is to be delivered, if there is anything.
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match &self.content {
            Content::Draft { buffer, .. }
            | Content::Call { buffer, .. }
            | Content::Oneway { buffer, .. }
            | Content::Reply { buffer, .. } => Some(buffer),
            Content::Empty | Content::Failed(_) => None,
        }
    }

    /// Takes out what the transaction holds on to, to hand it on.
    pub(crate) fn take_content(&mut self) -> Content {
        core::mem::replace(&mut self.content, Content::Empty)
    }

    /// The transaction left a queue: its place in the next one.
    pub(crate) fn put_ticket(&mut self, ticket: WorkTicket) {
        self.ticket = Some(ticket);
    }

    /// Undoes whatever the transaction holds on to. Sleeps; no lock may be held.
    pub(crate) fn release_content(&mut self) {
        match self.take_content() {
            Content::Empty | Content::Failed(_) => {}
            Content::Draft { node, buffer } => node.owner.give_back_buffer(buffer),
            Content::Call { node, buffer } => {
                node.owner.give_back_buffer(buffer);
                node.end_call();
            }
            Content::Oneway { node, buffer, turn } => {
                node.owner.give_back_buffer(buffer);
                if turn == Turn::Taken {
                    node.end_oneway();
                }
                node.end_call();
            }
            Content::Reply { buffer, is_queued } => {
                let process = &self.caller.process;
                process.give_back_buffer(buffer);
                if is_queued {
                    process.end_transaction();
                }
            }
        }
    }

    /// Tells the caller that there will be no reply. Sleeps; no lock may be held.
    pub(crate) fn fail(mut self: KBox<Self>, error: TransactionError) {
        self.release_content();
        self.content = Content::Failed(error);
        self.return_to_caller(None, WakeHint::Anywhere);
    }

    /// Gives the transaction, with a reply or a refusal in it, back to the thread that made the
    /// call; dismantles it if that thread does not wait for it any more.
    ///
    /// `error` is what the caller learns as extended error, if it has none unread.
    pub(crate) fn return_to_caller(
        mut self: KBox<Self>,
        error: Option<(u32, TransactionError)>,
        hint: WakeHint,
    ) {
        let caller = self.caller.clone();
        let mut process = caller.process.lock_state();
        let state = caller.state(&mut process);
        if caller.has_ended.load(Relaxed) || !state.end_innermost_call(self.frame()) {
            return self.return_to_outer_call(process, &caller);
        }
        if let Some((id, error)) = error {
            state.set_error_if_none(id, error);
        }
        // Present: a transaction is in no queue while it is owned.
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        self.count_as_queued(&mut process);
        let wake = process.push_to_thread(&caller, ticket, Work::Outcome(self), Urgency::Now);
        drop(process);
        wake.now(&caller, hint);
    }

    /// The same when there is a call for the thread, made in the course of this one: it hears of this one
    /// when it has replied to that. Or the thread does not wait for this one any more.
    #[cold]
    fn return_to_outer_call(mut self: KBox<Self>, mut process: StateGuard<'_>, caller: &Thread) {
        self.count_as_queued(&mut process);
        let stack = &mut caller.state(&mut process).stack;
        let frame = self.frame();
        // An ended thread takes its frames off, and looks into none but those of calls that it serves.
        let kept = match caller.has_ended.load(Relaxed) {
            false => stack.keep_outcome(frame, self),
            true => Err(self),
        };
        let Err(mut unwanted) = kept else {
            return;
        };
        drop(process);
        binder_debug!(
            DeadTransaction,
            "nobody waits for the reply to call {}",
            unwanted.id
        );
        unwanted.release_content();
    }

    /// A reply is one of the calls that are on their way to a process, until its caller has it.
    fn count_as_queued(&mut self, process: &mut ProcessState) {
        if let Content::Reply { is_queued, .. } = &mut self.content {
            *is_queued = true;
            process.freeze.add_transaction();
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.release_content();
    }
}
