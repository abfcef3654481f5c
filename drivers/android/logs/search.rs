// SPDX-License-Identifier: GPL-2.0

//! What the driver itself never has to find: who serves a call that a thread makes, and where the
//! data of a call are that a thread serves.

use super::{
    processes::{self, OpenedUntil},
    queue,
    transactions::{Data, Line, Party},
};
use crate::{
    kernel_ext::sched,
    process::{Pid, Process},
    pure::{
        call_stack::{Frame, FrameId},
        visits_left::VisitsLeft, //
    },
    range_alloc::State,
    thread::Thread,
    transaction::Transaction,
    work::{Work, WorkPosition}, //
};
use kernel::sync::Arc;

/// How many frames of a stack, or works of a queue, are looked at under one lock.
const ROUND: usize = 16;

/// How many frames of a stack, or works of a queue, are looked at in all.
const MOST: usize = 1024;

/// Returns the line of the call that `caller` makes in this frame to a process of the pid `target`,
/// if it is queued or served there, not too deep. No lock may be held.
#[inline(never)] // Or its caller, which holds copied lines, has its stack frame, too.
pub(super) fn call(caller: &Arc<Thread>, frame: FrameId, target: Pid) -> Option<Line> {
    let is_it = |call: &Transaction| {
        let is_callers = |found: &Arc<Thread>| Arc::ptr_eq(found, caller);
        call.frame().serial == frame.serial && call.caller().is_some_and(is_callers)
    };
    let (log, opened) = (super::Log::Process(target), OpenedUntil::now());
    let mut key = (target, i64::MIN);
    while let Some(process) = processes::first_from(log, opened, key) {
        if let Some(line) = call_at(&process, &is_it) {
            return Some(line);
        }
        key = processes::behind(processes::key(&process));
    }
    None
}

/// Returns the line of the call that `is_it` accepts, if a process has it.
fn call_at(process: &Arc<Process>, is_it: &impl Fn(&Transaction) -> bool) -> Option<Line> {
    let found = first_of_threads(process, |thread| {
        let to = Party::of(thread);
        served(thread, is_it, to).or_else(|| queued(process, is_it, to, Some(thread)))
    });
    found.or_else(|| queued(process, is_it, Party::pool_of(process), None))
}

/// Returns the first that `look` finds at a thread of a process. No lock may be held.
fn first_of_threads<T>(process: &Process, look: impl Fn(&Arc<Thread>) -> Option<T>) -> Option<T> {
    let mut left = VisitsLeft::of(process.lock_state().threads.len());
    let mut next = Pid::MIN;
    while left.take(1) {
        sched::cond_resched();
        let thread = process.lock_state().threads.first_from(&next)?;
        let found = look(&thread);
        if found.is_some() {
            return found;
        }
        next = thread.id + 1;
    }
    None
}

/// Looks for a call among those that a thread serves.
fn served(thread: &Thread, is_it: &impl Fn(&Transaction) -> bool, to: Party) -> Option<Line> {
    let mut below = usize::MAX;
    for _ in 0..MOST / ROUND {
        let state = thread.process.lock_state();
        let stack = &thread.state_shared(&state).stack;
        below = below.min(stack.depth());
        for place in (below.saturating_sub(ROUND)..below).rev() {
            match stack.get(place) {
                Some(Frame::Incoming(call)) if is_it(call) => return Some(Line::of(call, to)),
                _ => {}
            }
        }
        below = below.saturating_sub(ROUND);
        if below == 0 {
            break;
        }
    }
    None
}

/// Looks for a call in the queue of a thread of `process`, or in its own.
fn queued(
    process: &Process,
    is_it: &impl Fn(&Transaction) -> bool,
    to: Party,
    thread: Option<&Thread>,
) -> Option<Line> {
    let mut position: Option<WorkPosition> = None;
    for _ in 0..MOST / ROUND {
        let state = process.lock_state();
        let mut works = queue::of(&state, thread).iter(position.as_ref());
        for work in works.by_ref().take(ROUND) {
            match &*work {
                Work::Call(call) if is_it(call) => return Some(Line::of(call, to)),
                _ => {}
            }
        }
        let next = works.position();
        let is_at_end = works.next().is_none();
        drop(state);
        position = next;
        if is_at_end {
            break;
        }
    }
    None
}

/// Returns where the data of a call are that a thread of `process` serves. No lock may be held.
pub(super) fn data(process: &Process, id: u32) -> Data {
    let mut from = 0;
    loop {
        let buffers = process.buffers.lock();
        let Some(ranges) = &*buffers else {
            return Data::Freed;
        };
        for _ in 0..ROUND {
            let Some(range) = ranges.first_from(from) else {
                return Data::Freed;
            };
            let node = match range.state {
                State::Delivered(delivered) if range.label.id == id => delivered.node_of_call(),
                _ => None,
            };
            if let Some(node) = node {
                return Data::Here {
                    node: Some(node.debug_id),
                    data_size: range.label.data_size as usize,
                    offsets_size: range.label.offsets_size as usize,
                    offset: range.offset,
                };
            }
            from = range.offset + range.size;
        }
        drop(buffers);
        sched::cond_resched();
    }
}

/// Whether a thread of `process` serves the call of this id, not too deep. No lock may be held.
pub(super) fn is_served(process: &Arc<Process>, id: u32) -> bool {
    let is_it = |call: &Transaction| call.id == id;
    first_of_threads(process, |thread| served(thread, &is_it, Party::default())).is_some()
}
