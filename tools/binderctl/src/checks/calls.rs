// SPDX-License-Identifier: GPL-2.0
//! Checks for calls that no thread will serve soon: a busy pool, a slow call, a cycle, or a frozen process.

use crate::checks::seen::{Answer, Finding, Seen};
use crate::escape::quoted;
use crate::output::count;
use crate::tasks::{self, Names, Task};
use crate::waiting::{Call, End, Pool, Waiting};
use binder_logs::State;
use binder_sys::BinderFrozenStatusInfo;
use std::collections::{BTreeMap, BTreeSet};

/// Looks at each process that has a call waiting for any of its threads. A pool that is busy for a moment is no fault, so only
/// calls count that still wait when `again` reads the log.
pub fn pools(waiting: &Waiting, again: impl Fn() -> Waiting, names: &mut Names) -> Answer {
    let mut findings = Vec::new();
    let mut later = None;
    for (place @ (pid, context, _), pool) in &waiting.pools {
        let Some(longest) = pool.pending.iter().map(|(_, elapsed)| elapsed).max() else { continue };
        let halt = halt(*pid);
        if halt.is_none() && (!pool.idle.is_empty() || pool.expects_thread && !pool.threads.is_empty()) {
            continue;
        }
        let later = later.get_or_insert_with(&again).pools.get(place).map_or(&[][..], |pool| &pool.pending);
        if !pool.pending.iter().any(|(call, _)| later.iter().any(|(other, _)| call == other)) {
            continue;
        }
        let (why, next) = match halt {
            Some((why, next)) => (format!("it {why}"), next),
            None => busy(pool),
        };
        let (who, calls) = (names.of_process(*pid), count(pool.pending.len(), "call"));
        let message =
            format!("process {who} on {context}: {why}; waiting: {calls}, the longest for {longest} ms");
        findings.push(Finding::of(*pid, context, message, next));
    }
    Ok((findings, count(waiting.pools.len(), "pool")))
}

/// The reason why a whole process makes no progress, whatever its threads do, and how to end that.
fn halt(pid: i32) -> Option<(String, String)> {
    if tasks::is_stopped(pid) {
        return Some(("is stopped".into(), format!("continue it: kill -CONT {pid}, or detach the debugger")));
    }
    let cgroup = tasks::frozen_cgroup(pid)?;
    let freeze = quoted(cgroup.join("cgroup.freeze"));
    Some((format!("is in a frozen cgroup, {}", cgroup.display()), format!("thaw it: echo 0 >{freeze}")))
}

fn busy(pool: &Pool) -> (String, String) {
    let limit = pool.max.map(|max| format!(" (max_threads {max})")).unwrap_or_default();
    if pool.threads.is_empty() {
        (
            "none of its threads has joined the pool".into(),
            "have it call joinThreadPool, or BC_ENTER_LOOPER and read".into(),
        )
    } else {
        (
            format!("its pool{limit} is busy: {}", count(pool.threads.len(), "thread")),
            "see below whom they wait for; allow more with setThreadPoolMaxThreadCount (BINDER_SET_MAX_THREADS), or make its calls shorter".into(),
        )
    }
}

/// Selects waiting calls: the shortest wait to report, and the calls to leave out.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub limit_ms: i64,
    /// The numbers of calls that have been reported in a chain.
    pub in_chains: BTreeSet<i64>,
    /// The numbers of calls that have been reported in a cycle.
    pub in_cycles: BTreeSet<i64>,
}

/// Chains of threads whose first one has waited for long, and still does when `again` reads the log.
pub fn long(waiting: &Waiting, again: impl Fn() -> Waiting, wanted: &Wanted, names: &mut Names) -> Answer {
    let is_wanted = |calls: &[&Call]| {
        let first = calls.first();
        first.is_some_and(|call| {
            call.elapsed_ms >= wanted.limit_ms && !wanted.in_chains.contains(&call.transaction)
        })
    };
    let chains =
        waiting.longest_chains().into_iter().filter(|(calls, end)| is_wanted(calls) && *end != End::Cycle);
    // The last thread's activity is valid if that thread has not left its CPU from the first reading to the second.
    let chains: Vec<_> = chains.map(|(calls, end)| (calls, switches(&end), end)).collect();
    let later = if chains.is_empty() { Waiting::default() } else { again() };
    let findings = chains.iter().filter_map(|(calls, before, end)| {
        let calls = &calls[..later.still(calls)];
        let (first, last) = (calls.first()?, calls.last()?);
        let (all, new_end) = later.chain(first.from.thread);
        let does = match end {
            End::Thread(task) => tasks::activity(task.process, task.thread),
            End::Pool(_) | End::Cycle => String::new(),
        };
        let is_same = all.len() == calls.len() && new_end == *end && switches(end) == *before;
        let end = match last.to_thread {
            _ if is_same => end.clone(),
            Some(thread) => End::Thread(Task { process: last.to_process, thread }),
            None => End::Pool(last.to_process),
        };
        Some(chain(waiting, calls, &end, is_same.then_some(does), names))
    });
    let threads = count(waiting.calls.len(), "thread");
    Ok((findings.collect(), format!("waiting: {threads}, none for {} ms", wanted.limit_ms)))
}

