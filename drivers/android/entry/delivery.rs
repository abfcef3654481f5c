// SPDX-License-Identifier: GPL-2.0

//! The read buffer of the calling process, and the delivery of a call or a reply: it is written to
//! user space, and given to the thread that reads it.
//!
//! Items (a `BR_*` code and its payload) are gathered in the kernel, and written to user space in
//! one piece.
//!
//! A transaction takes effect only after it has been written, so that it is either delivered as a
//! whole or not at all (lesson C15).

use crate::{
    allocation::{aligned, files::ReservedNumbers, Buffer},
    common::{
        debug::{self, binder_debug},
        failure::{Failure, Reason},
        stats::Counter, //
    },
    defs::{NodeName, Return, TransactionData, WriteRead, LARGEST_RETURN, TF_ONE_WAY},
    ffi::trace,
    kernel_ext::{
        pid,
        sched::WakeHint,
        user::{self, Plain, StackBytes}, //
    },
    node::Node,
    priority,
    process::StateGuard,
    pure::{call_stack::Frame, freeze_state::WakeFreezers, priority_rules::Priority},
    thread::Thread,
    transaction::{ended_at, ArrivedReply, Content, Transaction, TransactionBox}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    task::Kuid,
    uaccess::UserPtr,
    uapi::binder_transaction_data, //
};

/// How many bytes are gathered before they are written: more than one read usually returns.
pub(super) const PIECE: usize = 192;

const _: () = assert!(LARGEST_RETURN < PIECE);

pub(super) const SIZE_OF_CODE: u64 = size_of::<u32>() as u64;

/// The read buffer of the calling process.
pub(super) struct ReadBuffer<'a> {
    /// Who reads it.
    reader: &'a Thread,
    address: u64,
    size: u64,
    /// How many bytes of the buffer are used, including those in `piece`.
    pub(super) written: u64,
    /// How many of them user space has.
    pub(super) flushed: u64,
    /// The rest of them.
    piece: StackBytes<PIECE>,
}

impl<'a> ReadBuffer<'a> {
    /// Returns the read buffer of `reader` that `io` describes, after it has [begun](begin).
    #[inline(always)]
    pub(super) fn new(reader: &'a Thread, io: &WriteRead) -> Self {
        let mut buffer = Self {
            reader,
            address: io.read_buffer,
            size: io.read_size,
            written: io.read_consumed,
            flushed: io.read_consumed,
            piece: StackBytes::new(),
        };
        if io.read_consumed == 0 {
            // It is written once more with what comes behind it: whole words are copied faster.
            buffer.push(Return::Noop, &[]);
        }
        buffer
    }

    /// Whether user space has left room for another item of any size (contract WR-8).
    pub(super) fn has_room(&self) -> bool {
        self.size.saturating_sub(self.written) >= LARGEST_RETURN as u64
    }

    /// Adds an item, and counts it. The piece must have room for it.
    #[inline(always)]
    pub(super) fn put(&mut self, code: Return, payload: &[u8]) {
        self.push(code, payload);
        count_return(self.reader, code);
    }

    /// Adds a call or a reply, which is counted once user space has it. The piece must have room
    /// for it.
    fn push(&mut self, code: Return, payload: &[u8]) {
        let _ = self.piece.push(&code.code().to_ne_bytes());
        let _ = self.piece.push(payload);
        self.written += SIZE_OF_CODE + payload.len() as u64;
    }

    /// Replaces the first code of the buffer (contract WR-10), and counts it. Fails with `EFAULT`.
    pub(super) fn put_first(&mut self, code: Return) -> Result {
        match self.piece.as_mut_slice().first_chunk_mut() {
            Some(first) if self.flushed == 0 => *first = code.code().to_ne_bytes(),
            _ => {
                if !user::put_u32(place(self.address)?, code.code()) {
                    return Err(EFAULT);
                }
            }
        }
        count_return(self.reader, code);
        Ok(())
    }

