// SPDX-License-Identifier: GPL-2.0
//! The CPU on which a thread is woken: the scheduler chooses. The driver hints that a caller who
//! waits is about to sleep, unless the module parameter is `handoff=0`.
//!
//! The conductor and the waker are on CPU 0. The woken thread sleeps on CPU 1, which is idle, and
//! may run on both. A driver that demands the waker's CPU moves the thread in each round. Otherwise
//! it moves only if CPU 1 is busy at that moment: in some rounds of a busy guest.

use super::*;
use crate::scheduling::allow;

const ROUNDS: usize = 16;
/// More moves are not by chance.
const BY_CHANCE: usize = 12;
const COOKIE: u64 = 0x10;

/// Needs two CPUs; puts all that a test starts on the first.
fn needs_the_stage(t: &Stage) {
    needs_two_cpus(t);
    pin(Pid::from_raw(0), 0);
}

/// Puts a thread to sleep on CPU 1.
fn sleep_there(sleeper: &Port) {
    let thread = Pid::from_raw(sleeper.actor.tid());
    pin(thread, 1);
    sleeper.park();
    allow(thread, &[0, 1]);
}

/// Returns whether a thread ran on CPU 0 last.
fn has_moved(thread: &Port) -> bool {
    let (pid, tid) = (thread.actor.pid(), thread.actor.tid());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).expect("its stat");
    // The 39th field; the second is a name in brackets.
    let fields = stat.rsplit(')').next().expect("what is behind the name");
    fields.split_whitespace().nth(36).expect("a CPU") == "0"
}

/// The number of times, of 16, that the server is woken on the client's CPU by this call.
fn moves(t: &Stage, call: impl Fn(&Port)) -> usize {
    let (server, client) = (t.manager(), t.client());
    let is_moved = || {
        sleep_there(&server);
        call(&client);
        let call = server.wait_call();
        // At once: with its next order it may move again.
        let is_moved = has_moved(&server);
        finish(&server, &client, &call);
        is_moved
    };
    (0..ROUNDS).filter(|_| is_moved()).count()
}

case!(caller_who_waits_keeps_its_cpu_if_so_wished, ["LOOP-6"], |t| {
    t.needs("the module parameter handoff=0", booted_with("handoff=0"));
    needs_the_stage(t);
    let moves = moves(t, |client| client.start_call(0, 0, &empty()));
    assert!(moves <= BY_CHANCE, "woken on the CPU that gets free: {moves} of {ROUNDS}");
});

case!(caller_who_goes_on_keeps_its_cpu, ["LOOP-6"], needs_the_stage, |t, ()| {
    // The others hint that each caller of a call with a reply is about to sleep. What follows from
    // it differs from machine to machine.
    t.needs("a driver that knows who goes on", t.driver == Driver::Rust);
    let moves = moves(t, |client| client.send_call(0, 0, &empty()));
    assert!(moves <= BY_CHANCE, "woken on the CPU of who goes on: {moves} of {ROUNDS}");
});

/// The flag of a waker that is about to sleep (`WF_SYNC`).
const SYNC: u32 = 0x10;

case!(scheduler_is_told_of_a_caller_who_waits, ["LOOP-6"], pair, |t, (server, client)| {
    let wakeups = Wakeups::of(t, &client);
    t.needs("the module parameter handoff=1", !booted_with("handoff="));
    server.park();
    finish(&server, &client, &client.call(&server, 0, 0, &empty()));
    assert_eq!(wakeups.flags(t.global_tid(&server)), [SYNC], "of a caller who waits");
    server.park();
    client.send(|c| c.transaction(&client.place_oneway(0, 0, &empty())));
    server.free(&server.wait_call());
    assert_eq!(wakeups.flags(t.global_tid(&server)), [SYNC, 0], "of a caller who does not");
});

/// The flags of one thread's wakeups. A probe has the flags; the next event names the woken thread.
struct Wakeups(PathBuf);

const PROBE: &str = "p:placement/wakes default_wake_function flags=$arg3:x32";
const EVENTS: [&str; 2] = ["placement/wakes", "sched/sched_waking"];