fn switches(end: &End) -> Option<u64> {
    match end {
        End::Thread(task) => tasks::switches(*task),
        End::Pool(_) | End::Cycle => None,
    }
}

/// A chain that does not end in a cycle, and what its end does, unless that has changed while it was looked at.
fn chain(waiting: &Waiting, calls: &[&Call], end: &End, does: Option<String>, names: &mut Names) -> Finding {
    let steps = steps(calls, names);
    let (who, process, thread) = match end {
        End::Thread(Task { process, thread }) => {
            (names.of_thread(*process, *thread), *process, thread.to_string())
        }
        End::Pool(pid) => (names.of_process(*pid), *pid, "*".into()),
        End::Cycle => unreachable!("cycles are left out"),
    };
    let next = format!("look at what {who} does: /proc/{process}/task/{thread}/stack, or a debugger");
    let (last, next) = match (halt(process), does) {
        (Some((why, next)), _) => (format!("{}, which {why}", names.of_process(process)), next),
        (None, Some(_)) if matches!(end, End::Pool(_)) => {
            let pool = calls.last().and_then(|call| waiting.pool_of(call));
            let threads = count(pool.map_or(0, |pool| pool.threads.len()), "thread");
            (format!("{who}, where none of {threads} has taken the call"), next)
        }
        (None, does) => (format!("{who}, which {}", does.as_deref().unwrap_or("is working on it")), next),
    };
    of_calls(calls, steps + &last, next)
}

/// A sentence that ends before whom the last of them waits for.
fn steps(calls: &[&Call], names: &mut Names) -> String {
    let mut sentence = String::new();
    for call in calls {
        let which = if sentence.is_empty() { "" } else { ", which" };
        let who = names.of_thread(call.from.process, call.from.thread);
        let Call { elapsed_ms, code, context, .. } = call;
        sentence += &format!("{who}{which} waits {elapsed_ms} ms (code {code:#x} on {context}) for ");
    }
    sentence
}

fn of_calls(calls: &[&Call], message: String, next: impl Into<String>) -> Finding {
    let first = calls[0];
    Finding {
        tid: Some(first.from.thread),
        calls: calls.iter().map(|&call| call.clone()).collect(),
        ..Finding::of(first.from.process, &first.context, message, next)
    }
}

/// Cycles of waiting threads, all of whose calls have waited for long. A driver's log is not of one moment, so only a cycle
/// counts that is still there when `again` reads the log.
pub fn cycles(waiting: &Waiting, again: impl Fn() -> Waiting, wanted: &Wanted, names: &mut Names) -> Answer {
    let mut cycles = waiting.cycles();
    cycles.retain(|calls| {
        let is_known = calls.iter().all(|call| wanted.in_cycles.contains(&call.transaction));
        !is_known && calls.iter().all(|call| call.elapsed_ms >= wanted.limit_ms)
    });
    if !cycles.is_empty() {
        let later = again();
        let stuck = later.stuck();
        cycles.retain(|calls| {
            later.still(calls) == calls.len() && calls.iter().all(|call| stuck.contains(&call.from.thread))
        });
    }
    let findings = cycles.iter().map(|calls| {
        let first = names.of_thread(calls[0].from.process, calls[0].from.thread);
        let is_queued = calls.iter().any(|call| call.to_thread.is_none());
        let unless = if is_queued { " unless another thread joins a pool" } else { "" };
        let message = format!("{}{first} again: none of them can continue{unless}", steps(calls, names));
        of_calls(calls, message, "end one of these processes; so that it does not happen again, give them another thread in the pool, or make one of the calls oneway")
    });
    Ok((findings.collect(), "no cycle".into()))
}

