// SPDX-License-Identifier: GPL-2.0

//! The read half of `BINDER_WRITE_READ`: waits for work, and writes it to user space.
//!
//! What is to be written is gathered on the stack and written in one piece, but a completion that
//! is read alone. A call or a reply ends a read; how it is delivered is in
//! [`crate::entry::delivery`].

use crate::{
    calls::ReplySent,
    defs::{FreezeNotice, NodeName, Return, WriteRead, LARGEST_RETURN},
    entry::delivery::{
        begin,
        count_return,
        deliver_call,
        deliver_reply,
        place,
        ReadBuffer,
        PIECE,
        SIZE_OF_CODE, //
    },
    ffi::{self, trace},
    kernel_ext::{
        sched::{self, WakeHint},
        user::{self, Plain}, //
    },
    node::Node,
    priority,
    process::{ProcessState, StateGuard},
    pure::{freeze_state::WakeFreezers, node_counts::NodeUpdate, priority_rules::Priority},
    thread::{Thread, WaitState},
    transaction::{ArrivedReply, Content, TransactionBox},
    work::{Code, CompletionRead, Wake, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Writes the work of the thread to user space. Waits for work if none is queued and `may_wait` is
/// set.
///
/// Fails with `EAGAIN` when no work is queued and `may_wait` is not set, with `EINTR` on a signal,
/// and with `EFAULT` when the buffer cannot be written. Sleeps; no lock may be held.
#[inline(always)] // It has one caller.
pub(crate) fn read(thread: &Arc<Thread>, io: &mut WriteRead, may_wait: bool) -> Result {
    let needed = match io.read_consumed {
        0 => SIZE_OF_CODE,
        consumed => consumed,
    };
    if io.read_size < needed {
        return read_without_room(thread, may_wait);
    }
    begin(io)?;
    let mut output = ReadBuffer::new(thread, io);
    let request = loop {
        let (process, takes_common_work) = wait(thread, may_wait)?;
        let written = write_all_work(thread, process, &mut output, takes_common_work)
            .inspect_err(|_| wake_others(thread))?;
        let mut process = match written {
            Written::Reply(request) => break request,
            Written::Other(process) => process,
        };
        let is_only_noop = output.written == SIZE_OF_CODE;
        if is_only_noop && output.has_room() && !thread.must_return.load(Relaxed) {
            continue;
        }
        let request = process.request_thread(thread);
        let others = if output.has_room() && !thread.state.access_mut(&mut process).looper.polls() {
            Wake::Nobody
        } else {
            // The thread may have been woken for work for which its read buffer has no room; and if
            // it polls, it may be available now, see `pollers_have_to_look`.
            process.wake_for_work()
        };
        others.after(process, &thread.process, WakeHint::Anywhere);
        break request;
    };
    finish(thread, io, &mut output, request)
}

/// Waits for work, and fails with `EFAULT`: the buffer is smaller than the first item of a read, or
/// than the number of bytes that the caller gives as consumed. The C driver, too, waits before it
/// checks these numbers. The work stays for the next read. No lock may be held.
#[cold]
fn read_without_room(thread: &Arc<Thread>, may_wait: bool) -> Result {
    drop(wait(thread, may_wait)?);
    wake_others(thread);
    Err(EFAULT)
}

/// How much room a read buffer needs for the completion of a reply, with the code that a read
/// begins with, and for any other item behind it.
pub(super) const ROOM_FOR_COMPLETION: usize = 2 * size_of::<u32>() + LARGEST_RETURN;

/// Writes the completion of a reply to user space, without a look at the thread's work. There must
/// be [room](ROOM_FOR_COMPLETION) for it. Fails with `EFAULT` when the buffer cannot be
/// written; if the code that a read begins with cannot, the thread reads the completion later. No
/// lock may be held.
#[inline(always)] // It has one caller.
pub(crate) fn read_completion(thread: &Arc<Thread>, io: &mut WriteRead, sent: ReplySent) -> Result {
    let written = begin(io).inspect_err(|_| queue_completion(thread, &sent))?;
    trace::wait_for_work(|| {
        let has_calls = thread.is_calling(&thread.process.state.lock());
        (false, has_calls, true)
    });
    if sent.needs_thread {
        return read_completion_and_request(thread, io);
    }
    let address = io.read_buffer.checked_add(written).ok_or(EFAULT)?;
    if !user::put_u32(place(address)?, Return::TransactionComplete.code()) {
        return Err(EFAULT);
    }
    count_return(thread, Return::TransactionComplete);
    io.read_consumed = written + SIZE_OF_CODE;
    Ok(())
}

/// Wakes who can take the work of the process, for which a thread that cannot write its read buffer
/// may have been woken. No lock may be held.
#[cold]
fn wake_others(thread: &Thread) {
    let mut process = thread.process.state.lock();
    let wake = process.wake_for_work();
    wake.after(process, &thread.process, WakeHint::Anywhere);
}

/// Writes the completion of a reply, and requests one more thread from user space, if one is still
/// needed: whatever the reply waited for, others may have gone idle meanwhile, or have requested
/// one.
#[cold]
fn read_completion_and_request(thread: &Thread, io: &mut WriteRead) -> Result {
    let request = thread.process.state.lock().request_thread(thread);
    let mut output = ReadBuffer::new(thread, io);
    output.put(Return::TransactionComplete, &[]);
    finish(thread, io, &mut output, request)
}

/// Writes what is gathered, and requests one more thread from user space if `request` says so, see
/// [`ProcessState::request_thread`]. No lock may be held.
#[inline(always)]
fn finish(
    thread: &Thread,
    io: &mut WriteRead,
    output: &mut ReadBuffer<'_>,
    request: Option<u32>,
) -> Result {
    if let Some(started) = request {
        output
            .put_first(Return::SpawnLooper)
            .and_then(|()| output.flush())
            .inspect_err(|_| withdraw_request(thread, started))?;
    }
    output.flush()?;
    io.read_consumed = output.written;
    Ok(())
}

/// Waits until the thread has something to read. Returns the locked state, and whether the thread
/// takes the work in the queue of its process as well (contract LOOP-6, LOOP-9).
///
/// Fails with `EAGAIN` instead of waiting when `may_wait` is not set, and with `EINTR` on a signal.
/// No lock may be held.
fn wait(thread: &Arc<Thread>, may_wait: bool) -> Result<(StateGuard<'_>, bool)> {
    if ffi::may_stop() {
        stop_outside_of_pool(thread);
    }
    let mut process = thread.process.state.lock();
    let mut takes_common_work = thread.state.access_mut(&mut process).is_available();
    trace::wait_for_work(|| {
        let own = thread.state.access_mut(&mut process);
        let has_calls = own.stack.frames.last().is_some();
        (takes_common_work, has_calls, !own.work.is_empty())
    });
    let default = thread.process.default_priority;
    if takes_common_work && Priority(sched::of(None)) != default {
        let own = thread.state.access_mut(&mut process);
        let flag_is_lent = own.looper.take_lent_flag();
        drop(process);
        priority::return_to_default(default, flag_is_lent);
        process = thread.process.state.lock();
        takes_common_work = thread.state.access_mut(&mut process).is_available();
    }
    loop {
        let has_common_work = takes_common_work && !process.work.is_empty();
        let own = thread.state.access_mut(&mut process);
        if own.is_work_urgent || has_common_work || thread.must_return.load(Relaxed) {
            return Ok((process, takes_common_work));
        }
        if !may_wait {
            return Err(EAGAIN);
        }
        if current!().signal_pending() {
            return Err(EINTR);
        }
        if takes_common_work {
            own.wait_state = WaitState::ForAnyWork;
            process.push_idle(thread);
        } else {
            own.wait_state = WaitState::ForOwnWork;
        }
        process = sched::sleep(process);
        while thread.state.access_mut(&mut process).wait_state == WaitState::Reserved {
            thread.process.waiters.wait(&mut process);
        }
        process.set_wait_state(thread, WaitState::Awake);
    }
}

/// Stops those who use a device if the thread takes the work of its process without having joined
/// the pool, which is an error of user space although it is done as well as by others (contract
/// LOOP-6).
#[cold]
fn stop_outside_of_pool(thread: &Thread) {
    let mut process = thread.process.state.lock();
    let own = thread.state.access_mut(&mut process);
    let is_error = own.is_available() && !own.looper.is_in_pool();
    drop(process);
    if is_error {
        ffi::user_error_happened();
        // A signal ends the wait, and is noticed by whoever waits for work.
        let _ = ffi::wait_while_stopped();
    }
}

/// What [`write_work`] leaves to be done without the state lock.
enum Unlocked {
    /// A ticket that the thread does not need, to be freed.
    Ticket(WorkTicket),
    /// Work that was written, or is not to be written any more, or whose transaction the thread
    /// does not need: to be dropped.
    Done(Work),
    /// A node that is forgotten, to be kept for the next object.
    Forgotten(Arc<Node>),
    /// The last work of this read, which is to be confirmed.
    Last,
    /// A call to be served.
    Call {
        call: TransactionBox,
        /// The priority from which the sender of the call has raised the thread, if it has.
        raised_from: Option<Priority>,
        /// Whether the thread's stack has room for it.
        has_room: bool,
    },
    /// The reply to a call, which is not outstanding any more.
    Reply {
        reply: ArrivedReply,
        /// A spare transaction that the thread does not need.
        surplus: Option<TransactionBox>,
        /// Whether the pool needed one more thread then, see [`ProcessState::needs_thread`].
        needs_thread: bool,
        /// Whether freezers have to be woken, or [pollers have to
        /// look](ProcessState::pollers_have_to_look) at work that was queued while the thread made
        /// the call.
        wakes_waiters: bool,
    },
}

/// How [`write_all_work`] ends.
enum Written<'a> {
    /// With a reply, and whether one more thread is requested. A thread that reads a reply was not
    /// woken for the work of the process, so no idle thread has to be.
    Reply(Option<u32>),
    /// With anything else, or nothing.
    Other(StateGuard<'a>),
}

/// Writes the queued work until none is left, the buffer is full, or a call or a reply was written.
/// Releases the state lock in between.
#[inline(never)] // A thread that waits would have its stack frame.
fn write_all_work<'a>(
    thread: &'a Arc<Thread>,
    mut process: StateGuard<'a>,
    output: &mut ReadBuffer<'_>,
    takes_common_work: bool,
) -> Result<Written<'a>> {
    loop {
        if !output.has_room() {
            return Ok(Written::Other(process));
        }
        if output.written - output.flushed > (PIECE - LARGEST_RETURN) as u64 {
            drop(process);
            output.flush()?;
            process = thread.process.state.lock();
            continue;
        }
        let own = thread.state.access_mut(&mut process).pop_work();
        let is_common = own.is_none();
        let next = match own {
            None if takes_common_work => process.work.pop_front(),
            own => own,
        };
        let Some(work) = next else {
            return Ok(Written::Other(process));
        };
        match write_work(thread, &mut process, output, work, is_common) {
            None => continue,
            Some(Unlocked::Last) => return Ok(Written::Other(process)),
            Some(Unlocked::Call {
                call,
                raised_from,
                has_room,
            }) => {
                drop(process);
                if let Some(process) = deliver_call(thread, call, raised_from, has_room, output)? {
                    return Ok(Written::Other(process));
                }
            }
            Some(Unlocked::Reply {
                reply,
                surplus,
                needs_thread,
                wakes_waiters,
            }) => {
                match wakes_waiters {
                    true => thread.process.notify_waiters_after(process),
                    false => drop(process),
                }
                drop(surplus);
                deliver_reply(thread, reply, output)?;
                let request = match needs_thread {
                    false => None,
                    true => thread.process.state.lock().request_thread(thread),
                };
                return Ok(Written::Reply(request));
            }
            Some(Unlocked::Ticket(ticket)) => {
                drop(process);
                drop(ticket);
            }
            Some(Unlocked::Done(work)) => {
                drop(process);
                drop(work);
            }
            Some(Unlocked::Forgotten(node)) => {
                drop(process);
                thread.process.keep_node(node);
            }
        }
        process = thread.process.state.lock();
    }
}