impl Wakeups {
    /// `None` without probes.
    fn of(t: &Stage, waker: &Port) -> Self {
        let root = t.directory("tracing");
        let mounted = mount(None::<&str>, &root, Some("tracefs"), MsFlags::empty(), None::<&str>);
        let has_probes = mounted.is_ok() && std::fs::write(root.join("kprobe_events"), PROBE).is_ok();
        t.needs("probes of functions", has_probes);
        let wakeups = Self(root);
        for event in EVENTS {
            wakeups.set(event, "filter", &format!("common_pid == {}", t.global_tid(waker)));
            wakeups.set(event, "enable", "1");
        }
        wakeups
    }

    fn set(&self, event: &str, file: &str, value: &str) {
        std::fs::write(self.0.join("events").join(event).join(file), value)
            .unwrap_or_else(|error| panic!("{event} {file}: {error}"));
    }

    /// The flags of each time that the thread `woken` was woken.
    fn flags(&self, woken: u32) -> Vec<u32> {
        let trace = std::fs::read_to_string(self.0.join("trace")).expect("read a trace");
        let lines: Vec<&str> = trace.lines().filter(|line| is_of_the_thread(line)).collect();
        let is_woken =
            |line: &str| line.contains("sched_waking:") && line.contains(&format!(" pid={woken} "));
        let of = |line: &str| u32::from_str_radix(line.rsplit_once("flags=0x")?.1.trim(), 16).ok();
        lines
            .windows(2)
            .filter(|two| is_woken(two[1]))
            .map(|two| of(two[0]).unwrap_or_else(|| panic!("no flags before: {two:?}")))
            .collect()
    }
}

/// Returns whether the thread itself wrote a line of a trace, and no interrupt in between.
fn is_of_the_thread(line: &str) -> bool {
    // NAME-PID [CPU] d.s3. TIME: EVENT: ... Third letter: s softirq, h or H interrupt, Z probe.
    let context = line.split_whitespace().nth(2).and_then(|flags| flags.chars().nth(2));
    !line.starts_with('#') && !matches!(context, Some('s' | 'h' | 'H'))
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        for event in EVENTS {
            self.set(event, "enable", "0");
            self.set(event, "filter", "0");
        }
        let _ = std::fs::write(self.0.join("kprobe_events"), "");
        let _ = std::fs::write(self.0.join("trace"), "");
    }
}

/// Returns whether a looper moves when another thread of its process causes a return for it.
fn is_moved(looper: &Port, wake: impl FnOnce(), told: Return) -> bool {
    sleep_there(looper);
    wake();
    looper.wait_for(told);
    has_moved(looper)
}

case!(death_notification, ["LOOP-6", "DN-1", "DN-3"], needs_the_stage, |t, ()| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &holder);
    holder.send(|c| c.request_death(handle, COOKIE));
    owner.kill();
    let looper = holder.looper();
    looper.wait_for(Return::DeadBinder(COOKIE));
    let (mut clears, mut requests) = (0, 0);
    for _ in 0..ROUNDS {
        looper.send(|c| c.dead_binder_done(COOKIE));
        let clear = || holder.send(|c| c.clear_death(handle, COOKIE));
        clears += usize::from(is_moved(&looper, clear, Return::ClearDeathNotificationDone(COOKIE)));
        let request = || holder.send(|c| c.request_death(handle, COOKIE));
        requests += usize::from(is_moved(&looper, request, Return::DeadBinder(COOKIE)));
    }
    assert!(clears <= BY_CHANCE && requests <= BY_CHANCE, "{clears} and {requests} of {ROUNDS}");
});

case!(freeze_notification, ["LOOP-6", "FRZN-1", "FRZN-4"], needs_the_stage, |t, ()| {
    let (_manager, holder) = (t.manager(), t.client());
    holder.send(|c| c.acquire(0));
    let looper = holder.looper();
    let (mut clears, mut requests) = (0, 0);
    for _ in 0..ROUNDS {
        let request = || holder.send(|c| c.request_freeze(0, COOKIE));
        requests += usize::from(is_moved(&looper, request, notification(COOKIE, 0)));
        looper.send(|c| c.freeze_done(COOKIE));
        let clear = || holder.send(|c| c.clear_freeze(0, COOKIE));
        clears += usize::from(is_moved(&looper, clear, cleared(COOKIE)));
    }
    assert!(clears <= BY_CHANCE && requests <= BY_CHANCE, "{clears} and {requests} of {ROUNDS}");
});
