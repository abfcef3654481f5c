// SPDX-License-Identifier: GPL-2.0
//! Calls that wait for long, and threads that wait for each other: our driver tells them, if it is asked to.
//!
//! No test depends on how long anything takes: whoever is to be slow does not reply until that has been told, and
//! whatever is not to be told is followed by something that is.

use super::limits::Limit;
use super::messages::Log;
use super::nested::couple;
use super::*;
use crate::netlink::{Listener, SlowCall};
use std::sync::atomic::{AtomicBool, Ordering};

case!(cycle_of_two_is_told_at_once, ["LOOP-3", "TXN-10"], |t| cycle_is_told_at_once::<2>(t));
case!(cycle_of_three_is_told_at_once, ["LOOP-3", "TXN-10"], |t| cycle_is_told_at_once::<3>(t));

/// So long that no test waits for it.
const NEVER: u32 = 1 << 30;

/// So short that a test waits for it.
const SOON: u32 = 40;

/// What the driver tells of slow calls from now on.
struct Told {
    listener: Listener,
    limit: Limit,
    unclaimed: Vec<SlowCall>,
    /// Whose calls are told when all that was slow before them has been told.
    last: (Port, Port, u32),
}

impl Told {
    /// Asks the driver to tell calls that wait for longer than this. `None` with a driver that does not.
    fn after(t: &Stage, manager: &Port, limit_ms: u32) -> Option<Self> {
        if !t.ours_alone("slow calls are not told", t.driver.parameter("slow_call_ms").exists()) {
            return None;
        }
        let (server, client) = (t.server(), t.client());
        let handle = introduce(manager, &server, node(&server), &client);
        let listener = Listener::of_slow_calls().expect("join the group");
        let limit = Limit::set(t, "slow_call_ms", limit_ms)?;
        Some(Self { listener, limit, unclaimed: Vec::new(), last: (server, client, handle) })
    }

    /// Reads what has been told since the last time.
    #[track_caller]
    fn read(&mut self) {
        self.unclaimed.extend(self.listener.slow_calls());
    }

    /// Waits for what is told of a call of one of these processes.
    #[track_caller]
    fn about(&mut self, t: &Stage, callers: &[&Port]) -> SlowCall {
        let pids: Vec<_> = callers.iter().map(|caller| t.global_pid(caller)).collect();
        until(&format!("a call of {pids:?} is told"), || {
            self.read();
            let found = self.unclaimed.iter().position(|call| pids.contains(&call.from.0))?;
            Some(self.unclaimed.remove(found))
        })
    }

    /// The same, in words.
    #[track_caller]
    fn of(&mut self, t: &Stage, callers: &[&Port]) -> String {
        self.about(t, callers).chain
    }

    /// Nothing else has been told of these, and nothing is when all that is slow has been told.
    #[track_caller]
    fn nothing_of(&mut self, t: &Stage, callers: &[&Port]) {
        self.limit.change(SOON);
        // What was slow when the first of these began has been told when the second is.
        for _ in 0..2 {
            let (server, client, handle) = self.last.clone();
            client.start_call(handle, 0, &empty());
            self.of(t, &[&client]);
            server.wait_call();
            server.answer(&client, &empty());
        }
        for caller in callers {
            let pid = t.global_pid(caller);
            let told: Vec<_> = self.unclaimed.iter().filter(|call| call.from.0 == pid).collect();
            assert!(told.is_empty(), "{told:?}");
        }
    }
}

const CYCLE: &str = "cycle of waiting threads: ";

/// The node of a process.
fn node(owner: &Port) -> FlatBinderObject {
    let number = owner.actor.pid() as u64 * 0x10;
    FlatBinderObject::binder(number, number + 1)
}

/// That the only thread of a process waits for a call to another one; the id of the call where it has been taken.
fn waits(t: &Stage, caller: &Port, call: &str, target: &Port) -> String {
    let (caller, target) = (t.global_pid(caller), t.global_pid(target));
    format!("{caller}:{caller} waits for {call} to {target}")
}

