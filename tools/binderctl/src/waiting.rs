// SPDX-License-Identifier: GPL-2.0
//! The waits of threads for each other, from a driver's `state`.
//!
//! A thread waits if the innermost call of its stack is one that it has made, and the outcome is not in its queue. It
//! waits for the thread that serves that call; until one does, for the pool of the target process, whose first free
//! thread takes the call. A thread is known by its number, whatever devices it uses: one that serves a call on one
//! device may wait for a reply on another. A pool is of one opened device: a process may open devices of the same name
//! several times, such as those of two instances of binderfs.

use crate::error::Result;
use crate::logs::Logs;
use crate::tasks::{self, Task};
use binder_logs::{Looper, Role, State, Stats, Thread, Transaction, Work};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A call whose reply a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The driver's number of it.
    pub transaction: i64,
    pub context: String,
    pub from: Task,
    pub to_process: i32,
    /// The thread that serves it or has it in its queue.
    pub to_thread: Option<i32>,
    pub code: u32,
    pub elapsed_ms: i64,
}

/// The threads of a process that may serve calls through a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    pub threads: BTreeSet<i32>,
    /// Those of them that wait for work.
    pub idle: BTreeSet<i32>,
    /// Calls that no thread has taken: number, and for how long.
    pub pending: Vec<(i64, i64)>,
    /// The most threads that the driver would request.
    pub max: Option<i64>,
    /// The driver has requested a thread that has not come. It requests one when a thread of the pool takes a call.
    pub expects_thread: bool,
}

/// A process, a device that it has open, and how many openings of devices of that name logs list before this one.
pub type Place = (i32, String, usize);

/// The waiting threads and the pools.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// The call that each waiting thread waits for, by the thread's number.
    pub calls: BTreeMap<i32, Call>,
    /// Every process's pools.
    pub pools: BTreeMap<Place, Pool>,
}

/// The end of a chain of waiting threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// At a thread that waits for no call.
    Thread(Task),
    /// At a process none of whose threads has taken the call.
    Pool(i32),
    /// At a thread of the chain itself.
    Cycle,
}

impl Waiting {
    /// Takes it from the log files, without the threads that have ended.
    pub fn now(logs: &Logs) -> Result<Self> {
        let mut found = Self::of(&logs.state()?, logs.stats().ok().as_ref());
        found.forget(tasks::has_ended);
        Ok(found)
    }

    /// Takes it from the contents of log files. Without `stats` each pool is taken for one that expects a thread.
    pub fn of(state: &State, stats: Option<&Stats>) -> Self {
        let mut found = Self::default();
        let (mut holders, mut openings) = (HashMap::new(), HashMap::new());
        for process in &state.processes {
            let place = nth(&mut openings, process.pid, &process.context);
            let pool = found.pools.entry(place).or_default();
            pool.expects_thread = true;
            for thread in &process.threads {
                note_thread(pool, &mut holders, thread);
            }
            let waiting = process.work.iter().filter_map(Work::transaction).filter(|call| !call.is_async);
            pool.pending.extend(waiting.map(|call| (call.id, call.elapsed_ms)));
        }
        for process in &state.processes {
            for thread in &process.threads {
                found.note_call(&process.context, thread, &holders);
            }
        }
        openings.clear();
        for process in stats.iter().flat_map(|stats| &stats.processes) {
            let place = nth(&mut openings, process.pid, &process.context);
            if let (Some(pool), Some(asked)) = (found.pools.get_mut(&place), process.requested_threads) {
                // Shown as a number of 32 bits with a sign.
                let max = asked.max.rem_euclid(1 << 32);
                pool.max = Some(max);
                pool.expects_thread = asked.outstanding > 0;
            }
        }
        found
    }

    fn note_call(&mut self, context: &str, thread: &Thread, holders: &HashMap<i64, i32>) {
        let Some(call) = awaited(thread) else { return };
        let to_thread = holders.get(&call.id).copied().or(Some(call.to.thread).filter(|&thread| thread != 0));
        let call = Call {
            transaction: call.id,
            context: context.to_owned(),
            from: Task { process: call.from.process, thread: thread.id },
            to_process: call.to.process,
            to_thread,
            code: call.code,
            elapsed_ms: call.elapsed_ms,
        };
        // On two devices the thread waits for what it has called last.
        let last = self.calls.get(&thread.id).is_none_or(|other| call.elapsed_ms < other.elapsed_ms);
        if last {
            self.calls.insert(thread.id, call);
        }
    }

