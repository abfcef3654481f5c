// SPDX-License-Identifier: GPL-2.0

//! The records of the threads of a process ([`Thread`]): made by the first ioctl or poll that needs
//! one, looked up, and made to return to user space.

use crate::{
    common::limits::limits,
    kernel_ext::park::WakeHint,
    lifecycle::teardown::end_thread,
    process::{Pid, Process},
    thread::Thread, //
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::{
        atomic::Relaxed,
        Arc,
        ArcBorrow, //
    }, //
};

/// Returns the record of the calling task, and makes one if it has none. No lock may be held.
///
/// Fails with `EINVAL` when the task has no record and belongs to another process than the opener,
/// and with `ENOMEM` when memory or the limit of threads does not allow another record.
pub(crate) fn current_thread(process: ArcBorrow<'_, Process>) -> Result<Arc<Thread>> {
    let id = current!().pid();
    let found = process.lock_state().threads.get(&id).cloned();
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
    if !process.was_flushed.load(Relaxed) {
        return;
    }
    let state = process.lock_state();
    if let Some(thread) = state.threads.get(&current!().pid()) {
        if thread.task.is_current() {
            thread.must_return.store(false, Relaxed);
        }
    }
}

/// Makes a record of the calling task and adds it to `process`. Ends records of exited threads if
/// there are as many as the limit allows; fails with `ENOMEM` if there are none of them.
fn add_current_thread(process: &Arc<Process>) -> Result<Arc<Thread>> {
    let thread = Thread::new(process)?;
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?.into_node(thread.id, thread.clone());
    loop {
        let mut state = process.lock_state();
        if limits().threads.has_room(state.threads.len()) {
            state.threads.insert(node);
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
    let mut from = Some(Pid::MIN);
    let mut exited: Option<Arc<Thread>> = None;
    while let Some(first) = from {
        let state = process.lock_state();
        let next = state.threads.visit(&first, |_, thread| {
            if exited.is_none() && thread.task.is_exiting() {
                exited = Some(thread.clone());
            }
        });
        from = next.filter(|_| exited.is_none());
    }
    exited.inspect(end_thread).is_some()
}

/// Makes all threads of a process return to user space, because a descriptor of the device is
/// closed. No lock may be held.
pub(crate) fn flush(process: &Process) {
    process.was_flushed.store(true, Relaxed);
    let mut next = Pid::MIN;
    while let Some(thread) = flush_thread(process, next) {
        next = thread.id + 1;
    }
}

/// Makes the first thread whose number is at least `from` return to user space. Returns that
/// thread.
fn flush_thread(process: &Process, from: Pid) -> Option<Arc<Thread>> {
    let mut state = process.lock_state();
    let thread = state.threads.first_from(&from)?;
    thread.must_return.store(true, Relaxed);
    let was_asleep = state.stop_waiting(&thread);
    match was_asleep {
        true => thread.wake_after(state, WakeHint::Anywhere),
        false => drop(state),
    }
    Some(thread)
}
