// SPDX-License-Identifier: GPL-2.0

//! Tells what a search has found: the chain of threads that wait for each other.
//!
//! The observations of a search are not one moment's. Before anything is told, each thread of the
//! chain must still wait for the same call; of a cycle, each thread on which it depends, with no
//! other call to serve, and for a call that is [queued or served](is_stuck). These threads have
//! then all waited at the moment at which the last one was observed, and a thread that waits takes
//! no call and replies to none: so the cycle existed at that moment, and therefore still does.

use crate::{
    common::{
        debug,
        netlink::{Party, SlowCall}, //
    },
    context::Context,
    kernel_ext::{
        pid::TaskState,
        ticks::Ticks, //
    },
    node::Node,
    process::Pid,
    pure::{
        wait_graph::{Found, Reached, Verdict},
        watch::Told, //
    },
    thread::{Thread, WaitState},
    trace,
    transaction::Waiter,
    waits::search::Graph, //
};
use kernel::{
    fmt,
    prelude::*,
    str::{CStr, CString},
    sync::Arc, //
};

/// Why a call is looked at.
pub(super) enum Suspect {
    /// Its thread has just made it. This is its debug id.
    Made(u32),
    /// It has waited for so many milliseconds at least.
    Waited(u64),
}

/// How many calls of a chain are told: a line of the kernel's log holds 1 024 bytes, of which a
/// call may take 100.
const LONGEST: usize = 8;

/// What is told of a call.
struct Report {
    /// The debug id of the call; 0 if it is not known.
    id: u32,
    /// For how long its thread has waited, at least.
    waited_ms: u64,
    verdict: Verdict,
    links: KVVec<Link>,
    /// What the last thread of the chain does, if it serves the last call.
    last: Option<Last>,
    /// How many further calls the chain has.
    omitted: usize,
}

/// A call of the chain.
struct Link {
    /// The thread that waits.
    pid: Pid,
    tid: Pid,
    /// The pid of the process that the call is for.
    target: Pid,
    found: Found,
}

/// A thread that serves a call and does not wait for another one.
struct Last {
    pid: Pid,
    tid: Pid,
    state: TaskState,
    /// Whether it waits in the driver for something else than a call of its own.
    reads: bool,
}

/// Tells a call that is slow or closes a cycle, unless it has ended or has been told meanwhile.
/// Fails with `ENOMEM`. No lock may be held.
pub(super) fn tell(graph: &Graph, verdict: Verdict, suspect: Suspect) -> Result {
    let chain = graph.chain()?;
    let verdict = match verdict {
        Verdict::Cycle if are_stuck(graph) => verdict,
        _ if !chain.iter().all(|reached| waits(graph, reached)) => return Ok(()),
        Verdict::Cycle => match suspect {
            // Of a call that has just been made only a cycle is told.
            Suspect::Made(_) => return Ok(()),
            // The call is slow, and what becomes of it is not known.
            Suspect::Waited(_) => Verdict::Moves,
        },
        Verdict::Moves | Verdict::Stuck | Verdict::Unknown => verdict,
    };
    let report = Report::new(graph, verdict, &chain, suspect)?;
    let text = CString::try_from_fmt(fmt!("{}", report))?;
    if claim(graph, verdict, &chain) {
        debug::print_of_others(fmt!("{}", &*text));
        report.send(&thread(graph, &chain[0]).process.context, &text);
    }
    Ok(())
}

fn thread<'a>(graph: &'a Graph, reached: &Reached) -> &'a Arc<Thread> {
    &graph.threads()[reached.thread].thread
}

/// Whether a thread still waits for a call. Takes the state lock of its process.
fn waits(graph: &Graph, reached: &Reached) -> bool {
    let waiter = Waiter {
        thread: thread(graph, reached).clone(),
        frame: reached.call.frame,
    };
    let mut process = waiter.thread.process.lock_state();
    waiter.waits(&mut process)
}

/// Whether all threads that the search has reached are [stuck](is_stuck).
fn are_stuck(graph: &Graph) -> bool {
    graph
        .reached()
        .iter()
        .all(|reached| is_stuck(graph, reached))
}

/// Whether a thread still waits for a call and has no other one to serve, and the call is served or
/// queued. A thread has a frame for a call already while it copies the data, before it queues the
/// call for whichever thread may take it then. Takes the state lock of the thread's process.
fn is_stuck(graph: &Graph, reached: &Reached) -> bool {
    let (thread, frame) = (thread(graph, reached), reached.call.frame);
    let mut process = thread.process.lock_state();
    let state = thread.state(&mut process);
    let is_innermost = state.stack.depth() == frame.place as usize + 1;
    let is_noted = matches!(state.stack.watch(frame), Some(watch) if watch.is_queued());
    let is_served = matches!(reached.found, Found::ServedBy { .. });
    let sleeps = state.wait_state != WaitState::Awake;
    let is_queued = !is_innermost || is_served || sleeps || is_noted;
    let has_others = is_innermost && state.pending_calls > 0;
    state.stack.waits_for(frame) && is_queued && !has_others
}

/// Records that the chain is told. Returns `false` if another thread has told it, or a part of it
/// that is the same cycle: of those that find a cycle at the same time, the one that is first to
/// record that with the first of its threads, by their numbers, tells it.
fn claim(graph: &Graph, verdict: Verdict, chain: &[Reached]) -> bool {
    if verdict != Verdict::Cycle {
        return record(graph, &chain[0], Told::Slow);
    }
    let number = |reached: &&Reached| {
        let thread = thread(graph, reached);
        (thread.process.pid(), thread.id)
    };
    let Some(first) = chain.iter().min_by_key(number) else {
        return false;
    };
    let is_new = record(graph, first, Told::Cycle);
    // So that nobody searches for what these wait for again.
    for reached in chain {
        record(graph, reached, Told::Cycle);
    }
    is_new
}

