// SPDX-License-Identifier: GPL-2.0

//! The delivery of work: it is written to the read buffer of the thread that takes it.
//!
//! A call or a reply ends the read. It takes effect only after it has been written to user space,
//! so that it is either delivered as a whole or not at all (lesson C15).

use crate::{
    allocation::{aligned, Buffer},
    common::{
        debug::{self, binder_debug},
        failure::{Failure, Reason}, //
    },
    defs::{FreezeNotice, NodeName, Return, TransactionData, LARGEST_RETURN, TF_ONE_WAY},
    entry::read_buffer::{count_return, ReadBuffer, PIECE},
    ffi::trace,
    kernel_ext::{
        once::write_once,
        pid,
        sched::WakeHint, //
    },
    node::Node,
    priority,
    process::{ProcessState, StateGuard},
    pure::{
        call_stack::Frame,
        freeze_state::WakeFreezers,
        node_counts::NodeUpdate,
        priority_rules::Priority, //
    },
    thread::Thread,
    transaction::{ended_at, ArrivedReply, Content, Transaction, TransactionBox},
    work::{Code, CompletionRead, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    task::Kuid,
    uapi::binder_transaction_data, //
};

/// The result of writing an item of work.
pub(super) enum Written<'a> {
    /// Work behind which more can be written.
    More(StateGuard<'a>),
    /// The last work of this read, or all that there is, or has room.
    Last(StateGuard<'a>),
    /// A reply, which is the last work, and the pool [needs](ProcessState::needs_thread) no thread.
    /// A thread that reads one was not woken for the work of the process, so no idle thread has to
    /// be.
    Reply,
}

/// Writes the queued work until none is left, the buffer is full, or the last work of this read was
/// written. Releases the state lock in between.
#[inline(never)] // A thread that waits would have its stack frame.
pub(super) fn write_all_work<'a>(
    thread: &'a Arc<Thread>,
    mut process: StateGuard<'a>,
    output: &mut ReadBuffer<'_>,
    takes_common_work: bool,
) -> Result<Written<'a>> {
    while output.has_room() {
        if output.piece.len() > PIECE - LARGEST_RETURN {
            drop(process);
            output.flush()?;
            process = thread.process.state.lock();
            continue;
        }
        let own = thread.state.access_mut(&mut process).pop_work();
        let is_common = own.is_none();
        let work = match own {
            Some(own) => own,
            None if !takes_common_work => break,
            None => match process.work.pop_front() {
                Some(common) => common,
                None => break,
            },
        };
        let written = match work {
            Work::Call(call) => {
                process.queued_calls -= u32::from(is_common);
                let own = thread.state.access_mut(&mut process);
                own.pending_calls += u32::from(is_common);
                let raised_from = own.raised_from.take();
                let has_room = own.stack.frames.has_room();
                drop(process);
                deliver_call(thread, call, raised_from, has_room, output)?
            }
            Work::Outcome(mut outcome) => match outcome.content.take_reply() {
                Some(buffer) => deliver_reply(thread, process, outcome, buffer, output)?,
                None => Written::More(write_failure(thread, process, outcome, output)),
            },
            Work::Code(ticket) => {
                process = write_code(thread, process, ticket, output);
                continue;
            }
            other => write_other_work(thread, process, other, output),
        };
        match written {
            Written::More(locked) => process = locked,
            last => return Ok(last),
        }
    }
    Ok(Written::Last(process))
}

/// Writes the failure of a call, which is its outcome. The process keeps the transaction for the
/// next call. Returns the locked state, which it may release in between.
#[cold]
fn write_failure<'a>(
    thread: &'a Thread,
    mut process: StateGuard<'a>,
    mut outcome: TransactionBox,
    output: &mut ReadBuffer<'_>,
) -> StateGuard<'a> {
    if let Content::Failed(error) = core::mem::take(&mut outcome.content) {
        output.put(error.return_code(), ());
    }
    let surplus = process.spare_transaction.replace(outcome);
    drop_surplus(thread, process, surplus)
}

/// Writes a return code, or a completion. The process keeps its place for the next one. Returns the
/// locked state, which it may release in between.
#[inline(always)] // It has one caller.
fn write_code<'a>(
    thread: &'a Thread,
    mut process: StateGuard<'a>,
    ticket: WorkTicket,
    output: &mut ReadBuffer<'_>,
) -> StateGuard<'a> {
    if let Code::Return(answer) = *ticket {
        output.put(process.as_delivered(answer), ());
    } else {
        let completion = thread.state.access_mut(&mut process).completions.read();
        if completion != CompletionRead::Withdrawn {
            output.put(Return::TransactionComplete, ());
        }
        if completion == CompletionRead::StopsCommands {
            write_once(&thread.has_unread_error, false);
        }
    }
    let surplus = process.spare_ticket.replace(ticket);
    drop_surplus(thread, process, surplus)
}

