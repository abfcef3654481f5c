// SPDX-License-Identifier: GPL-2.0
//! `binderctl graph`: calls and references between processes, as nodes and arrows.

use crate::error;
use crate::prelude::*;
use binder_logs::{Kind, State, Task, TransactionLog};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The arguments of `graph`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Show only the edges from and to this process.
    pid: Option<i32>,
    /// Show only the holders of this node, by its number in the driver's logs.
    #[arg(long, value_name = "NUMBER", conflicts_with = "pid")]
    node: Option<i64>,
}

/// Shows the current state of the logs.
pub fn run(arguments: &Arguments, options: &Options) -> Result<()> {
    let logs = Logs::find(options)?;
    // Without the log of transactions there is still who holds and who waits.
    let log = logs.transaction_log().ok();
    let mut graph = Graph::of(&logs.state()?, log.as_ref(), &mut Names::new());
    if options.device.is_some() {
        graph.keep(|arrow| options.wants(&arrow.context), None);
    }
    let not_there = |message| Err(Error::new(error::Kind::NotThere, message));
    if let Some(pid) = arguments.pid {
        graph.keep(|arrow| arrow.from == pid || arrow.to == pid, Some(pid));
        if graph.processes.is_empty() {
            return not_there(format!("process {pid} has no Binder device open"));
        }
    }
    if let Some(node) = arguments.node {
        graph.keep(|arrow| arrow.ties.nodes.contains(&node), None);
        if graph.arrows.is_empty() {
            return not_there(format!("no process holds node {node}"));
        }
    }
    options.print(&graph)
}

/// A process that has a device open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    pub pid: i32,
    pub name: Option<String>,
    pub contexts: BTreeSet<String>,
}

/// All that leads from one process to another on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arrow {
    /// The process that holds and calls.
    pub from: i32,
    /// The process that owns and serves.
    pub to: i32,
    pub context: String,
    /// The references and calls between them.
    #[serde(flatten)]
    pub ties: Ties,
}

/// The references and calls from one process to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ties {
    /// The driver's numbers of the nodes that the first holds of the second's.
    pub nodes: BTreeSet<i64>,
    pub waiting: usize,
    /// For how long the one has that has waited for longest.
    pub longest_ms: i64,
    /// Oneway calls that have not been delivered.
    pub queued: usize,
    /// Calls in the log of the last transactions.
    pub logged_calls: usize,
    /// Oneway calls in that log.
    pub logged_oneway: usize,
}

/// Processes, and the arrows between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Graph {
    pub processes: Vec<Process>,
    pub arrows: Vec<Arrow>,
}

type Found = BTreeMap<(i32, i32, String), Ties>;

impl Graph {
    /// Takes it from the driver's logs; not every driver has a log of the last transactions.
    pub fn of(state: &State, log: Option<&TransactionLog>, names: &mut Names) -> Self {
        let mut found = Found::new();
        let owners: HashMap<i64, i32> = state
            .processes
            .iter()
            .flat_map(|process| process.nodes.iter().map(|node| (node.id, process.pid)))
            .collect();
        for process in &state.processes {
            let context = &process.context;
            for reference in &process.references {
                if let Some(&owner) = owners.get(&reference.node) {
                    tie(&mut found, process.pid, owner, context).nodes.insert(reference.node);
                }
            }
            let stacks = process.threads.iter().flat_map(|thread| &thread.stack);
            for entry in stacks.filter(|entry| entry.role == binder_logs::Role::Outgoing) {
                let call = &entry.transaction;
                let ties = tie(&mut found, process.pid, call.to.process, context);
                ties.waiting += 1;
                ties.longest_ms = ties.longest_ms.max(call.elapsed_ms);
            }
            for call in process.queued().filter(|call| call.is_async) {
                tie(&mut found, call.from.process, process.pid, context).queued += 1;
            }
        }
        let pids: BTreeSet<i32> = state.processes.iter().map(|process| process.pid).collect();
        let is_there = |task: &Task| pids.contains(&task.process);
        let entries = log.iter().flat_map(|log| &log.entries);
        for entry in
            entries.filter(|entry| entry.return_error == 0 && is_there(&entry.from) && is_there(&entry.to))
        {
            let ties = tie(&mut found, entry.from.process, entry.to.process, &entry.context);
            match entry.kind {
                Kind::Call => ties.logged_calls += 1,
                Kind::Async => ties.logged_oneway += 1,
                Kind::Reply => {}
            }
        }
        found.retain(|_, ties| *ties != Ties::default());
        Self::drawn(state, found, names)
    }

    fn drawn(state: &State, found: Found, names: &mut Names) -> Self {
        let mut contexts: BTreeMap<i32, BTreeSet<String>> = BTreeMap::new();
        let of_state = state.processes.iter().map(|process| (process.pid, &process.context));
        let of_arrows = found.keys().flat_map(|(from, to, context)| [(*from, context), (*to, context)]);
        for (pid, context) in of_state.chain(of_arrows) {
            contexts.entry(pid).or_default().insert(context.clone());
        }
        let process =
            |(pid, contexts)| Process { pid, name: names.process(pid).map(str::to_owned), contexts };
        Self {
            processes: contexts.into_iter().map(process).collect(),
            arrows: found
                .into_iter()
                .map(|((from, to, context), ties)| Arrow { from, to, context, ties })
                .collect(),
        }
    }