/// Records with a thread what is told of the call that it waits for. Returns `false` if that was
/// told before, or the thread does not wait any more.
fn record(graph: &Graph, reached: &Reached, what: Told) -> bool {
    let thread = thread(graph, reached);
    let mut process = thread.process.lock_state();
    let watch = thread.state(&mut process).stack.watch(reached.call.frame);
    watch.is_some_and(|watch| watch.tell(what))
}

impl Report {
    fn new(graph: &Graph, verdict: Verdict, chain: &[Reached], suspect: Suspect) -> Result<Self> {
        let shown = chain.len().min(LONGEST);
        let (id, waited_ms) = match suspect {
            Suspect::Made(id) => (id, 0),
            Suspect::Waited(milliseconds) => (0, milliseconds),
        };
        let mut report = Self {
            id,
            waited_ms,
            verdict,
            links: KVVec::with_capacity(shown, GFP_KERNEL)?,
            last: None,
            omitted: chain.len() - shown,
        };
        for reached in &chain[..shown] {
            let thread = thread(graph, reached);
            let link = Link {
                pid: thread.process.pid(),
                tid: thread.id,
                target: reached.call.target,
                found: reached.found,
            };
            report.links.push(link, GFP_KERNEL)?;
        }
        if let Found::ServedBy { id, sent, .. } = chain[0].found {
            report.id = id;
            report.waited_ms = Ticks::of(sent).elapsed_milliseconds();
        }
        if let (Found::ServedBy { thread, .. }, true) = (
            chain[shown - 1].found,
            report.omitted == 0 && verdict != Verdict::Cycle,
        ) {
            report.last = Some(Last::of(&graph.threads()[thread].thread));
        }
        Ok(report)
    }
}

impl Report {
    /// Tells those who trace, and those who listen. No lock may be held.
    fn send(&self, context: &Context<Node>, chain: &CStr) {
        let Some(&Link {
            pid, tid, target, ..
        }) = self.links.first()
        else {
            return;
        };
        let waited_ms = self.waited_ms.try_into().unwrap_or(u32::MAX);
        let is_cycle = self.verdict == Verdict::Cycle;
        trace::slow_call(|| trace::SlowCall {
            id: self.id,
            from_process: pid,
            from_thread: tid,
            to_process: target,
            waited_ms,
            is_cycle,
            chain,
        });
        let report = SlowCall {
            context: context.name(),
            from: Party { pid, tid },
            to_pid: target,
            id: self.id,
            waited_ms,
            is_cycle,
            chain,
        };
        report.send();
    }
}

impl Last {
    fn of(thread: &Thread) -> Self {
        let mut process = thread.process.lock_state();
        let reads = thread.state(&mut process).wait_state != WaitState::Awake;
        drop(process);
        Self {
            pid: thread.process.pid(),
            tid: thread.id,
            state: thread.task_state(),
            reads,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict {
            Verdict::Cycle => write!(f, "cycle of waiting threads:")?,
            _ => write!(f, "slow call, {} ms:", self.waited_ms)?,
        }
        let mut serves = "";
        for (number, link) in self.links.iter().enumerate() {
            let (pid, tid) = (link.pid, link.tid);
            let separator = if number == 0 { "" } else { ";" };
            write!(f, "{separator} {pid}:{tid} {serves}waits for ")?;
            let id = match link.found {
                Found::ServedBy { id, .. } => id,
                _ if number == 0 => self.id,
                _ => 0,
            };
            match id {
                0 => write!(f, "a call to {}", link.target)?,
                id => write!(f, "call {id} to {}", link.target)?,
            }
            serves = "";
            match link.found {
                Found::ServedBy { .. } => serves = "serves it and ",
                found => {
                    f.write_str(", ")?;
                    NotServed(found).fmt(f)?;
                }
            }
        }
        if let Some(last) = &self.last {
            write!(f, "; {}:{} {serves}{}", last.pid, last.tid, last.does())?;
        }
        match self.omitted {
            0 => {}
            omitted => write!(f, "; and {omitted} more")?,
        }
        match self.verdict {
            Verdict::Stuck => write!(f, "; all threads that could go on wait for each other"),
            Verdict::Moves | Verdict::Cycle | Verdict::Unknown => Ok(()),
        }
    }
}

/// Why nobody serves a call, for a message.
struct NotServed(Found);

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Found::Queued {
                is_frozen: true, ..
            } => write!(f, "which is being frozen"),
            Found::Queued { able: 0, .. } => write!(f, "which has no thread that takes calls"),
            Found::Queued { able, free, .. } => {
                let waiting = able - free;
                write!(
                    f,
                    "whose {able} threads are busy, {waiting} of them waiting"
                )
            }
            Found::Nowhere | Found::ServedBy { .. } => write!(f, "and so on"),
        }
    }
}

impl Last {
    fn does(&self) -> &'static str {
        match self.state {
            TaskState::Frozen => "is frozen",
            TaskState::Stopped => "is stopped",
            TaskState::Exited => "has exited",
            _ if self.reads => "reads, although it has not replied",
            TaskState::Runs => "runs",
            TaskState::Sleeps => "sleeps outside of Binder",
            TaskState::SleepsFast => "sleeps and takes no signals",
        }
    }
}
