// SPDX-License-Identifier: GPL-2.0

//! `BC_TRANSACTION`: makes calls.
//!
//! Finds the process that receives the data, reserves a buffer in its space, copies the data
//! directly into the buffer, and queues the transaction. A call that fails leaves nothing behind
//! but the `BR_*` that its sender reads.

use crate::{
    calls::{
        failure::{report_queued, tell},
        sender::Sender,
        translate::{copy_in, unwritable, Route}, //
    },
    common::{
        failure::{Failure, Reason},
        limits::limits,
        netlink::Party,
        transaction_log::{Kind, Sent}, //
    },
    defs::{no_error, Return, TransactionRequest, ACCEPTS_FDS, TF_ONE_WAY, TXN_SECURITY_CTX},
    ffi::trace,
    kernel_ext::{park::WakeHint, sched},
    node::Node,
    process::{Process, StateGuard},
    pure::{
        call_stack::{Frame, FrameId},
        completions::Completion,
        freeze_state::Admission,
        node_counts::Strength, //
    },
    range_alloc::CallKind,
    scheduling::priority,
    thread::{Thread, ThreadState},
    transaction::{Content, Transaction, TransactionBox, Waiter},
    work::{Urgency, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    security::{self, SecurityCtx},
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// Makes a call: `BC_TRANSACTION`. Queues a transaction error for the calling thread if the call
/// fails (contract TXN-1). No lock may be held.
#[inline]
pub(crate) fn call(sender: &Sender<'_>, request: &TransactionRequest) {
    let thread = sender.thread;
    let mut node_id = 0;
    let called = match find_target(sender, request.handle, &mut node_id) {
        Err(failure) => {
            let id = thread.process.lock_state().debug_ids.next();
            Err(fail(sender, request, (id, node_id), None, failure))
        }
        Ok(node) if request.flags & TF_ONE_WAY != 0 => call_oneway(sender, request, node),
        Ok(node) => call_and_expect(sender, request, node),
    };
    if let Err((id, failure)) = called {
        thread.queue_transaction_error(id, failure);
    }
}

/// A call that has failed: its debug id, and why.
type Failed = (u32, Failure);

/// Reports that a call fails, and returns what its sender will read. No lock may be held.
#[cold]
fn fail(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    (id, node): (u32, u32),
    receiver: Option<(&Process, Option<&Thread>)>,
    failure: Failure,
) -> Failed {
    let kind = Kind::of_call(request.flags);
    tell(sender, request, kind, (id, node), receiver, failure);
    (id, failure)
}

/// Returns the node that a call through `handle` is for. Writes its debug id to `node_id`, if it is
/// found, but may not be called.
///
/// Fails when the handle names no node, when the owner of the node has ended or is the caller
/// itself (for handle 0: is a process of the same task), and when the security modules deny the
/// call.
fn find_target(sender: &Sender<'_>, handle: u32, node_id: &mut u32) -> Result<Arc<Node>, Failure> {
    let caller = &sender.thread.process;
    let node = if handle == 0 {
        let manager = caller.context.manager();
        let manager = manager.ok_or_else(|| Failure::new(Reason::NoManager, EINVAL))?;
        if manager.owner().group.is_that_of(&caller.group) {
            return Err(Failure::new(Reason::OwnManager, EINVAL));
        }
        manager
    } else {
        let node = caller.node_of_handle(handle, Strength::Strong);
        node.ok_or_else(|| Failure::new(Reason::NoHandle, EINVAL))?
    };
    if node.owner().has_ended.load(Relaxed) {
        return Err(Failure::new(Reason::OwnerEnded, EINVAL));
    }
    if Arc::ptr_eq(node.owner(), caller) {
        *node_id = node.debug_id;
        return Err(Failure::new(Reason::OwnNode, EINVAL));
    }
    let owner = node.owner().credential();
    let owner = owner.map_err(|_| Failure::without_errno(Reason::ReceiverEnded))?;
    security::binder_transaction(sender.credential, &owner).map_err(|_| {
        *node_id = node.debug_id;
        Failure::new(Reason::CallDenied, EPERM)
    })?;
    drop(owner);
    Ok(node)
}

/// Makes a call for whose reply the thread waits afterwards.
fn call_and_expect(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
) -> Result<(), Failed> {
    let thread = sender.thread;
    let target = node.owner().clone();
    let node_id = node.debug_id;
    let Begun {
        id,
        transaction,
        mut expectation,
        route,
    } = begin_call(thread, &node, request).map_err(|(id, failure)| {
        // Of the receiver, not more is known than the node.
        fail(sender, request, (id, node_id), None, failure)
    })?;
    trace::transaction(|| {
        let thread = route.as_ref().map_or(0, |waiter| waiter.thread.id);
        sent(request, id, &node, thread)
    });
    let draft = prepare_call(
        sender,
        request,
        node,
        id,
        &target,
        transaction,
        &mut expectation,
    );
    let route = route.as_ref();
    let hint = sender.hint;
    match draft.and_then(|draft| submit(draft, thread, request, &target, node_id, route, hint)) {
        Ok(_) => Ok(()),
        Err(failure) => {
            stop_expecting_reply(thread, &expectation);
            let receiver = Some((&*target, route.map(|waiter| &*waiter.thread)));
            Err(fail(sender, request, (id, node_id), receiver, failure))
        }
    }
}

/// A call whose data is not copied yet.
struct Begun {
    /// Its debug id.
    id: u32,
    /// The spare transaction of the thread, if it has one, so that none need be allocated.
    transaction: Option<TransactionBox>,
    expectation: Expectation,
    /// The thread of the target that waits for the outcome of this chain of calls, if one exists.
    route: Option<Waiter>,
}

/// Whether the stack of the caller has a frame for the call already.
enum Expectation {
    /// It has this frame, and the completion of the call is queued.
    Recorded(FrameId),
    /// It has none yet. The ticket, if any, is for the completion.
    Unrecorded(Option<WorkTicket>),
}

/// Checks that the thread may call `node` now (contract TXN-10), and finds the thread of the target
/// that waits for the outcome of this chain of calls (TXN-11). No lock may be held.
///
/// Fails with `EPROTO` when the thread waits for a reply, or has a call or a reply to read first.
fn begin_call(
    thread: &Arc<Thread>,
    node: &Node,
    request: &TransactionRequest,
) -> Result<Begun, Failed> {
    let target = node.owner();
    let mut process = thread.process.lock_state();
    let id = process.debug_ids.next();
    let state = thread.state(&mut process);
    state.extended_error = no_error(id);
    let unread = match state.work.front().as_deref() {
        Some(Work::Call(_)) => Some(Reason::CallToServe),
        Some(Work::Outcome(outcome)) if outcome.is_reply() => Some(Reason::ReplyUnread),
        _ => None,
    };
    if let Some(reason) = unread {
        return Err((id, Failure::new(reason, EPROTO)));
    }
    let caller = match state.stack.innermost() {
        None => None,
        Some(Frame::Incoming(served)) => served.waiter(),
        Some(_) => {
            return Err((id, Failure::new(Reason::ReplyAwaited, EPROTO)));
        }
    };
    let transaction = state.spare_transaction.take();
    // Node updates of nodes that the data names are queued before the completion of the call
    // (contract NODE-7). They are not known before the data is translated; a call without objects
    // has none.
    let expectation = match state.spare_ticket.take() {
        Some(ticket) if state.stack.has_room() && request.offsets_size == 0 => {
            Expectation::Recorded(expect_reply(state, ticket, target))
        }
        ticket => Expectation::Unrecorded(ticket),
    };
    drop(process);
    Ok(Begun {
        id,
        transaction,
        expectation,
        route: caller.and_then(|caller| find_waiting_thread(caller, target)),
    })
}

/// Follows a chain of calls up, from a caller to the thread whose call it serves, until it reaches
/// a thread of `target`. Returns that thread, with the frame in which it waits, unless the thread
/// has ended.
///
/// Each step takes and releases one state lock. Therefore the outcome of the thread's call may
/// arrive before this call is queued for it: [`submit`] checks again with [`Waiter::waits`].
fn find_waiting_thread(mut caller: Waiter, target: &Arc<Process>) -> Option<Waiter> {
    while !Arc::ptr_eq(&caller.thread.process, target) {
        caller = caller.next_up()?;
    }
    (!caller.thread.has_ended.load(Relaxed)).then_some(caller)
}

/// Copies the data of a call into a buffer of its target, and adds the frame in which the caller
/// waits for the reply, if it is not on its stack yet. Returns a draft. No lock may be held.
fn prepare_call(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    id: u32,
    target: &Process,
    transaction: Option<TransactionBox>,
    expectation: &mut Expectation,
) -> Result<TransactionBox, Failure> {
    let thread = sender.thread;
    let mut transaction = match transaction {
        Some(spare) => spare,
        None => Transaction::new(thread)?,
    };
    transaction.describe(id, request);
    fill(&mut transaction, sender, request, node, CallKind::Sync)?;
    transaction.caller_priority = priority::current_priority();
    let frame = match expectation {
        Expectation::Recorded(frame) => *frame,
        Expectation::Unrecorded(ticket) => {
            let ticket = match ticket.take() {
                Some(spare) => spare,
                None => WorkTicket::new(GFP_KERNEL)?,
            };
            let room = thread.make_room_on_stack();
            room.map_err(|error| Failure::new(Reason::NoMemory, error))?;
            let mut process = thread.process.lock_state();
            let frame = expect_reply(thread.state(&mut process), ticket, target);
            *expectation = Expectation::Recorded(frame);
            frame
        }
    };
    transaction.set_frame(frame);
    Ok(transaction)
}

/// Reserves a buffer in the space of the node's owner and copies the data of a call into it. The
/// transaction owns the node and the buffer afterwards, even if the copy fails.
#[inline]
fn fill(
    transaction: &mut Transaction,
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    kind: CallKind,
) -> Result<(), Failure> {
    let context = if node.flags().has(TXN_SECURITY_CTX) {
        let context = SecurityCtx::from_secid(sender.credential.get_secid());
        Some(context.map_err(|error| Failure::new(Reason::NoContext, error))?)
    } else {
        None
    };
    let context = context.as_ref().map_or(&[][..], |c| c.as_bytes());
    let id = transaction.id;
    let mut buffer = node
        .owner()
        .reserve_buffer(id, request, context.len(), kind)
        .inspect_err(|_| {
            trace::txn_latency_free(|| transaction.ended_as_draft(node.owner()));
        })?;
    trace::transaction_alloc_buf(|| buffer.traced(id));
    let route = Route {
        id,
        sender,
        receiver: node.owner(),
        accepts_files: node.flags().has(ACCEPTS_FDS),
    };
    let copied = copy_in(request, route, &mut buffer)
        .and_then(|()| {
            node.owner()
                .write_context(&buffer, context)
                .map_err(|error| unwritable(error))
        })
        .map_err(|error| node.owner().dead_or(error));
    transaction.put_content(Content::Draft { node, buffer });
    copied
}

/// Records in the caller that a call to `target` is about to be queued: queues the completion, and
/// pushes a frame, which it returns. The stack must have room. The state lock is held.
#[inline(always)] // It is short, and most of a call's first lock round.
fn expect_reply(state: &mut ThreadState, ticket: WorkTicket, target: &Process) -> FrameId {
    state.completions.add();
    // Not urgent: the completion is read together with the outcome of the call (contract TXN-18).
    state.work.push_back(ticket, Work::Completion);
    state.stack.push_outgoing(target.pid())
}

/// Undoes [`expect_reply`] for a call that is not queued, if it was called. Takes the state lock.
fn stop_expecting_reply(thread: &Thread, expectation: &Expectation) {
    if let Expectation::Recorded(frame) = *expectation {
        let mut process = thread.process.lock_state();
        let state = thread.state(&mut process);
        state.stack.pop_outgoing(frame);
        state.completions.fail(Completion::Withdrawn);
    }
}

/// Makes a oneway call. A thread may make it at any time, and any available thread of the target
/// may serve it. The sender reads only that the call is queued (contract TXN-16).
fn call_oneway(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
) -> Result<(), Failed> {
    let target = node.owner().clone();
    let node_id = node.debug_id;
    let (id, ticket) = begin_oneway(sender.thread);
    queue_oneway(sender, request, node, &target, id, ticket).map_err(|failure| {
        fail(
            sender,
            request,
            (id, node_id),
            Some((&target, None)),
            failure,
        )
    })
}

/// Begins a oneway call. Returns its debug id, and a place for what its sender reads of it, if the
/// thread has one. No lock may be held.
fn begin_oneway(thread: &Thread) -> (u32, Option<WorkTicket>) {
    let mut process = thread.process.lock_state();
    let id = process.debug_ids.next();
    let state = thread.state(&mut process);
    state.extended_error = no_error(id);
    (id, state.spare_ticket.take())
}

/// Queues a oneway call at `target`, the owner of `node`, and what the sender reads of that.
fn queue_oneway(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    target: &Arc<Process>,
    id: u32,
    ticket: Option<WorkTicket>,
) -> Result<(), Failure> {
    let thread = sender.thread;
    let ticket = match ticket {
        Some(spare) => spare,
        None => WorkTicket::new(GFP_KERNEL)?,
    };
    let node_id = node.debug_id;
    let mut transaction = Transaction::new(thread)?;
    let kind = CallKind::Oneway {
        sender: thread.process.pid(),
        quota: limits().oneway_quota(),
    };
    transaction.describe(id, request);
    trace::transaction(|| sent(request, id, &node, 0));
    fill(&mut transaction, sender, request, node, kind)?;
    let acknowledgement = transaction.acknowledgement();
    // Reported even if the sender has not asked to read it (contract NL-3).
    if acknowledgement == Return::OnewaySpamSuspect {
        report_queued(sender, request, target, acknowledgement);
    }
    let hint = WakeHint::Anywhere;
    let admission = submit(transaction, thread, request, target, node_id, None, hint)?;
    let answer = match admission {
        Admission::Pending => {
            let answer = Return::TransactionPendingFrozen;
            report_queued(sender, request, target, answer);
            answer
        }
        Admission::Accepted | Admission::Rejected => acknowledgement,
    };
    thread.queue_return_code(ticket, answer);
    Ok(())
}

/// Queues a draft at its target: for the thread that `route` names, or else for any thread of the
/// pool, which is woken. Logs it first, with the debug id of its node. Returns whether the call may
/// have to wait until its target is thawed. Drops a draft that the target does not admit, and
/// returns the transaction error. No lock may be held.
#[inline(always)] // It is most of a call, and of a oneway call.
fn submit(
    mut transaction: TransactionBox,
    caller: &Thread,
    request: &TransactionRequest,
    target: &Process,
    node: u32,
    route: Option<&Waiter>,
    hint: WakeHint,
) -> Result<Admission, Failure> {
    let mut state = target.lock_state();
    let to = Party {
        pid: target.pid(),
        tid: route.map_or(0, |waiter| waiter.thread.id),
    };
    let kind = Kind::of_call(request.flags);
    let sent = Sent::new(kind, request, caller.party(), to, node);
    target.log.add(&state, transaction.id, &sent);
    // A thread between the two in the chain may have ended since the waiting thread was found. Then
    // the waiting thread has read the outcome of its call, or is about to, and does not take this
    // call.
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
    if let Some(node) = transaction.node_to_wait_for() {
        let superseded = match admission {
            Admission::Pending => node.take_superseded(&mut state, &transaction),
            Admission::Accepted | Admission::Rejected => None,
        };
        node.push_waiting_oneway(&mut state, transaction);
        drop(state);
        if let Some(Work::Call(call)) = superseded {
            call.supersede();
        }
        return Ok(admission);
    }
    queue_admitted(transaction, target, state, route, hint);
    Ok(admission)
}

/// Queues a call that its target has admitted and whose turn it is, for the thread `route`, or else
/// for any thread of the pool. Before that it raises the priority of the thread that is going to
/// serve it, if it has to. Releases the state lock and wakes whom it has to.
#[inline(always)] // It has one caller.
fn queue_admitted<'a>(
    transaction: TransactionBox,
    target: &'a Process,
    mut state: StateGuard<'a>,
    route: Option<&Arc<Thread>>,
    hint: WakeHint,
) {
    let reserved_for = transaction.reserve_thread(&mut state, route);
    if let Some(server) = &reserved_for {
        drop(state);
        let raised_from = transaction.raise(server);
        state = target.lock_state();
        server.end_reservation(&mut state, raised_from);
    }
    let is_oneway = transaction.is_oneway();
    let wake = match reserved_for.as_ref().or(route) {
        None if is_oneway => state.push_to_process(Work::Call(transaction)),
        None => state.push_call(transaction),
        Some(thread) => state
            .push_object_to_thread(thread, Work::Call(transaction), Urgency::Now)
            .of(thread),
    };
    sched::unpreempted_if(reserved_for.is_some(), || {
        wake.after(state, target, hint);
        if reserved_for.is_some() {
            target.waiters.notify_all();
        }
    });
}

/// Returns what trace events say of a call whose target is known.
fn sent(request: &TransactionRequest, id: u32, node: &Node, thread: i32) -> trace::Sent {
    trace::Sent {
        id,
        node: node.debug_id,
        process: node.owner().pid(),
        thread,
        is_reply: false,
        code: request.code,
        flags: request.flags,
    }
}
