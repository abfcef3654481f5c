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
//! Nobody else has a pointer to it. The caller's stack has its number only, so whether a call still
//! has a caller is asked in one place, [`Transaction::return_to_caller`], under the caller's lock.
//! What a transaction holds on to depends on how far it came: that is [`Content`], and dropping it
//! undoes exactly that.

use crate::{
    allocation::Buffer,
    defs::{transaction_flags, ExtendedError, Return, Strength, TransactionRequest},
    error::Refusal,
    kernel_ext::park::WakeHint,
    node::{Node, NotInUse},
    process::{Pid, Process, ProcessState},
    range_alloc::CallKind,
    stats::{next_debug_id, Counted, Kind},
    thread::{Frame, Thread},
    translate::copy_in,
    work::{Urgency, Wake, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    security,
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
    content: Content,
    /// A place in whatever queue comes next; `None` while waiting in one.
    ticket: Option<WorkTicket>,
    _counted: Counted,
}

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
    /// A reply on its way back.
    Reply { buffer: Buffer },
    /// The news that there will be no reply.
    Refused(Refusal),
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
    fn new(caller: &Arc<Thread>) -> Result<KBox<Self>> {
        let transaction = Self {
            id: 0,
            code: 0,
            flags: 0,
            sender_euid: Kuid::current_euid(),
            caller: caller.clone(),
            content: Content::Empty,
            ticket: Some(WorkTicket::new(GFP_KERNEL)?),
            _counted: Counted::new(Kind::Transaction),
        };
        Ok(KBox::new(transaction, GFP_KERNEL)?)
    }

    /// Takes note of who sends what. The id stays that of the call while its reply is on its way.
    fn describe(&mut self, id: u32, request: &TransactionRequest) {
        self.id = id;
        self.code = request.code;
        self.flags = request.flags;
        self.sender_euid = Kuid::current_euid();
    }

    /// Whether nobody waits for a reply.
    fn is_oneway(&self) -> bool {
        self.flags & transaction_flags::ONE_WAY != 0
    }

    /// The node that is busy with another oneway call, if this one has to wait for that.
    fn node_to_wait_for(&self) -> Option<Arc<Node>> {
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

    /// Turns a draft into a call that counts for its node, if its target is still there.
    fn admit(&mut self, target: &mut ProcessState, route: Option<&Thread>) -> Result<(), Refusal> {
        let Content::Draft { node, .. } = &self.content else {
            return Err(Refusal::failed(EINVAL));
        };
        let is_route_gone = route.is_some_and(|thread| thread.has_ended.load(Relaxed));
        if node.owner.has_ended.load(Relaxed) || is_route_gone {
            return Err(Refusal::DIED);
        }
        node.begin_call(target)
            .map_err(|NotInUse| Refusal::failed(EINVAL))?;
        if let Content::Draft { node, buffer } = self.take_content() {
            self.content = if self.is_oneway() {
                let turn = node.take_turn(target);
                Content::Oneway { node, buffer, turn }
            } else {
                Content::Call { node, buffer }
            };
        }
        Ok(())
    }

    /// Puts the reply of the calling task into the transaction that it has served.
    fn fill_reply(
        &mut self,
        thread: &Arc<Thread>,
        request: &TransactionRequest,
    ) -> Result<(), Refusal> {
        let caller = &self.caller.process;
        // A reply is waited for, whatever its flags say (contract TXN-15).
        let mut buffer = caller.reserve_buffer(request, CallKind::Sync)?;
        let copied = copy_in(request, thread, caller, &mut buffer);
        self.content = Content::Reply { buffer };
        copied?;
        self.describe(self.id, request);
        Ok(())
    }

    /// The number of the process that made the call, as the calling task sees it; 0 when there is
    /// none, because it cannot see that process or the thread is gone (contract TXN-5).
    pub(crate) fn caller_pid(&self) -> Pid {
        if self.caller.has_ended.load(Relaxed) {
            return 0;
        }
        let leader = &self.caller.process.leader;
        leader.tgid_nr_ns(current!().active_pid_ns())
    }

    /// How far the transaction has come.
    pub(crate) fn content(&self) -> &Content {
        &self.content
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
    fn dismantle(&mut self) {
        match self.take_content() {
            Content::Empty | Content::Refused(_) => {}
            Content::Draft { node, buffer } => node.owner.give_back_buffer(buffer),
            Content::Call { node, buffer } => {
                node.owner.give_back_buffer(buffer);
                node.drop_local(Strength::Strong);
            }
            Content::Oneway { node, buffer, turn } => {
                node.owner.give_back_buffer(buffer);
                if turn == Turn::Taken {
                    node.end_oneway();
                }
                node.drop_local(Strength::Strong);
            }
            Content::Reply { buffer } => self.caller.process.give_back_buffer(buffer),
        }
    }

    /// Tells the caller that there will be no reply. Sleeps; no lock may be held.
    pub(crate) fn refuse(mut self: KBox<Self>, refusal: Refusal) {
        self.dismantle();
        self.content = Content::Refused(refusal);
        self.return_to_caller(None, WakeHint::Anywhere);
    }

    /// Gives the transaction, with a reply or a refusal in it, back to the thread that made the
    /// call; dismantles it if that thread does not wait for it any more.
    ///
    /// `error` is what the caller learns as extended error, if it has none unread.
    fn return_to_caller(mut self: KBox<Self>, error: Option<(u32, Refusal)>, hint: WakeHint) {
        let caller = self.caller.clone();
        let id = self.id;
        let mut process = caller.process.lock_state();
        let state = caller.state(&mut process);
        if caller.has_ended.load(Relaxed) || !state.pop_outgoing(id) {
            drop(process);
            self.dismantle();
            return;
        }
        if let Some((id, refusal)) = error {
            state.set_error_if_none(id, refusal);
        }
        // Present: a transaction is in no queue while it is owned.
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let wake = process.push_to_thread(&caller, ticket, Work::Outcome(self), Urgency::Now);
        drop(process);
        wake.now(&caller.process, hint);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.dismantle();
    }
}

/// Makes a call: `BC_TRANSACTION`. What goes wrong is told to the thread (contract TXN-1).
pub(crate) fn call(thread: &Arc<Thread>, request: &TransactionRequest, hint: WakeHint) {
    let id = next_debug_id();
    if let Err(refusal) = try_call(thread, request, id, hint) {
        thread.refuse(id, refusal);
    }
}

fn try_call(
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    id: u32,
    hint: WakeHint,
) -> Result<(), Refusal> {
    let node = find_target(&thread.process, request.handle)?;
    let target = node.owner.clone();
    let is_oneway = request.flags & transaction_flags::ONE_WAY != 0;
    let prepared = if is_oneway {
        begin_oneway(thread, id)
    } else {
        begin_call(thread, &target, id)?
    };
    let kind = if is_oneway {
        let sender = thread.process.leader.tgid();
        CallKind::Oneway { sender }
    } else {
        CallKind::Sync
    };
    let mut transaction = match prepared.transaction {
        Some(spare) => spare,
        None => Transaction::new(thread)?,
    };
    let ticket = match prepared.ticket {
        Some(spare) => spare,
        None => WorkTicket::new(GFP_KERNEL)?,
    };
    if !is_oneway && !prepared.has_room_on_stack {
        thread.make_room_on_stack()?;
    }

    let mut buffer = target.reserve_buffer(request, kind)?;
    let copied = copy_in(request, thread, &target, &mut buffer);
    transaction.content = Content::Draft { node, buffer };
    copied?;
    transaction.describe(id, request);
    if is_oneway {
        send_oneway(thread, transaction, ticket, &target)
    } else {
        let wake = send_call(thread, transaction, ticket, &target, prepared.route)?;
        wake.now(&target, hint);
        Ok(())
    }
}

/// Queues a call, after the thread has taken note that it waits for a reply. Gives who is to serve.
fn send_call(
    thread: &Arc<Thread>,
    transaction: KBox<Transaction>,
    ticket: WorkTicket,
    target: &Process,
    route: Option<Arc<Thread>>,
) -> Result<Wake, Refusal> {
    let id = transaction.id;
    expect_reply(thread, id, ticket);
    submit(transaction, target, route).map_err(|(unsent, refusal)| {
        drop(unsent);
        stop_expecting_reply(thread, id);
        refusal
    })
}

/// Queues a oneway call; that is all that its sender hears of it (contract TXN-16).
fn send_oneway(
    thread: &Arc<Thread>,
    transaction: KBox<Transaction>,
    ticket: WorkTicket,
    target: &Process,
) -> Result<(), Refusal> {
    let wake = submit(transaction, target, None).map_err(|(unsent, refusal)| {
        drop(unsent);
        refusal
    })?;
    wake.now(target, WakeHint::Anywhere);
    thread.answer_with(ticket, Return::TransactionComplete);
    Ok(())
}

/// The node that a call through `handle` is for.
fn find_target(caller: &Arc<Process>, handle: u32) -> Result<Arc<Node>, Refusal> {
    let node = if handle == 0 {
        let manager = caller.context.manager();
        let manager = manager.ok_or(Refusal::nobody(EINVAL))?;
        if manager.owner.leader.tgid() == caller.leader.tgid() {
            return Err(Refusal::failed(EINVAL));
        }
        manager
    } else {
        let node = caller.node_of_handle(handle, Strength::Strong);
        node.ok_or(Refusal::failed(EINVAL))?
    };
    if node.owner.has_ended.load(Relaxed) {
        return Err(Refusal::nobody(EINVAL));
    }
    if Arc::ptr_eq(&node.owner, caller) {
        return Err(Refusal::failed(EINVAL));
    }
    security::binder_transaction(&caller.credential, &node.owner.credential).map_err(|_| EPERM)?;
    Ok(node)
}

/// What a thread brings along for a call, so that nothing need be allocated.
struct Prepared {
    transaction: Option<KBox<Transaction>>,
    ticket: Option<WorkTicket>,
    has_room_on_stack: bool,
    /// The thread of the target that waits for this very chain of calls, if there is one.
    route: Option<Arc<Thread>>,
}

/// Checks that the thread may make a call now (contract TXN-10), and finds out who of the target
/// waits for it (TXN-11).
fn begin_call(thread: &Arc<Thread>, target: &Arc<Process>, id: u32) -> Result<Prepared, Refusal> {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.extended_error = ExtendedError::none(id);
    if matches!(state.work.front(), Some(Work::Call(_))) {
        return Err(Refusal::failed(EPROTO));
    }
    let link = match state.stack.last() {
        None => None,
        Some(Frame::Incoming(served)) => Some((served.caller.clone(), served.id)),
        Some(Frame::Outgoing(_)) => return Err(Refusal::failed(EPROTO)),
    };
    let transaction = state.spare_transaction.take();
    let ticket = state.spare_ticket.take();
    let has_room_on_stack = state.stack.len() < state.stack.capacity();
    drop(process);
    Ok(Prepared {
        transaction,
        ticket,
        has_room_on_stack,
        route: link.and_then(|link| find_waiting_thread(link, target)),
    })
}

/// The same for a oneway call, which may be made at any time and goes to whoever is free.
fn begin_oneway(thread: &Thread, id: u32) -> Prepared {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.extended_error = ExtendedError::none(id);
    Prepared {
        transaction: None,
        ticket: state.spare_ticket.take(),
        has_room_on_stack: false,
        route: None,
    }
}

/// Follows a chain of calls up, from a caller to whomever it serves itself meanwhile, until it meets
/// a thread of `target`.
fn find_waiting_thread(link: (Arc<Thread>, u32), target: &Arc<Process>) -> Option<Arc<Thread>> {
    let (mut caller, mut id) = link;
    while !Arc::ptr_eq(&caller.process, target) {
        let mut process = caller.process.lock_state();
        let served = caller.state(&mut process).served_during(id);
        let next = served.map(|served| (served.caller.clone(), served.id));
        drop(process);
        (caller, id) = next?;
    }
    (!caller.has_ended.load(Relaxed)).then_some(caller)
}

/// The caller's side of a call that is about to be queued.
fn expect_reply(thread: &Arc<Thread>, id: u32, ticket: WorkTicket) {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    // There is room: the caller made it, and only the thread itself makes its stack grow.
    let _ = state.stack.push_within_capacity(Frame::Outgoing(id));
    // Deferred: it is read together with what comes of the call (contract TXN-18).
    let complete = Work::Answer(Return::TransactionComplete);
    state.work.push_back(ticket, complete);
}

/// Undoes [`expect_reply`]: the call was not queued.
fn stop_expecting_reply(thread: &Arc<Thread>, id: u32) {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.pop_outgoing(id);
    let is_complete = |work: &Work| matches!(work, Work::Answer(Return::TransactionComplete));
    if let Some((_, ticket)) = state.work.take_last(is_complete) {
        state.spare_ticket = Some(ticket);
    }
}

/// Queues a draft at its target. Gives it back if the target cannot take it any more.
fn submit(
    mut transaction: KBox<Transaction>,
    target: &Process,
    route: Option<Arc<Thread>>,
) -> Result<Wake, (KBox<Transaction>, Refusal)> {
    let mut state = target.lock_state();
    if let Err(refusal) = transaction.admit(&mut state, route.as_deref()) {
        drop(state);
        return Err((transaction, refusal));
    }
    let wake = match transaction.ticket.take() {
        // A transaction that somebody owns waits nowhere, so its ticket is with it.
        None => Wake::Nobody,
        Some(ticket) => match (transaction.node_to_wait_for(), &route) {
            (Some(node), _) => {
                node.push_waiting_oneway(&mut state, ticket, transaction);
                Wake::Nobody
            }
            (None, Some(thread)) => {
                state.push_to_thread(thread, ticket, Work::Call(transaction), Urgency::Now)
            }
            (None, None) => state.push_to_process(ticket, Work::Call(transaction)),
        },
    };
    drop(state);
    Ok(wake)
}

/// Replies to the call that the thread serves: `BC_REPLY`.
///
/// Once there is such a call it has ended, whatever goes wrong with the reply: the caller hears of
/// that, and the thread itself that it is done (contract TXN-25).
pub(crate) fn reply(thread: &Arc<Thread>, request: &TransactionRequest, hint: WakeHint) {
    let id = next_debug_id();
    let served = {
        let mut process = thread.process.lock_state();
        let state = thread.state(&mut process);
        state.extended_error = ExtendedError::none(id);
        state.pop_incoming()
    };
    let Some(mut transaction) = served else {
        return thread.refuse(id, Refusal::failed(EPROTO));
    };
    let error = match transaction.fill_reply(thread, request) {
        Ok(()) => None,
        Err(refusal) => {
            transaction.dismantle();
            transaction.content = Content::Refused(refusal);
            Some((id, refusal))
        }
    };
    thread.answer(Return::TransactionComplete);
    transaction.return_to_caller(error, hint);
}
