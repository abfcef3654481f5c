// SPDX-License-Identifier: GPL-2.0
//! Whether a process's space for oneway calls is nearly full, and who fills it.

use std::collections::BTreeMap;
use std::collections::HashMap;

use binder_logs::Process;
use binder_logs::ProcessStats;
use binder_logs::State as Log;
use binder_logs::Stats;
use binder_logs::TransactionLog;
use binder_logs::Work;
use nix::unistd::sysconf;
use nix::unistd::SysconfVar;

use crate::checks::finding::Finding;
use crate::checks::finding::State;
use crate::tasks::Names;
use crate::words;

/// Looks at each process's free space, as `stats` has it.
pub fn check(
    stats: &Stats,
    state: &Log,
    log: Option<&TransactionLog>,
    free_percent: i64,
    names: &mut Names,
) -> State {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
    let mut findings = Vec::new();
    let mut sizes = 0;
    for process in &stats.processes {
        let Some((free, all)) = oneway_space(process, page) else { continue };
        sizes += 1;
        if free * 100 < all * free_percent {
            findings.push(nearly_full(process, free, all, state, log, names));
        }
    }
    match sizes {
        0 if !stats.processes.is_empty() => {
            State::Skipped { why: "the driver does not tell how large spaces are".into() }
        }
        count => State::of(findings, words::count(count, "space")),
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
    state: &Log,
    log: Option<&TransactionLog>,
    names: &mut Names,
) -> Finding {
    let block =
        state.processes.iter().find(|block| (block.pid, &block.context) == (process.pid, &process.context));
    let senders = block.map(|block| senders(block, log)).unwrap_or_default();
    let most = senders.iter().max_by_key(|(_, bytes)| **bytes);
    let who = names.of_process(process.pid);
    let (blame, next_step) = match most {
        Some((&sender, bytes)) => {
            let sender = names.of_process(sender);
            (
                format!("; {bytes} bytes of what is known are from {sender}"),
                format!(
                    "have {sender} send less, or wait for replies; is {who} too slow to give buffers back?"
                ),
            )
        }
        None => (
            String::new(),
            format!(
                "see who calls it: binderctl trace --pid {}; is {who} too slow to give buffers back?",
                process.pid
            ),
        ),
    };
    Finding {
        message: format!(
            "process {who} on {}: {free} of {all} bytes for oneway calls are free{blame}",
            process.context
        ),
        next_step,
        pid: Some(process.pid),
        device: Some(process.context.clone()),
        ..Default::default()
    }
}

/// Bytes of oneway calls in a process's space by who sent them, as far as anything tells: calls that wait name their
/// sender; of those that were delivered only the last are in the log; upstream's driver names it with the buffer.
fn senders(process: &Process, log: Option<&TransactionLog>) -> BTreeMap<i32, i64> {
    let queued = process.nodes.iter().flat_map(|node| &node.work).chain(&process.work);
    let waiting = queued.filter_map(|work| match work {
        Work::Transaction(call) if call.is_async => Some((call.id, call.from.process)),
        _ => None,
    });
    let logged =
        log.iter().flat_map(|log| &log.entries).filter(|entry| entry.kind == binder_logs::Kind::Async);
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

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::Log as _;
    use binder_logs::Mode;

    const STATE: &str = "binder state:
proc 20
context binder
  node 3: u0000000000000001 c0000000000000002 hs 1 hw 1 ls 1 lw 0 is 1 iw 1 tr 0 proc 10
    pending async transaction 8: 0000000000000001 from 10:11 to 20:0 code 1 flags 1 pri 0 a1 r0 elapsed 5ms node 3 size 300:0 offset 0
  buffer 7: 0 size 1000:8:16 delivered
  buffer 8: 400 size 300:0:0 active
  buffer 9: 800 size 5000:0:0 delivered
";

    fn found(free: &str, log: &str) -> Vec<Finding> {
        let stats =
            format!("binder stats:\nproc 20\ncontext binder\n  free async space {free}\n  pages: 1:1:14\n");
        let stats = Stats::parse("stats", stats.as_bytes(), Mode::Lenient).unwrap();
        let state = Log::parse("state", STATE.as_bytes(), Mode::Strict).unwrap();
        let log = TransactionLog::parse("log", log.as_bytes(), Mode::Strict).unwrap();
        check(&stats, &state, Some(&log), 20, &mut Names::none()).findings().to_vec()
    }

    #[test]
    fn nearly_full_is_by_the_space_that_oneway_calls_have() {
        // Sixteen pages, half of them for oneway calls, a fifth of that.
        assert_eq!(found("6554", "").len(), 0);
        assert!(found("6553", "")[0].message.contains("6553 of 32768 bytes"));
    }

    #[test]
    fn the_sender_is_known_from_queues_and_from_the_log() {
        assert!(found("0", "")[0].message.ends_with("300 bytes of what is known are from 10"));
        let log = "7: async from 12:12 to 20:0 context binder node 3 handle 1 size 1000:8 ret 0/0 l=0\n";
        assert!(found("0", log)[0].message.ends_with("1024 bytes of what is known are from 12"));
    }

    #[test]
    fn without_sizes_the_check_is_skipped() {
        let text = include_str!("../../../binder-logs/tests/recorded/upstream/stats");
        let stats = Stats::parse("stats", text.as_bytes(), Mode::Lenient).unwrap();
        let answer = check(&stats, &Log::default(), None, 20, &mut Names::none());
        assert!(matches!(answer, State::Skipped { .. }), "{answer:?}");
    }
}