/// Queues the completion of a reply that was to be read at once, in the place that the thread has
/// kept for it.
#[cold]
fn queue_completion(thread: &Arc<Thread>, sent: &ReplySent) {
    let mut process = thread.process.state.lock();
    let ticket = thread.state.access_mut(&mut process).spare_ticket.take();
    match ticket.map(|ticket| thread.complete_reply(&mut process, ticket)) {
        Some(wake) => wake.after(process, &thread.process, WakeHint::Anywhere),
        None => drop(process),
    }
    if sent.has_failed {
        thread.stop_until_completion();
    }
}

/// Withdraws a request for a thread that user space cannot read.
#[cold]
fn withdraw_request(thread: &Thread, started: u32) {
    thread.process.state.lock().pool.withdraw_request(started);
}

/// Writes work that was taken out of a queue: that of the process if `is_common`, or else that of
/// the thread. Returns `None` when nothing remains to be done without the lock.
#[inline(always)]
fn write_work(
    thread: &Thread,
    process: &mut ProcessState,
    output: &mut ReadBuffer<'_>,
    work: Work,
    is_common: bool,
) -> Option<Unlocked> {
    match work {
        Work::Code(ticket) => write_code(thread, process, output, ticket),
        Work::Error(own) => {
            output.put(thread.state.access_mut(process).unread_error, &[]);
            thread.has_unread_error.store(false, Relaxed);
            // Not the last reference: the caller has another. It is dropped here, so that no other
            // kind of work has to be looked at when it is done.
            drop(own);
            None
        }
        Work::Node(node) => {
            let is_forgotten = write_node_update(&node, process, output);
            Some(match is_forgotten {
                true => Unlocked::Forgotten(node),
                false => Unlocked::Done(Work::Node(node)),
            })
        }
        Work::Death(death) => match write_notification(death.read(process), output) {
            true => Some(Unlocked::Last),
            false => death
                .keep(process)
                .map(|rest| Unlocked::Done(Work::Death(rest))),
        },
        Work::Freeze(freeze) => match write_notification(freeze.read(process), output) {
            true => Some(Unlocked::Last),
            false => Some(Unlocked::Done(Work::Freeze(freeze))),
        },
        Work::Call(call) => {
            process.queued_calls -= u32::from(is_common);
            let own = thread.state.access_mut(process);
            own.pending_calls += u32::from(is_common);
            Some(Unlocked::Call {
                call,
                raised_from: own.raised_from.take(),
                has_room: own.stack.frames.has_room(),
            })
        }
        Work::Outcome(outcome) => write_outcome(thread, process, output, outcome),
    }
}

