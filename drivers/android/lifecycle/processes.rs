// SPDX-License-Identifier: GPL-2.0

//! All processes (opened devices) of all contexts, by the pid that opened them; and how a process
//! begins, and ends while others still use it (see [`super::threads`] for the order).
//!
//! Operations on all processes of a pid look them up here: freezing, and the log files. Calls do
//! not use it.

use crate::{
    common::{debug::binder_debug, stats::CodeSum},
    context::Context,
    death_notification::notify_all,
    kernel_ext::{once::write_once, sched},
    lifecycle::threads::{end_thread, end_work},
    process::{Pid, Process},
    pure::numbers::FIRST_LONG_NUMBER,
    thread::Thread,
    work::Work, //
};
use kernel::{
    cred::Credential,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, //
    }, //
};

/// The order of the processes: by pid, and those of one pid in the order of opening.
type Key = (Pid, i64);

/// All opened devices, and what was counted by those that are not opened any more.
pub(crate) struct Registry {
    opened: Option<RBTree<Key, Arc<Process>>>,
    /// The sum of the counters of codes of the processes that have ended.
    pub(crate) ended_codes: CodeSum,
    /// The number of processes that have ended.
    pub(crate) ended: u64,
}

kernel::sync::global_lock! {
    // SAFETY: `ffi::Devices::make` initialises the lock before a device exists that can be opened.
    pub(crate) unsafe(uninit) static REGISTRY: SpinLock<Registry> = Registry {
        opened: None,
        ended_codes: CodeSum::new(),
        ended: 0,
    };
}

/// The number of the next opening of a device, unique as long as the module is loaded.
static LAST_OPENING: Atomic<i64> = Atomic::new((FIRST_LONG_NUMBER / 2) as i64);

/// Opens a device for the calling task: makes a process, and adds it to the registry. Fails with
/// `ENOMEM`.
pub(crate) fn open(context: Arc<Context>, credential: &Credential) -> Result<Arc<Process>> {
    let opening = LAST_OPENING.fetch_add(1, Relaxed);
    let process = Process::new(context, credential, opening)?;
    let node = RBTreeNode::new(key(&process), process.clone(), GFP_KERNEL)?;
    process.name.process.set(process.clone());
    let mut registry = REGISTRY.lock();
    let opened = registry.opened.get_or_insert_with(RBTree::new);
    opened.insert(node);
    drop(registry);
    binder_debug!(OpenClose, "opens {}", process.context.name());
    Ok(process)
}

fn key(process: &Process) -> Key {
    (process.pid, process.opening)
}

/// Removes `process`, so that [`opened_by`] does not find it any more, and adds its counters to the
/// sum: a reader that does not find the process finds them there. All its threads have ended.
fn remove(process: &Process) {
    let mut registry = REGISTRY.lock();
    registry.ended += 1;
    process.ended.store(registry.ended, Relaxed);
    process.code_counts.add_to(&mut registry.ended_codes);
    let opened = registry.opened.as_mut();
    let node = opened.and_then(|opened| opened.remove_node(&key(process)));
    drop(registry);
    drop(node);
}

/// Returns the processes of this pid that have been opened now, in the order of opening. Each step
/// takes the lock of the registry.
pub(crate) fn opened_by(pid: Pid) -> impl Iterator<Item = Arc<Process>> {
    opened_from((pid, i64::MIN), move |found| found == pid)
}

/// Returns all processes that have been opened now, in the order of their keys, likewise.
pub(crate) fn opened() -> impl Iterator<Item = Arc<Process>> {
    opened_from((Pid::MIN, i64::MIN), |_| true)
}

