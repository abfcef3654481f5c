// SPDX-License-Identifier: GPL-2.0

//! Delivery of a call or a reply: it is written to user space, and given to the thread that reads
//! it.
//!
//! A transaction takes effect only after it has been written, so that it is either delivered as a
//! whole or not at all (lesson C15).

use crate::{
    allocation::{Buffer, Purpose},
    buffers::file_slots::ReservedNumbers,
    common::{
        debug::{self, binder_debug},
        failure::{Failure, Reason}, //
    },
    defs::{NodeName, Return, TransactionData},
    entry::read_buffer::{transaction_delivered, ReadBuffer},
    ffi::trace,
    kernel_ext::{park::WakeHint, pid, user::Plain},
    process::StateGuard,
    scheduling::priority,
    thread::Thread,
    transaction::{ArrivedReply, Content, Transaction, TransactionBox}, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    task::Kuid,
    uapi::binder_transaction_data, //
};

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
    let data = (start + buffer.offset()) as u64;
    let fields = binder_transaction_data {
        cookie: node.cookie,
        code,
        flags,
        sender_pid,
        sender_euid: pid::uid_here(sender_euid),
        data_size: buffer.layout.data_size() as u64,
        offsets_size: buffer.layout.offsets_size() as u64,
        ..pin_init::zeroed()
    };
    let offsets = data + buffer.layout.offsets_at() as u64;
    (
        TransactionData::new(fields, node.ptr, (data, offsets)),
        data,
    )
}

/// Allocates what a call needs before the thread can serve it: room on the stack of the thread, and
/// numbers for the files of the call. Returns the numbers. Fails when there is no memory or no free
/// number. No lock may be held.
pub(super) fn prepare(
    thread: &Thread,
    transaction: &Transaction,
    has_room_on_stack: bool,
) -> Result<Option<KBox<ReservedNumbers>>> {
    if !has_room_on_stack {
        thread.make_room_on_stack()?;
    }
    match transaction.buffer() {
        Some(buffer) => buffer.reserve_numbers(transaction.id, &thread.process),
        None => Ok(None),
    }
}

/// Delivers a call to the thread, which serves it from then on, unless the call is oneway. Returns
/// the locked state.
///
/// Fails with `EFAULT` when the call cannot be written to user space. The caller gets a transaction
/// error then.
pub(super) fn deliver_call<'a>(
    thread: &'a Arc<Thread>,
    mut transaction: TransactionBox,
    numbers: Option<KBox<ReservedNumbers>>,
    output: &mut ReadBuffer<'_>,
) -> Result<StateGuard<'a>> {
    let (node, buffer, caller_pid) = match transaction.content() {
        Content::Call { node, buffer } => (node, buffer, transaction.caller_pid()),
        Content::Oneway { node, buffer, .. } => (node, buffer, 0),
        // Work that is queued as a call has one of these two contents. One that has neither must
        // not stay among the pending calls.
        _ => {
            fail_delivery(thread, transaction);
            return Err(EINVAL);
        }
    };
    let Transaction {
        code,
        flags,
        sender_euid,
        ..
    } = *transaction;
    let call = (node.name, caller_pid);
    let (data, address) = transaction_data(thread, (code, flags, sender_euid), buffer, call);
    let context = buffer.context_at().map(|at| address + at as u64);
    let code = put_call(output, data, context);
    if let Err(error) = output.flush() {
        binder_debug!(
            FailedTransaction,
            "call {} of {}:{} cannot be written to the read buffer of its receiver: {}; it fails",
            transaction.id,
            transaction.sender().pid,
            transaction.sender().tid,
            debug::errno_name(error.to_errno())
        );
        fail_delivery(thread, transaction);
        return Err(error);
    }
    transaction_delivered(thread, transaction.id, code);
    match transaction.take_content() {
        Content::Call { node, buffer } => {
            let own = priority::begin_service(transaction.caller_priority, &node.priority);
            transaction.saved_priority.keep_first(own);
            deliver_buffer(thread, buffer, numbers, Purpose::Call(node));
        }
        Content::Oneway { node, buffer, .. } => {
            trace::txn_latency_free(|| transaction.ended_at(thread.process.pid(), 0));
            let raised_from = transaction.saved_priority.get();
            let flag_is_lent = priority::begin_oneway_service(&node.priority, raised_from);
            deliver_buffer(thread, buffer, numbers, Purpose::Oneway(node));
            return Ok(end_oneway_call(thread, transaction, flag_is_lent));
        }
        _ => {}
    }
    let mut process = thread.process.lock_state();
    thread.state(&mut process).serve(transaction);
    Ok(process)
}

