// SPDX-License-Identifier: GPL-2.0
//! Whether calls wait that nobody will serve soon: for a busy pool, for long, in a cycle, or for a frozen process.

use std::collections::BTreeMap;

use binder_logs::State;
use binder_sys::BinderFrozenStatusInfo;

use crate::checks::seen::{Answer, Finding, Seen};
use crate::output::count;
use crate::tasks::{self, Names};
use crate::waiting::{Call, End, Pool, Waiting};

/// Looks at each process that has a call waiting for any of its threads. A pool that is busy for a moment is no fault, so only
/// calls count that still wait when `again` reads the log.
pub fn pools(waiting: &Waiting, again: impl Fn() -> Waiting, names: &mut Names) -> Answer {
    let mut findings = Vec::new();
    let mut later = None;
    for (place @ (pid, context), pool) in &waiting.pools {
        let Some(longest) = pool.pending.iter().map(|(_, elapsed)| elapsed).max() else { continue };
        let halt = halt(*pid);
        if halt.is_none() && (!pool.idle.is_empty() || pool.may_grow && !pool.threads.is_empty()) {
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

/// What keeps a whole process from its work, whatever its threads do, and how to end that.
fn halt(pid: i32) -> Option<(String, String)> {
    if tasks::is_stopped(pid) {
        return Some((
            "is stopped".into(),
            format!("let it go on: kill -CONT {pid}, or detach the debugger"),
        ));
    }
    let cgroup = tasks::frozen_cgroup(pid)?;
    let cgroup = cgroup.display();
    Some((format!("is in a frozen cgroup, {cgroup}"), format!("thaw it: echo 0 >{cgroup}/cgroup.freeze")))
}

fn busy(pool: &Pool) -> (String, String) {
    let limit = pool.max.map(|max| format!(" (the driver may ask for {max})")).unwrap_or_default();
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

/// Chains of threads whose first one has waited for long.
pub fn long(waiting: &Waiting, limit_ms: i64, names: &mut Names) -> Answer {
    let mut findings = Vec::new();
    for (calls, end) in waiting.longest_chains() {
        if calls.first().is_some_and(|call| call.elapsed_ms >= limit_ms) {
            findings.extend(chain(waiting, &calls, &end, names));
        }
    }
    let threads = count(waiting.calls.len(), "thread");
    Ok((findings, format!("waiting: {threads}, none for {limit_ms} ms")))
}

/// A chain, unless it ends in a cycle, which another check finds.
fn chain(waiting: &Waiting, calls: &[&Call], end: &End, names: &mut Names) -> Option<Finding> {
    let steps = steps(calls, names);
    let process = match end {
        End::Thread(task) => task.process,
        End::Pool((pid, _)) => *pid,
        End::Cycle => return None,
    };
    let (last, next) = match (halt(process), end) {
        (Some((why, next)), _) => (format!("{}, which {why}", names.of_process(process)), next),
        (None, End::Thread(task)) => {
            let who = names.of_thread(task.process, task.thread);
            let activity = tasks::activity(task.process, task.thread);
            let place = format!("/proc/{}/task/{}/stack", task.process, task.thread);
            (format!("{who}, which {activity}"), format!("look at what {who} does: {place}, or a debugger"))
        }
        (None, End::Pool((pid, context))) => {
            let who = names.of_process(*pid);
            let threads = waiting.pools.get(&(*pid, context.clone())).map_or(0, |pool| pool.threads.len());
            (
                format!("{who}, where none of {} has taken the call", count(threads, "thread")),
                format!("see what the threads of {who} do: binder_logs/proc/{pid}, /proc/{pid}/task/*/stack"),
            )
        }
        (None, End::Cycle) => return None,
    };
    Some(of_calls(calls, steps + &last, next))
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

/// Cycles of waiting threads. A driver's log is not of one moment, so only a cycle counts that is still there when `again`
/// reads the log.
pub fn cycles(waiting: &Waiting, again: impl Fn() -> Waiting, names: &mut Names) -> Answer {
    let mut cycles = waiting.cycles();
    if !cycles.is_empty() {
        let later = again();
        let still = |call: &&Call| {
            later.calls.get(&call.from.thread).is_some_and(|other| other.transaction == call.transaction)
        };
        cycles.retain(|calls| calls.iter().all(still));
    }
    let findings = cycles.iter().map(|calls| {
        let first = names.of_thread(calls[0].from.process, calls[0].from.thread);
        let message = format!("{}{first} again: none of them can go on", steps(calls, names));
        of_calls(calls, message, "end one of these processes; so that it does not happen again, give them another thread in the pool, or make one of the calls oneway")
    });
    Ok((findings.collect(), "no cycle".into()))
}

/// Asks a device of each process that has something waiting.
///
/// Log files do not tell who is frozen. A device does: it says of a process what came for it since it was frozen, and
/// forgets that when it is thawed. So a frozen process that has got nothing since is not found.
pub fn frozen(seen: &Seen) -> Answer {
    let state = seen.state()?;
    let mut devices = seen.places.iter().flat_map(|(_, devices)| devices.as_deref().unwrap_or_default());
    let device = devices.find_map(|device| binder_sys::Device::open(&device.path).ok());
    let device = device.ok_or("no device can be opened to ask who is frozen")?;
    Ok(of_frozen(state, |pid| device.frozen_info(pid as u32).ok()))
}

fn of_frozen(state: &State, ask: impl Fn(i32) -> Option<BinderFrozenStatusInfo>) -> (Vec<Finding>, String) {
    let mut waiting: BTreeMap<i32, usize> = BTreeMap::new();
    for process in &state.processes {
        *waiting.entry(process.pid).or_default() += process.queued().count();
    }
    waiting.retain(|_, calls| *calls > 0);
    let asked = count(waiting.len(), "process");
    let findings = waiting.into_iter().filter_map(|(pid, calls)| {
        let info = ask(pid)?;
        // Another bit says that calls are under way, to any process.
        let has_refused = info.sync_recv & 1 != 0;
        let refused = if has_refused { "; calls that wait for a reply were refused" } else { "" };
        let message =
            format!("process {pid} is frozen, with {} waiting for it{refused}", count(calls, "call"));
        let next = format!("thaw process {pid} (BINDER_FREEZE with enable 0), or freeze its callers, too");
        let is_frozen = has_refused || info.async_recv != 0;
        is_frozen.then(|| Finding { pid: Some(pid), ..Finding::new(message, next) })
    });
    (findings.collect(), format!("{asked} with calls waiting"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::seen::tests::{messages, state};

    fn of_pool(threads: &[i32], idle: &[i32], pending: &[(i64, i64)], may_grow: bool) -> Vec<String> {
        let pool = Pool {
            threads: threads.iter().copied().collect(),
            idle: idle.iter().copied().collect(),
            pending: pending.to_vec(),
            max: Some(1),
            may_grow,
        };
        // No process has this number.
        let pools = BTreeMap::from([((i32::MAX, "binder".to_owned()), pool)]);
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
        assert!(found[0].contains("its pool (the driver may ask for 1) is busy: 2 threads; waiting: 2 calls, the longest for 70 ms"), "{found:?}");
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

    #[test]
    fn a_cycle_is_found_if_it_stays() {
        let found = |again: fn() -> Waiting| messages(cycles(&crossed(1, 2), again, &mut Names::none()));
        assert!(found(|| crossed(1, 3)).is_empty());
        let message = &found(|| crossed(1, 2))[0];
        assert!(message.contains(" for 20:20, which waits 5 ms "), "{message}");
        assert!(message.ends_with(" for 10:10 again: none of them can go on"), "{message}");
    }

    #[test]
    fn a_chain_is_one_sentence() {
        let waiting = Waiting::of(&state(&block(2147483601, 1, "2147483603:0", 1234)), None);
        assert_eq!(
            messages(long(&waiting, 1000, &mut Names::none())),
            ["2147483601:2147483601 waits 1234 ms (code 0x2a on binder) for 2147483603, where none of 0 threads has taken the call"]
        );
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
