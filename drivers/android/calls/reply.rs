// SPDX-License-Identifier: GPL-2.0

//! `BC_REPLY`: replies to the call that the thread serves.
//!
//! As with a call, the data are copied directly into a buffer of the process that receives them.
//! The reply is the same transaction as the call, on its way back. A reply that fails still ends
//! the call.

use crate::{
    allocation::Buffer,
    calls::{
        tell,
        translate::{copy_in, Route},
        ReplySent,
        Sender, //
    },
    common::{
        failure::{Failure, Reason},
        stats::take_debug_ids,
        transaction_log::{record, CallType}, //
    },
    defs::{no_error, Return, TransactionRequest, TF_ACCEPT_FDS, TF_DEFER_COMPLETE},
    ffi::{self, trace},
    kernel_ext::{once::read_once, sched::WakeHint},
    node::NodeInUse,
    priority,
    pure::{call_stack::Frame, freeze_state::WakeFreezers},
    range_alloc::CallKind,
    thread::Thread,
    transaction::{ended_at, Content, Transaction, TransactionBox},
    work::{ThreadWake, Wake}, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Replies to the call that the thread serves: `BC_REPLY`. No lock may be held.
///
/// If the thread serves a call, that call ends even if the reply fails: its outcome is returned to
/// the caller, and the thread itself reads a completion (contract TXN-25). `is_last` is true if no
/// command follows.
///
/// `freed` is the node of the call whose buffer the command before has freed, if it is in use until
/// now. Returns the completion if the thread reads it at once instead of its queued work.
pub(crate) fn reply(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    is_last: bool,
    freed: Option<NodeInUse>,
) -> Option<ReplySent> {
    let thread = sender.thread;
    let (id, begun) = begin_reply(thread, request, is_last && sender.reads_then, freed);
    let Some((mut transaction, completion)) = begun else {
        let failure = Failure::new(Reason::NoCallToReplyTo, EPROTO);
        tell(sender, request, CallType::Reply, (id, 0), None, failure);
        thread.queue_transaction_error(id, failure);
        return None;
    };
    let caller = transaction.caller.as_ref();
    let caller = caller.and_then(|caller| caller.thread());
    let filled = fill_reply(&mut transaction, caller.as_deref(), sender, request, id);
    let has_failed = filled.is_err();
    let mut read_at_once = None;
    match completion {
        // No command is left to be stopped, if the completion is read.
        ReplyCompletion::ReadAtOnce => read_at_once = Some(ReplySent { has_failed }),
        ReplyCompletion::Queued if has_failed => thread.stop_until_completion(),
        ReplyCompletion::Queued => {}
        ReplyCompletion::Later { is_deferred } => thread.end_reply(has_failed, is_deferred),
    }
    let saved_priority = transaction.saved_priority;
    match filled {
        Ok(()) => transaction.return_to_caller(caller, sender.hint, |caller, guard| {
            let (from, to) = (thread.party(), caller.party());
            let sent = record(CallType::Reply, request, from, to, 0);
            caller.process.log.queued.push(guard, id, sent);
        }),
        Err(failure) => return_failed(transaction, caller, sender, (id, failure)),
    }
    // The priority is restored only now: until the caller runs, it waits for this thread.
    priority::end_service(saved_priority);
    read_at_once
}

/// Returns the call to its caller with the failure of reply `id` in place of that. No lock may be
/// held.
#[cold]
fn return_failed(
    mut transaction: TransactionBox,
    caller: Option<Arc<Thread>>,
    sender: &Sender<'_>,
    (id, failure): (u32, Failure),
) {
    transaction.put_content(Content::Failed(failure));
    trace::txn_latency_free(|| transaction.ended_at(sender.thread.party()));
    transaction.return_to_caller(caller, sender.hint, |caller, guard| {
        let state = caller.state.access_mut(guard);
        // It keeps an error that it has not read.
        if state.extended_error.command == Return::Ok.code() {
            state.set_error(id, failure);
        }
    });
}

/// The fate of a reply's completion, which must come after node updates of the nodes that the reply
/// names.
enum ReplyCompletion {
    /// It is queued.
    Queued,
    /// The thread reads it when its command has run.
    ReadAtOnce,
    /// It is queued later, and deferred or not. Until then the thread stays
    /// [replying](crate::pure::call_stack::Frame::Replying), because no outcome of another call may
    /// be queued before the completion.
    Later { is_deferred: bool },
}

/// Takes the call that the thread serves off its stack. Returns the debug id of the reply; and the
/// call, with what becomes of the completion, which the thread may read at once if `reads_then`.
/// Ends the use of `freed`.
///
/// Returns no call when the thread serves none. No lock may be held.
fn begin_reply(
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    reads_then: bool,
    freed: Option<NodeInUse>,
) -> (u32, Option<(TransactionBox, ReplyCompletion)>) {
    let mut process = thread.process.state.lock();
    let id = process.debug_ids.next(take_debug_ids);
    // If so, the completion is queued, and read as any other work: that requests the thread.
    let needs_thread = process.needs_thread(thread);
    let has_ticket = process.spare_ticket.is_some();
    let state = thread.state.access_mut(&mut process);
    state.extended_error = no_error(id);
    let has_no_objects = request.offsets_size == 0 && has_ticket;
    let transaction = if has_no_objects {
        state.stack.pop_incoming()
    } else {
        state.stack.begin_reply()
    };
    let Some(transaction) = transaction else {
        drop(process);
        if let Some(freed) = freed {
            freed.end();
        }
        return (id, None);
    };
    let surplus = state.stack.frames.take_surplus();
    let mut wakes_pollers = false;
    let is_deferred = request.flags & TF_DEFER_COMPLETE != 0 && read_once(&ffi::DEFER_COMPLETE);
    let completion = if !has_no_objects {
        ReplyCompletion::Later { is_deferred }
    } else if reads_then
        && !is_deferred
        && !needs_thread
        && state.work.is_empty()
        && !matches!(state.stack.frames.last(), Some(Frame::Ended(_)))
    {
        wakes_pollers = state.looper.polls() && process.pollers_have_to_look();
        ReplyCompletion::ReadAtOnce
    } else {
        if let Some(ticket) = process.spare_ticket.take() {
            let wake = thread.complete_reply(&mut process, ticket, is_deferred);
            // It never names the thread, which is awake.
            wakes_pollers = matches!(wake, ThreadWake::Pollers);
        }
        ReplyCompletion::Queued
    };
    let WakeFreezers(wakes_freezers) = process.freeze.end_transaction();
    let update = match &freed {
        Some(NodeInUse(node)) => node.end_use_locked(&mut process),
        None => Wake::Nobody,
    };
    let wakes_waiters = wakes_pollers || wakes_freezers;
    let own = &thread.process;
    own.unlock_and_wake(process, &update, WakeHint::Anywhere, wakes_waiters);
    // There is rarely one, and dropping none would be a call.
    if let Some(surplus) = surplus {
        drop(surplus);
    }
    (id, Some((transaction, completion)))
}

/// Copies the data of a reply into a buffer of the caller. The transaction, which is the call that
/// the thread has served, owns the buffer afterwards. Reports a failure.
fn fill_reply(
    transaction: &mut Transaction,
    caller: Option<&Thread>,
    sender: &Sender<'_>,
    request: &TransactionRequest,
    id: u32,
) -> Result<(), Failure> {
    let thread = sender.thread;
    let Some(caller) = caller else {
        let failure = Failure::without_errno(Reason::CallerEnded);
        tell(sender, request, CallType::Reply, (id, 0), None, failure);
        return Err(failure);
    };
    let receiver = &caller.process;
    trace::transaction(|| {
        let TransactionRequest { code, flags, .. } = *request;
        (id, 0, receiver.pid, caller.id, true, code, flags)
    });
    // The caller waits for a reply, so it is never oneway, whatever its flags (contract TXN-15).
    let reserved = receiver.reserve_buffer(id, request, 0, CallKind::Sync);
    let mut buffer = match reserved {
        Ok(buffer) => buffer,
        Err(failure) => return Err(give_up(sender, request, id, caller, None, failure)),
    };
    trace::transaction_alloc_buf(|| buffer.traced(id));
    let route = Route {
        id,
        sender,
        receiver,
        accepts_files: transaction.flags & TF_ACCEPT_FDS != 0,
    };
    if let Err(failure) = copy_in(request, route, &mut buffer) {
        let failure = receiver.dead_or(failure);
        return Err(give_up(sender, request, id, caller, Some(buffer), failure));
    }
    transaction.put_content(Content::Reply {
        buffer,
        from: (thread.process.pid, thread.id),
        is_queued: false,
    });
    trace::txn_latency_free(|| transaction.ended_at(thread.party()));
    transaction.describe(id, request);
    Ok(())
}

/// Gives back the buffer of reply `id`, which cannot be copied to `caller`, and reports that.
/// Returns the failure.
#[cold]
fn give_up(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    id: u32,
    caller: &Thread,
    buffer: Option<Buffer>,
    failure: Failure,
) -> Failure {
    let receiver = &caller.process;
    if let Some(buffer) = buffer {
        trace::transaction_failed_buffer_release(|| buffer.traced(id));
        receiver.give_back_buffer(buffer);
    }
    trace::txn_latency_free(|| ended_at(id, request.code, request.flags, caller.party()));
    let to = Some((&**receiver, Some(caller)));
    tell(sender, request, CallType::Reply, (id, 0), to, failure);
    failure
}
