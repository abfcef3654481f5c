// SPDX-License-Identifier: GPL-2.0

//! All processes (opened devices) of all contexts, by the pid that opened them.
//!
//! Operations on all processes of a pid look them up here: freezing, the log files, and searches
//! for threads that wait for each other. Calls do not use it.

use crate::{
    common::debug::binder_debug,
    context::Context,
    kernel_ext::sched,
    node::Node,
    process::{Pid, Process},
    pure::numbers::FIRST_LONG_NUMBER, //
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

/// Not greater than any key.
const FIRST_KEY: Key = (Pid::MIN, i64::MIN);

kernel::sync::global_lock! {
    // SAFETY: `ffi::Devices::make` initialises the lock before a device exists that can be opened.
    pub(crate) unsafe(uninit) static OPENED: SpinLock<Option<RBTree<Key, Arc<Process>>>> = None;
}

static LAST_OPENING: Atomic<i64> = Atomic::new((FIRST_LONG_NUMBER / 2) as i64);

/// Opens a device for the calling task: makes a process, and adds it to the registry. Fails with
/// `ENOMEM`.
pub(crate) fn open(context: Arc<Context<Node>>, credential: &Credential) -> Result<Arc<Process>> {
    let process = Process::new(context, credential, next_opening())?;
    add(&process)?;
    binder_debug!(OpenClose, "opens {}", process.context.name());
    Ok(process)
}

/// Returns the number of the next opening of a device, unique as long as the module is loaded.
fn next_opening() -> i64 {
    LAST_OPENING.fetch_add(1, Relaxed)
}

fn key(process: &Process) -> Key {
    (process.pid(), process.opening)
}

/// Adds `process`, so that [`opened_by`] finds it. Fails with `ENOMEM`.
fn add(process: &Arc<Process>) -> Result {
    let node = RBTreeNode::new(key(process), process.clone(), GFP_KERNEL)?;
    let mut opened = OPENED.lock();
    opened.get_or_insert_with(RBTree::new).insert(node);
    Ok(())
}

/// Removes `process`, so that [`opened_by`] does not find it any more.
pub(crate) fn remove(process: &Process) {
    let mut opened = OPENED.lock();
    let node = match &mut *opened {
        Some(tree) => tree.remove_node(&key(process)),
        None => None,
    };
    drop(opened);
    drop(node);
}

/// Returns the first process whose key is not less than `from`.
fn first_from(from: Key) -> Option<Arc<Process>> {
    let opened = OPENED.lock();
    let cursor = (*opened).as_ref()?.cursor_lower_bound(&from)?;
    Some(cursor.current().1.clone())
}

/// Returns the processes of this pid that have been opened now, in the order of opening. Each step
/// takes the lock of the registry.
pub(crate) fn opened_by(pid: Pid) -> impl Iterator<Item = Arc<Process>> {
    opened_from((pid, i64::MIN)).take_while(move |process| process.pid() == pid)
}

/// Returns all processes that have been opened now, in the order of their keys, likewise.
pub(crate) fn opened() -> impl Iterator<Item = Arc<Process>> {
    opened_from(FIRST_KEY)
}

/// The walk ends, whatever is opened in the meantime. No lock may be held.
fn opened_from(mut from: Key) -> impl Iterator<Item = Arc<Process>> {
    let until = LAST_OPENING.load(Relaxed);
    core::iter::from_fn(move || loop {
        let process = first_from(from)?;
        if process.opening < until {
            from = (process.pid(), process.opening + 1);
            return Some(process);
        }
        // All that follow of its pid are later, too, since they are in the order of opening.
        from = (process.pid().checked_add(1)?, i64::MIN);
        sched::cond_resched();
    })
}