/// Returns processes from a key on, as long as their pids are wanted. The walk ends, whatever is
/// opened in the meantime. No lock may be held.
fn opened_from(from: Key, is_wanted: impl Fn(Pid) -> bool) -> impl Iterator<Item = Arc<Process>> {
    let until = LAST_OPENING.load(Relaxed);
    let mut next = Some(from);
    core::iter::from_fn(move || loop {
        let from = next.take()?;
        let registry = REGISTRY.lock();
        let found = registry.opened.as_ref()?.cursor_lower_bound(&from)?;
        let (&(pid, opening), process) = found.current();
        if !is_wanted(pid) {
            return None;
        }
        if opening < until {
            let process = process.clone();
            // One that is opened in the meantime is none of these.
            next = found
                .peek_next()
                .map(|(key, _)| *key)
                .filter(|key| is_wanted(key.0));
            return Some(process);
        }
        drop(registry);
        // All that follow of its pid are later, too, since they are in the order of opening.
        next = Some((pid.checked_add(1)?, i64::MIN));
        sched::cond_resched();
    })
}

/// Ends a process that is [closed](close_process). Others wait for this: callers, holders of
/// handles, and senders of oneway calls. So it does not run in the task that has closed the device,
/// which need not get any CPU time. No lock may be held.
pub(crate) fn end_process(process: &Arc<Process>) {
    // Before the threads and nodes end: buffers that end below need not free their ranges one by
    // one.
    process.close_buffers();
    while let Some(thread) = any_thread(process) {
        end_thread(&thread);
    }
    orphan_nodes(process);
    while let Some(work) = pop_work(process) {
        end_work(process, work);
        // As in `orphan_nodes`.
        sched::cond_resched();
    }
    process.close_handles();
    let mut state = process.state.lock();
    let rest = (
        core::mem::take(&mut state.freeze_registrations),
        state.delivered_freezes.take_all(),
        state.delivered_deaths.take_all(),
        state.spare_death.take(),
        state.spare_node.take(),
        state.spare_transaction.take(),
        state.spare_ticket.take(),
    );
    drop(state);
    drop(rest);
    // Last: when a lookup no longer finds the process, all notifications of its end have been sent.
    remove(process);
    process.pages.close();
    // Its nodes and calls, which others hold, keep its name from now on.
    process.name.process.sever();
}

/// Closes a process, when the last descriptor of its file is closed. Sets `has_ended`, so that the
/// process takes nothing any more; wakes the tasks that wait to freeze it; and makes room for
/// another context manager. No lock may be held.
pub(crate) fn close_process(process: &Process) {
    binder_debug!(
        OpenClose,
        "process {} closes {}",
        process.pid,
        process.context.name()
    );
    // Set under the lock, so that a task that holds the lock and has found the process open can
    // finish.
    let mut state = process.state.lock();
    write_once(&process.has_ended, true);
    // Nobody is notified that it is not frozen any more (contract FRZ-7).
    let (_, freezers) = state.freeze.thaw();
    process.unlock_and_wake_freezers(state, freezers);
    process
        .context
        .forget_manager(|node| node.owner().is(process));
}

fn any_thread(process: &Process) -> Option<Arc<Thread>> {
    let state = process.state.lock();
    state.thread_from(Pid::MIN)
}

/// Marks all nodes of a process as dead, drops the oneway calls that wait for their turn, and
/// queues the death notifications of these nodes. No lock may be held.
fn orphan_nodes(process: &Process) {
    let mut nodes = process.state.lock().nodes.take_all();
    while let Some(node) = nodes.pop_first() {
        let mut state = process.state.lock();
        let (waiting, notification) = node.orphan(&mut state);
        drop(state);
        drop(waiting);
        if notification.is_some() {
            binder_debug!(
                DeadBinder,
                "node {} of process {} is dead; its death notifications are sent",
                node.debug_id,
                process.pid
            );
        }
        notify_all(process, &node, notification);
        // The number of nodes is limited only by memory.
        sched::cond_resched();
    }
}

fn pop_work(process: &Process) -> Option<Work> {
    let mut state = process.state.lock();
    let popped = state.work.pop_front()?;
    state.queued_calls -= u32::from(matches!(popped, Work::Call(_)));
    Some(popped)
}
