// SPDX-License-Identifier: GPL-2.0
//! What the log files say at one time, as far as it is shown.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Instant;

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
    pub calls_out: Option<i64>,
    /// Calls that it was given.
    pub calls_in: Option<i64>,
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
    /// Takes what only `stats` says.
    fn count(&mut self, stats: &ProcessStats) {
        let count = |names: [&str; 2]| names.iter().map(|name| stats.counters.count(name)).sum();
        self.oneway_free = stats.free_async_space;
        self.pending = stats.pending_transactions;
        self.calls_out = Some(count(["BC_TRANSACTION", "BC_TRANSACTION_SG"]));
        self.calls_in = Some(count(["BR_TRANSACTION", "BR_TRANSACTION_SEC_CTX"]));
    }

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
    /// Puts the files together. A driver may have no `stats`. Each file lists the processes in its own order, those with
    /// the same number in the same one.
    pub fn new(time: Instant, stats: Option<&Stats>, state: &State) -> Self {
        let mut processes: BTreeMap<Key, Process> = BTreeMap::new();
        let mut seen = HashMap::new();
        for of_process in &state.processes {
            processes.insert(key(&mut seen, of_process.pid), process(of_process));
        }
        seen.clear();
        for of_process in stats.iter().flat_map(|stats| &stats.processes) {
            // One that is in one of the files only has come or gone meanwhile.
            if let Some(process) = processes.get_mut(&key(&mut seen, of_process.pid)) {
                process.count(of_process);
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

fn process(state: &binder_logs::Process) -> Process {
    Process {
        context: state.context.clone(),
        nodes: state.nodes.len() as i64,
        references: state.references.len() as i64,
        buffers: state.buffers.len() as i64,
        threads: state.threads.iter().map(doing).collect(),
        ..Process::default()
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

#[cfg(test)]
mod tests {
    use binder_logs::Log;
    use binder_logs::Mode;

    use super::*;

    const STATE: &str = "binder state:
proc 61
context binder
  thread 61: l 12 need_return 0 tr 0
    outgoing transaction 8: 0000000012345678 from 61:61 to 63:63 code 3 flags 0 pri 0 a0 r0 elapsed 2ms
    incoming transaction 7: 0000000012345677 from 64:64 to 61:61 code 2 flags 0 pri 0 a0 r0 elapsed 3ms node 1 size 8:0 offset 0
  thread 62: l 12 need_return 0 tr 0
  thread 66: l 00 need_return 0 tr 0
  node 1: u0000000000000000 c0000000000000000 hs 1 hw 1 ls 1 lw 0 is 2 iw 2 tr 0 proc 63 64
  buffer 7: 0 size 8:0:0 delivered
proc 61
context hwbinder
";

    const STATS: &str = "binder stats:
proc 61
context binder
  threads: 3
  requested threads: 0+0/0
  ready threads 1
  free async space 520192
  nodes: 1
  refs: 0 s 0 w 0
  buffers: 1
  pages: 1:0:255
  pages high watermark: 1
  pending transactions: 0
  BC_TRANSACTION: 4
  BC_TRANSACTION_SG: 3
  BR_TRANSACTION: 9
";

    fn sample(with_stats: bool) -> Sample {
        let stats = Stats::parse("stats", STATS.as_bytes(), Mode::Strict).unwrap();
        let state = State::parse("state", STATE.as_bytes(), Mode::Strict).unwrap();
        Sample::new(Instant::now(), with_stats.then_some(&stats), &state)
    }

    #[test]
    fn the_files_are_put_together() {
        let sample = sample(true);
        let process = &sample.processes[&Key { pid: 61, nth: 0 }];
        assert_eq!((process.nodes, process.references, process.buffers), (1, 0, 1));
        assert_eq!((process.busy(), process.idle(), process.threads.len()), (1, 1, 3));
        assert_eq!((process.calls_out, process.calls_in), (Some(7), Some(9)));
        assert_eq!((process.oneway_free, process.pending), (Some(520_192), Some(0)));
        let callee = Other { process: 63, thread: 63, code: 3, elapsed: 2 };
        assert_eq!(process.threads[0].what, Activity::Waits(callee));
        assert_eq!(process.threads[2].what, Activity::Away);
    }

    #[test]
    fn a_process_with_two_devices_has_two_lines() {
        let sample = sample(true);
        let other = &sample.processes[&Key { pid: 61, nth: 1 }];
        assert_eq!((other.context.as_str(), other.calls_in), ("hwbinder", None));
    }

    #[test]
    fn without_counts_there_are_none() {
        let sample = sample(false);
        let process = &sample.processes[&Key { pid: 61, nth: 0 }];
        assert_eq!((process.nodes, process.calls_out, process.oneway_free), (1, None, None));
    }
}
