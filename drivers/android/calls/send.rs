// SPDX-License-Identifier: GPL-2.0

//! `BC_TRANSACTION` and `BC_REPLY`: how a call is made, and how it is answered.
//!
//! Both find out who is to get the data, reserve space there, copy the data straight into it, and
//! queue the transaction. A call that fails leaves nothing behind but the `BR_*` that its sender
//! reads; a reply that fails still ends the call.

use crate::{
    calls::{
        sender::Sender,
        translate::{copy_in, Route}, //
    },
    common::{debug::binder_debug, error::TransactionError, limits::limits, stats::next_debug_id},
    defs::{transaction_flags, ExtendedError, Return, Strength, TransactionRequest},
    kernel_ext::park::WakeHint,
    node::Node,
    process::Process,
    pure::{
        call_stack::{Frame, FrameId},
        freeze_state::Admission, //
    },
    range_alloc::CallKind,
    scheduling::priority,
    thread::{Completion, Thread, ThreadState},
    transaction::{Content, Transaction, Waiter},
    work::{ThreadWake, Urgency, Wake, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    security::{self, SecurityCtx},
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// Makes a call: `BC_TRANSACTION`. What goes wrong is told to the thread (contract TXN-1).
pub(crate) fn call(sender: &Sender<'_>, request: &TransactionRequest) {
    let thread = sender.thread;
    let id = next_debug_id();
    let called = match find_target(sender, request.handle) {
        Err(error) => Err(error),
        Ok(node) if request.flags & transaction_flags::ONE_WAY != 0 => {
            call_oneway(sender, request, node, id)
        }
        Ok(node) => call_and_expect(sender, request, node, id),
    };
    if let Err(error) = called {
        report("call", id, request, error);
        thread.fail(id, error);
    }
}

/// Prints why a call or a reply does not go through.
fn report(what: &str, id: u32, request: &TransactionRequest, error: TransactionError) {
    binder_debug!(
        FailedTransaction,
        "{what} {id} to handle {} with code {}, {} bytes and {} of offsets: {:#x}, {}",
        request.handle,
        request.code,
        request.data_size,
        request.offsets_size,
        error.return_code.code(),
        error.param
    );
}

/// The node that a call through `handle` is for.
fn find_target(sender: &Sender<'_>, handle: u32) -> Result<Arc<Node>, TransactionError> {
    let caller = &sender.thread.process;
    let node = if handle == 0 {
        let manager = caller.context.manager();
        let manager = manager.ok_or(TransactionError::dead(EINVAL))?;
        if manager.owner.group == caller.group {
            return Err(TransactionError::failed(EINVAL));
        }
        manager
    } else {
        let node = caller.node_of_handle(handle, Strength::Strong);
        node.ok_or(TransactionError::failed(EINVAL))?
    };
    if node.owner.has_ended.load(Relaxed) {
        return Err(TransactionError::dead(EINVAL));
    }
    if Arc::ptr_eq(&node.owner, caller) {
        return Err(TransactionError::failed(EINVAL));
    }
    let owner = node.owner.credential();
    let owner = owner.map_err(|_| TransactionError::DIED)?;
    security::binder_transaction(sender.credential, &owner).map_err(|_| EPERM)?;
    drop(owner);
    Ok(node)
}

/// Makes a call for whose reply the thread will wait.
fn call_and_expect(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    id: u32,
) -> Result<(), TransactionError> {
    let thread = sender.thread;
    let target = node.owner.clone();
    let Begun {
        transaction,
        mut expectation,
        route,
    } = begin_call(thread, &target, request, id)?;
    match prepare_call(sender, request, node, id, transaction, &mut expectation)
        .and_then(|transaction| submit(transaction, &target, route.as_ref()))
    {
        Ok(submitted) => {
            submitted.wake.now(&target, sender.hint);
            Ok(())
        }
        Err(error) => {
            stop_expecting_reply(thread, &expectation);
            Err(error)
        }
    }
}

/// A call whose data are yet to be copied.
struct Begun {
    /// What the thread has for it, so that it need not be allocated.
    transaction: Option<KBox<Transaction>>,
    expectation: Expectation,
    /// The thread of the target that waits for this very chain of calls, if there is one.
    route: Option<Waiter>,
}

/// Whether the caller has taken note that it waits for a reply.
enum Expectation {
    /// It has, in this frame.
    Noted(FrameId),
    /// Not yet; the place for the news that the call is on its way.
    ToBeNoted(Option<WorkTicket>),
}

/// Checks that the thread may make a call now (contract TXN-10), and finds out who of the target
/// waits for it (TXN-11).
fn begin_call(
    thread: &Arc<Thread>,
    target: &Arc<Process>,
    request: &TransactionRequest,
    id: u32,
) -> Result<Begun, TransactionError> {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.extended_error = ExtendedError::none(id);
    if matches!(state.work.front(), Some(Work::Call(_))) {
        return Err(TransactionError::failed(EPROTO));
    }
    let caller = match state.stack.innermost() {
        None => None,
        Some(Frame::Incoming(served)) => Some(served.waiter()),
        Some(_) => return Err(TransactionError::failed(EPROTO)),
    };
    let transaction = state.spare_transaction.take();
    // News of nodes that the data names come before those of the call (contract NODE-7), and they
    // are yet to be found; without objects there are none.
    let expectation = match state.spare_ticket.take() {
        Some(ticket) if state.stack.has_room() && request.offsets_size == 0 => {
            Expectation::Noted(expect_reply(state, ticket))
        }
        ticket => Expectation::ToBeNoted(ticket),
    };
    drop(process);
    Ok(Begun {
        transaction,
        expectation,
        route: caller.and_then(|caller| find_waiting_thread(caller, target)),
    })
}

/// Follows a chain of calls up, from a caller to whomever it serves itself meanwhile, until it meets
/// a thread of `target`. No lock is held for longer than a step, so the thread may hear of its call
/// before it is given this one: whoever does that asks again.
fn find_waiting_thread(mut caller: Waiter, target: &Arc<Process>) -> Option<Waiter> {
    while !Arc::ptr_eq(&caller.thread.process, target) {
        caller = caller.next_up()?;
    }
    (!caller.thread.has_ended.load(Relaxed)).then_some(caller)
}

/// Puts the data of a call into its target, and takes note that the thread waits for the reply.
fn prepare_call(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    id: u32,
    transaction: Option<KBox<Transaction>>,
    expectation: &mut Expectation,
) -> Result<KBox<Transaction>, TransactionError> {
    let thread = sender.thread;
    let mut transaction = match transaction {
        Some(spare) => spare,
        None => Transaction::new(thread)?,
    };
    fill(&mut transaction, sender, request, node, CallKind::Sync)?;
    transaction.describe(id, request);
    transaction.caller_priority = priority::current_priority();
    let frame = match expectation {
        Expectation::Noted(frame) => *frame,
        Expectation::ToBeNoted(ticket) => {
            let ticket = match ticket.take() {
                Some(spare) => spare,
                None => WorkTicket::new(GFP_KERNEL)?,
            };
            thread.make_room_on_stack()?;
            let mut process = thread.process.lock_state();
            let frame = expect_reply(thread.state(&mut process), ticket);
            *expectation = Expectation::Noted(frame);
            frame
        }
    };
    transaction.set_frame(frame);
    Ok(transaction)
}

/// Reserves a buffer in the node's owner and copies the data of a call into it.
fn fill(
    transaction: &mut Transaction,
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    kind: CallKind,
) -> Result<(), TransactionError> {
    let context = if node.flags.wants_security_context() {
        Some(SecurityCtx::from_secid(sender.credential.get_secid())?)
    } else {
        None
    };
    let context = context.as_ref().map_or(&[][..], |c| c.as_bytes());
    let mut buffer = node.owner.reserve_buffer(request, context.len(), kind)?;
    let route = Route {
        sender,
        receiver: &node.owner,
        accepts_files: node.flags.accepts_fds(),
    };
    let copied = copy_in(request, route, &mut buffer)
        .and_then(|()| Ok(node.owner.write_context(&buffer, context)?))
        .map_err(|error| node.owner.dead_or(error));
    transaction.put_content(Content::Draft { node, buffer });
    copied
}

/// The caller's side of a call that is about to be queued. There has to be room on its stack.
#[inline]
fn expect_reply(state: &mut ThreadState, ticket: WorkTicket) -> FrameId {
    state.completions.add();
    // Deferred: it is read together with what comes of the call (contract TXN-18).
    state.work.push_back(ticket, Work::Completion);
    state.stack.push_outgoing()
}

/// Undoes [`expect_reply`], if that was done: the call was not queued.
fn stop_expecting_reply(thread: &Thread, expectation: &Expectation) {
    if let Expectation::Noted(frame) = *expectation {
        let mut process = thread.process.lock_state();
        let state = thread.state(&mut process);
        state.stack.pop_outgoing(frame);
        state.completions.fail(Completion::Withdrawn);
    }
}

/// Makes a oneway call. It may be made at any time and goes to whoever is free; that it is queued is
/// all that its sender hears of it (contract TXN-16).
fn call_oneway(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    id: u32,
) -> Result<(), TransactionError> {
    let thread = sender.thread;
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
    let kind = CallKind::Oneway {
        sender: thread.process.pid(),
        quota: limits().oneway_quota(),
    };
    fill(&mut transaction, sender, request, node, kind)?;
    transaction.describe(id, request);
    let acknowledgement = transaction.acknowledgement();
    let submitted = submit(transaction, &target, None)?;
    submitted.wake.now(&target, WakeHint::Anywhere);
    let answer = match submitted.admission {
        Admission::Pending => Return::TransactionPendingFrozen,
        Admission::Accepted | Admission::Rejected => acknowledgement,
    };
    thread.queue_return_code(ticket, answer);
    Ok(())
}

/// What remains to be done for a call that is queued.
struct Submitted {
    wake: Wake,
    /// Whether it may have to wait until its target is thawed.
    admission: Admission,
}

/// Queues a draft at its target, for the thread that `route` names or for whichever comes. A draft
/// that the target cannot take any more is undone.
fn submit(
    mut transaction: KBox<Transaction>,
    target: &Process,
    route: Option<&Waiter>,
) -> Result<Submitted, TransactionError> {
    let mut state = target.lock_state();
    // Somebody in between may have died since the thread was found: then it has heard that, or is about
    // to, and will not come for this call.
    let route = route
        .filter(|waiter| waiter.thread.has_ended.load(Relaxed) || waiter.waits(&mut state))
        .map(|waiter| &waiter.thread);
    let admission = match transaction.admit(&mut state, route.map(|thread| &**thread)) {
        Ok(admission) => admission,
        Err(error) => {
            drop(state);
            return Err(error);
        }
    };
    // A transaction that somebody owns waits nowhere, so its ticket is with it.
    let Some(ticket) = transaction.take_ticket() else {
        drop(state);
        return Err(TransactionError::failed(EINVAL));
    };
    if let Some(node) = transaction.node_to_wait_for() {
        let superseded = match admission {
            Admission::Pending => node.take_superseded(&mut state, &transaction),
            Admission::Accepted | Admission::Rejected => None,
        };
        node.push_waiting_oneway(&mut state, ticket, transaction);
        drop(state);
        drop(superseded);
        let wake = Wake::Nobody;
        return Ok(Submitted { wake, admission });
    }
    let reserved_for = transaction.reserve_thread(&mut state, route);
    if let Some(server) = &reserved_for {
        drop(state);
        let raised_from = transaction.raise(server);
        state = target.lock_state();
        server.end_reservation(&mut state, raised_from);
    }
    let is_oneway = transaction.is_oneway();
    let call = Work::Call(transaction);
    let wake = match reserved_for.as_ref().or(route) {
        None if is_oneway => state.push_to_process(ticket, call),
        None => state.push_call(ticket, call),
        Some(thread) => state
            .push_to_thread(thread, ticket, call, Urgency::Now)
            .of(thread),
    };
    drop(state);
    if reserved_for.is_some() {
        target.promises.notify_all();
    }
    Ok(Submitted { wake, admission })
}

/// Replies to the call that the thread serves: `BC_REPLY`.
///
/// Once there is such a call it has ended, whatever goes wrong with the reply: the caller hears of
/// that, and the thread itself that it is done (contract TXN-25).
pub(crate) fn reply(sender: &Sender<'_>, request: &TransactionRequest) {
    let thread = sender.thread;
    let id = next_debug_id();
    let Some((mut transaction, is_told)) = begin_reply(thread, request, id) else {
        let error = TransactionError::failed(EPROTO);
        report("reply", id, request, error);
        return thread.fail(id, error);
    };
    let error = match fill_reply(&mut transaction, sender, request) {
        Ok(()) => None,
        Err(error) => {
            report("reply", id, request, error);
            transaction.release_content();
            transaction.put_content(Content::Failed(error));
            Some((id, error))
        }
    };
    match error {
        None if is_told => {}
        Some(_) if is_told => thread.stop_until_completion(),
        _ => thread.end_reply(error.is_some()),
    }
    let saved_priority = transaction.saved_priority;
    transaction.return_to_caller(error, sender.hint);
    // Only now: until the caller runs, the thread is what it waits for.
    if let Some(saved) = saved_priority.get() {
        priority::end_service(saved);
    }
}

/// Takes the call that the thread serves off its stack. Whether the thread was told already that its
/// reply is on its way: as with calls, news of nodes come first. If it was not, the thread stays
/// [replying](Frame::Replying), for no outcome of another call may come before that.
fn begin_reply(
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    id: u32,
) -> Option<(KBox<Transaction>, bool)> {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.extended_error = ExtendedError::none(id);
    let is_told = request.offsets_size == 0 && state.spare_ticket.is_some();
    let transaction = if is_told {
        state.stack.pop_incoming()?
    } else {
        state.stack.begin_reply()?
    };
    let surplus = state.stack.take_surplus();
    let wake = match is_told.then(|| state.spare_ticket.take()).flatten() {
        Some(ticket) => thread.complete_reply(&mut process, ticket),
        None => ThreadWake::Nobody,
    };
    let freezers = process.freeze.end_transaction();
    drop(process);
    drop(surplus);
    wake.now(thread, WakeHint::Anywhere);
    thread.process.wake_freezers(freezers);
    Some((transaction, is_told))
}

/// Puts the reply of the calling task into the transaction that it has served.
fn fill_reply(
    transaction: &mut Transaction,
    sender: &Sender<'_>,
    request: &TransactionRequest,
) -> Result<(), TransactionError> {
    if transaction.caller.has_ended.load(Relaxed) {
        return Err(TransactionError::DIED);
    }
    let caller = &transaction.caller.process;
    // A reply is waited for, whatever its flags say (contract TXN-15).
    let mut buffer = caller.reserve_buffer(request, 0, CallKind::Sync)?;
    let route = Route {
        sender,
        receiver: caller,
        accepts_files: transaction.flags & transaction_flags::ACCEPT_FDS != 0,
    };
    let copied = copy_in(request, route, &mut buffer).map_err(|error| caller.dead_or(error));
    let is_queued = false;
    transaction.put_content(Content::Reply { buffer, is_queued });
    copied?;
    transaction.describe(transaction.id, request);
    Ok(())
}