/// Drops a surplus without the lock, if there is one. Returns the locked state.
fn drop_surplus<'a, T>(
    thread: &'a Thread,
    process: StateGuard<'a>,
    surplus: Option<T>,
) -> StateGuard<'a> {
    let Some(surplus) = surplus else {
        return process;
    };
    drop(process);
    drop(surplus);
    thread.process.state.lock()
}

/// Writes one kind of work that [`write_all_work`] does not write itself.
#[inline(never)] // Calls would have its code among theirs.
fn write_other_work<'a>(
    thread: &'a Thread,
    mut process: StateGuard<'a>,
    work: Work,
    output: &mut ReadBuffer<'_>,
) -> Written<'a> {
    match work {
        // Written by `write_all_work`.
        Work::Call(_) | Work::Outcome(_) | Work::Code(_) => return Written::More(process),
        Work::Error(own) => {
            output.put(thread.state.access_mut(&mut process).unread_error, ());
            write_once(&thread.has_unread_error, false);
            // Not the last reference: the caller has another.
            drop(own);
            return Written::More(process);
        }
        Work::Node(node) => {
            let is_forgotten = write_node_update(&node, &mut process, output);
            drop(process);
            match is_forgotten {
                true => thread.process.keep_node(node),
                false => drop(node),
            }
        }
        Work::Death(death) => {
            let (notice, unused) = death.read(&mut process);
            if write_notification(notice, output) {
                return Written::Last(process);
            }
            match unused {
                None => return Written::More(process),
                Some(unused) => {
                    drop(process);
                    drop(unused);
                }
            }
        }
        Work::Freeze(freeze) => {
            if write_notification(freeze.read(&mut process), output) {
                return Written::Last(process);
            }
            drop(process);
            drop(freeze);
        }
    }
    Written::More(thread.process.state.lock())
}

/// Delivers a call to the thread, which serves it from then on, unless the call is oneway.
/// `raised_from` is the priority from which its sender has raised the thread, if it has. `has_room`
/// is true if the stack of the thread has room for it. A call that cannot be served, because there
/// is no memory, or no free number for a file, is not written: only its caller is notified of that
/// (contract TXN-27). No lock may be held.
///
/// Fails with `EFAULT` when the call cannot be written to user space. The caller gets a transaction
/// error then.
fn deliver_call<'a>(
    thread: &'a Arc<Thread>,
    mut transaction: TransactionBox,
    raised_from: Option<Priority>,
    has_room: bool,
    output: &mut ReadBuffer<'_>,
) -> Result<Written<'a>> {
    let Content::Call { node, buffer, .. } = &transaction.content else {
        return Ok(fail_delivery(thread, transaction, raised_from, None));
    };
    let room = match has_room {
        true => Ok(()),
        false => thread.make_room_on_stack(),
    };
    let numbers = room.and_then(|()| match &buffer.named {
        None => Ok(None),
        Some(named) => named.reserve_numbers(transaction.id, &thread.process, buffer.offset),
    });
    let Ok(numbers) = numbers else {
        return Ok(fail_delivery(thread, transaction, raised_from, None));
    };
    let code = push_call(thread, &transaction, (node, buffer), output);
    if let Err(error) = output.flush() {
        fail_delivery(thread, transaction, raised_from, Some(error));
        return Err(error);
    }
    trace::transaction_received(transaction.id);
    count_return(thread, code);
    if let Some((node, mut buffer)) = transaction.content.take_call() {
        if let (Some(named), Some(numbers)) = (&mut buffer.named, numbers) {
            named.install_files(numbers);
        }
        if transaction.flags & TF_ONE_WAY != 0 {
            return Ok(Written::Last(serve_oneway_call(
                thread,
                transaction,
                raised_from,
                (node, buffer),
            )));
        }
        let own = priority::begin_service(transaction.caller_priority, &node.priority);
        transaction.saved_priority = raised_from.unwrap_or(own);
        thread.process.deliver_buffer(buffer, Some(node), false);
    }
    let mut process = thread.process.state.lock();
    let own = thread.state.access_mut(&mut process);
    own.pending_calls -= 1;
    // It has room, see above.
    let _ = own.stack.frames.push(Frame::Incoming(transaction));
    Ok(Written::Last(process))
}

