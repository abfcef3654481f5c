// SPDX-License-Identifier: GPL-2.0

//! `BC_TRANSACTION`: makes calls.
//!
//! Finds the process that receives the data, reserves a buffer in its space, copies the data
//! directly into the buffer, and queues the transaction. A call that fails leaves nothing behind
//! but the `BR_*` that its sender reads.

use crate::{
    calls::{
        tell,
        translate::{copy_in, unwritable, Route},
        Sender, //
    },
    common::{
        failure::{Failure, Reason},
        limits::LIMITS,
        netlink,
        stats::take_debug_ids,
        transaction_log::{record, CallType}, //
    },
    defs::{
        no_error,
        Return,
        TransactionRequest,
        ACCEPTS_FDS,
        TF_ONE_WAY,
        TF_UPDATE_TXN,
        TXN_SECURITY_CTX, //
    },
    ffi::trace,
    kernel_ext::{
        once::read_once,
        sched::{self, WakeHint},
    },
    names::ThreadName,
    node::Node,
    priority,
    process::{Process, StateGuard},
    pure::{
        call_stack::{Frame, FrameId},
        node_counts::Strength,
        priority_rules::{NodePriority, Priority}, //
    },
    range_alloc::CallKind,
    thread::{Thread, ThreadState, WaitState},
    transaction::{CallStage, Content, Transaction, TransactionBox, Waiter},
    work::{self, Code, CompletionRead, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    security::{self, SecurityCtx},
    sync::Arc, //
};

/// Makes a call: `BC_TRANSACTION`. Queues a transaction error for the calling thread if the call
/// fails (contract TXN-1). No lock may be held.
pub(crate) fn call(sender: &Sender<'_>, request: &TransactionRequest) {
    let thread = sender.thread;
    let (node, target) = match find_target(sender, request.handle) {
        Ok(found) => found,
        Err((node, failure)) => {
            let id = thread.process.state.lock().debug_ids.next(take_debug_ids);
            return fail(sender, request, (id, node), None, failure);
        }
    };
    if request.flags & TF_ONE_WAY != 0 {
        return call_oneway(sender, request, node, &target);
    }
    let node_id = node.debug_id;
    let (id, begun) = begin_call(thread, &target, request);
    let Begun {
        spare,
        mut frame,
        ticket,
        route,
    } = match begun {
        Ok(begun) => begun,
        // Of the receiver, not more is known than the node.
        Err(failure) => return fail(sender, request, (id, node_id), None, failure),
    };
    let route = route.as_ref();
    trace::transaction(|| {
        let thread = route.map_or(0, |waiter| waiter.thread.id);
        let TransactionRequest { code, flags, .. } = *request;
        (id, node_id, target.pid, thread, false, code, flags)
    });
    let transaction = match spare {
        Some(spare) => Ok(spare.of_caller(thread)),
        None => Transaction::new(thread).map_err(Failure::from),
    };
    let to = (node, &target);
    let drafted =
        transaction.and_then(|unused| draft(sender, request, to, (id, unused), CallKind::Sync));
    let queued = drafted.and_then(|mut transaction| {
        transaction.caller_priority = Priority(sched::of(None));
        transaction.frame = match frame {
            Some(frame) => frame,
            None => *frame.insert(expect_reply_late(thread, ticket, &target)?),
        };
        submit(transaction, thread, request, &target, route, sender.hint)
    });
    if let Err(failure) = queued {
        if let Some(frame) = frame {
            stop_expecting_reply(thread, frame);
        }
        let route = route.map(|waiter| &*waiter.thread);
        let receiver = Some((&*target, route));
        fail(sender, request, (id, node_id), receiver, failure);
    }
}

/// Reports that a call fails, and queues the transaction error. Both numbers are debug ids: that of
/// the call, and that of its node, or 0. No lock may be held.
#[cold]
fn fail(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    (id, node): (u32, u32),
    receiver: Option<(&Process, Option<&Thread>)>,
    failure: Failure,
) {
    let call_type = CallType::of_call(request.flags);
    tell(sender, request, call_type, (id, node), receiver, failure);
    sender.thread.queue_transaction_error(id, failure);
}

/// Returns the node that a call through `handle` is for, and its owner.
///
/// Fails when the handle names no node, or when the owner of the node has ended, or, for handle 0,
/// is a process of the same task. Also fails when the security modules deny the call. The error has
/// the debug id of the node, if the node is found but may not be called.
///
/// No process has a handle on its own node. Handles come from counts on handle 0, which the manager
/// may not take, and with messages, in which a node of the receiver stays a node. And a process
/// sends its nodes to others alone, because it can call only through handles.
fn find_target(
    sender: &Sender<'_>,
    handle: u32,
) -> Result<(Arc<Node>, Arc<Process>), (u32, Failure)> {
    let caller = &sender.thread.process;
    let node = if handle == 0 {
        let manager = caller.context.manager();
        manager.ok_or_else(|| (0, Failure::new(Reason::NoManager, EINVAL)))?
    } else {
        let node = caller.node_of_handle(handle, Strength::Strong);
        node.ok_or_else(|| (0, Failure::new(Reason::NoHandle, EINVAL)))?
    };
    let owner = node.owner().get();
    let owner = owner.filter(|owner| !read_once(&owner.has_ended));
    let owner = owner.ok_or_else(|| (0, Failure::new(Reason::OwnerEnded, EINVAL)))?;
    if handle == 0 && owner.group == caller.group {
        return Err((0, Failure::new(Reason::OwnManager, EINVAL)));
    }
    security::binder_transaction(sender.credential, &owner.credential)
        .map_err(|_| (node.debug_id, Failure::new(Reason::CallDenied, EPERM)))?;
    Ok((node, owner))
}

/// A call whose data is not copied yet.
struct Begun {
    /// The spare transaction of the process, if it has one, so that none need be allocated.
    spare: Option<TransactionBox>,
    /// The frame on the stack of the caller, if it has one already: then the completion of the call
    /// is queued.
    frame: Option<FrameId>,
    /// A place for the completion, if the process had one and it is not used yet.
    ticket: Option<WorkTicket>,
    /// The thread of the target that waits for the outcome of this chain of calls, if one exists.
    route: Option<Waiter<Arc<Thread>>>,
}

/// Checks that the thread may call `target` now (contract TXN-10), and finds the thread of the
/// target that waits for the outcome of this chain of calls (TXN-11). Returns the debug id of the
/// call as well. No lock may be held.
///
/// Fails with `EPROTO` when the thread waits for a reply, or has a call or a reply to read first.
fn begin_call(
    thread: &Arc<Thread>,
    target: &Arc<Process>,
    request: &TransactionRequest,
) -> (u32, Result<Begun, Failure>) {
    let mut process = thread.process.state.lock();
    let id = process.debug_ids.next(take_debug_ids);
    let state = thread.state.access_mut(&mut process);
    state.extended_error = no_error(id);
    let unread = match state.work.front().as_deref() {
        Some(Work::Call(_)) => Some(Reason::CallToServe),
        Some(Work::Outcome(outcome)) if matches!(outcome.content, Content::Reply { .. }) => {
            Some(Reason::ReplyUnread)
        }
        _ => None,
    };
    if let Some(reason) = unread {
        return (id, Err(Failure::new(reason, EPROTO)));
    }
    let caller = match state.stack.frames.last() {
        // It is behind a deferred completion.
        None if state.pending_calls != 0 => {
            return (id, Err(Failure::new(Reason::CallToServe, EPROTO)));
        }
        None => None,
        Some(Frame::Incoming(served)) => served.waiter(),
        Some(_) => return (id, Err(Failure::new(Reason::ReplyAwaited, EPROTO))),
    };
    let has_room = state.stack.frames.has_room();
    let spare = process.spare_transaction.take();
    let mut ticket = process.spare_ticket.take();
    let mut frame = None;
    // Node updates of nodes that the data names are queued before the completion of the call
    // (contract NODE-7). They are not known before the data is translated; a call without objects
    // has none.
    if has_room && request.offsets_size == 0 {
        if let Some(ticket) = ticket.take() {
            let state = thread.state.access_mut(&mut process);
            frame = Some(expect_reply(state, ticket, target));
        }
    }
    drop(process);
    let begun = Begun {
        spare,
        frame,
        ticket,
        route: caller.and_then(|caller| find_waiting_thread(caller, target)),
    };
    (id, Ok(begun))
}

/// Follows a chain of calls up, from a caller to the thread whose call it serves, until it reaches
/// a thread of `target`. Returns that thread, with the frame in which it waits, unless a thread of
/// the chain has ended.
///
/// Each step takes and releases one state lock. Therefore the outcome of the thread's call may
/// arrive before this call is queued for it: [`submit`] checks again.
fn find_waiting_thread(
    mut caller: Waiter<Arc<ThreadName>>,
    target: &Process,
) -> Option<Waiter<Arc<Thread>>> {
    while !caller.thread.process().process.is(target) {
        let frame = caller.frame;
        // The thread that waits for a reply to what this one served when it made the call.
        let next = caller.thread.with_state(|thread, state| {
            let stack = &thread.state.access_mut(state).stack;
            stack.served_during(frame)?.waiter()
        });
        caller = next??;
        // The number of frames is limited only by memory, and others contend for their locks.
        sched::cond_resched();
    }
    Some(Waiter {
        thread: caller.thread.thread()?,
        frame: caller.frame,
    })
}

/// Makes a draft of call `id` to `node` of an unused transaction. Reserves a buffer in the space
/// of the node's owner, and copies the data into it. No lock may be held.
#[inline]
fn draft(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    (node, receiver): (Arc<Node>, &Arc<Process>),
    (id, mut transaction): (u32, TransactionBox),
    kind: CallKind,
) -> Result<TransactionBox, Failure> {
    transaction.describe(id, request);
    let context = if node.priority.flags.has(TXN_SECURITY_CTX) {
        let context = SecurityCtx::from_secid(sender.credential.get_secid());
        Some(context.map_err(|error| Failure::new(Reason::NoContext, error))?)
    } else {
        None
    };
    let context = context.as_ref().map_or(&[][..], |c| c.as_bytes());
    let reserved = receiver.reserve_buffer(id, request, context.len(), kind);
    let mut buffer = match reserved {
        Ok(buffer) => buffer,
        Err(failure) => {
            trace::txn_latency_free(|| transaction.ended_as_draft(receiver.pid));
            return Err(failure);
        }
    };
    trace::transaction_alloc_buf(|| buffer.traced(id));
    let route = Route {
        id,
        sender,
        receiver,
        accepts_files: node.priority.flags.has(ACCEPTS_FDS),
    };
    let mut copied = copy_in(request, route, &mut buffer);
    if copied.is_ok() && !context.is_empty() {
        let at = buffer.offset + buffer.layout.context_at;
        let written = receiver.pages.write(at as usize, context);
        copied = written.map_err(|error| unwritable(error));
    }
    let copied = copied.map_err(|error| receiver.dead_or(error));
    // It owns the buffer even if the copy fails.
    transaction.put_content(Content::Call {
        node,
        buffer,
        from: sender.thread.process.pid,
        stage: CallStage::Draft,
    });
    copied.map(|()| transaction)
}

/// Records in the caller that a call to `target` is about to be queued: queues the completion, and
/// pushes a frame, which it returns. The stack must have room. The state lock is held.
#[inline(always)] // It is short, and most of a call's first lock round.
fn expect_reply(state: &mut ThreadState, mut ticket: WorkTicket, target: &Process) -> FrameId {
    state.completions.unread += 1;
    // Not urgent: the completion is read together with the outcome of the call (contract TXN-18).
    *ticket = Code::Completion;
    state.push(Work::Code(ticket));
    state.stack.push_outgoing(target.pid)
}

/// The same for a call to `target` that is drafted, in place of `ticket` if there is one: allocates
/// that and room on the stack, if need be. No lock may be held.
fn expect_reply_late(
    thread: &Thread,
    ticket: Option<WorkTicket>,
    target: &Process,
) -> Result<FrameId, Failure> {
    let ticket = ticket.map_or_else(work::new_ticket, Ok)?;
    let mut process = thread.process.state.lock();
    if !thread.state.access(&process).stack.frames.has_room() {
        drop(process);
        let room = thread.make_room_on_stack();
        room.map_err(|error| Failure::new(Reason::NoMemory, error))?;
        process = thread.process.state.lock();
    }
    let state = thread.state.access_mut(&mut process);
    Ok(expect_reply(state, ticket, target))
}

/// Undoes [`expect_reply`] for a call that is not queued. Takes the state lock.
fn stop_expecting_reply(thread: &Thread, frame: FrameId) {
    let mut process = thread.process.state.lock();
    let state = thread.state.access_mut(&mut process);
    state.stack.pop_outgoing(frame);
    state.completions.last = CompletionRead::Withdrawn;
}

/// Makes a oneway call. A thread may make it at any time, and any available thread of the target
/// may serve it. The sender reads only that the call is queued (contract TXN-16).
fn call_oneway(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    node: Arc<Node>,
    target: &Arc<Process>,
) {
    let thread = sender.thread;
    let mut process = thread.process.state.lock();
    let id = process.debug_ids.next(take_debug_ids);
    let state = thread.state.access_mut(&mut process);
    state.extended_error = no_error(id);
    let ticket = process.spare_ticket.take();
    drop(process);
    let node_id = node.debug_id;
    if let Err(failure) = queue_oneway(sender, request, (node, target), id, ticket) {
        let receiver = Some((&**target, None));
        fail(sender, request, (id, node_id), receiver, failure);
    }
}

/// Queues oneway call `id` at the owner of a node, and what the sender reads of that.
fn queue_oneway(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    (node, target): (Arc<Node>, &Arc<Process>),
    id: u32,
    ticket: Option<WorkTicket>,
) -> Result<(), Failure> {
    let thread = sender.thread;
    let ticket = ticket.map_or_else(work::new_ticket, Ok)?;
    let unused = Transaction::new_oneway(thread, request.flags)?;
    let kind = CallKind::Oneway {
        sender: thread.process.pid,
        quota: LIMITS.oneway_quota(),
    };
    trace::transaction(|| {
        let TransactionRequest { code, flags, .. } = *request;
        (id, node.debug_id, target.pid, 0, false, code, flags)
    });
    let transaction = draft(sender, request, (node, target), (id, unused), kind)?;
    // A call that is queued in an unusual way is reported, too, even if the sender has not asked to
    // read it (contract NL-3).
    let report = |answer| {
        let to = target.party(0);
        let context = thread.process.context.name();
        netlink::report(context, (thread.party(), to), false, request, answer);
    };
    let mut answer = match transaction.buffer() {
        Some(buffer) if buffer.is_spam_suspect => Return::OnewaySpamSuspect,
        _ => Return::TransactionComplete,
    };
    if answer == Return::OnewaySpamSuspect {
        report(answer);
    }
    let hint = WakeHint::Anywhere;
    if submit(transaction, thread, request, target, None, hint)? {
        answer = Return::TransactionPendingFrozen;
        report(answer);
    }
    thread.queue_return_code(ticket, answer);
    Ok(())
}

/// Queues a draft at `target`: for the thread that `route` names, or else for any thread
/// of the pool, which is woken. Logs it first. Returns whether the call may have to wait until its
/// target is thawed. Fails with the transaction error, and drops the draft, if the target does not
/// admit it. No lock may be held.
#[inline(always)] // It is most of a call, and of a oneway call.
fn submit(
    mut transaction: TransactionBox,
    caller: &Thread,
    request: &TransactionRequest,
    target: &Process,
    route: Option<&Waiter<Arc<Thread>>>,
    hint: WakeHint,
) -> Result<bool, Failure> {
    let Content::Call { node, .. } = &transaction.content else {
        return Err(Failure::new(Reason::DriverFault, EINVAL));
    };
    let (node_id, node_priority) = (node.debug_id, node.priority);
    let mut state = target.state.lock();
    let to = target.party(route.map_or(0, |waiter| waiter.thread.id));
    let call_type = CallType::of_call(request.flags);
    let queued = record(call_type, request, caller.party(), to, node_id);
    target.log.queued.push(&state, transaction.id, queued);
    // A thread between the two in the chain may have ended since the waiting thread was found. Then
    // the waiting thread has read the outcome of its call, or is about to, and does not take this
    // call.
    let route = route
        .filter(|Waiter { thread, frame }| {
            thread.name.has_ended() || thread.state.access_mut(&mut state).stack.waits_for(*frame)
        })
        .map(|waiter| &waiter.thread);
    // If it fails, the draft is dropped after the lock is released.
    let (is_pending, awaits_turn) = transaction.admit(target, &mut state, route)?;
    if awaits_turn {
        queue_behind(transaction, state, is_pending);
        return Ok(is_pending);
    }
    let caller = (transaction.flags & TF_ONE_WAY == 0).then_some(transaction.caller_priority);
    // A call that is served while sharing the CPU with other threads (not at a real-time priority)
    // raises no priority, because such priorities differ by little.
    let mut reserved_for = None;
    if !node_priority.is_served_as_sharing(caller) {
        (state, reserved_for) = raise_server(caller, (&node_priority, target), state, route);
    }
    let wake = match reserved_for.as_ref().or(route) {
        None if caller.is_none() => state.push_to_process(Work::Call(transaction)),
        None => state.push_call(transaction),
        Some(thread) => state
            .push_to_thread(thread, Work::Call(transaction))
            .of(thread),
    };
    target.unlock_and_wake(state, &wake, hint, reserved_for.is_some());
    Ok(is_pending)
}

/// Queues an admitted oneway call behind the one that its node is busy with, in place of the
/// waiting one that it supersedes, if any: only if it `is_pending`. Releases the state lock.
fn queue_behind(transaction: TransactionBox, mut state: StateGuard<'_>, is_pending: bool) {
    let Content::Call { node, .. } = &transaction.content else {
        return;
    };
    // The transaction, which has the other reference, goes into a queue of the node.
    let node = node.clone();
    let waiting = &mut node.state.access_mut(&mut state).waiting;
    let mut superseded = None;
    // This saves most calls the search, whose cost grows with the number of waiting calls.
    if is_pending && transaction.flags & TF_UPDATE_TXN != 0 {
        superseded = waiting.take_first(
            |work| matches!(work, Work::Call(call) if call.is_superseded_by(&transaction)),
        );
    }
    let queued = waiting.push(Work::Call(transaction));
    debug_assert!(queued.is_ok());
    drop(state);
    if let Some(Work::Call(call)) = superseded {
        call.supersede();
    }
}

/// [Reserves](WaitState::Reserved) a call of `caller` or oneway to a node with priority `node` for
/// the sleeping thread that is going to serve it, if one exists. Raises the priority of that thread
/// as far as the call requires. The reservation has ended when this returns: the call is queued
/// without the lock being released in between. Returns the locked state, which is released in
/// between, and the thread.
#[cold]
fn raise_server<'a>(
    caller: Option<Priority>,
    (node, target): (&NodePriority, &'a Process),
    mut state: StateGuard<'a>,
    route: Option<&Arc<Thread>>,
) -> (StateGuard<'a>, Option<Arc<Thread>>) {
    // Under the lock this is not the last reference: the list or the caller has another.
    let Some(server) = route.or(state.newest_idle.as_ref()).cloned() else {
        return (state, None);
    };
    if !state.set_wait_state(&server, WaitState::Reserved) {
        return (state, None);
    }
    // If a call that the thread waits for ends in the meantime, the thread reads that outcome after
    // this call.
    server.state.access_mut(&mut state).pending_calls += 1;
    drop(state);
    let task = server.task.task();
    let raised_from = task.and_then(|task| priority::raise_sleeper(&task, caller, node));
    let mut state = target.state.lock();
    let own = server.state.access_mut(&mut state);
    own.pending_calls -= 1;
    own.wait_state = WaitState::ForOwnWork;
    own.raised_from = raised_from.into();
    (state, Some(server))
}
