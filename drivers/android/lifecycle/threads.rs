// SPDX-License-Identifier: GPL-2.0

//! The records of the threads of a process ([`Thread`]). The first ioctl or poll that needs a
//! record makes it. This module looks records up, makes threads return to user space, and ends
//! records while others still use them.
//!
//! A thread and a [process](super::processes) end in the same order (lesson R01):
//!
//! 1. `has_ended` is set under the state lock; from then on nothing is added;
//! 2. what was added before is taken out under the lock, one piece at a time, and each piece is
//!    ended without a lock.
//!
//! Callers that wait for one of these pieces get a transaction error, and the holders of death
//! notifications are notified.

use crate::{
    common::{
        debug::binder_debug,
        failure::{Failure, Reason},
        limits::LIMITS,
        netlink::Party, //
    },
    ffi::trace,
    kernel_ext::{
        once::{read_once, write_once},
        sched::{self, WakeHint},
    },
    priority,
    process::{Pid, Process},
    pure::{
        call_stack::{CallStack, Frame},
        priority_rules::Priority, //
    },
    thread::{Thread, WaitState},
    transaction::TransactionBox,
    work::{ThreadWake, Work}, //
};
use kernel::{
    prelude::*,
    rbtree::{RBTreeNode, RBTreeNodeReservation},
    sync::{
        atomic::Full,
        Arc,
        ArcBorrow, //
    }, //
};

/// The most threads that the task which closes a descriptor makes return: more than pools have.
const FEW: usize = 32;

/// Returns the record of the calling task, and makes one if it has none. No lock may be held.
///
/// Fails with `EINVAL` when the task has no record and belongs to another process than the opener.
/// Fails with `ENOMEM` when memory or the limit of threads does not allow another record.
pub(crate) fn current_thread(process: ArcBorrow<'_, Process>) -> Result<Arc<Thread>> {
    let id = current!().pid();
    let found = process.state.lock().threads.get(&id).cloned();
    match found {
        // A task that has a record belongs to the opener: that was checked when the record was
        // made.
        Some(thread) if thread.task.is_current() => Ok(thread),
        _ if !process.is_callers() => Err(EINVAL),
        Some(stale) => {
            // The kernel has used the number again: its former task has exited without
            // `BINDER_THREAD_EXIT`.
            end_thread(&stale);
            add_current_thread(&process.into())
        }
        None => add_current_thread(&process.into()),
    }
}

/// Records that the calling task is about to return to user space, as it may have been
/// [made to](flush). No lock may be held.
pub(crate) fn has_returned(process: ArcBorrow<'_, Process>) {
    if !read_once(&process.was_flushed) {
        return;
    }
    let state = process.state.lock();
    if let Some(thread) = state.threads.get(&current!().pid()) {
        if thread.task.is_current() {
            write_once(&thread.must_return, false);
        }
    }
}

/// Makes a record of the calling task and adds it to `process`. Ends records of exited threads if
/// there are as many as the limit allows; fails with `ENOMEM` if there are none of them.
fn add_current_thread(process: &Arc<Process>) -> Result<Arc<Thread>> {
    let thread = Thread::new(process)?;
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?.into_node(thread.id, thread.clone());
    loop {
        let mut state = process.state.lock();
        if LIMITS.threads.has_room(state.thread_count) {
            thread.name.begin(&mut state, thread.clone());
            let replaced = state.threads.insert(node);
            debug_assert!(replaced.is_none());
            state.thread_count += 1;
            drop(state);
            process.callers.claim(thread.clone());
            return Ok(thread);
        }
        drop(state);
        if !end_exited_thread(process) {
            return Err(ENOMEM);
        }
    }
}

/// Ends the record of a thread that has exited without `BINDER_THREAD_EXIT`. Returns `false` when
/// there is none. No lock may be held.
fn end_exited_thread(process: &Process) -> bool {
    let mut next = Pid::MIN;
    loop {
        let Some(thread) = process.state.lock().thread_from(next) else {
            return false;
        };
        if thread.task.is_exiting() {
            end_thread(&thread);
            return true;
        }
        next = thread.id + 1;
    }
}

/// Makes threads of a process return to user space, because a descriptor of the device is closed.
/// Returns whether a worker has to call [`flush_all`], as there may be more than [`FEW`]. The
/// calling task may be of any process, and user space chooses the number of threads. No lock may be
/// held.
pub(crate) fn flush(process: &Process) -> bool {
    write_once(&process.was_flushed, true);
    // ORDERING: Pairs with `flush_all`: either that sees what precedes this, or it has begun, and
    // another one is needed.
    make_return(process, FEW) && !process.must_flush.xchg(true, Full)
}

/// Makes all threads of a process return to user space. No lock may be held.
pub(crate) fn flush_all(process: &Arc<Process>) {
    process.must_flush.xchg(false, Full);
    make_return(process, usize::MAX);
}

/// Makes up to so many threads return to user space. Returns whether there may be more.
fn make_return(process: &Process, most: usize) -> bool {
    let mut next = Pid::MIN;
    for _ in 0..most {
        let mut state = process.state.lock();
        let Some(thread) = state.thread_from(next) else {
            return false;
        };
        write_once(&thread.must_return, true);
        let was_asleep = state.set_wait_state(&thread, WaitState::Awake);
        match was_asleep {
            true => thread.task.wake_after(state, WakeHint::Anywhere),
            false => drop(state),
        }
        next = thread.id + 1;
        // The number of records of threads is limited only by memory.
        sched::cond_resched();
    }
    true
}