/// That the only thread of a process serves a call and does this.
fn serves_and(t: &Stage, server: &Port, does: &str) -> String {
    format!("{0}:{0} serves it and {does}", t.global_pid(server))
}

/// A report without what differs from time to time: how long it was, and the numbers of calls.
fn general(report: &str) -> String {
    let words = report.split(' ').collect::<Vec<_>>();
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let general = words.iter().enumerate().map(|(at, word)| match at.checked_sub(1).map(|at| words[at]) {
        Some("call") | Some("call,") if is_number(word) => "N",
        _ => word,
    });
    general.collect::<Vec<_>>().join(" ")
}

/// A client whose call the server has, and keeps.
fn held(t: &Stage, manager: &Port, server: &Port) -> (Port, u32) {
    let client = t.client();
    let handle = introduce(manager, server, node(server), &client);
    server.settle_counts();
    client.call(server, handle, 0, &empty());
    (client, handle)
}

case!(off_unless_asked_for, ["PARAM-3"], |t| {
    let file = t.driver.parameter("slow_call_ms");
    let manager = t.manager();
    let server = t.server();
    let (client, _) = held(t, &manager, &server);
    let Some(mut told) = Told::after(t, &manager, 0) else { return };
    assert_eq!(std::fs::read_to_string(&file).expect("read the parameter"), "0\n");
    for nonsense in ["-1", "soon", "4294967296"] {
        std::fs::write(&file, nonsense).expect_err("it is nonsense");
    }
    told.limit.change(NEVER);
    told.limit.change(0);
    assert_eq!(std::fs::read_to_string(&file).expect("read the parameter"), "0\n");
    told.read();
    assert!(told.unclaimed.is_empty(), "{:?}", told.unclaimed);
    // It has not been told before it was asked for, and is when it is.
    told.limit.change(SOON);
    told.of(t, &[&client]);
    server.answer(&client, &empty());
});

// What is told is of all users' threads.
case!(told_once, ["TXN-10"], Stage::manager, |t, manager| {
    let Some(mut told) = Told::after(t, &manager, SOON) else { return };
    let server = t.server();
    let (client, handle) = held(t, &manager, &server);
    let report = told.about(t, &[&client]);
    let expected = format!(
        "slow call, N ms: {}; {}",
        waits(t, &client, "call N", &server),
        serves_and(t, &server, "sleeps outside of Binder")
    );
    assert_eq!(general(&report.chain), expected);
    let (from, to) = (t.global_pid(&client), t.global_pid(&server));
    assert_eq!((report.context.as_str(), report.from, report.to_pid), ("binder", (from, from), to));
    assert!(report.waited_ms > SOON && !report.is_cycle, "{report:?}");
    let id = report.debug_id.expect("the id of a call that is served");
    assert!(report.chain.contains(&format!("waits for call {id} to")), "{report:?}");
    told.nothing_of(t, &[&client, &server]);
    server.answer(&client, &empty());
    // The next one is another.
    client.call(&server, handle, 0, &empty());
    assert_eq!(general(&told.of(t, &[&client])), expected);
    server.answer(&client, &empty());
});

/// A buffer of traces of its own, in which this event is recorded.
pub(super) struct Trace(PathBuf);

impl Trace {
    pub(super) fn of(t: &Stage, event: &str) -> Self {
        let root = t.directory("tracing");
        let mounted = mount(None::<&str>, &root, Some("tracefs"), MsFlags::empty(), None::<&str>);
        t.needs("trace events", mounted.is_ok());
        let instance = root.join("instances/slow");
        std::fs::create_dir(&instance).expect("make a buffer of traces");
        // Built in beside the C driver, ours have names of their own (docs/patches.md).
        let of_event = |name: String| instance.join("events/binder").join(name);
        let named = [event.to_owned(), format!("rust_{event}")].map(of_event);
        let found = named.iter().find(|folder| folder.exists()).expect("the event");
        std::fs::write(found.join("enable"), "1").expect("turn on");
        Self(instance)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let trace = std::fs::read_to_string(self.0.join("trace")).expect("read a trace");
        trace.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("events/enable"), "0");
        let _ = std::fs::remove_dir(&self.0);
    }
}

