// SPDX-License-Identifier: GPL-2.0

//! Observes the threads on which a call depends, process by process.
//!
//! A process is observed in slices, each under its state lock, in the order of its threads. So what
//! is observed is not one moment's; see [`crate::waits::report`] for what is checked again.

use crate::{
    context::Context,
    kernel_ext::sched,
    lifecycle::registry::{self, OpenedUntil},
    node::Node,
    process::{Pid, Process, ProcessState},
    pure::{
        call_stack::{Frame, FrameId},
        wait_graph::{
            Activity,
            Call,
            CallKey,
            Seen,
            Served,
            Step,
            Verdict,
            WaitGraph,
            LIMITS, //
        },
    },
    thread::{Thread, ThreadState}, //
};
use kernel::{prelude::*, sync::Arc};

/// What has been observed.
pub(super) type Graph = WaitGraph<Arc<Thread>>;

/// How many frames, or threads, are observed before the lock is released.
const SLICE: usize = 32;

/// Follows the call that a thread waits for. Fails with `ENOMEM`. No lock may be held.
pub(super) fn follow(thread: &Arc<Thread>, call: Call) -> Result<(Graph, Verdict)> {
    let mut graph = Graph::new(LIMITS, thread.clone(), address(thread), call)?;
    loop {
        match graph.search()? {
            Step::Add(pid) => add_processes(&mut graph, pid, &thread.process.context)?,
            Step::Done(verdict) => return Ok((graph, verdict)),
        }
    }
}

/// Returns what a thread does at present.
pub(super) fn activity(state: &ThreadState) -> Activity {
    match state.stack.depth().checked_sub(1) {
        Some(place) if state.pending_calls == 0 => activity_at(state, place),
        _ => Activity::Free,
    }
}

/// Returns what a thread does according to the frame at a place: it waits for the call of that
/// frame, or else it is free.
fn activity_at(state: &ThreadState, place: usize) -> Activity {
    match state.stack.get(place) {
        Some(&Frame::Outgoing { serial, target, .. }) => Activity::Waits(Call {
            frame: FrameId {
                place: place as u32,
                serial,
            },
            target,
        }),
        _ => Activity::Free,
    }
}

fn address(thread: &Arc<Thread>) -> usize {
    Arc::as_ptr(thread) as usize
}

/// Whether none of the first threads of a process will take a call. As a rule one of them will, and
/// then a call to that process need not be followed. Takes the state lock of the process.
#[cold]
pub(super) fn may_be_stuck(process: &Process) -> bool {
    let process = process.lock_state();
    let mut threads = process.threads.values().take(SLICE);
    threads.all(|thread| {
        let state = thread.state_shared(&process);
        activity(state) != Activity::Free || !may_take(thread, state)
    })
}

/// Adds the processes of a pid that have opened this device.
fn add_processes(graph: &mut Graph, pid: Pid, context: &Arc<Context<Node>>) -> Result {
    graph.begin_process(pid)?;
    let opened = OpenedUntil::now();
    let mut from = (pid, i64::MIN);
    while !graph.is_full() {
        let Some(process) = opened.first_from(from).filter(|found| found.pid() == pid) else {
            break;
        };
        from = registry::key_behind(&process);
        let state = process.lock_state();
        let expects_thread = state.pool.is_thread_requested;
        let is_frozen = state.freeze.rejects_calls();
        drop(state);
        graph.add_process(expects_thread, is_frozen);
        if Arc::ptr_eq(&process.context, context) {
            add_threads(graph, &process)?;
        }
        sched::cond_resched();
    }
    graph.end_process();
    Ok(())
}

/// A place among the frames of a process.
#[derive(Clone, Copy)]
struct Place {
    thread: Pid,
    frame: usize,
}

/// Adds the threads of a process, and the calls that they serve.
fn add_threads(graph: &mut Graph, process: &Process) -> Result {
    let mut next = Some(Place {
        thread: Pid::MIN,
        frame: 0,
    });
    while let (Some(place), false) = (next, graph.is_full()) {
        graph.reserve(SLICE)?;
        next = add_slice(graph, &mut process.lock_state(), place);
        sched::cond_resched();
    }
    Ok(())
}

/// Adds the threads and calls from a place on, until a slice is full. Returns the place behind
/// them, if there are more.
fn add_slice(graph: &mut Graph, process: &mut ProcessState, mut at: Place) -> Option<Place> {
    for _ in 0..SLICE {
        // Under the lock no reference that is dropped here is the last: the tree has another.
        let thread = process.threads.first_from(&at.thread)?;
        if thread.id != at.thread {
            at.thread = thread.id;
            at.frame = 0;
        }
        let state = thread.state(process);
        if at.frame == 0 {
            graph.add_thread(Seen {
                address: address(&thread),
                may_take: may_take(&thread, state),
                activity: activity(state),
                thread: thread.clone(),
            });
        }
        let served = match state.stack.get(at.frame) {
            Some(Frame::Incoming(call)) => call.caller().map(|caller| (call, caller)),
            _ => None,
        };
        if let Some((call, caller)) = served {
            graph.add_served(Served {
                key: CallKey {
                    caller: address(caller),
                    serial: call.frame().serial,
                },
                _caller: caller.clone(),
                id: call.id,
                sent: call.start.count(),
                then: activity_above(state, at.frame),
            });
        }
        at.frame += 1;
        if at.frame >= state.stack.depth() {
            at.thread = thread.id + 1;
            at.frame = 0;
        }
    }
    Some(at)
}

/// Returns what a thread does for the call that it serves in the frame at a place.
fn activity_above(state: &ThreadState, place: usize) -> Activity {
    let above = place + 1;
    if above + 1 == state.stack.depth() {
        activity(state)
    } else {
        activity_at(state, above)
    }
}

/// Whether a thread may take a call that is queued for its process, sooner or later.
fn may_take(thread: &Thread, state: &ThreadState) -> bool {
    let looper = state.looper;
    // A call that is for the thread itself is not on its stack yet.
    state.pending_calls != 0 || ((looper.is_in_pool() || looper.polls()) && !thread.is_exiting())
}