    /// Writes the gathered items to user space. Fails with `EFAULT`, and keeps them then.
    pub(super) fn flush(&mut self) -> Result {
        if self.flushed != self.written {
            let address = self.address.checked_add(self.flushed).ok_or(EFAULT)?;
            self.piece.flush(place(address)?)?;
            self.flushed = self.written;
        }
        Ok(())
    }
}

/// Begins a read: if nothing of the buffer that `io` describes is consumed, writes the code that a
/// read begins with, which is neither counted nor traced. So a buffer that cannot be written is
/// noticed before anything is taken out for it, or waited for (contract WR-12). Returns how much of
/// the buffer is written then. Fails with `EFAULT`.
#[inline(always)]
pub(super) fn begin(io: &WriteRead) -> Result<u64> {
    if io.read_consumed > 0 {
        return Ok(io.read_consumed);
    }
    let is_written = user::put_u32(place(io.read_buffer)?, Return::Noop.code());
    is_written.then_some(SIZE_OF_CODE).ok_or(EFAULT)
}

/// Counts and traces a code that user space has, or is about to have.
#[inline(always)]
pub(super) fn count_return(reader: &Thread, code: Return) {
    reader.counts.count(Counter::of_return(code));
    trace::return_code(code.code());
}

/// Returns the place in the memory of the calling process that has this address. Fails with
/// `EFAULT`.
pub(super) fn place(address: u64) -> Result<UserPtr> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    Ok(UserPtr::from_addr(address))
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

/// Delivers a call to the thread, which serves it from then on, unless the call is oneway.
/// `has_room` says whether the stack of the thread has room for it. Returns the locked state.
/// Returns `None` if the call cannot be served, because there is no memory, or no free number for a
/// file: only its caller is notified of that (contract TXN-27).
///
/// Fails with `EFAULT` when the call cannot be written to user space. The caller gets a transaction
/// error then.
pub(super) fn deliver_call<'a>(
    thread: &'a Arc<Thread>,
    mut transaction: TransactionBox,
    raised_from: Option<Priority>,
    has_room: bool,
    output: &mut ReadBuffer<'_>,
) -> Result<Option<StateGuard<'a>>> {
    let (node, buffer, numbers) = match prepare(thread, &transaction, has_room) {
        Ok(prepared) => prepared,
        Err(_) => {
            fail_delivery(thread, transaction, raised_from);
            return Ok(None);
        }
    };
    let sent = (transaction.code, transaction.flags, transaction.sender_euid);
    // 0 also if the reader cannot see the process of the caller (contract TXN-5).
    let sender_pid = match &transaction.caller {
        Some(caller) if !caller.has_ended.load(Relaxed) => {
            pid::number_for_current(&caller.process.group)
        }
        _ => 0,
    };
    let call = (node.name, sender_pid);
    let (data, address) = transaction_data(thread, sent, buffer, call);
    let layout = buffer.layout;
    let code = if layout.context_at == layout.total {
        output.push(Return::Transaction, data.as_bytes());
        Return::Transaction
    } else {
        let data = data.with_context(address + u64::from(layout.context_at));
        output.push(Return::TransactionSecCtx, data.as_bytes());
        Return::TransactionSecCtx
    };
    if let Err(error) = output.flush() {
        binder_debug!(
            FailedTransaction,
            "call {} of {}:{} cannot be written to the read buffer of its receiver: {}; it fails",
            transaction.id,
            transaction.sender().pid,
            transaction.sender().tid,
            debug::errno_name(error.to_errno())
        );
        fail_delivery(thread, transaction, raised_from);
        return Err(error);
    }
    trace::transaction_received(transaction.id);
    count_return(thread, code);
    if let Content::Call {
        node, mut buffer, ..
    } = core::mem::take(&mut transaction.content)
    {
        if let (Some(named), Some(numbers)) = (&mut buffer.named, numbers) {
            named.install_files(numbers);
        }
        if transaction.flags & TF_ONE_WAY != 0 {
            trace::txn_latency_free(|| transaction.ended_at(thread.process.pid, 0));
            let flag_is_lent = priority::begin_oneway_service(&node.priority, raised_from);
            let process = &thread.process;
            process.deliver_buffer(buffer, Some(node), true);
            return Ok(Some(end_oneway_call(thread, transaction, flag_is_lent)));
        }
        let own = priority::begin_service(transaction.caller_priority, &node.priority);
        transaction.saved_priority = raised_from.unwrap_or(own);
        thread.process.deliver_buffer(buffer, Some(node), false);
    }
    let mut process = thread.process.state.lock();
    let own = thread.state.access_mut(&mut process);
    own.pending_calls -= 1;
    // It has room, see `prepare`.
    let _ = own.stack.frames.push(Frame::Incoming(transaction));
    Ok(Some(process))
}

