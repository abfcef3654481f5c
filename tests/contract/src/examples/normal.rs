// SPDX-License-Identifier: GPL-2.0
//! Logs without what differs from run to run and from driver to driver.
//!
//! Processes and threads become their rank, and the numbers of transactions, nodes and references
//! count up from the first: our driver takes them in blocks. Times and addresses become 0 or 1. Two
//! free choices of a driver are left out: the order of processes, and the line of its source that
//! refused a call. So are our driver's differences (`docs/logs-and-traces.md`): addresses, the
//! priority of oneway calls, the counts that owners of dead nodes hold, the number of completions.

use super::Players;
use crate::logs::Logs;
use crate::stage::Stage;
use binder_logs::*;
use std::collections::{BTreeMap, BTreeSet};

/// All logs, one after the other.
pub fn logs(t: &Stage, players: &Players) -> String {
    let logs = Logs::mounted(t);
    let mut all = All {
        state: logs.state(),
        transactions: logs.read("transactions"),
        stats: logs.stats(),
        log: logs.log(),
        failed: logs.failed(),
        ranks: BTreeMap::new(),
        tasks: BTreeMap::new(),
    };
    for (_, port) in players {
        let next = all.tasks.len() as i32 + 1;
        all.tasks.insert(port.actor.tid(), next);
    }
    all.number();
    all.make_normal();
    let All { state, transactions, stats, log, failed, .. } = all;
    format!("{state:#?}\n{transactions:#?}\n{stats:#?}\ntransaction_log {log:#?}\nfailed_transaction_log {failed:#?}\n")
}

struct All {
    state: State,
    transactions: Transactions,
    stats: Stats,
    log: TransactionLog,
    failed: TransactionLog,
    /// The new number for each number.
    ranks: BTreeMap<DebugId, DebugId>,
    /// The new number for each task.
    tasks: BTreeMap<Pid, Pid>,
}

impl All {
    /// Finds all tasks and numbers. The numbers come in the order of the two transaction logs,
    /// which is their order in time; then process by process.
    fn number(&mut self) {
        let threads = self.state.processes.iter().flat_map(|process| &process.threads);
        let unnamed: BTreeSet<_> = threads.map(|thread| thread.id).collect();
        for tid in unnamed {
            let next = self.tasks.len() as i32 + 1;
            self.tasks.entry(tid).or_insert(next);
        }
        let mut processes: Vec<_> = self.state.processes.iter().collect();
        processes.sort_by_key(|process| self.tasks.get(&process.pid));
        let entries = self.log.entries.iter().chain(&self.failed.entries);
        let of_log = entries.flat_map(|entry| [entry.id, entry.node]);
        let of_processes = processes.iter().flat_map(|process| {
            let nodes = process.nodes.iter().map(|node| node.id);
            let references = process.references.iter().map(|reference| reference.id);
            nodes.chain(references).chain(process.buffers.iter().filter_map(|buffer| buffer.id))
        });
        let of_the_dead = self.state.dead_nodes.iter().map(|node| node.id);
        for id in of_log.chain(of_processes).chain(of_the_dead).filter(|id| *id != 0) {
            let next = self.ranks.len() as DebugId + 1;
            self.ranks.entry(id).or_insert(next);
        }
    }

    fn make_normal(&mut self) {
        let (ranks, tasks) = (std::mem::take(&mut self.ranks), std::mem::take(&mut self.tasks));
        let by = Ranks { ranks, tasks };
        for node in &mut self.state.dead_nodes {
            by.node(node);
            (node.has_strong, node.has_weak) = (false, false);
        }
        self.stats.total.objects.retain(|object| object.name != "transaction_complete");
        for processes in [&mut self.state.processes, &mut self.transactions.processes] {
            processes.iter_mut().for_each(|process| by.process(process));
            processes.sort_by_key(|process| process.pid);
        }
        self.stats.processes.iter_mut().for_each(|process| by.pid(&mut process.pid));
        self.stats.processes.sort_by_key(|process| process.pid);
        for log in [&mut self.log, &mut self.failed] {
            log.entries.iter_mut().for_each(|entry| by.entry(entry));
        }
    }
}

struct Ranks {
    ranks: BTreeMap<DebugId, DebugId>,
    tasks: BTreeMap<Pid, Pid>,
}

impl Ranks {
    /// A number that no log but one names is not compared: it becomes 0.
    fn id(&self, id: &mut DebugId) {
        *id = self.ranks.get(id).copied().unwrap_or(0);
    }

    /// A process that has ended becomes -1.
    fn pid(&self, pid: &mut Pid) {
        if *pid != 0 {
            *pid = self.tasks.get(pid).copied().unwrap_or(-1);
        }
    }

    fn task(&self, task: &mut Task) {
        self.pid(&mut task.process);
        self.pid(&mut task.thread);
    }

    fn pointer(&self, pointer: &mut Option<Pointer>) {
        *pointer = pointer.map(|pointer| Pointer::Value(u64::from(!pointer.is_null())));
    }

    fn process(&self, process: &mut Process) {
        self.pid(&mut process.pid);
        for thread in &mut process.threads {
            self.pid(&mut thread.id);
            thread.temporary_references = Some(0);
            thread.stack.iter_mut().for_each(|entry| self.transaction(&mut entry.transaction));
            thread.work.iter_mut().for_each(|work| self.work(work));
        }
        process.nodes.iter_mut().for_each(|node| self.node(node));
        for reference in &mut process.references {
            self.id(&mut reference.id);
            self.id(&mut reference.node);
            self.pointer(&mut reference.death);
        }
        process.buffers.iter_mut().filter_map(|buffer| buffer.id.as_mut()).for_each(|id| self.id(id));
        process.work.iter_mut().for_each(|work| self.work(work));
    }

    fn node(&self, node: &mut Node) {
        self.id(&mut node.id);
        node.holders.iter_mut().for_each(|pid| self.pid(pid));
        node.holders.sort_unstable();
        node.work.iter_mut().for_each(|work| self.work(work));
        if let NodeCounts::Full { temporary, .. } = &mut node.counts {
            *temporary = 0;
        }
    }

    fn work(&self, work: &mut Work) {
        match work {
            Work::Transaction(transaction) => self.transaction(transaction),
            Work::Node { id, .. } => self.id(id),
            _ => {}
        }
    }

    fn transaction(&self, transaction: &mut Transaction) {
        self.id(&mut transaction.id);
        transaction.address = None;
        if transaction.is_async {
            transaction.priority = Some(0);
        }
        self.task(&mut transaction.from);
        self.task(&mut transaction.to);
        transaction.elapsed_ms = 0;
        if let Held::Here { node: Some(node), .. } = &mut transaction.held {
            self.id(node);
        }
    }

    fn entry(&self, entry: &mut LogEntry) {
        self.id(&mut entry.id);
        self.id(&mut entry.node);
        self.task(&mut entry.from);
        self.task(&mut entry.to);
        entry.line = entry.line.min(1);
    }
}
