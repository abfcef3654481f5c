// SPDX-License-Identifier: GPL-2.0
//! What the log files say at one time, as far as it is shown.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Instant;

use binder_logs::Counters;
use binder_logs::Looper;
use binder_logs::ProcessStats;
use binder_logs::Role;
use binder_logs::State;
use binder_logs::Stats;
use binder_logs::Thread;

use crate::trace::event::Pid;

/// A process that has a device open, for each device that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its number.
    pub pid: Pid,
    /// Which one of those with the same number in the order of the logs: 0 is the first.
    pub nth: usize,
}

/// All processes at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When.
    pub time: Instant,
    /// What there was.
    pub processes: BTreeMap<Key, Process>,
}

/// A process at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The device's name.
    pub context: String,
    /// Its nodes.
    pub nodes: i64,
    /// Its references.
    pub references: i64,
    /// Buffers in its space.
    pub buffers: i64,
    /// Bytes that oneway calls may still take.
    pub oneway_free: Option<i64>,
    /// Transactions that wait for any of its threads.
    pub pending: Option<i64>,
    /// Calls that it has made since it opened the device.
    pub calls_out: i64,
    /// Calls that it was given.
    pub calls_in: i64,
    /// Its threads.
    pub threads: Vec<Doing>,
}

/// A thread at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    /// Its number.
    pub tid: Pid,
    /// What it does.
    pub what: Activity,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It waits for work.
    Idle,
    /// It is in user space, in no call.
    Away,
    /// It has made a call, and waits for the reply.
    Waits(Other),
    /// It serves a call.
    Serves(Other),
}

/// The call that a thread is in, and who is at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// The process; 0: it is gone.
    pub process: Pid,
    /// The thread; 0: none has it yet.
    pub thread: Pid,
    /// What is asked for.
    pub code: u32,
    /// Milliseconds since it was sent.
    pub elapsed: i64,
}

impl Process {
    /// Its threads that make or serve calls.
    pub fn busy(&self) -> usize {
        self.threads
            .iter()
            .filter(|thread| matches!(thread.what, Activity::Waits(_) | Activity::Serves(_)))
            .count()
    }

    /// Its threads that wait for work.
    pub fn idle(&self) -> usize {
        self.threads.iter().filter(|thread| thread.what == Activity::Idle).count()
    }
}

impl Sample {
    /// Puts the files together. Each lists the processes in its own order, those with the same number in the same one.
    pub fn new(time: Instant, stats: &Stats, state: &State) -> Self {
        let mut processes: BTreeMap<Key, Process> = BTreeMap::new();
        let mut seen = HashMap::new();
        for of_process in &stats.processes {
            processes.insert(key(&mut seen, of_process.pid), process(of_process));
        }
        seen.clear();
        for of_process in &state.processes {
            // One that is in one of the files only has come or gone meanwhile.
            if let Some(process) = processes.get_mut(&key(&mut seen, of_process.pid)) {
                process.threads = of_process.threads.iter().map(doing).collect();
            }
        }
        Self { time, processes }
    }
}

fn key(seen: &mut HashMap<Pid, usize>, pid: Pid) -> Key {
    let count = seen.entry(pid).or_default();
    *count += 1;
    Key { pid, nth: *count - 1 }
}

fn process(stats: &ProcessStats) -> Process {
    let count = |counters: &Counters, names: [&str; 2]| names.iter().map(|name| counters.count(name)).sum();
    Process {
        context: stats.context.clone(),
        nodes: stats.nodes.unwrap_or(0),
        references: stats.references.map_or(0, |references| references.count),
        buffers: stats.buffers.unwrap_or(0),
        oneway_free: stats.free_async_space,
        pending: stats.pending_transactions,
        calls_out: count(&stats.counters, ["BC_TRANSACTION", "BC_TRANSACTION_SG"]),
        calls_in: count(&stats.counters, ["BR_TRANSACTION", "BR_TRANSACTION_SEC_CTX"]),
        threads: Vec::new(),
    }
}

fn doing(thread: &Thread) -> Doing {
    let what = match thread.stack.first() {
        None if thread.looper.contains(Looper::WAITING) => Activity::Idle,
        None => Activity::Away,
        Some(innermost) => {
            let transaction = &innermost.transaction;
            let other = |task: binder_logs::Task| Other {
                process: task.process,
                thread: task.thread,
                code: transaction.code,
                elapsed: transaction.elapsed_ms,
            };
            match innermost.role {
                Role::Outgoing => Activity::Waits(other(transaction.to)),
                Role::Incoming | Role::Bad => Activity::Serves(other(transaction.from)),
            }
        }
    };
    Doing { tid: thread.id, what }
}