case!(is_in_the_log_and_in_traces, ["PARAM-3"], Stage::manager, |t, manager| {
    let Some(mut told) = Told::after(t, &manager, SOON) else { return };
    let trace = Trace::of(t, "binder_slow_call");
    let mut log = Log::open();
    let server = t.server();
    // Tests before this one may have used up the limit a moment ago.
    let deadline = Instant::now() + messages::WINDOW + patience();
    loop {
        let (client, _) = held(t, &manager, &server);
        let call = told.about(t, &[&client]);
        let (from, to, id) = (call.from.0, call.to_pid, call.debug_id.expect("an id"));
        let expected = format!(
            "binder_slow_call: transaction={id} from {from}:{from} to {to} waited_ms={} is_cycle=0: {}",
            call.waited_ms, call.chain
        );
        let lines = trace.lines();
        assert!(lines.iter().any(|line| line.ends_with(&expected)), "{expected} is not in {lines:?}");
        server.answer(&client, &empty());
        let message = format!("binder_rust: {}", call.chain);
        if log.news().iter().any(|line| line.ends_with(&message)) {
            break;
        }
        assert!(Instant::now() < deadline, "the log does not have it");
    }
});

case!(fast_call_is_not_told, ["TXN-10"], Stage::manager, |t, manager| {
    let Some(mut told) = Told::after(t, &manager, SOON) else { return };
    let (server, fast) = (t.server(), t.server());
    let (client, _) = held(t, &manager, &server);
    let quick = t.client();
    let on_fast = introduce(&manager, &fast, node(&fast), &quick);
    let mut longest = Duration::ZERO;
    while told.unclaimed.is_empty() {
        let begun = Instant::now();
        quick.round_trip(on_fast, &fast, &empty(), &empty());
        longest = longest.max(begun.elapsed());
        told.read();
    }
    told.of(t, &[&client]);
    // On a host that is busy with something else a call may take long.
    if longest < Duration::from_millis(SOON.into()) {
        told.nothing_of(t, &[&quick]);
    }
    server.answer(&client, &empty());
});

case!(chain_of_three, ["TXN-11"], couple, |t, (manager, a, b, on_b, _)| {
    let c = t.server();
    let on_c = introduce(&manager, &c, node(&c), &b);
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    a.call(&b, on_b, 1, &empty());
    b.call(&c, on_c, 2, &empty());
    told.limit.change(SOON);
    let end = format!("{}; {}", waits(t, &b, "call N", &c), serves_and(t, &c, "sleeps outside of Binder"));
    let whole = format!(
        "slow call, N ms: {}; {}",
        waits(t, &a, "call N", &b),
        end.replacen(" waits", " serves it and waits", 1)
    );
    assert_eq!(general(&told.of(t, &[&a])), whole);
    assert_eq!(general(&told.of(t, &[&b])), format!("slow call, N ms: {end}"));
    told.nothing_of(t, &[&a, &b, &c]);
    c.answer(&b, &empty());
    b.answer(&a, &empty());
});

case!(call_back_is_told_and_not_what_it_came_from, ["TXN-11"], couple, |t, (manager, a, b, on_b, on_a)| {
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    told.limit.change(SOON);
    let expected = format!(
        "slow call, N ms: {}; {}",
        waits(t, &b, "call N", &a),
        serves_and(t, &a, "sleeps outside of Binder")
    );
    assert_eq!(general(&told.of(t, &[&b])), expected);
    // It is a that keeps everybody waiting; that it waits as well says nothing more.
    told.nothing_of(t, &[&a, &b]);
    a.answer(&b, &empty());
    b.answer(&a, &empty());
});

case!(chain_through_a_thread_that_was_called_back, ["TXN-11"], couple, |t, (manager, a, b, on_b, on_a)| {
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let client = t.client();
    let handle = introduce(&manager, &a, FlatBinderObject::binder(0xa0, 0xa1), &client);
    client.call(&a, handle, 0, &empty());
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    told.limit.change(SOON);
    let expected = [
        waits(t, &client, "call N", &a),
        waits(t, &a, "call N", &b).replacen(" waits", " serves it and waits", 1),
        waits(t, &b, "call N", &a).replacen(" waits", " serves it and waits", 1),
        serves_and(t, &a, "sleeps outside of Binder"),
    ];
    assert_eq!(general(&told.of(t, &[&client])), format!("slow call, N ms: {}", expected.join("; ")));
    a.answer(&b, &empty());
    b.answer(&a, &empty());
    a.answer(&client, &empty());
});