/// Writes a code without a payload. The thread keeps its place for the next one.
#[inline(always)] // It has one caller.
fn write_code(
    thread: &Thread,
    process: &mut ProcessState,
    output: &mut ReadBuffer<'_>,
    ticket: WorkTicket,
) -> Option<Unlocked> {
    let own = if let Code::Return(answer) = *ticket {
        output.put(process.as_delivered(answer), &[]);
        thread.state.access_mut(process)
    } else {
        let own = thread.state.access_mut(process);
        let completion = own.completions.read();
        if completion != CompletionRead::Withdrawn {
            output.put(Return::TransactionComplete, &[]);
        }
        if completion == CompletionRead::StopsCommands {
            thread.has_unread_error.store(false, Relaxed);
        }
        own
    };
    let surplus = own.spare_ticket.replace(ticket);
    surplus.map(Unlocked::Ticket)
}

/// Takes a reply out of the transaction with which a call ends, or writes that the call failed. The
/// thread keeps the transaction.
#[inline(always)] // It has one caller.
fn write_outcome(
    thread: &Thread,
    process: &mut ProcessState,
    output: &mut ReadBuffer<'_>,
    mut outcome: TransactionBox,
) -> Option<Unlocked> {
    let reply = match core::mem::take(&mut outcome.content) {
        Content::Reply { buffer, .. } => Some(ArrivedReply {
            id: outcome.id,
            code: outcome.code,
            flags: outcome.flags,
            sender_euid: outcome.sender_euid,
            buffer,
        }),
        Content::Failed(error) => {
            output.put(error.return_code(), &[]);
            None
        }
        // An outcome is one of the two.
        other => {
            other.free();
            None
        }
    };
    let own = thread.state.access_mut(process);
    let polls = own.looper.polls();
    let surplus = own.spare_transaction.replace(outcome);
    let Some(reply) = reply else {
        return surplus.map(|surplus| Unlocked::Done(Work::Outcome(surplus)));
    };
    let WakeFreezers(wakes_freezers) = process.freeze.end_transaction();
    Some(Unlocked::Reply {
        reply,
        surplus,
        needs_thread: process.needs_thread(thread),
        wakes_waiters: wakes_freezers || (polls && process.pollers_have_to_look()),
    })
}

/// Writes how the counts of a node have changed, for its owner. Returns whether the node is
/// forgotten.
#[inline(always)] // It has one caller.
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
            output.put(message, node.name.as_bytes());
        }
    }
    forget
}

/// Writes one message of a notification (contract WR-9), if it still has one. Returns whether user
/// space is to confirm it, which ends the read: then the delivered notifications have a reference
/// to the notification, so what is dropped under the lock is not the last.
fn write_notification(
    message: Option<(Return, FreezeNotice)>,
    output: &mut ReadBuffer<'_>,
) -> bool {
    let Some((code, notice)) = message else {
        return false;
    };
    output.put(code, &notice.as_bytes()[..code.payload_size()]);
    matches!(code, Return::DeadBinder | Return::FrozenBinder)
}

// A node update (at most two messages, because two of the four exclude the other two) fits where
// the largest item fits, so one check of the room serves both.
const _: () = assert!(2 * (size_of::<u32>() + size_of::<NodeName>()) <= LARGEST_RETURN);