/// Writes a call for its reader, but not yet to user space. Returns the command.
#[inline(always)] // It has one caller.
fn push_call(
    thread: &Thread,
    transaction: &Transaction,
    (node, buffer): (&Arc<Node>, &Buffer),
    output: &mut ReadBuffer<'_>,
) -> Return {
    // 0 also if the reader cannot see the process of the caller (contract TXN-5).
    let sender_pid = match &transaction.caller {
        Some(caller) if !caller.has_ended() => caller
            .process()
            .process
            .with(|process| process.map_or(0, |process| pid::number_for_current(&process.group))),
        _ => 0,
    };
    let sent = (transaction.code, transaction.flags, transaction.sender_euid);
    let (data, address) = transaction_data(thread, sent, buffer, (node.name, sender_pid));
    let layout = buffer.layout;
    if layout.context_at == layout.total {
        output.push(Return::Transaction, data);
        Return::Transaction
    } else {
        let data = data.with_context(address + u64::from(layout.context_at));
        output.push(Return::TransactionSecCtx, data);
        Return::TransactionSecCtx
    }
}

/// Ends the transaction of a oneway call, which is delivered, and which nobody waits for. The call
/// is outstanding no more. Returns the locked state.
#[inline(always)] // It has one caller.
fn serve_oneway_call(
    thread: &Arc<Thread>,
    transaction: TransactionBox,
    raised_from: Option<Priority>,
    (node, buffer): (Arc<Node>, Buffer),
) -> StateGuard<'_> {
    trace::txn_latency_free(|| transaction.ended_at(thread.process.party(0)));
    let flag_is_lent = priority::begin_oneway_service(&node.priority, raised_from);
    thread.process.deliver_buffer(buffer, Some(node), true);
    drop(transaction);
    let mut process = thread.process.state.lock();
    let WakeFreezers(wakes_freezers) = process.freeze.end_transaction();
    if wakes_freezers {
        thread.process.notify_waiters_after(process);
        process = thread.process.state.lock();
    }
    if flag_is_lent {
        thread.state.access_mut(&mut process).looper.lend_flag();
    }
    drop_pending_call(thread, process)
}

/// Fails a call that cannot be delivered to the calling thread, with `unwritable` because it cannot
/// be written to user space. Restores the priority that the thread had before the call. No lock may
/// be held. Returns that more can be written.
#[cold]
fn fail_delivery(
    thread: &Arc<Thread>,
    transaction: TransactionBox,
    raised_from: Option<Priority>,
    unwritable: Option<Error>,
) -> Written<'_> {
    if let Some(error) = unwritable {
        binder_debug!(
            FailedTransaction,
            "call {} of {} cannot be written to the read buffer of its receiver: {}; it fails",
            transaction.id,
            transaction.sender(),
            debug::errno_name(error.to_errno())
        );
    }
    trace::txn_latency_free(|| transaction.ended_at(thread.process.party(0)));
    if let Some(buffer) = transaction.buffer() {
        trace::transaction_buffer_release(|| buffer.traced(transaction.id));
    }
    transaction.fail(Failure::without_errno(Reason::Undeliverable));
    drop(drop_pending_call(thread, thread.process.state.lock()));
    if let Some(saved) = raised_from {
        priority::end_service(saved);
    }
    Written::More(thread.process.state.lock())
}

/// Removes a pending call that does not go onto the stack, because it is oneway or cannot be
/// delivered. Queues the outcome that was kept until then, if any. Returns the locked state, which
/// it may release in between.
fn drop_pending_call<'a>(thread: &'a Arc<Thread>, mut process: StateGuard<'a>) -> StateGuard<'a> {
    thread.state.access_mut(&mut process).pending_calls -= 1;
    let wake = thread.queue_kept_outcome(&mut process);
    if wake.is_needed() {
        wake.after(process, &thread.process, WakeHint::Anywhere);
        process = thread.process.state.lock();
    }
    process
}

/// Delivers a reply, which the thread has taken out of `outcome`, to the thread: it made the call,
/// which is not outstanding any more. The thread keeps the transaction. Releases the state lock.
///
/// Fails with `EFAULT` when the reply cannot be written to user space. The reply is released then.
fn deliver_reply<'a>(
    thread: &'a Thread,
    mut process: StateGuard<'a>,
    outcome: TransactionBox,
    buffer: Buffer,
    output: &mut ReadBuffer<'_>,
) -> Result<Written<'a>> {
    let mut reply = ArrivedReply {
        id: outcome.id,
        code: outcome.code,
        flags: outcome.flags,
        sender_euid: outcome.sender_euid,
        buffer,
    };
    let polls = thread.state.access_mut(&mut process).looper.polls();
    let surplus = process.spare_transaction.replace(outcome);
    let WakeFreezers(wakes_freezers) = process.freeze.end_transaction();
    let needs_thread = process.needs_thread(thread);
    if wakes_freezers || (polls && process.pollers_have_to_look()) {
        thread.process.notify_waiters_after(process);
    } else {
        drop(process);
    }
    drop(surplus);
    let numbers = match &reply.buffer.named {
        None => Ok(None),
        Some(named) => named.reserve_numbers(reply.id, &thread.process, reply.buffer.offset),
    };
    let Ok(numbers) = numbers else {
        // The call has ended nevertheless, and its caller must be notified of that (lesson R19).
        trace::transaction_buffer_release(|| reply.buffer.traced(reply.id));
        release_reply(thread, reply);
        output.put(Return::FailedReply, ());
        output.flush()?;
        return Ok(reply_written(thread, needs_thread));
    };
    let sent = (reply.code, reply.flags, reply.sender_euid);
    let (data, _) = transaction_data(thread, sent, &reply.buffer, (NodeName::default(), 0));
    output.push(Return::Reply, data);
    if let Err(error) = output.flush() {
        drop(numbers);
        release_reply(thread, reply);
        return Err(error);
    }
    trace::transaction_received(reply.id);
    count_return(thread, Return::Reply);
    trace::txn_latency_free(|| ended_at(reply.id, reply.code, reply.flags, thread.party()));
    if let (Some(named), Some(numbers)) = (&mut reply.buffer.named, numbers) {
        named.install_files(numbers);
    }
    thread.process.deliver_buffer(reply.buffer, None, false);
    Ok(reply_written(thread, needs_thread))
}