case!(thread_among_many, ["TXN-10"], Stage::manager, |t, manager| {
    // More than are looked at without giving others the lock.
    const MANY: usize = 70;
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let (server, client) = (t.server(), t.client());
    let handle = introduce(&manager, &server, node(&server), &client);
    server.settle_counts();
    let servers: Vec<_> = (0..MANY).map(|_| server.looper()).collect();
    // In the pool, so that the driver knows all of them.
    let callers: Vec<_> = (0..MANY).map(|_| client.looper()).collect();
    // The last one of each is that which has the call.
    let (first, last) = (&callers[0], &callers[MANY - 1]);
    last.start_call(handle, 0, &empty());
    servers[MANY - 1].wait_call();
    told.limit.change(SOON);
    let report = told.about(t, &[&client]).chain;
    assert!(report.ends_with(" serves it and sleeps outside of Binder"), "{report}");
    // Nobody else serves the next one, and all count.
    first.start_call(handle, 0, &empty());
    let report = told.about(t, &[&client]).chain;
    let expected = format!("whose {} threads are busy, 0 of them waiting", MANY + 1);
    assert!(report.ends_with(&expected), "{report}");
    server.kill();
    first.wait_refusal();
    last.wait_refusal();
});

case!(pool_that_is_busy, ["LOOP-3"], Stage::manager, |t, manager| {
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let server = t.server();
    let second = server.looper();
    let (client, _) = held(t, &manager, &server);
    let (other, _) = held(t, &manager, &second);
    let last = t.client();
    let handle = introduce(&manager, &server.thread(), node(&server), &last);
    last.start_blocking_call(handle, 0, &empty());
    // One of the two waits itself.
    second.start_blocking_call(0, 0, &empty());
    told.limit.change(SOON);
    let report = told.of(t, &[&last]);
    let expected = format!(
        "slow call, N ms: {}, whose 2 threads are busy, 1 of them waiting",
        waits(t, &last, "a call", &server)
    );
    assert_eq!(general(&report), expected);
    told.of(t, &[&client]);
    told.of(t, &[&other]);
    server.kill();
    for caller in [client, other, last] {
        caller.wait_refusal();
    }
});

case!(process_without_a_pool, ["LOOP-3"], Stage::manager, |t, manager| {
    let Some(mut told) = Told::after(t, &manager, SOON) else { return };
    let (owner, client) = (t.client(), t.client());
    let handle = introduce(&manager, &owner, node(&owner), &client);
    client.start_call(handle, 0, &empty());
    let expected = format!(
        "slow call, N ms: {}, which has no thread that takes calls",
        waits(t, &client, "a call", &owner)
    );
    assert_eq!(general(&told.of(t, &[&client])), expected);
    owner.kill();
    client.wait_refusal();
});

case!(server_that_is_stopped, ["TXN-10"], Stage::manager, |t, manager| {
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let server = t.server();
    let (client, _) = held(t, &manager, &server);
    let pid = Pid::from_raw(server.actor.pid());
    kill(pid, Signal::SIGSTOP).expect("stop");
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    };
    while !is_stopped() {
        std::thread::yield_now();
    }
    told.limit.change(SOON);
    let expected = serves_and(t, &server, "is stopped");
    let report = told.of(t, &[&client]);
    assert!(report.ends_with(&expected), "{report}");
    kill(pid, Signal::SIGCONT).expect("continue");
    server.answer(&client, &empty());
});

