// SPDX-License-Identifier: GPL-2.0

//! How a thread and a process end while others still use them.
//!
//! The order is the same for both (lesson R01):
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
    },
    ffi::trace,
    kernel_ext::{park::WakeHint, sched},
    lifecycle::{code_sums, registry},
    notifications::death::notify_all,
    priority,
    process::{Pid, Process},
    pure::{
        call_stack::{CallStack, Frame},
        priority_rules::Priority, //
    },
    thread::Thread,
    transaction::TransactionBox,
    work::{ThreadWake, Work}, //
};
use kernel::{
    rbtree::RBTreeNode,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

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
                "call {} of {}:{} loses thread {}, which serves it and ends; it fails",
                transaction.id,
                transaction.sender().pid,
                transaction.sender().tid,
                thread.id
            );
            if let Some(saved) = transaction.saved_priority.get() {
                end_service(thread, saved);
            }
            trace::txn_latency_free(|| transaction.ended_at(0, 0));
            transaction.fail(Failure::without_errno(Reason::ReceiverEnded));
        }
        // The number of frames is limited only by memory.
        sched::cond_resched();
    }
    drop(take_stack(thread));
    while let Some(leftover) = pass_on_work(thread) {
        leftover.end(&thread.process);
    }
    thread.remove_caller();
}

/// Restores the priority that a thread had before a call that it will not serve any more. Another
/// thread than the calling one has usually exited, but need not have, if the calling one closes the
/// device.
fn end_service(thread: &Thread, saved: Priority) {
    if thread.task.is_current() {
        priority::end_service(saved);
    } else if let Some(task) = thread.task.task() {
        priority::end_service_of(&task, saved);
    }
}

/// Sets `has_ended`, so that nothing is queued for the thread any more. Returns what only a running
/// thread needs, to be dropped without the lock, and the priority from which the thread was raised,
/// if it was. Wakes [pollers that have to
/// look](crate::process::ProcessState::pollers_have_to_look), because the next record of the task
/// is available. Returns `None` if the thread has ended before. Takes the state lock.
fn close_thread(thread: &Thread) -> Option<(impl Sized, Option<Priority>)> {
    let mut process = thread.process.lock_state();
    if thread.has_ended.load(Relaxed) {
        return None;
    }
    thread.has_ended.store(true, Relaxed);
    // The counters of a process that has ended are added up already.
    if !thread.process.has_ended.load(Relaxed) {
        thread.counts.give_to_process();
    }
    let record: Option<RBTreeNode<_, _>> = process.threads.remove_node(&thread.id);
    let state = thread.state(&mut process);
    // A call that the thread has made may keep its record for long.
    let spare = (state.spare_transaction.take(), state.spare_ticket.take());
    let raised_from = state.raised_from.take();
    let wake = match state.looper.polls() && process.pollers_have_to_look() {
        true => ThreadWake::Pollers,
        false => ThreadWake::Nobody,
    };
    wake.after(process, &thread.process, WakeHint::Anywhere);
    Some(((record, spare), raised_from))
}