    /// Leaves out threads: the driver keeps the record of one that has ended until its process closes the device.
    pub fn forget(&mut self, is_gone: impl Fn(Task) -> bool) {
        self.calls.retain(|_, call| !is_gone(call.from));
        for ((process, ..), pool) in &mut self.pools {
            let is_there = |thread: &i32| !is_gone(Task { process: *process, thread: *thread });
            pool.threads.retain(is_there);
            pool.idle.retain(is_there);
        }
    }

    /// The threads that a thread's call depends on: the one that has it, or all of the pool.
    fn next(&self, call: &Call) -> Vec<i32> {
        match call.to_thread {
            Some(thread) => vec![thread],
            None => self.pool_of(call).map(|pool| pool.threads.iter().copied().collect()).unwrap_or_default(),
        }
    }

    /// Returns the pool in which a call is queued.
    pub fn pool_of(&self, call: &Call) -> Option<&Pool> {
        self.pools.values().find(|pool| pool.pending.iter().any(|(id, _)| *id == call.transaction))
    }

    /// The calls from one thread to the next, and where that ends.
    pub fn chain(&self, thread: i32) -> (Vec<&Call>, End) {
        let mut calls: Vec<&Call> = Vec::new();
        let mut seen = HashSet::new();
        let mut here = thread;
        while let Some(call) = self.calls.get(&here) {
            if !seen.insert(here) {
                return (calls, End::Cycle);
            }
            calls.push(call);
            match call.to_thread {
                Some(thread) => here = thread,
                None => return (calls, End::Pool(call.to_process)),
            }
        }
        let process = calls.last().map_or(0, |call| call.to_process);
        (calls, End::Thread(Task { process, thread: here }))
    }

    /// The chains that are part of no longer one.
    pub fn longest_chains(&self) -> Vec<(Vec<&Call>, End)> {
        let awaited: HashSet<i32> = self.calls.values().filter_map(|call| call.to_thread).collect();
        self.calls
            .keys()
            .filter(|thread| !awaited.contains(thread))
            .map(|&thread| self.chain(thread))
            .collect()
    }

    /// The number of calls of a chain, from its first one on, that are still waited for.
    pub fn still(&self, calls: &[&Call]) -> usize {
        let same = |call: &&Call| {
            self.calls.get(&call.from.thread).is_some_and(|other| other.transaction == call.transaction)
        };
        calls.iter().take_while(|call| same(call)).count()
    }

    /// The deadlocked threads: each waits for others that wait for it.
    pub fn stuck(&self) -> BTreeSet<i32> {
        let mut stuck: BTreeSet<i32> = self.calls.keys().copied().collect();
        loop {
            let freed: Vec<i32> =
                stuck.iter().copied().filter(|thread| self.may_go_on(&self.calls[thread], &stuck)).collect();
            if freed.is_empty() {
                return stuck;
            }
            stuck.retain(|thread| !freed.contains(thread));
        }
    }

    fn may_go_on(&self, call: &Call, stuck: &BTreeSet<i32>) -> bool {
        match (call.to_thread, self.pool_of(call)) {
            (Some(thread), _) => !stuck.contains(&thread),
            // A pool without threads is another fault, which has a check of its own.
            (None, Some(pool)) => {
                pool.expects_thread
                    || pool.threads.is_empty()
                    || pool.threads.iter().any(|thread| !stuck.contains(thread))
            }
            (None, None) => true,
        }
    }