    /// Keeps the arrows that `is_wanted` selects with the processes at their ends, and one process without arrows.
    fn keep(&mut self, is_wanted: impl Fn(&Arrow) -> bool, process: Option<i32>) {
        self.arrows.retain(|arrow| is_wanted(arrow));
        let left: BTreeSet<i32> =
            self.arrows.iter().flat_map(|arrow| [arrow.from, arrow.to]).chain(process).collect();
        self.processes.retain(|process| left.contains(&process.pid));
    }
}

fn tie<'a>(found: &'a mut Found, from: i32, to: i32, context: &str) -> &'a mut Ties {
    found.entry((from, to, context.to_owned())).or_default()
}

impl Report for Graph {
    const SCHEMA: &'static str = "binderctl.graph/1";

    fn show(&self, page: &mut Page) {
        let who = |pid: i32| {
            let found = self.processes.iter().find(|process| process.pid == pid);
            match found.and_then(|process| process.name.as_deref()) {
                Some(name) => format!("{pid} ({name})"),
                None => pid.to_string(),
            }
        };
        for arrow in &self.arrows {
            let lines = arrow.words();
            page.say(format!("{} -> {}: {}", who(arrow.from), who(arrow.to), lines.join(", ")));
        }
        if self.arrows.is_empty() {
            page.say("no process holds an object of another or calls one");
        }
    }
}

impl Arrow {
    fn words(&self) -> Vec<String> {
        let ties = &self.ties;
        let parts = [
            (ties.nodes.len(), "object"),
            (ties.logged_calls, "call"),
            (ties.logged_oneway, "oneway call"),
            (ties.queued, "queued oneway call"),
        ];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let mut words = vec![self.context.clone()];
        words.extend(parts.map(|(number, what)| count(number, what)));
        if ties.waiting > 0 {
            let calls = count(ties.waiting, "call");
            words.push(format!("{calls} waiting, the longest for {} ms", ties.longest_ms));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::{Log, Mode};

    const STATE: &str = "binder state:
proc 10
context binder
  thread 11: l 00 need_return 0 tr 0
    outgoing transaction 8: 0000000000000001 from 10:11 to 20:0 code 1 flags 10 pri 0 a0 r0 elapsed 70ms
  ref 4: desc 1 node 3 s 1 w 1 d 0000000000000000
  ref 5: desc 2 dead node 2 s 1 w 1 d 0000000000000000
proc 20
context binder
  node 3: u0000000000000001 c0000000000000002 hs 1 hw 1 ls 1 lw 0 is 1 iw 1 tr 0 proc 10
    pending async transaction 9: 0000000000000001 from 30:30 to 20:0 code 1 flags 1 pri 0 a1 r0 elapsed 5ms node 3 size 300:0 offset 0
";
    const LOG: &str = "7: call  from 10:11 to 20:0 context binder node 3 handle 1 size 4:0 ret 0/0 l=0
6: reply from 20:21 to 10:11 context binder node 0 handle 0 size 4:0 ret 0/0 l=0
5: call  from 10:11 to 0:0 context binder node 0 handle 0 size 4:0 ret 29189/-22 l=1
4: call  from 10:11 to 20:0 context binder node 3 handle 1 size 4:0 ret 29201/-28 l=1
3: call  from 99:99 to 20:0 context binder node 3 handle 1 size 4:0 ret 0/0 l=0
";

    #[test]
    fn arrows_have_all_that_is_between_two_processes() {
        let state = State::parse("state", STATE.as_bytes(), Mode::Strict).unwrap();
        let log = TransactionLog::parse("log", LOG.as_bytes(), Mode::Strict).unwrap();
        let mut graph = Graph::of(&state, Some(&log), &mut Names::none());
        let pids = |graph: &Graph| graph.processes.iter().map(|process| process.pid).collect::<Vec<_>>();
        assert_eq!(
            graph.arrows.iter().map(|arrow| (arrow.from, arrow.to)).collect::<Vec<_>>(),
            [(10, 20), (30, 20)]
        );
        let nodes = BTreeSet::from([3]);
        let expected = Ties { nodes, waiting: 1, longest_ms: 70, logged_calls: 1, ..Default::default() };
        assert_eq!(graph.arrows[0].ties, expected);
        assert_eq!(graph.arrows[1].ties, Ties { queued: 1, ..Default::default() });
        let words = "binder, 1 object, 1 call, 1 call waiting, the longest for 70 ms";
        assert_eq!(graph.arrows[0].words().join(", "), words);
        assert_eq!(pids(&graph), [10, 20, 30]);
        graph.keep(|arrow| arrow.from == 30 || arrow.to == 30, Some(30));
        assert_eq!((graph.arrows.len(), pids(&graph)), (1, vec![20, 30]));
        graph.keep(|arrow| arrow.ties.nodes.contains(&3), None);
        assert_eq!((graph.arrows.len(), pids(&graph)), (0, vec![]));
    }
}