case!(target_that_is_being_frozen, ["FRZ-2"], Stage::manager, |t, manager| {
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let server = t.server();
    let (client, _) = held(t, &manager, &server);
    let second = server.thread();
    let other = t.client();
    let handle = introduce(&manager, &second, node(&server), &other);
    other.start_call(handle, 0, &empty());
    // A call that comes later is refused.
    other.actor.expect_blocked();
    let freezer = Freezer::of(t, &server);
    freezer.start(LONG);
    told.limit.change(SOON);
    let expected = format!("slow call, N ms: {}, which is being frozen", waits(t, &other, "a call", &server));
    assert_eq!(general(&told.of(t, &[&other])), expected);
    told.of(t, &[&client]);
    Freezer::of(t, &server).thaw().expect("thaw");
    assert_eq!(freezer.finish(), Err(Errno::EAGAIN));
    server.kill();
    client.wait_refusal();
    other.wait_refusal();
});

/// Processes with one thread each, of which each has a handle on the next one; and the manager.
fn ring<const N: usize>(t: &Stage) -> (Port, [Port; N], [u32; N]) {
    let manager = t.manager();
    let ports: [Port; N] = std::array::from_fn(|_| t.server());
    let handles = std::array::from_fn(|at| {
        let owner = &ports[(at + 1) % N];
        let handle = introduce(&manager, owner, node(owner), &ports[at]);
        owner.settle_counts();
        handle
    });
    (manager, ports, handles)
}

// A line of the log holds eight calls, whatever the numbers in them.
case!(chain_that_is_too_long_for_the_log, ["TXN-11"], |t| {
    let (manager, ports, handles) = ring::<11>(t);
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    for (at, callee) in ports[1..].iter().enumerate() {
        ports[at].start_call(handles[at], 0, &empty());
        callee.wait_call();
    }
    told.limit.change(SOON);
    let chain = told.of(t, &[&ports[0]]);
    assert_eq!(chain.matches(" waits for ").count(), 8, "{chain}");
    assert!(chain.ends_with("; and 2 more"), "{chain}");
});

/// What is told of a cycle of them that this one closes.
fn cycle(t: &Stage, ports: &[Port], closing: usize) -> String {
    let links = (0..ports.len()).map(|at| {
        let (caller, target) =
            (&ports[(closing + at) % ports.len()], &ports[(closing + at + 1) % ports.len()]);
        let call = if at == 0 { "call N" } else { "a call" };
        format!("{}, whose 1 threads are busy, 1 of them waiting", waits(t, caller, call, target))
    });
    format!("cycle of waiting threads: {}", links.collect::<Vec<_>>().join("; "))
}

fn cycle_is_told_at_once<const N: usize>(t: &Stage) {
    let (manager, ports, handles) = ring::<N>(t);
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let callers: Vec<_> = ports.iter().collect();
    for at in 0..N - 1 {
        ports[at].start_call(handles[at], 0, &empty());
        ports[at].actor.expect_blocked();
        told.read();
        assert!(told.unclaimed.is_empty(), "{:?}", told.unclaimed);
    }
    ports[N - 1].start_call(handles[N - 1], 0, &empty());
    let report = told.about(t, &callers);
    assert_eq!(general(&report.chain), cycle(t, &ports, N - 1));
    assert!(report.is_cycle && report.debug_id.is_some(), "{report:?}");
    ports[0].kill();
    for between in &ports[1..N - 1] {
        between.actor.expect_blocked();
    }
    ports[N - 1].wait_refusal();
}

case!(cycle_of_pools_is_told_when_the_last_thread_waits, ["LOOP-3", "TXN-10"], |t| {
    let (manager, [a, b], [on_b, on_a]) = ring::<2>(t);
    let (second, third) = (a.looper(), b.looper());
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    // As long as one thread of either could take a call, nobody waits for ever.
    for (caller, handle) in [(&a, on_b), (&b, on_a), (&second, on_b)] {
        caller.start_blocking_call(handle, 0, &empty());
    }
    told.read();
    assert!(told.unclaimed.is_empty(), "{:?}", told.unclaimed);
    third.start_call(on_a, 0, &empty());
    let report = told.of(t, &[&a, &b]);
    assert!(report.starts_with(CYCLE), "{report}");
    assert_eq!(report.matches("whose 2 threads are busy, 2 of them waiting").count(), 2, "{report}");
    a.kill();
    b.wait_refusal();
    third.wait_refusal();
});

