// SPDX-License-Identifier: GPL-2.0

//! How the record of a thread comes to be: with the first command that needs one.

use crate::{
    common::limits::limits,
    lifecycle::teardown::end_thread,
    process::Process,
    thread::Thread, //
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::{Arc, ArcBorrow}, //
};

/// The record of the calling task, made if there is none.
pub(crate) fn current_thread(process: ArcBorrow<'_, Process>) -> Result<Arc<Thread>> {
    let id = current!().pid();
    let found = process.lock_state().threads.get(&id).cloned();
    match found {
        // Who has a record belongs to the opener: it was asked when that was made.
        Some(thread) if thread.is_current() => Ok(thread),
        _ if !process.is_callers() => Err(EINVAL),
        Some(of_the_past) => {
            // The number went round: its former bearer ended without saying so.
            end_thread(&of_the_past);
            add_current_thread(&process.into())
        }
        None => add_current_thread(&process.into()),
    }
}

fn add_current_thread(process: &Arc<Process>) -> Result<Arc<Thread>> {
    let thread = Thread::new(process)?;
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?.into_node(thread.id, thread.clone());
    loop {
        let mut state = process.lock_state();
        if limits().threads.has_room(state.threads.len()) {
            state.threads.insert(node);
            return Ok(thread.clone());
        }
        drop(state);
        if !end_exited_thread(process) {
            return Err(ENOMEM);
        }
    }
}

/// Ends the record of a thread that has exited without saying so. `false` when there is none.
fn end_exited_thread(process: &Process) -> bool {
    let state = process.lock_state();
    let exited = state.threads.values().find(|thread| thread.is_exiting());
    let exited = exited.cloned();
    drop(state);
    exited.inspect(end_thread).is_some()
}
