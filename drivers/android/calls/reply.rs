// SPDX-License-Identifier: GPL-2.0

//! `BC_REPLY`: replies to the call that the thread serves.
//!
//! As with a call, the data are copied directly into a buffer of the process that receives them. The
//! reply is the same transaction as the call, on its way back. A reply that fails still ends the call.

use crate::{
    calls::{
        failure::Failure,
        sender::Sender,
        translate::{copy_in, Route}, //
    },
    common::{
        error::TransactionError,
        reason::Reason,
        stats::next_debug_id,
        transaction_log::{Kind, Sent}, //
    },
    defs::{transaction_flags, ExtendedError, TransactionRequest},
    kernel_ext::{park::WakeHint, versions::EPROTO},
    range_alloc::CallKind,
    scheduling::priority,
    thread::Thread,
    trace,
    transaction::{Content, Transaction},
    work::ThreadWake, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// Replies to the call that the thread serves: `BC_REPLY`. No lock may be held.
///
/// If the thread serves a call, that call ends even if the reply fails: its outcome is returned to the
/// caller, and the thread itself reads a completion (contract TXN-25).
pub(crate) fn reply(sender: &Sender<'_>, request: &TransactionRequest) {
    let thread = sender.thread;
    let id = next_debug_id();
    let Some((mut transaction, is_completion_queued)) = begin_reply(thread, request, id) else {
        let error = TransactionError::failed(Reason::NoCallToReplyTo, EPROTO);
        Failure::from(error).tell(sender, request, id, Kind::Reply);
        return thread.queue_transaction_error(id, error);
    };
    let error = match fill_reply(&mut transaction, sender, request, id) {
        Ok(()) => None,
        Err(failure) => {
            failure.tell(sender, request, id, Kind::Reply);
            let error = failure.error;
            transaction.put_content(Content::Failed(error));
            trace::txn_latency_free(|| transaction.ended_at(thread.process.pid(), thread.id));
            Some((id, error))
        }
    };
    match error {
        None if is_completion_queued => {}
        Some(_) if is_completion_queued => thread.stop_until_completion(),
        _ => thread.end_reply(error.is_some()),
    }
    let saved_priority = transaction.saved_priority;
    transaction.return_to_caller(error, sender.hint, |caller, guard| {
        if error.is_none() {
            let (from, to) = (thread.party(), caller.party());
            let sent = Sent::new(Kind::Reply, request, from, to, 0);
            caller.process.log.add(guard, id, &sent);
        }
    });
    // The priority is restored only now: until the caller runs, it waits for this thread.
    if let Some(saved) = saved_priority.get() {
        priority::end_service(saved);
    }
}

/// Takes the call that the thread serves off its stack. Returns it, and whether the completion of the
/// reply is queued already, which must come after node updates, as with calls. If it is not queued, the
/// thread stays [replying](crate::pure::call_stack::Frame::Replying), because no outcome of another call may be queued before
/// the completion.
///
/// Returns `None` when the thread serves no call. No lock may be held.
fn begin_reply(
    thread: &Arc<Thread>,
    request: &TransactionRequest,
    id: u32,
) -> Option<(KBox<Transaction>, bool)> {
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    state.extended_error = ExtendedError::none(id);
    let is_completion_queued = request.offsets_size == 0 && state.spare_ticket.is_some();
    let transaction = if is_completion_queued {
        state.stack.pop_incoming()?
    } else {
        state.stack.begin_reply()?
    };
    let surplus = state.stack.take_surplus();
    let wake = match is_completion_queued
        .then(|| state.spare_ticket.take())
        .flatten()
    {
        Some(ticket) => thread.complete_reply(&mut process, ticket),
        None => ThreadWake::Nobody,
    };
    let freezers = process.freeze.end_transaction();
    drop(process);
    drop(surplus);
    wake.now(thread, WakeHint::Anywhere);
    thread.process.wake_freezers(freezers);
    Some((transaction, is_completion_queued))
}

/// Copies the data of a reply into a buffer of the caller. The transaction, which is the call that the
/// thread has served, owns the buffer afterwards.
fn fill_reply(
    transaction: &mut Transaction,
    sender: &Sender<'_>,
    request: &TransactionRequest,
    id: u32,
) -> Result<(), Failure> {
    if transaction.caller.has_ended.load(Relaxed) {
        return Err(TransactionError::died(Reason::CallerEnded).into());
    }
    trace::transaction(|| trace::Sent {
        id,
        node: 0,
        process: transaction.caller.process.pid(),
        thread: transaction.caller.id,
        is_reply: true,
        code: request.code,
        flags: request.flags,
    });
    let copied = copy_reply(transaction, sender, request, id);
    if let Err(error) = copied {
        release_failed(transaction, request, id);
        let caller = &transaction.caller;
        return Err(Failure::on_the_way_to(
            &caller.process,
            Some(caller),
            0,
            error,
        ));
    }
    trace::txn_latency_free(|| {
        let replier = sender.thread;
        transaction.ended_at(replier.process.pid(), replier.id)
    });
    transaction.describe(id, request);
    Ok(())
}

/// Releases what is left of reply `id`, which cannot be copied to its receiver.
#[cold]
fn release_failed(transaction: &mut Transaction, request: &TransactionRequest, id: u32) {
    if let Some(buffer) = transaction.buffer() {
        trace::transaction_failed_buffer_release(|| buffer.traced(id));
    }
    transaction.release_content();
    trace::txn_latency_free(|| trace::Ended {
        id,
        from_process: 0,
        from_thread: 0,
        to_process: transaction.caller.process.pid(),
        to_thread: transaction.caller.id,
        code: request.code,
        flags: request.flags,
    });
}

/// Copies the data. The transaction owns the buffer, even if the copy fails.
fn copy_reply(
    transaction: &mut Transaction,
    sender: &Sender<'_>,
    request: &TransactionRequest,
    id: u32,
) -> Result<(), TransactionError> {
    let caller = &transaction.caller.process;
    // The caller waits for a reply, so it is never oneway, whatever its flags (contract TXN-15).
    let mut buffer = caller.reserve_buffer(id, request, 0, CallKind::Sync)?;
    trace::transaction_alloc_buf(|| buffer.traced(id));
    let route = Route {
        id,
        sender,
        receiver: caller,
        accepts_files: transaction.flags & transaction_flags::ACCEPT_FDS != 0,
    };
    let copied = copy_in(request, route, &mut buffer).map_err(|error| caller.dead_or(error));
    transaction.put_content(Content::Reply {
        buffer,
        from: (sender.thread.process.pid(), sender.thread.id),
        is_queued: false,
    });
    copied
}