    /// Cycles of waiting threads, each once.
    pub fn cycles(&self) -> Vec<Vec<&Call>> {
        let stuck = self.stuck();
        let mut found: BTreeMap<BTreeSet<i32>, Vec<&Call>> = BTreeMap::new();
        for &start in &stuck {
            let mut path: Vec<i32> = Vec::new();
            let mut here = start;
            while !path.contains(&here) {
                path.push(here);
                // All threads that it depends on are stuck, so any of them leads on.
                let Some(next) =
                    self.next(&self.calls[&here]).into_iter().find(|thread| stuck.contains(thread))
                else {
                    break;
                };
                here = next;
            }
            let Some(begin) = path.iter().position(|&thread| thread == here) else { continue };
            let cycle = &path[begin..];
            let calls: Vec<&Call> = cycle.iter().map(|thread| &self.calls[thread]).collect();
            found.entry(cycle.iter().copied().collect()).or_insert(calls);
        }
        found.into_values().collect()
    }
}

/// The place of an opened device, in the order in which each log lists them.
fn nth(openings: &mut HashMap<(i32, String), usize>, pid: i32, context: &str) -> Place {
    let count = openings.entry((pid, context.to_owned())).or_default();
    *count += 1;
    (pid, context.to_owned(), *count - 1)
}

fn note_thread(pool: &mut Pool, holders: &mut HashMap<i64, i32>, thread: &Thread) {
    let in_pool = thread.looper.intersects(Looper::REGISTERED | Looper::ENTERED)
        && !thread.looper.intersects(Looper::EXITED | Looper::INVALID);
    if in_pool {
        pool.threads.insert(thread.id);
    }
    if in_pool && thread.looper.contains(Looper::WAITING) && thread.stack.is_empty() && thread.work.is_empty()
    {
        pool.idle.insert(thread.id);
    }
    let served =
        thread.stack.iter().filter(|entry| entry.role == Role::Incoming).map(|entry| &entry.transaction);
    let queued = thread.work.iter().filter_map(Work::transaction).filter(|call| call.is_reply != Some(true));
    holders.extend(served.chain(queued).map(|call| (call.id, thread.id)));
}

