// SPDX-License-Identifier: GPL-2.0

//! How a thread and a process end while others still deal with them.
//!
//! The order is the same for both: first nothing new can arrive, which is decided under the state
//! lock; then what had arrived is taken out, one piece at a time, and each piece is ended without a
//! lock (lesson R01). Whoever waits for something hears that it will not come.

use crate::{
    common::{debug::binder_debug, error::TransactionError},
    kernel_ext::{park::WakeHint, sched},
    lifecycle::registry,
    notifications::death::notify_all,
    process::{Pid, Process},
    pure::{
        call_stack::{CallStack, Frame},
        priority_rules::Priority, //
    },
    scheduling::priority,
    thread::Thread,
    transaction::Transaction,
    work::{Wake, Work, WorkTicket}, //
};
use kernel::{
    alloc::KBox,
    rbtree::RBTreeNode,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// The thread has nothing more to do with the driver: `BINDER_THREAD_EXIT`, or its process ends.
pub(crate) fn end_thread(thread: &Arc<Thread>) {
    let Some((record, spare, raised_from)) = close_thread(thread) else {
        return;
    };
    drop((record, spare));
    if let Some(saved) = raised_from {
        end_service(thread, saved);
    }
    while let Some(frame) = pop_frame(thread) {
        if let Frame::Incoming(transaction) = frame {
            binder_debug!(
                DeadTransaction,
                "call {} loses whoever serves it",
                transaction.id
            );
            if let Some(saved) = transaction.saved_priority.get() {
                end_service(thread, saved);
            }
            transaction.fail(TransactionError::DIED);
        }
        // There can be as many as memory holds.
        sched::cond_resched();
    }
    drop(take_stack(thread));
    while let Some(leftover) = pass_on_work(thread) {
        leftover.end(&thread.process);
    }
}

/// The thread will not serve what it was made urgent for. One that does not run is dead.
fn end_service(thread: &Thread, saved: Priority) {
    if thread.is_current() {
        priority::end_service(saved);
    }
}

/// Lets nothing arrive any more. Gives what only the running thread needs, to be dropped without
/// the lock, and what it was if it was made more urgent; nothing if that was done before.
fn close_thread(thread: &Thread) -> Option<(impl Sized, impl Sized, Option<Priority>)> {
    let mut process = thread.process.lock_state();
    if thread.has_ended.load(Relaxed) {
        return None;
    }
    thread.has_ended.store(true, Relaxed);
    let record: Option<RBTreeNode<_, _>> = process.threads.remove_node(&thread.id);
    let state = thread.state(&mut process);
    let spare = state.take_spares();
    Some((record, spare, state.raised_from.take()))
}

fn pop_frame(thread: &Thread) -> Option<Frame<KBox<Transaction>>> {
    let mut process = thread.process.lock_state();
    let stack = &mut thread.state(&mut process).stack;
    let frame = stack.pop();
    let surplus = stack.take_surplus();
    if !matches!(frame, Some(Frame::Incoming(_))) {
        drop(process);
        drop(surplus);
        return frame;
    }
    let freezers = process.freeze.end_transaction();
    drop(process);
    drop(surplus);
    thread.process.wake_freezers(freezers);
    frame
}

/// Takes out the stack, which is empty and has memory.
fn take_stack(thread: &Thread) -> CallStack<KBox<Transaction>> {
    let mut process = thread.process.lock_state();
    core::mem::replace(&mut thread.state(&mut process).stack, CallStack::new())
}

/// Takes out the oldest work that the thread will not do any more, or hands it to the other threads: under
/// one lock, for whoever looks for the news of a node finds them where they are said to be (S22).
fn pass_on_work(thread: &Thread) -> Option<Leftover> {
    let mut process = thread.process.lock_state();
    let (work, ticket) = thread.state(&mut process).pop_work()?;
    // The owner still has to hear of his node (lesson R11), and the holder of a link of a death, and
    // that his request is withdrawn (C16).
    if let Work::Node(node) = &work {
        node.move_update_to_process(&mut process);
    }
    Some(match work {
        Work::Node(_) | Work::Death(_) | Work::Freeze(_) => {
            Leftover::PassedOn(process.push_to_process(ticket, work))
        }
        work => Leftover::Work(work, ticket),
    })
}

/// What is left to be done for work that an ending thread had.
#[must_use]
enum Leftover {
    /// Others do it.
    PassedOn(Wake),
    /// It ends.
    Work(Work, WorkTicket),
}

impl Leftover {
    /// Does it. To be called with no lock held.
    fn end(self, process: &Process) {
        match self {
            Self::PassedOn(wake) => wake.now(process, WakeHint::Anywhere),
            Self::Work(Work::Call(mut call), ticket) => {
                call.put_ticket(ticket);
                binder_debug!(DeadTransaction, "call {} ends with its target", call.id);
                call.fail(TransactionError::DIED);
            }
            Self::Work(work, _) => drop(work),
        }
    }
}

/// The last descriptor of the device is closed.
pub(crate) fn end_process(process: &Arc<Process>) {
    binder_debug!(OpenClose, "the process of {} ends", process.pid());
    registry::remove(process);
    process
        .context
        .forget_manager(|node| core::ptr::eq(&*node.owner, &**process));
    close_process(process);
    // First of all: then what is undone below has no range of its own to give back.
    process.close_buffers();
    while let Some(thread) = any_thread(process) {
        end_thread(&thread);
    }
    orphan_nodes(process);
    while let Some((work, ticket)) = pop_work(process) {
        Leftover::Work(work, ticket).end(process);
    }
    process.close_handles();
    drop(take_links(process));
    give_up_belongings(process);
}

/// What the process received its data in, and whose it was goes. What is left is what its nodes
/// need, for as long as others hold those.
fn give_up_belongings(process: &Process) {
    process.pages.close();
    process.credential.close();
}

/// Lets nothing arrive any more.
fn close_process(process: &Process) {
    // Under the lock, so that whoever holds it and sees the process open can finish.
    let mut state = process.lock_state();
    process.has_ended.store(true, Relaxed);
    let freezers = state.freeze.end();
    drop(state);
    process.wake_freezers(freezers);
}

fn any_thread(process: &Process) -> Option<Arc<Thread>> {
    let state = process.lock_state();
    state.threads.first_from(&Pid::MIN)
}

/// Lets the nodes outlive their owner.
fn orphan_nodes(process: &Process) {
    let nodes = process.lock_state().nodes.take_all();
    for node in nodes.values() {
        let mut state = process.lock_state();
        let (waiting, notification) = node.orphan(&mut state);
        drop(state);
        drop(waiting);
        notify_all(node, notification);
        // There can be as many as memory holds.
        sched::cond_resched();
    }
}

/// Takes out the links on the freezing of this process, and those of which it has been told.
fn take_links(process: &Process) -> impl Sized {
    let mut state = process.lock_state();
    (
        state.freeze_registrations.take_all(),
        state.delivered_freezes.take_all(),
        state.delivered_deaths.take_all(),
    )
}

fn pop_work(process: &Process) -> Option<(Work, WorkTicket)> {
    process.lock_state().work.pop_front()
}
