// SPDX-License-Identifier: GPL-2.0
//! Whether a thread waits long for a reply, and for whom; and whether threads wait for each other.

use crate::checks::finding::Finding;
use crate::checks::finding::State;
use crate::tasks;
use crate::tasks::Names;
use crate::waiting::Call;
use crate::waiting::End;
use crate::waiting::Waiting;
use crate::words;

/// Chains of threads whose first one has waited for long.
pub fn long(waiting: &Waiting, limit_ms: i64, names: &mut Names) -> State {
    let mut chains = waiting.longest_chains();
    chains.retain(|(calls, end)| {
        *end != End::Cycle && calls.first().is_some_and(|call| call.elapsed_ms >= limit_ms)
    });
    let findings = chains.iter().map(|(calls, end)| chain(waiting, calls, end, names)).collect();
    State::of(
        findings,
        format!("waiting: {}, none for {limit_ms} ms", words::count(waiting.calls.len(), "thread")),
    )
}

fn chain(waiting: &Waiting, calls: &[&Call], end: &End, names: &mut Names) -> Finding {
    let steps = steps(calls, names);
    let (last, next_step) = match end {
        End::Thread(task) => {
            let who = names.of_thread(task.process, task.thread);
            let activity = tasks::activity(task.process, task.thread);
            (
                format!("{who}, which {activity}"),
                format!(
                    "look at what {who} does: /proc/{}/task/{}/stack, or a debugger",
                    task.process, task.thread
                ),
            )
        }
        End::Pool((pid, context)) => {
            let who = names.of_process(*pid);
            let threads = waiting.pools.get(&(*pid, context.clone())).map_or(0, |pool| pool.threads.len());
            (
                format!("{who}, where none of {} has taken the call", words::count(threads, "thread")),
                format!("see what the threads of {who} do: binderctl top --filter {pid}"),
            )
        }
        End::Cycle => unreachable!("cycles are told by another check"),
    };
    let first = calls[0];
    Finding {
        message: format!("{}{last}", steps),
        next_step,
        pid: Some(first.from.process),
        tid: Some(first.from.thread),
        device: Some(first.context.clone()),
        calls: calls.iter().map(|&call| call.clone()).collect(),
    }
}

/// A sentence that ends before whom the last of them waits for.
fn steps(calls: &[&Call], names: &mut Names) -> String {
    let mut sentence = String::new();
    for call in calls {
        let which = if sentence.is_empty() { "" } else { ", which" };
        let who = names.of_thread(call.from.process, call.from.thread);
        sentence += &format!(
            "{who}{which} waits {} ms (code {:#x} on {}) for ",
            call.elapsed_ms, call.code, call.context
        );
    }
    sentence
}

/// Cycles of waiting threads. A driver's log is not of one moment: what is in it once more, when `again` reads it, is no
/// matter of that.
pub fn cycles(waiting: &Waiting, again: impl Fn() -> Waiting, names: &mut Names) -> State {
    let mut cycles = waiting.cycles();
    if !cycles.is_empty() {
        let later = again();
        let still = |call: &&Call| {
            later.calls.get(&call.from.thread).is_some_and(|other| other.transaction == call.transaction)
        };
        cycles.retain(|calls| calls.iter().all(still));
    }
    let findings = cycles.iter().map(|calls| cycle(calls, names)).collect();
    State::of(findings, "no cycle")
}

fn cycle(calls: &[&Call], names: &mut Names) -> Finding {
    let steps = steps(calls, names);
    let first = calls[0];
    let again = names.of_thread(first.from.process, first.from.thread);
    Finding {
        message: format!("{}{again} again: none of them can go on", steps),
        next_step: "end one of these processes; so that it does not happen again, give them another thread in the pool, or make one of the calls oneway".into(),
        pid: Some(first.from.process),
        tid: Some(first.from.thread),
        device: Some(first.context.clone()),
        calls: calls.iter().map(|&call| call.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::Log;
    use binder_logs::Mode;

    fn recorded() -> Waiting {
        let text = include_str!("../../../binder-logs/tests/recorded/c/state");
        Waiting::of(&binder_logs::State::parse("state", text.as_bytes(), Mode::Strict).unwrap(), None)
    }

    #[test]
    fn what_waits_in_a_recorded_state_is_found_by_its_time() {
        let waiting = recorded();
        let longest = waiting.calls.values().map(|call| call.elapsed_ms).max().unwrap();
        let found = |limit| long(&waiting, limit, &mut Names::none()).findings().len();
        assert!(found(0) > 1 && found(longest + 1) == 0);
        assert!(cycles(&waiting, recorded, &mut Names::none()).findings().is_empty());
    }

    /// Two processes of one thread each, which call each other with these transactions.
    fn crossed(one: i64, other: i64) -> Waiting {
        let process = |pid, number, to| {
            format!(
                "proc {pid}\ncontext binder\n  thread {pid}: l 12 need_return 0 tr 0
    outgoing transaction {number}: 0000000000000001 from {pid}:{pid} to {to}:{to} code 2a flags 10 pri 0 a0 r0 elapsed 5ms\n"
            )
        };
        let text = format!("binder state:\n{}{}", process(10, one, 20), process(20, other, 10));
        Waiting::of(&binder_logs::State::parse("state", text.as_bytes(), Mode::Strict).unwrap(), None)
    }

    #[test]
    fn a_cycle_is_told_if_it_stays() {
        let found =
            |again: fn() -> Waiting| cycles(&crossed(1, 2), again, &mut Names::none()).findings().to_vec();
        assert_eq!(found(|| crossed(1, 2)).len(), 1);
        assert_eq!(found(|| crossed(1, 3)).len(), 0);
        let message = &found(|| crossed(1, 2))[0].message;
        assert!(
            message.contains(" for 20:20, which waits 5 ms ")
                && message.ends_with(" for 10:10 again: none of them can go on")
        );
    }

    #[test]
    fn a_chain_is_told_in_one_sentence() {
        let lines = "binder state:
proc 2147483601
context binder
  thread 2147483602: l 00 need_return 0 tr 0
    outgoing transaction 1: 0000000000000001 from 2147483601:2147483602 to 2147483603:0 code 2a flags 10 pri 0 a0 r0 elapsed 1234ms
";
        let state = binder_logs::State::parse("state", lines.as_bytes(), Mode::Strict).unwrap();
        let answer = long(&Waiting::of(&state, None), 1000, &mut Names::none());
        assert_eq!(
            answer.findings()[0].message,
            "2147483601:2147483602 waits 1234 ms (code 0x2a on binder) for 2147483603, where none of 0 threads has taken the call"
        );
    }
}