/// Ends the transaction of a oneway call, which nobody waits for, and notes that the call has lent
/// the flag `SCHED_RESET_ON_FORK` to the task, if so. Returns the locked state.
#[inline(always)] // It has one caller.
fn end_oneway_call(
    thread: &Arc<Thread>,
    transaction: TransactionBox,
    flag_is_lent: bool,
) -> StateGuard<'_> {
    drop(transaction);
    let mut process = lock_after_transaction(thread);
    if flag_is_lent {
        thread.state(&mut process).looper.lend_flag();
    }
    drop_pending_call(thread, process)
}

/// Adds a call to the read buffer, with the address of the sender's security context if its buffer
/// has one. Returns the code that it is read under.
#[inline(always)] // It has one caller.
fn put_call(output: &mut ReadBuffer<'_>, data: TransactionData, context: Option<u64>) -> Return {
    match context {
        None => {
            output.put_transaction(Return::Transaction, data.as_bytes());
            Return::Transaction
        }
        Some(address) => {
            let data = data.with_context(address);
            output.put_transaction(Return::TransactionSecCtx, data.as_bytes());
            Return::TransactionSecCtx
        }
    }
}

/// Fails a call that cannot be delivered to the calling thread, and restores the priority that the
/// thread had before the call. No lock may be held.
pub(super) fn fail_delivery(thread: &Arc<Thread>, mut transaction: TransactionBox) {
    let saved_priority = transaction.saved_priority.take();
    trace::txn_latency_free(|| transaction.ended_at(thread.process.pid(), 0));
    if let Some(buffer) = transaction.buffer() {
        trace::transaction_buffer_release(|| buffer.traced(transaction.id));
    }
    transaction.fail(Failure::without_errno(Reason::Undeliverable));
    drop(drop_pending_call(thread, thread.process.lock_state()));
    if let Some(saved) = saved_priority {
        priority::end_service(saved);
    }
}

/// Removes a pending call that does not go onto the stack, because it is oneway or cannot be
/// delivered. Queues the outcome that was kept until then, if any. Returns the locked state, which
/// it may release in between.
fn drop_pending_call<'a>(thread: &'a Arc<Thread>, mut process: StateGuard<'a>) -> StateGuard<'a> {
    thread.state(&mut process).pending_calls -= 1;
    let wake = thread.queue_kept_outcome(&mut process);
    if wake.is_needed() {
        wake.after(process, thread, WakeHint::Anywhere);
        process = thread.process.lock_state();
    }
    process
}

/// Delivers a buffer whose address has been written to user space: installs its files, and allows
/// the process to free it.
#[inline]
fn deliver_buffer(
    thread: &Thread,
    mut buffer: Buffer,
    numbers: Option<KBox<ReservedNumbers>>,
    purpose: Purpose,
) {
    if let Some(numbers) = numbers {
        buffer.install_files(numbers);
    }
    thread.process.deliver_buffer(buffer, purpose);
}

/// Delivers a reply to the thread that made the call. No lock may be held.
///
/// Fails with `EFAULT` when the reply cannot be written to user space. The reply is released then.
pub(super) fn deliver_reply(
    thread: &Thread,
    reply: ArrivedReply,
    output: &mut ReadBuffer<'_>,
) -> Result {
    let process = &thread.process;
    let numbers = match reply.buffer.reserve_numbers(reply.id, process) {
        Ok(numbers) => numbers,
        Err(_) => {
            // The call has ended nevertheless, and its caller must be notified of that (lesson
            // R19).
            trace::transaction_buffer_release(|| reply.buffer.traced(reply.id));
            release_reply(thread, reply);
            output.put(Return::FailedReply, &[]);
            return output.flush();
        }
    };
    let (data, _) = transaction_data(
        thread,
        (reply.code, reply.flags, reply.sender_euid),
        &reply.buffer,
        (NodeName::default(), 0),
    );
    output.put_transaction(Return::Reply, data.as_bytes());
    if let Err(error) = output.flush() {
        drop(numbers);
        release_reply(thread, reply);
        return Err(error);
    }
    transaction_delivered(thread, reply.id, Return::Reply);
    trace::txn_latency_free(|| reply.ended_at(process.pid(), thread.id));
    deliver_buffer(thread, reply.buffer, numbers, Purpose::Reply);
    Ok(())
}

/// Releases a reply that cannot be delivered to the calling thread. No lock may be held.
#[cold]
fn release_reply(thread: &Thread, reply: ArrivedReply) {
    let process = &thread.process;
    trace::txn_latency_free(|| reply.ended_at(process.pid(), thread.id));
    process.give_back_buffer(reply.buffer);
}

/// Locks the state and ends a transaction that was outstanding for the process and has been
/// delivered. Returns the locked state, which it may release in between.
fn lock_after_transaction(thread: &Thread) -> StateGuard<'_> {
    let mut process = thread.process.lock_state();
    let freezers = process.freeze.end_transaction();
    if freezers.is_needed() {
        thread.process.unlock_and_wake_freezers(process, freezers);
        process = thread.process.lock_state();
    }
    process
}