case!(cycle_is_told_once, ["TXN-10"], |t| {
    let (manager, [a, b], [on_b, on_a]) = ring::<2>(t);
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    a.start_blocking_call(on_b, 0, &empty());
    b.start_call(on_a, 0, &empty());
    told.of(t, &[&a, &b]);
    told.nothing_of(t, &[&a, &b]);
    a.kill();
    b.wait_refusal();

    // One that was closed while nobody was asked to tell is found by who looks for slow calls.
    let (c, d) = (t.server(), t.server());
    let on_c = introduce(&manager, &c, node(&c), &d);
    let on_d = introduce(&manager, &d, node(&d), &c);
    c.settle_counts();
    d.settle_counts();
    told.limit.change(0);
    c.start_blocking_call(on_d, 0, &empty());
    d.start_blocking_call(on_c, 0, &empty());
    told.limit.change(SOON);
    let report = told.of(t, &[&c, &d]);
    assert!(report.starts_with(CYCLE), "{report}");
    told.nothing_of(t, &[&c, &d]);
    c.kill();
    d.wait_refusal();
});

// A server calls its client back, and its data are long in coming: nobody waits in vain.
case!(call_back_that_is_being_made_is_no_cycle, ["TXN-10", "TXN-11"], |t| {
    let (manager, a, b, on_b, on_a) = couple(t);
    let begin = || {
        a.call(&b, on_b, 1, &empty());
    };
    let end = || {
        a.wait_call();
        a.answer(&b, &empty());
        b.answer(&a, &empty());
    };
    // What a thread keeps of its last calls makes the next one known before its data are copied.
    begin();
    b.start_call(on_a, 2, &empty());
    end();
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let absent = gaps::absent(t, &b, 1);
    begin();
    gaps::start_absent(&b, &absent, on_a, 2);
    told.limit.change(SOON);
    let report = told.about(t, &[&a, &b]);
    assert!(!report.is_cycle, "{report:?}");
    absent.provide(0, b"");
    end();
});

case!(who_waits_behind_a_cycle_is_not_part_of_it, ["TXN-10"], |t| {
    let (manager, [a, b], [on_b, on_a]) = ring::<2>(t);
    let Some(mut told) = Told::after(t, &manager, NEVER) else { return };
    let (client, helper) = (t.client(), a.thread());
    let handle = introduce(&manager, &helper, node(&a), &client);
    a.start_blocking_call(on_b, 0, &empty());
    b.start_call(on_a, 0, &empty());
    told.of(t, &[&a, &b]);
    client.start_blocking_call(handle, 0, &empty());
    told.read();
    assert!(told.unclaimed.is_empty(), "{:?}", told.unclaimed);
    told.limit.change(SOON);
    let expected = format!(
        "slow call, N ms: {}, whose 1 threads are busy, 1 of them waiting; \
         all threads that could go on wait for each other",
        waits(t, &client, "a call", &a)
    );
    assert_eq!(general(&told.of(t, &[&client])), expected);
    a.kill();
    b.wait_refusal();
    client.wait_refusal();
});

case!(on_and_off_under_load, ["TXN-10"], |t| {
    on_all_cpus();
    let manager = t.manager();
    let Some(mut told) = Told::after(t, &manager, 0) else { return };
    let server = t.server();
    let (client, _) = held(t, &manager, &server);
    let (busy, caller) = (t.server(), t.client());
    let on_busy = introduce(&manager, &busy, node(&busy), &caller);
    let file = t.driver.parameter("slow_call_ms");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                for value in ["1", "0", "1000", "0"] {
                    std::fs::write(&file, value).expect("set the parameter");
                }
            }
        });
        for _ in 0..t.tries(300) {
            caller.round_trip(on_busy, &busy, &empty(), &empty());
        }
        ends.store(true, Ordering::Relaxed);
    });
    // The call that was held may have been told meanwhile.
    server.answer(&client, &empty());
    let (last, _) = held(t, &manager, &server);
    told.limit.change(SOON);
    told.of(t, &[&last]);
    told.limit.change(0);
    server.answer(&last, &empty());
});