/// Ends a thread, on `BINDER_THREAD_EXIT` or when its process ends. Does nothing if the thread has
/// ended before. No lock may be held.
pub(crate) fn end_thread(thread: &Arc<Thread>) {
    let Some((rest, raised_from)) = close_thread(thread) else {
        return;
    };
    binder_debug!(Threads, "thread {} ends", thread.id);
    drop(rest);
    if let Some(saved) = raised_from {
        end_service(thread, saved);
    }
    while let Some(frame) = pop_frame(thread) {
        if let Frame::Incoming(transaction) = frame {
            binder_debug!(
                DeadTransaction,
                "call {} of {} loses thread {}, which serves it and ends; it fails",
                transaction.id,
                transaction.sender(),
                thread.id
            );
            end_service(thread, transaction.saved_priority);
            trace::txn_latency_free(|| transaction.ended_at(Party::default()));
            transaction.fail(Failure::without_errno(Reason::ReceiverEnded));
        }
        // The number of frames is limited only by memory.
        sched::cond_resched();
    }
    let mut process = thread.process.state.lock();
    // It is empty, but owns memory.
    let stack = &mut thread.state.access_mut(&mut process).stack;
    let stack = core::mem::replace(stack, CallStack::new());
    drop(process);
    drop(stack);
    while pass_on_work(thread) {}
    thread.process.callers.remove_gone(&thread.task);
}

/// Restores the priority that a thread had before a call that it will not serve any more. Another
/// thread than the calling one has usually exited, but need not have, if the calling one closes the
/// device.
fn end_service(thread: &Thread, saved: Priority) {
    if let Some(task) = thread.task.task() {
        priority::end_service_of(&task, saved);
    }
}

/// Sets `has_ended`, so that nothing is queued for the thread any more. Returns what only a running
/// thread needs, to be dropped without the lock, and the priority from which the thread was raised,
/// if it was. Wakes [pollers that have to
/// look](crate::process::ProcessState::pollers_have_to_look), because the next record of the task
/// is available. Returns `None` if the thread has ended before. Takes the state lock.
fn close_thread(thread: &Thread) -> Option<(impl Sized, Option<Priority>)> {
    let mut process = thread.process.state.lock();
    let itself = thread.name.end(&mut process)?;
    thread.name.counts.give_to(&thread.process.code_counts);
    let record: Option<RBTreeNode<_, _>> = process.threads.remove_node(&thread.id);
    process.thread_count -= usize::from(record.is_some());
    let state = thread.state.access_mut(&mut process);
    let raised_from = state.raised_from.take();
    let wake = ThreadWake::pollers_if(state.looper.polls() && process.pollers_have_to_look());
    wake.after(process, &thread.process, WakeHint::Anywhere);
    Some(((record, itself), raised_from))
}

/// Takes the innermost frame off the call stack. A call that the thread serves is not outstanding
/// any more then. No lock may be held.
fn pop_frame(thread: &Thread) -> Option<Frame<TransactionBox>> {
    let mut process = thread.process.state.lock();
    let stack = &mut thread.state.access_mut(&mut process).stack.frames;
    let frame = stack.pop();
    let surplus = stack.take_surplus();
    if !matches!(frame, Some(Frame::Incoming(_))) {
        drop(process);
        drop(surplus);
        return frame;
    }
    let freezers = process.freeze.end_transaction();
    thread.process.unlock_and_wake_freezers(process, freezers);
    drop(surplus);
    frame
}

/// Takes the oldest work out of the queue of a thread that has ended, and queues it for the process
/// or [ends](end_work) it. Returns `false` if there is none. No lock may be held.
///
/// Both happen under one lock, because a node records in which queue its node update is, and it has
/// to be there whenever the lock is free (lesson S22).
fn pass_on_work(thread: &Thread) -> bool {
    let mut process = thread.process.state.lock();
    let Some(work) = thread.state.access_mut(&mut process).pop_work() else {
        return false;
    };
    // The owner of a node still has to read its node update (lesson R11). The holder of a
    // notification still has to read that the owner died and that the notification is cleared
    // (lesson C16).
    if let Work::Node(node) = &work {
        node.state.access_mut(&mut process).updated_thread = None;
    }
    match work {
        Work::Node(_) | Work::Death(_) | Work::Freeze(_) => {
            let wake = process.push_to_process(work);
            wake.after(process, &thread.process, WakeHint::Anywhere);
        }
        work => {
            drop(process);
            end_work(&thread.process, work);
        }
    }
    true
}

/// Ends work that was queued for a thread or a process that ends: fails a call, or drops the work.
/// No lock may be held.
pub(super) fn end_work(process: &Process, work: Work) {
    if let Work::Call(call) = work {
        binder_debug!(
            DeadTransaction,
            "call {} of {} ends unread with its target {}; it fails",
            call.id,
            call.sender(),
            process.pid
        );
        trace::txn_latency_free(|| call.ended_at(process.party(0)));
        call.fail(Failure::without_errno(Reason::ReceiverEnded));
    }
}