/// Returns what follows a reply when the pool needs a thread, or not.
fn reply_written(thread: &Thread, needs_thread: bool) -> Written<'_> {
    match needs_thread {
        false => Written::Reply,
        true => Written::Last(thread.process.state.lock()),
    }
}

/// Releases a reply that cannot be delivered to the calling thread. No lock may be held.
#[cold]
fn release_reply(thread: &Thread, reply: ArrivedReply) {
    trace::txn_latency_free(|| ended_at(reply.id, reply.code, reply.flags, thread.party()));
    thread.process.give_back_buffer(reply.buffer);
}

/// Returns what user space reads of a transaction with this code, these flags and this sender,
/// whose data is in `buffer`, and the address of the data. `node` and `sender_pid` are those of a
/// call.
#[inline(always)] // It is most of a delivery, and has two callers.
fn transaction_data(
    thread: &Thread,
    (code, flags, sender_euid): (u32, u32, Kuid),
    buffer: &Buffer,
    (node, sender_pid): (NodeName, i32),
) -> (TransactionData, u64) {
    // A process that receives has mapped its space.
    let start = thread.process.pages.address().unwrap_or(0);
    let data = (start + buffer.offset as usize) as u64;
    let fields = binder_transaction_data {
        cookie: node.cookie,
        code,
        flags,
        sender_pid,
        sender_euid: pid::kernel_ext_uid_here(sender_euid.into_raw().val),
        data_size: buffer.layout.data_size.into(),
        offsets_size: buffer.layout.offsets_size.into(),
        ..pin_init::zeroed()
    };
    let offsets = data + u64::from(aligned::<usize>(buffer.layout.data_size));
    (
        TransactionData::new(fields, node.ptr, (data, offsets)),
        data,
    )
}

/// Writes how the counts of a node have changed, for its owner. Returns whether the node is
/// forgotten.
fn write_node_update(node: &Node, process: &mut ProcessState, output: &mut ReadBuffer<'_>) -> bool {
    let NodeUpdate {
        increfs,
        acquire,
        release,
        decrefs,
        forget,
    } = node.take_update(process);
    let messages = [
        (increfs, Return::IncRefs),
        (acquire, Return::Acquire),
        (release, Return::Release),
        (decrefs, Return::DecRefs),
    ];
    for (is_set, message) in messages {
        if is_set {
            output.put(message, node.name);
        }
    }
    forget
}

/// Writes one message of a notification (contract WR-9), if it still has one. Returns whether user
/// space is to confirm it, which ends the read. The delivered notifications have the notification
/// then.
#[inline(always)] // The code is known in most places, and so is the size of its payload.
fn write_notification(
    message: Option<(Return, FreezeNotice)>,
    output: &mut ReadBuffer<'_>,
) -> bool {
    let Some((code, notice)) = message else {
        return false;
    };
    // Each by its own code, of which the place to count is known then.
    match code {
        Return::DeadBinder => output.put(Return::DeadBinder, notice.cookie),
        Return::FrozenBinder => output.put(Return::FrozenBinder, notice),
        Return::ClearDeathNotificationDone => {
            output.put(Return::ClearDeathNotificationDone, notice.cookie);
        }
        other => output.put(other, notice.cookie),
    }
    matches!(code, Return::DeadBinder | Return::FrozenBinder)
}

// A node update (at most two messages, because two of the four exclude the other two) fits where
// the largest item fits, so one check of the room serves both.
const _: () = assert!(2 * (size_of::<u32>() + size_of::<NodeName>()) <= LARGEST_RETURN);
