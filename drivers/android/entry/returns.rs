// SPDX-License-Identifier: GPL-2.0

//! The read half of `BINDER_WRITE_READ`: waits for work, and writes it to user space.
//!
//! The read half gathers items on the stack and writes them in one piece, except for a completion
//! that is read alone. How each kind of work is written is in [`crate::entry::delivery`].

use crate::{
    calls::ReplySent,
    defs::{Return, WriteRead, LARGEST_RETURN},
    entry::{
        delivery::{write_all_work, Written},
        read_buffer::{begin, count_return, place, ReadBuffer, SIZE_OF_CODE}, //
    },
    ffi::{self, trace},
    kernel_ext::{
        once::read_once,
        sched::{self, WakeHint},
        user, //
    },
    priority,
    process::StateGuard,
    pure::priority_rules::Priority,
    thread::{Thread, WaitState},
    work::Wake, //
};
use kernel::{prelude::*, sync::Arc};

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
    // False if the buffer is smaller than the first item, or than what the caller gives as
    // consumed. The C driver, too, waits before it checks that. The work stays for the next read.
    let can_begin = io.read_size >= needed;
    if can_begin {
        begin(io)?;
    }
    let mut output = ReadBuffer::new(thread, io);
    if io.read_consumed == 0 {
        // It is written once more with what comes behind it: whole words are copied faster.
        output.push(Return::Noop, ());
    }
    let request = loop {
        let (process, takes_common_work) = wait(thread, may_wait)?;
        if !can_begin {
            drop(process);
            wake_others(thread);
            return Err(EFAULT);
        }
        let written = write_all_work(thread, process, &mut output, takes_common_work)
            .inspect_err(|_| wake_others(thread))?;
        let mut process = match written {
            Written::Reply => break None,
            Written::More(process) | Written::Last(process) => process,
        };
        let is_only_noop = output.flushed + output.piece.len() as u64 == SIZE_OF_CODE;
        if is_only_noop && output.has_room() && !read_once(&thread.must_return) {
            continue;
        }
        let request = process.request_thread(thread);
        let others = if output.has_room() && !thread.state.access(&process).looper.polls() {
            Wake::Nobody
        } else {
            // The thread may have been woken for work for which its read buffer has no room; and if
            // it polls, it may be available now, see `pollers_have_to_look`.
            process.wake_for_work()
        };
        others.after(process, &thread.process, WakeHint::Anywhere);
        break request;
    };
    if let Some(started) = request {
        output
            .put_first(Return::SpawnLooper)
            .and_then(|()| output.flush())
            .inspect_err(|_| withdraw_request(thread, started))?;
    }
    output.flush()?;
    io.read_consumed = output.flushed;
    Ok(())
}

/// The room that a read buffer needs for the completion of a reply, with the code that a read
/// begins with, and for any other item behind it.
pub(super) const ROOM_FOR_COMPLETION: usize = 2 * size_of::<u32>() + LARGEST_RETURN;

/// Writes the completion of a reply to user space, without a look at the thread's work. There must
/// be [room](ROOM_FOR_COMPLETION) for it. Fails with `EFAULT` when the buffer cannot be
/// written; if the code that a read begins with cannot, the thread reads the completion later. No
/// lock may be held.
#[inline(always)] // It has one caller.
pub(crate) fn read_completion(thread: &Arc<Thread>, io: &mut WriteRead, sent: ReplySent) -> Result {
    let (first, second) = (Return::Noop.code(), Return::TransactionComplete.code());
    let put_both = |to| user::put_two_u32(to, first, second);
    let written = match io.read_consumed {
        0 if place(io.read_buffer).is_ok_and(put_both) => SIZE_OF_CODE,
        _ => write_completion(thread, io, sent)?,
    };
    trace::wait_for_work(|| {
        let has_calls = thread.is_calling(&thread.process.state.lock());
        (false, has_calls, true)
    });
    count_return(thread, Return::TransactionComplete);
    io.read_consumed = written + SIZE_OF_CODE;
    Ok(())
}

/// Writes a completion where others may come before it in the read buffer, or to a buffer that
/// cannot be written. Returns how much of the buffer is written before it.
#[cold]
fn write_completion(thread: &Arc<Thread>, io: &WriteRead, sent: ReplySent) -> Result<u64> {
    let written = begin(io).inspect_err(|_| thread.end_reply(sent.has_failed, false))?;
    let address = io.read_buffer.checked_add(written).ok_or(EFAULT)?;
    match user::put_u32(place(address)?, Return::TransactionComplete.code()) {
        true => Ok(written),
        false => Err(EFAULT),
    }
}

/// Wakes a thread that can take the work of the process: a thread that cannot write its read buffer
/// may have been woken for it. No lock may be held.
#[cold]
fn wake_others(thread: &Thread) {
    let mut process = thread.process.state.lock();
    let wake = process.wake_for_work();
    wake.after(process, &thread.process, WakeHint::Anywhere);
}

/// Waits until the thread has something to read. Returns the locked state, and whether the thread
/// takes the work in the queue of its process as well (contract LOOP-6, LOOP-9).
///
/// Fails with `EAGAIN` instead of waiting when `may_wait` is not set, and with `EINTR` on a signal.
/// No lock may be held.
#[inline(always)] // It has one caller.
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
        let flag_is_lent = thread
            .state
            .access_mut(&mut process)
            .looper
            .take_lent_flag();
        drop(process);
        priority::return_to_default(default, flag_is_lent);
        process = thread.process.state.lock();
        takes_common_work = thread.state.access_mut(&mut process).is_available();
    }
    let mut has_slept = false;
    loop {
        let has_common_work = takes_common_work && !process.work.is_empty();
        let own = thread.state.access_mut(&mut process);
        if own.ends_wait() || has_common_work || read_once(&thread.must_return) {
            return Ok((process, takes_common_work));
        }
        if !may_wait {
            return Err(EAGAIN);
        }
        if has_slept && current!().signal_pending() {
            return Err(EINTR);
        }
        if takes_common_work {
            own.wait_state = WaitState::ForAnyWork;
            process.push_idle(thread);
        } else {
            own.wait_state = WaitState::ForOwnWork;
        }
        process = thread.task.sleep(process);
        while thread.state.access_mut(&mut process).wait_state == WaitState::Reserved {
            thread.process.waiters.wait(&mut process);
        }
        process.set_wait_state(thread, WaitState::Awake);
        has_slept = true;
    }
}

/// Stops the users of the devices if the thread takes the work of its process without having joined
/// the pool. That is an error of user space, although the thread does the work like any other
/// (contract LOOP-6).
#[cold]
fn stop_outside_of_pool(thread: &Thread) {
    let mut process = thread.process.state.lock();
    let own = thread.state.access_mut(&mut process);
    let is_error = own.is_available() && !own.looper.is_in_pool();
    drop(process);
    if is_error {
        ffi::user_error_happened();
        // A signal ends the wait. The thread handles it when it waits for work.
        let _ = ffi::wait_while_stopped();
    }
}

/// Withdraws a request for a thread that user space cannot read.
#[cold]
fn withdraw_request(thread: &Thread, started: u32) {
    thread.process.state.lock().pool.withdraw_request(started);
}
