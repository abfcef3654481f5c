// SPDX-License-Identifier: GPL-2.0

//! `BC_TRANSACTION` and `BC_REPLY`: how a call is made, and how it is answered.
//!
//! Both find out who is to get the data, reserve space there, copy the data straight into it, and
//! queue the transaction. A call that fails leaves nothing behind but the `BR_*` that its sender
//! reads; a reply that fails still ends the call.

use crate::{
    debug::note,
    defs::{transaction_flags, ExtendedError, Return, Strength, TransactionRequest},
    error::Refusal,
    ffi,
    freeze_state::Reception,
    kernel_ext::park::WakeHint,
    node::Node,
    priority,
    process::Process,
    range_alloc::CallKind,
    stats::next_debug_id,
    thread::{Frame, Thread, ThreadState},
    transaction::{Content, Transaction},
    translate::{copy_in, Route},
    work::{Urgency, Wake, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    security::{self, SecurityCtx},
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// Makes a call: `BC_TRANSACTION`. What goes wrong is told to the thread (contract TXN-1). `hint`
/// says where to wake whoever will serve it.
pub(crate) fn call(thread: &Arc<Thread>, request: &TransactionRequest, hint: WakeHint) {
    let id = next_debug_id();
    let called = match find_target(&thread.process, request.handle) {
        Err(refusal) => Err(refusal),
        Ok(node) if request.flags & transaction_flags::ONE_WAY != 0 => {
            call_oneway(thread, request, node, id)
        }
        Ok(node) => call_and_expect(thread, request, node, id, hint),
    };
    if let Err(refusal) = called {
        report("call", id, request, refusal);
        thread.refuse(id, refusal);
    }
}

/// Prints why a call or a reply does not go through.
fn report(what: &str, id: u32, request: &TransactionRequest, refusal: Refusal) {
    note!(
        FailedTransaction,
        "{what} {id} to handle {} with code {}, {} bytes and {} of offsets: {:#x}, {}",
        request.handle,
        request.code,
        request.data_size,
        request.offsets_size,
        refusal.answer.code(),
        refusal.param
    );
}

/// The node that a call through `handle` is for.
fn find_target(caller: &Arc<Process>, handle: u32) -> Result<Arc<Node>, Refusal> {
    let node = if handle == 0 {
        let manager = caller.context.manager();
        let manager = manager.ok_or(Refusal::nobody(EINVAL))?;
        if manager.owner.pid() == caller.pid() {
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
    let owner = node.owner.credential();
    let owner = owner.map_err(|_| Refusal::nobody(EINVAL))?;
    security::binder_transaction(&*caller.credential()?, &owner).map_err(|_| EPERM)?;
    drop(owner);
    Ok(node)
}

/// Makes a call for whose reply the thread will wait.
fn call_and_expect(
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    node: Arc<Node>,
    id: u32,
    hint: WakeHint,
) -> Result<(), Refusal> {
    let target = node.owner.clone();
    let prepared = begin_call(thread, &target, request, id)?;
    let route = prepared.route.clone();
    match prepare_call(thread, request, node, id, prepared)
        .and_then(|transaction| submit(transaction, &target, route.as_ref()))
    {
        Ok(submitted) => {
            submitted.wake.now(&target, hint);
            Ok(())
        }
        Err(refusal) => {
            stop_expecting_reply(thread, id);
            Err(refusal)
        }
    }
}

/// What a thread brings along for a call, so that nothing need be allocated.
struct Prepared {
    transaction: Option<KBox<Transaction>>,
    /// The place for the news that the call is on its way.
    completion: Completion,
    /// The thread of the target that waits for this very chain of calls, if there is one.
    route: Option<Arc<Thread>>,
}

/// Whether the caller has taken note that it waits for a reply.
enum Completion {
    Queued,
    NotQueued(Option<WorkTicket>),
}

/// Checks that the thread may make a call now (contract TXN-10), and finds out who of the target
/// waits for it (TXN-11).
fn begin_call(
    thread: &Arc<Thread>,
    target: &Arc<Process>,
    request: &TransactionRequest,
    id: u32,
) -> Result<Prepared, Refusal> {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.extended_error = ExtendedError::none(id);
    if matches!(state.work.front(), Some(Work::Call(_))) {
        return Err(Refusal::failed(EPROTO));
    }
    let link = match state.stack.last() {
        None => None,
        Some(Frame::Incoming(served)) => Some((served.caller.clone(), served.id)),
        Some(Frame::Outgoing(_) | Frame::Ended(_)) => return Err(Refusal::failed(EPROTO)),
    };
    let transaction = state.spare_transaction.take();
    let has_room_on_stack = state.stack.len() < state.stack.capacity();
    // News of nodes that the data names come before those of the call (contract NODE-7), and they
    // are yet to be found; without objects there are none.
    let completion = match state.spare_ticket.take() {
        Some(ticket) if has_room_on_stack && request.offsets_size == 0 => {
            expect_reply(state, id, ticket);
            Completion::Queued
        }
        ticket => Completion::NotQueued(ticket),
    };
    drop(process);
    Ok(Prepared {
        transaction,
        completion,
        route: link.and_then(|link| find_waiting_thread(link, target)),
    })
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

/// Puts the data of a call into its target, and takes note that the thread waits for the reply.
fn prepare_call(
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    node: Arc<Node>,
    id: u32,
    prepared: Prepared,
) -> Result<KBox<Transaction>, Refusal> {
    let mut transaction = match prepared.transaction {
        Some(spare) => spare,
        None => Transaction::new(thread)?,
    };
    fill(&mut transaction, thread, request, node, CallKind::Sync)?;
    transaction.describe(id, request);
    transaction.caller_priority = priority::current_priority();
    if let Completion::NotQueued(ticket) = prepared.completion {
        let ticket = match ticket {
            Some(spare) => spare,
            None => WorkTicket::new(GFP_KERNEL)?,
        };
        thread.make_room_on_stack()?;
        let mut process = thread.process.lock_state();
        expect_reply(thread.state(&mut process), id, ticket);
    }
    Ok(transaction)
}

/// Reserves a buffer in the node's owner and copies the data of a call into it.
fn fill(
    transaction: &mut Transaction,
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    node: Arc<Node>,
    kind: CallKind,
) -> Result<(), Refusal> {
    let context = if node.flags.wants_security_context() {
        Some(SecurityCtx::from_secid(
            thread.process.credential()?.get_secid(),
        )?)
    } else {
        None
    };
    let context = context.as_ref().map_or(&[][..], |c| c.as_bytes());
    let mut buffer = node.owner.reserve_buffer(request, context.len(), kind)?;
    let route = Route {
        sender: thread,
        receiver: &node.owner,
        accepts_files: node.flags.accepts_fds(),
    };
    let copied = copy_in(request, route, &mut buffer)
        .and_then(|()| Ok(node.owner.write_context(&buffer, context)?))
        .map_err(|refusal| node.owner.or_died(refusal));
    transaction.put_content(Content::Draft { node, buffer });
    copied
}

/// The caller's side of a call that is about to be queued. There has to be room on its stack.
fn expect_reply(state: &mut ThreadState, id: u32, ticket: WorkTicket) {
    let _ = state.stack.push_within_capacity(Frame::Outgoing(id));
    // Deferred: it is read together with what comes of the call (contract TXN-18).
    let complete = Work::Answer(Return::TransactionComplete);
    state.work.push_back(ticket, complete);
}

/// Undoes [`expect_reply`], if that was done: the call was not queued.
fn stop_expecting_reply(thread: &Arc<Thread>, id: u32) {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    if state.pop_outgoing(id) {
        let is_complete = |work: &Work| matches!(work, Work::Answer(Return::TransactionComplete));
        if let Some((_, ticket)) = state.work.take_last(is_complete) {
            state.spare_ticket = Some(ticket);
        }
    }
}

/// Makes a oneway call. It may be made at any time and goes to whoever is free; that it is queued is
/// all that its sender hears of it (contract TXN-16).
fn call_oneway(
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    node: Arc<Node>,
    id: u32,
) -> Result<(), Refusal> {
    let ticket = {
        let mut process = thread.process.lock_state();
        let state = thread.state(&mut process);
        state.extended_error = ExtendedError::none(id);
        state.spare_ticket.take()
    };
    let ticket = match ticket {
        Some(spare) => spare,
        None => WorkTicket::new(GFP_KERNEL)?,
    };
    let target = node.owner.clone();
    let mut transaction = Transaction::new(thread)?;
    let sender = thread.process.pid();
    let quota = ffi::limits().oneway_quota();
    let kind = CallKind::Oneway { sender, quota };
    fill(&mut transaction, thread, request, node, kind)?;
    transaction.describe(id, request);
    let acknowledgement = transaction.acknowledgement();
    let submitted = submit(transaction, &target, None)?;
    submitted.wake.now(&target, WakeHint::Anywhere);
    let answer = match submitted.reception {
        Reception::Pending => Return::TransactionPendingFrozen,
        Reception::Taken | Reception::Refused => acknowledgement,
    };
    thread.answer_with(ticket, answer);
    Ok(())
}

/// What remains to be done for a call that is queued.
struct Submitted {
    wake: Wake,
    /// Whether it may have to wait until its target is thawed.
    reception: Reception,
}

/// Queues a draft at its target, for the thread that `route` names or for whichever comes. A draft
/// that the target cannot take any more is undone.
fn submit(
    mut transaction: KBox<Transaction>,
    target: &Process,
    route: Option<&Arc<Thread>>,
) -> Result<Submitted, Refusal> {
    let mut state = target.lock_state();
    let reception = match transaction.admit(&mut state, route.map(|thread| &**thread)) {
        Ok(reception) => reception,
        Err(refusal) => {
            drop(state);
            return Err(refusal);
        }
    };
    // A transaction that somebody owns waits nowhere, so its ticket is with it.
    let Some(ticket) = transaction.take_ticket() else {
        drop(state);
        return Err(Refusal::failed(EINVAL));
    };
    if let Some(node) = transaction.node_to_wait_for() {
        let superseded = match reception {
            Reception::Pending => node.take_superseded(&mut state, &transaction),
            Reception::Taken | Reception::Refused => None,
        };
        node.push_waiting_oneway(&mut state, ticket, transaction);
        drop(state);
        drop(superseded);
        let wake = Wake::Nobody;
        return Ok(Submitted { wake, reception });
    }
    let promised_to = transaction.promise(&mut state, route);
    if let Some(server) = &promised_to {
        drop(state);
        let raised_from = transaction.raise(server);
        state = target.lock_state();
        server.keep_promise(&mut state, raised_from);
    }
    let is_oneway = transaction.is_oneway();
    let call = Work::Call(transaction);
    let wake = match promised_to.as_ref().or(route) {
        None if is_oneway => state.push_to_process(ticket, call),
        None => state.push_call(ticket, call),
        Some(thread) => state
            .push_to_thread(thread, ticket, call, Urgency::Now)
            .of(thread),
    };
    drop(state);
    if promised_to.is_some() {
        target.promises.notify_all();
    }
    Ok(Submitted { wake, reception })
}

/// Replies to the call that the thread serves: `BC_REPLY`.
///
/// Once there is such a call it has ended, whatever goes wrong with the reply: the caller hears of
/// that, and the thread itself that it is done (contract TXN-25).
pub(crate) fn reply(thread: &Arc<Thread>, request: &TransactionRequest, hint: WakeHint) {
    let id = next_debug_id();
    let Some(EndedCall {
        mut transaction,
        is_told,
        has_outer_ended,
    }) = end_call(thread, request, id)
    else {
        let refusal = Refusal::failed(EPROTO);
        report("reply", id, request, refusal);
        return thread.refuse(id, refusal);
    };
    let error = match fill_reply(&mut transaction, thread, request) {
        Ok(()) => None,
        Err(refusal) => {
            report("reply", id, request, refusal);
            transaction.dismantle();
            transaction.put_content(Content::Refused(refusal));
            Some((id, refusal))
        }
    };
    match error {
        None if is_told => {}
        None => thread.answer(Return::TransactionComplete),
        Some(_) => thread.end_with_failed_reply(is_told),
    }
    let saved_priority = transaction.saved_priority;
    transaction.return_to_caller(error, hint);
    // Only now: until the caller runs, the thread is what it waits for.
    if let Some(saved) = saved_priority.get() {
        priority::end_service(saved);
    }
    if has_outer_ended {
        thread.hear_of_ended_call();
    }
}

/// A call that the thread has served.
struct EndedCall {
    transaction: KBox<Transaction>,
    /// Whether the thread was told already that its reply is on its way; as with calls, news of nodes
    /// come first.
    is_told: bool,
    /// Whether the call in whose course this one was made has an outcome already.
    has_outer_ended: bool,
}

/// Takes the call that the thread serves off its stack.
fn end_call(thread: &Arc<Thread>, request: &TransactionRequest, id: u32) -> Option<EndedCall> {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.extended_error = ExtendedError::none(id);
    let transaction = state.pop_incoming()?;
    let has_outer_ended = state.has_ended_call();
    let ticket = match request.offsets_size {
        0 => state.spare_ticket.take(),
        _ => None,
    };
    let is_told = ticket.is_some();
    if let Some(ticket) = ticket {
        // The thread is running, so nobody need be woken.
        let complete = Work::Answer(Return::TransactionComplete);
        state.work.push_back(ticket, complete);
        state.is_work_urgent = true;
    }
    let freezers = process.freeze.end_transaction();
    drop(process);
    freezers.now(&thread.process);
    Some(EndedCall {
        transaction,
        is_told,
        has_outer_ended,
    })
}

/// Puts the reply of the calling task into the transaction that it has served.
fn fill_reply(
    transaction: &mut Transaction,
    thread: &Arc<Thread>,
    request: &TransactionRequest,
) -> Result<(), Refusal> {
    if transaction.caller.has_ended.load(Relaxed) {
        return Err(Refusal::DIED);
    }
    let caller = &transaction.caller.process;
    // A reply is waited for, whatever its flags say (contract TXN-15).
    let mut buffer = caller.reserve_buffer(request, 0, CallKind::Sync)?;
    let route = Route {
        sender: thread,
        receiver: caller,
        accepts_files: transaction.flags & transaction_flags::ACCEPT_FDS != 0,
    };
    let copied = copy_in(request, route, &mut buffer).map_err(|refusal| caller.or_died(refusal));
    let is_queued = false;
    transaction.put_content(Content::Reply { buffer, is_queued });
    copied?;
    transaction.describe(transaction.id, request);
    Ok(())
}