/// The call whose outcome a thread waits for.
fn awaited(thread: &Thread) -> Option<&Transaction> {
    // A call that is just being made has no number.
    let top =
        thread.stack.first().filter(|entry| entry.role == Role::Outgoing && entry.transaction.id != 0)?;
    let has_news = thread.work.iter().any(|work| matches!(work, Work::Transaction(_) | Work::Error(_)));
    (!has_news).then_some(&top.transaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::{Log, Mode};

    /// A thread's line, and what it makes and serves.
    fn thread(id: i32, looper: &str, calls: &[(&str, i64, &str, &str, i64)]) -> String {
        let lines = calls.iter().map(|(role, number, from, to, elapsed)| {
            format!("    {role} transaction {number}: 0000000000000001 from {from} to {to} code 2a flags 10 pri 0 a0 r0 elapsed {elapsed}ms\n")
        });
        format!("  thread {id}: l {looper} need_return 0 tr 0\n{}", lines.collect::<String>())
    }

    fn waiting(processes: &[(i32, String)], limits: &[(i32, &str)]) -> Waiting {
        let blocks = processes.iter().map(|(pid, lines)| format!("proc {pid}\ncontext binder\n{lines}"));
        let state = format!("binder state:\n{}", blocks.collect::<String>());
        let limits = limits
            .iter()
            .map(|(pid, threads)| format!("proc {pid}\ncontext binder\n  requested threads: {threads}\n"));
        let stats = format!("binder stats:\n{}", limits.collect::<String>());
        Waiting::of(
            &State::parse("state", state.as_bytes(), Mode::Strict).unwrap(),
            Some(&Stats::parse("stats", stats.as_bytes(), Mode::Lenient).unwrap()),
        )
    }

    fn pending(number: i64, from: &str, to: &str, elapsed: i64) -> String {
        format!("  pending transaction {number}: 0000000000000001 from {from} to {to} code 2a flags 10 pri 0 a0 r0 elapsed {elapsed}ms node 1 size 4:0 offset 0\n")
    }

    #[test]
    fn a_chain_leads_to_the_thread_that_works() {
        let first = thread(11, "00", &[("outgoing", 1, "10:11", "20:21", 900)]);
        let calls = [("outgoing", 2, "20:21", "30:0", 800), ("incoming", 1, "10:11", "20:21", 900)];
        let last = thread(31, "12", &[("incoming", 2, "20:21", "30:31", 800)]);
        let found = waiting(&[(10, first), (20, thread(21, "12", &calls)), (30, last)], &[]);
        let chains = found.longest_chains();
        assert_eq!(chains.len(), 1);
        assert_eq!(chains[0].0.iter().map(|call| call.transaction).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(chains[0].1, End::Thread(Task { process: 30, thread: 31 }));
        assert!(found.cycles().is_empty());
    }

    #[test]
    fn a_thread_whose_reply_has_come_does_not_wait() {
        let reply = "    pending transaction 5: 0000000000000001 from 20:21 to 10:11 code 0 flags 0 pri 0 a0 r1 elapsed 1ms size 4:0 offset 0\n";
        let lines = thread(11, "00", &[("outgoing", 1, "10:11", "20:21", 900)]) + reply;
        assert!(waiting(&[(10, lines)], &[]).calls.is_empty());
    }

    #[test]
    fn one_who_serves_on_one_device_may_wait_on_another() {
        let binder = thread(21, "12", &[("incoming", 1, "10:11", "20:21", 900)]);
        let vendor = thread(21, "00", &[("outgoing", 2, "20:21", "30:0", 800)]);
        let state = format!(
            "binder state:\nproc 10\ncontext binder\n{}proc 20\ncontext binder\n{binder}proc 20\ncontext hwbinder\n{vendor}",
            thread(11, "00", &[("outgoing", 1, "10:11", "20:21", 900)])
        );
        let found = Waiting::of(&State::parse("state", state.as_bytes(), Mode::Strict).unwrap(), None);
        let (calls, end) = found.chain(11);
        assert_eq!(calls.len(), 2);
        assert_eq!(end, End::Pool(30));
    }

    /// Two processes of one thread each, which call each other at once.
    fn crossed(limit: &str) -> Waiting {
        let one = thread(11, "12", &[("outgoing", 1, "10:11", "20:0", 900)]);
        let other = thread(21, "12", &[("outgoing", 2, "20:21", "10:0", 800)]);
        let (to_one, to_other) = (pending(2, "20:21", "10:0", 800), pending(1, "10:11", "20:0", 900));
        waiting(&[(10, one + &to_one), (20, other + &to_other)], &[(10, limit), (20, limit)])
    }

    #[test]
    fn processes_whose_only_threads_call_each_other_are_a_cycle() {
        let found = crossed("0+0/0");
        let cycles = found.cycles();
        assert_eq!(cycles.len(), 1);
        assert_eq!(cycles[0].iter().map(|call| call.from.thread).collect::<Vec<_>>(), [11, 21]);
    }

    #[test]
    fn a_pool_that_expects_or_has_a_free_thread_is_no_part_of_a_cycle() {
        // The driver requests threads when one of the pool takes a call, which none does.
        assert_eq!(crossed("0+0/4").cycles().len(), 1);
        assert!(crossed("1+4/4").cycles().is_empty());
        let mut found = crossed("0+0/0");
        found.pools.get_mut(&(10, "binder".into(), 0)).unwrap().threads.insert(12);
        assert!(found.cycles().is_empty());
    }

    #[test]
    fn a_pool_knows_who_is_idle_and_what_waits() {
        let lines = thread(21, "12", &[])
            + &thread(22, "11", &[("incoming", 3, "10:11", "20:22", 5)])
            + &thread(23, "10", &[]);
        let found = waiting(&[(20, lines + &pending(1, "10:11", "20:0", 900))], &[(20, "0+1/1")]);
        let pool = &found.pools[&(20, "binder".to_owned(), 0)];
        assert_eq!(
            (pool.threads.len(), pool.idle.len(), pool.expects_thread, pool.max),
            (2, 1, false, Some(1))
        );
        assert_eq!(pool.pending, [(1, 900)]);
        // Without a limit.
        let found = waiting(&[(20, thread(21, "12", &[]))], &[(20, "0+1/-1")]);
        let pool = &found.pools[&(20, "binder".to_owned(), 0)];
        assert_eq!((pool.expects_thread, pool.max), (false, Some(u32::MAX.into())));
    }
}