/// Allocates what a call needs before the thread can serve it: room on the stack of the thread, and
/// numbers for the files of the call. Returns its node, its buffer and the numbers. Fails when
/// there is no memory or no free number. No lock may be held.
#[inline(always)] // It has one caller.
fn prepare<'a>(
    thread: &Thread,
    transaction: &'a Transaction,
    has_room_on_stack: bool,
) -> Result<(&'a Node, &'a Buffer, Option<KBox<ReservedNumbers>>)> {
    let Content::Call { node, buffer, .. } = &transaction.content else {
        return Err(EINVAL);
    };
    if !has_room_on_stack {
        thread.make_room_on_stack()?;
    }
    let numbers = match &buffer.named {
        None => None,
        Some(named) => named.reserve_numbers(transaction.id, &thread.process, buffer.offset)?,
    };
    Ok((node, buffer, numbers))
}

/// Ends the transaction of a oneway call, which nobody waits for and which is outstanding no more,
/// and notes that the call has lent the flag `SCHED_RESET_ON_FORK` to the task, if so. Returns the
/// locked state.
#[inline(always)] // It has one caller.
fn end_oneway_call(
    thread: &Arc<Thread>,
    transaction: TransactionBox,
    flag_is_lent: bool,
) -> StateGuard<'_> {
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

/// Fails a call that cannot be delivered to the calling thread, and restores the priority that the
/// thread had before the call. No lock may be held.
fn fail_delivery(thread: &Arc<Thread>, transaction: TransactionBox, raised_from: Option<Priority>) {
    trace::txn_latency_free(|| transaction.ended_at(thread.process.pid, 0));
    if let Some(buffer) = transaction.buffer() {
        trace::transaction_buffer_release(|| buffer.traced(transaction.id));
    }
    transaction.fail(Failure::without_errno(Reason::Undeliverable));
    drop(drop_pending_call(thread, thread.process.state.lock()));
    if let Some(saved) = raised_from {
        priority::end_service(saved);
    }
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

/// Delivers a reply to the thread that made the call. No lock may be held.
///
/// Fails with `EFAULT` when the reply cannot be written to user space. The reply is released then.
pub(super) fn deliver_reply(
    thread: &Thread,
    mut reply: ArrivedReply,
    output: &mut ReadBuffer<'_>,
) -> Result {
    let process = &thread.process;
    let numbers = match &reply.buffer.named {
        None => Ok(None),
        Some(named) => named.reserve_numbers(reply.id, process, reply.buffer.offset),
    };
    let numbers = match numbers {
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
    output.push(Return::Reply, data.as_bytes());
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
    process.deliver_buffer(reply.buffer, None, false);
    Ok(())
}

/// Releases a reply that cannot be delivered to the calling thread. No lock may be held.
#[cold]
fn release_reply(thread: &Thread, reply: ArrivedReply) {
    trace::txn_latency_free(|| ended_at(reply.id, reply.code, reply.flags, thread.party()));
    thread.process.give_back_buffer(reply.buffer);
}
