// SPDX-License-Identifier: GPL-2.0
//! Checks for nearly full oneway space, and for processes that hold objects of ended processes.

use crate::checks::seen::{Answer, Finding};
use crate::output::count;
use crate::tasks::Names;
use binder_logs::{Kind, Process, ProcessStats, State, Stats, TransactionLog};
use nix::unistd::{sysconf, SysconfVar};
use std::collections::{BTreeMap, HashMap};

/// Looks at each process's free space, as `stats` has it.
pub fn space(
    stats: &Stats,
    state: &State,
    log: Option<&TransactionLog>,
    free_percent: i64,
    names: &mut Names,
) -> Answer {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
    let mut findings = Vec::new();
    let mut sizes = 0;
    for process in &stats.processes {
        let Some((free, all)) = oneway_space(process, page) else { continue };
        sizes += 1;
        if free * 100 < all * free_percent {
            let is_block = |block: &&Process| (block.pid, &block.context) == (process.pid, &process.context);
            let senders = state.processes.iter().find(is_block).map(|block| senders(block, log));
            findings.push(nearly_full(process, free, all, &senders.unwrap_or_default(), names));
        }
    }
    match sizes {
        0 if !stats.processes.is_empty() => Err("the driver does not report space sizes".into()),
        _ => Ok((findings, count(sizes, "space"))),
    }
}

/// Bytes that are free for oneway calls, of how many. Oneway calls may take half of a process's space, whose pages all
/// are counted.
fn oneway_space(process: &ProcessStats, page: i64) -> Option<(i64, i64)> {
    let pages = process.pages?;
    let all = (pages.active + pages.lru + pages.free) * page / 2;
    (all > 0).then_some((process.free_async_space?, all))
}

fn nearly_full(
    process: &ProcessStats,
    free: i64,
    all: i64,
    senders: &BTreeMap<i32, i64>,
    names: &mut Names,
) -> Finding {
    let (pid, device) = (process.pid, &process.context);
    let who = names.of_process(pid);
    let (blame, next) = match senders.iter().max_by_key(|(_, bytes)| **bytes) {
        Some((&sender, bytes)) => {
            let sender = names.of_process(sender);
            let blame = format!("; {bytes} bytes of what is known are from {sender}");
            (blame, format!("have {sender} send less, or wait for replies"))
        }
        None => (String::new(), format!("see who calls it: binderctl trace --pid {pid}")),
    };
    let message =
        format!("process {who} on {device}: {free} of {all} bytes for oneway calls are free{blame}");
    Finding::of(pid, device, message, format!("{next}; is {who} too slow to give buffers back?"))
}

/// Bytes of oneway calls in a process's space, by sender, as far as the logs contain it. Waiting calls name their
/// sender. Of delivered calls only the last are in the log. Upstream's driver prints the sender with the buffer.
fn senders(process: &Process, log: Option<&TransactionLog>) -> BTreeMap<i32, i64> {
    let queued = process.queued().filter(|call| call.is_async);
    let waiting = queued.map(|call| (call.id, call.from.process));
    let logged = log.iter().flat_map(|log| &log.entries).filter(|entry| entry.kind == Kind::Async);
    let of_call: HashMap<i64, i32> =
        logged.map(|entry| (entry.id, entry.from.process)).chain(waiting).collect();
    let mut bytes = BTreeMap::new();
    for buffer in &process.buffers {
        let told = buffer.sender.filter(|_| buffer.is_oneway == Some(true));
        let Some(sender) = told.or_else(|| of_call.get(&buffer.id?).copied()) else { continue };
        *bytes.entry(sender).or_default() +=
            buffer.data_size + buffer.offsets_size.unwrap_or(0) + buffer.extra_size.unwrap_or(0);
    }
    bytes
}

/// Counts what each process holds of what has ended.
pub fn dead(state: &State, names: &mut Names) -> Answer {
    let mut held: BTreeMap<(i32, &str), usize> = BTreeMap::new();
    for process in &state.processes {
        let dead = process.references.iter().filter(|reference| reference.is_dead).count();
        if dead > 0 {
            *held.entry((process.pid, &process.context)).or_default() += dead;
        }
    }
    let findings = held.iter().map(|((pid, context), dead)| {
        let (who, objects) = (names.of_process(*pid), count(*dead, "object"));
        let message = format!("process {who} on {context} holds {objects} of processes that have ended");
        let next =
            "it should drop them when it is notified of the death: linkToDeath, BC_REQUEST_DEATH_NOTIFICATION";
        Finding::of(*pid, context, message, next)
    });
    Ok((findings.collect(), count(state.processes.len(), "process")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::seen::tests::{messages, state};
    use binder_logs::{Log, Mode};

    const STATE: &str = "proc 20
context binder
  node 3: u0000000000000001 c0000000000000002 hs 1 hw 1 ls 1 lw 0 is 1 iw 1 tr 0 proc 10
    pending async transaction 8: 0000000000000001 from 10:11 to 20:0 code 1 flags 1 pri 0 a1 r0 elapsed 5ms node 3 size 300:0 offset 0
  ref 5: desc 1 dead node 3 s 1 w 1 d 0000000000000000
  ref 6: desc 2 node 4 s 1 w 1 d 0000000000000000
  buffer 7: 0 size 1000:8:16 delivered
  buffer 8: 400 size 300:0:0 active
  buffer 9: 800 size 5000:0:0 delivered
proc 21
context binder
  ref 7: desc 1 node 4 s 1 w 1 d 0000000000000000
";

    fn found(free: &str, log: &str) -> Vec<String> {
        let stats =
            format!("binder stats:\nproc 20\ncontext binder\n  free async space {free}\n  pages: 1:1:14\n");
        let stats = Stats::parse("stats", stats.as_bytes(), Mode::Lenient).unwrap();
        let log = TransactionLog::parse("log", log.as_bytes(), Mode::Strict).unwrap();
        messages(space(&stats, &state(STATE), Some(&log), 20, &mut Names::none()))
    }

    #[test]
    fn nearly_full_is_by_the_space_that_oneway_calls_have() {
        // Sixteen pages, half of them for oneway calls, a fifth of that.
        assert!(found("6554", "").is_empty());
        assert!(found("6553", "")[0].contains("6553 of 32768 bytes"));
    }

    #[test]
    fn the_sender_is_known_from_queues_and_from_the_log() {
        assert!(found("0", "")[0].ends_with("300 bytes of what is known are from 10"));
        let log = "7: async from 12:12 to 20:0 context binder node 3 handle 1 size 1000:8 ret 0/0 l=0\n";
        assert!(found("0", log)[0].ends_with("1024 bytes of what is known are from 12"));
    }

    #[test]
    fn holders_of_dead_objects_are_found() {
        let found = messages(dead(&state(STATE), &mut Names::none()));
        assert_eq!(found, ["process 20 on binder holds 1 object of processes that have ended"]);
    }
}