/// Queries a device about each process that has calls waiting.
///
/// The log files do not list frozen processes. A device reports the calls that arrived for a process since it was
/// frozen, and resets that when the process is thawed. So a frozen process without calls since then is not found.
pub fn frozen(seen: &Seen) -> Answer {
    let state = seen.state()?;
    let mut devices = seen.places.iter().flat_map(|(_, devices)| devices.as_deref().unwrap_or_default());
    let device = devices.find_map(|device| binder_sys::Device::open(&device.path).ok());
    let device = device.ok_or("no device can be opened to query frozen processes")?;
    Ok(of_frozen(state, |pid| device.frozen_info(pid as u32).ok()))
}

fn of_frozen(state: &State, ask: impl Fn(i32) -> Option<BinderFrozenStatusInfo>) -> (Vec<Finding>, String) {
    let mut waiting: BTreeMap<i32, usize> = BTreeMap::new();
    for process in &state.processes {
        *waiting.entry(process.pid).or_default() += process.queued().count();
    }
    waiting.retain(|_, calls| *calls > 0);
    let queried = count(waiting.len(), "process");
    let findings = waiting.into_iter().filter_map(|(pid, calls)| {
        let info = ask(pid)?;
        // Bit 1 reports pending transactions, of processes that are not frozen, too.
        let has_refused = info.sync_recv & 1 != 0;
        let refused = if has_refused { "; calls that wait for a reply were refused" } else { "" };
        let message =
            format!("process {pid} is frozen, with {} waiting for it{refused}", count(calls, "call"));
        let next = format!("thaw process {pid} (BINDER_FREEZE with enable 0), or freeze its callers, too");
        let is_frozen = has_refused || info.async_recv != 0;
        is_frozen.then(|| Finding { pid: Some(pid), ..Finding::new(message, next) })
    });
    (findings.collect(), format!("{queried} with calls waiting"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::seen::tests::{messages, state};

    fn of_pool(threads: &[i32], idle: &[i32], pending: &[(i64, i64)], expects_thread: bool) -> Vec<String> {
        let pool = Pool {
            threads: threads.iter().copied().collect(),
            idle: idle.iter().copied().collect(),
            pending: pending.to_vec(),
            max: Some(1),
            expects_thread,
        };
        // No process has this number.
        let pools = BTreeMap::from([((i32::MAX, "binder".to_owned(), 0), pool)]);
        let waiting = Waiting { pools, ..Default::default() };
        assert!(
            messages(super::pools(&waiting, Waiting::default, &mut Names::none())).is_empty(),
            "for a moment"
        );
        messages(super::pools(&waiting, || waiting.clone(), &mut Names::none()))
    }

    #[test]
    fn calls_that_nobody_will_take_soon_are_found() {
        let found = of_pool(&[1, 2], &[], &[(5, 10), (4, 70)], false);
        let busy = "its pool (max_threads 1) is busy: 2 threads; waiting: 2 calls, the longest for 70 ms";
        assert!(found[0].contains(busy), "{found:?}");
        let found = of_pool(&[], &[], &[(5, 10)], true);
        assert!(found[0].contains("none of its threads has joined the pool"));
        assert!(of_pool(&[1, 2], &[2], &[(5, 10)], false).is_empty());
        assert!(of_pool(&[1, 2], &[], &[(5, 10)], true).is_empty());
        assert!(of_pool(&[1], &[], &[], false).is_empty());
    }

    fn block(pid: i32, number: i64, to: &str, elapsed: i64) -> String {
        format!(
            "proc {pid}\ncontext binder\n  thread {pid}: l 12 need_return 0 tr 0
    outgoing transaction {number}: 0000000000000001 from {pid}:{pid} to {to} code 2a flags 10 pri 0 a0 r0 elapsed {elapsed}ms\n"
        )
    }

    /// Two processes of one thread each, which call each other with these transactions.
    fn crossed(one: i64, other: i64) -> Waiting {
        Waiting::of(&state(&(block(10, one, "20:20", 5) + &block(20, other, "10:10", 5))), None)
    }

    fn waits(limit_ms: i64) -> Wanted {
        Wanted { limit_ms, ..Wanted::default() }
    }

    #[test]
    fn a_cycle_is_found_if_it_stays() {
        let of = |again: fn() -> Waiting, wanted| {
            messages(cycles(&crossed(1, 2), again, &wanted, &mut Names::none()))
        };
        let found = |again| of(again, Wanted::default());
        assert!(found(|| crossed(1, 3)).is_empty());
        assert!(of(|| crossed(1, 2), waits(6)).is_empty());
        assert!(of(|| crossed(1, 2), Wanted { in_cycles: [1, 2].into(), ..Wanted::default() }).is_empty());
        let message = &found(|| crossed(1, 2))[0];
        assert!(message.contains(" for 20:20, which waits 5 ms "), "{message}");
        assert!(message.ends_with(" for 10:10 again: none of them can continue"), "{message}");
    }

    #[test]
    fn a_cycle_that_another_thread_of_the_pool_ends_is_none() {
        let mut waiting = crossed(1, 2);
        for (caller, target) in [(10, 20), (20, 10)] {
            let call = waiting.calls.get_mut(&caller).unwrap();
            call.to_thread = None;
            let pending = vec![(call.transaction, 5)];
            let pool = Pool { threads: [target].into(), pending, ..Pool::default() };
            waiting.pools.insert((target, "binder".into(), 0), pool);
        }
        let found =
            |later: &Waiting| messages(cycles(&waiting, || later.clone(), &waits(0), &mut Names::none()));
        assert!(found(&waiting)[0].ends_with(" none of them can continue unless another thread joins a pool"));
        let mut later = waiting.clone();
        later.pools.values_mut().next().unwrap().threads.insert(11);
        assert!(found(&later).is_empty());
    }

    #[test]
    fn a_chain_is_one_sentence() {
        let of = |later: &str| {
            let waiting = Waiting::of(&state(&block(2147483601, 1, "2147483603:0", 1234)), None);
            let later = Waiting::of(&state(later), None);
            messages(long(&waiting, || later.clone(), &waits(1000), &mut Names::none()))
        };
        let begin = "2147483601:2147483601 waits 1234 ms (code 0x2a on binder) for ";
        let same = of(&block(2147483601, 1, "2147483603:0", 1300));
        assert_eq!(same, [begin.to_owned() + "2147483603, where none of 0 threads has taken the call"]);
        assert_eq!(
            of(&block(2147483601, 1, "2147483603:7", 1300)),
            [begin.to_owned() + "2147483603, which is working on it"]
        );
        assert!(of(&block(2147483601, 4, "2147483603:0", 10)).is_empty());
    }

    #[test]
    fn a_server_between_two_calls_of_its_own_is_not_blamed_for_either() {
        let of = |number| {
            let serves = "    incoming transaction 1: 0000000000000001 from 2147483601:2147483601 to 2147483602:2147483602 code 2a flags 10 pri 0 a0 r0 elapsed 900ms\n";
            let calls = match number {
                0 => "proc 2147483602\ncontext binder\n  thread 2147483602: l 02 need_return 0 tr 0\n".into(),
                number => block(2147483602, number, "2147483603:2147483603", 1),
            };
            Waiting::of(&state(&(block(2147483601, 1, "2147483602:2147483602", 900) + &calls + serves)), None)
        };
        let found = |first, later| messages(long(&of(first), || of(later), &waits(500), &mut Names::none()));
        let begin =
            "2147483601:2147483601 waits 900 ms (code 0x2a on binder) for 2147483602:2147483602, which ";
        for (first, later) in [(0, 2), (2, 0), (2, 3)] {
            assert_eq!(found(first, later), [format!("{begin}is working on it")]);
        }
        assert!(found(2, 2)[0].starts_with(&format!("{begin}waits 1 ms ")), "{:?}", found(2, 2));
    }

    #[test]
    fn calls_of_many_hide_no_other() {
        let many: String = (1..=1500).map(|pid| block(pid, pid.into(), "2000:0", 900)).collect();
        let waiting = Waiting::of(&state(&(many + &block(3000, 3000, "4000:4000", 900))), None);
        let mut wanted = waits(500);
        let found =
            |wanted: &Wanted| long(&waiting, || waiting.clone(), wanted, &mut Names::none()).unwrap().0;
        assert_eq!(found(&wanted).len(), 1501);
        wanted.in_chains = (1..=1500).collect();
        assert_eq!(found(&wanted).iter().map(|finding| finding.pid).collect::<Vec<_>>(), [Some(3000)]);
    }

    #[test]
    fn a_frozen_process_that_has_calls_waiting_is_found() {
        let state = state(
            "proc 20
context binder
  pending transaction 8: 0000000000000001 from 10:11 to 20:0 code 1 flags 1 pri 0 a1 r0 elapsed 5ms node 3 size 300:0 offset 0
proc 21
context binder
",
        );
        let found = |sync_recv, async_recv| {
            let ask = |pid| Some(BinderFrozenStatusInfo { pid: pid as u32, sync_recv, async_recv });
            messages(Ok(of_frozen(&state, ask)))
        };
        assert!(found(0, 0).is_empty() && found(2, 0).is_empty());
        assert_eq!(found(0, 1)[0], "process 20 is frozen, with 1 call waiting for it");
        assert!(found(1, 1)[0].ends_with("calls that wait for a reply were refused"));
    }
}