/// Takes the innermost frame off the call stack. A call that the thread serves is not outstanding
/// any more then. No lock may be held.
fn pop_frame(thread: &Thread) -> Option<Frame<TransactionBox>> {
    let mut process = thread.process.lock_state();
    let stack = &mut thread.state(&mut process).stack.frames;
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

/// Takes out the call stack, which is empty but owns memory, to be dropped without the lock.
fn take_stack(thread: &Thread) -> CallStack<TransactionBox> {
    let mut process = thread.process.lock_state();
    core::mem::replace(&mut thread.state(&mut process).stack, CallStack::new())
}

/// Takes the oldest work out of the queue of a thread that has ended, and either returns it or
/// queues it for the process.
///
/// Both happen under one lock, because a node records in which queue its node update is, and it has
/// to be there whenever the lock is free (lesson S22).
fn pass_on_work(thread: &Thread) -> Option<Leftover> {
    let mut process = thread.process.lock_state();
    let work = thread.state(&mut process).pop_work()?;
    // The owner of a node still has to read its node update (lesson R11), and the holder of a
    // notification still has to read of a death, and that the notification is cleared (lesson C16).
    if let Work::Node(node) = &work {
        node.move_update_to_process(&mut process);
    }
    Some(match work {
        Work::Node(_) | Work::Death(_) | Work::Freeze(_) => {
            let wake = process.push_to_process(work);
            wake.after(process, &thread.process, WakeHint::Anywhere);
            Leftover::PassedOn
        }
        work => Leftover::Work(work),
    })
}

/// What remains to be done for work that was queued for a thread or a process that ends.
#[must_use]
enum Leftover {
    /// Nothing: the work is in the queue of the process.
    PassedOn,
    /// The work has to be ended.
    Work(Work),
}

impl Leftover {
    /// Does it: fails a call, or drops the work. No lock may be held.
    fn end(self, process: &Process) {
        match self {
            Self::PassedOn => {}
            Self::Work(Work::Call(call)) => {
                binder_debug!(
                    DeadTransaction,
                    "call {} of {}:{} ends unread with its target {}; it fails",
                    call.id,
                    call.sender().pid,
                    call.sender().tid,
                    process.pid()
                );
                trace::txn_latency_free(|| call.ended_at(process.pid(), 0));
                call.fail(Failure::without_errno(Reason::ReceiverEnded));
            }
            Self::Work(work) => drop(work),
        }
    }
}

/// Ends a process that is [closed](close_process). Others wait for this: callers, holders of
/// handles, and senders of oneway calls. So it does not run in the task that has closed the device,
/// which need not get any CPU time. No lock may be held.
pub(crate) fn end_process(process: &Arc<Process>) {
    // No thread of it is in the driver any more, so this is the last that it has counted.
    code_sums::add_ended(process);
    // Before the threads and nodes end: buffers that end below need not free their ranges one by
    // one.
    process.close_buffers();
    while let Some(thread) = any_thread(process) {
        end_thread(&thread);
    }
    orphan_nodes(process);
    while let Some(work) = pop_work(process) {
        Leftover::Work(work).end(process);
        // As in `orphan_nodes`.
        sched::cond_resched();
    }
    process.close_handles();
    drop(take_notifications_and_spares(process));
    // Last, so that whoever does not find it any more knows that all of its end was made known.
    registry::remove(process);
    close_space_and_names(process);
}

/// Frees the pages of the space in which the process has received data, its credential, and the
/// name of its thread group, which keeps namespaces. What remains of the process is what its nodes
/// need, as long as others hold those.
fn close_space_and_names(process: &Process) {
    process.pages.close();
    process.credential.close();
    process.code_counts.close();
    process.group.close();
}

/// Closes a process, when the last descriptor of its file is closed: sets `has_ended`, so that it
/// takes nothing any more, wakes the tasks that wait to freeze it, and makes room for another
/// context manager. No lock may be held.
pub(crate) fn close_process(process: &Process) {
    binder_debug!(
        OpenClose,
        "process {} closes {}",
        process.pid(),
        process.context.name()
    );
    // Set under the lock, so that a task that holds the lock and has found the process open can
    // finish.
    let mut state = process.lock_state();
    process.has_ended.store(true, Relaxed);
    let freezers = state.freeze.end();
    process.unlock_and_wake_freezers(state, freezers);
    process
        .context
        .forget_manager(|node| core::ptr::eq(&**node.owner(), process));
}

fn any_thread(process: &Process) -> Option<Arc<Thread>> {
    let state = process.lock_state();
    state.threads.first_from(&Pid::MIN)
}

/// Marks all nodes of a process as dead, drops the oneway calls that wait for their turn, and
/// queues the death notifications of these nodes. No lock may be held.
fn orphan_nodes(process: &Process) {
    let mut nodes = process.lock_state().nodes.take_all();
    while let Some(node) = nodes.pop_first() {
        let mut state = process.lock_state();
        let (waiting, notification) = node.orphan(&mut state);
        drop(state);
        drop(waiting);
        if notification.is_some() {
            binder_debug!(
                DeadBinder,
                "node {} of process {} is dead, and those are told who asked for that",
                node.debug_id,
                process.pid()
            );
        }
        notify_all(&node, notification);
        // The number of nodes is limited only by memory.
        sched::cond_resched();
    }
}

/// Takes out the registrations of freeze notifications about this process, the delivered and spare
/// notifications of which it is the holder, and the spare node, to be dropped without the lock.
fn take_notifications_and_spares(process: &Process) -> impl Sized {
    let mut state = process.lock_state();
    (
        state.freeze_registrations.take_all(),
        state.delivered_freezes.take_all(),
        state.delivered_deaths.take_all(),
        state.spare_death.take(),
        state.spare_node.take(),
    )
}

fn pop_work(process: &Process) -> Option<Work> {
    let mut state = process.lock_state();
    let popped = state.work.pop_front()?;
    state.queued_calls -= u32::from(matches!(popped, Work::Call(_)));
    Some(popped)
}
