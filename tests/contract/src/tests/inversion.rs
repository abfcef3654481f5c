// SPDX-License-Identifier: GPL-2.0
//! Priority inversion: a client, servers and a real-time bystander between them in urgency share
//! one CPU. The bystander counts as long as it runs. The client reads its count before and after a
//! call, so no clock is involved.

use super::*;
use crate::cast::{cast, node, Cast, FIFO, INHERIT, NO_MINIMUM};
use crate::ops::Watch;
use crate::scheduling::share_a_cpu;

const FIFO_30: u32 = FIFO | 30;
/// The work of a server for a call: it copies so much.
const WORK: usize = 1 << 16;

/// A `BINDER_WRITE_READ` of a port, one of several.
fn step(port: &Port, commands: &Commands, room: usize, watch: Option<Watch>) -> Op {
    let args = WriteReadOp { room, watch, ..WriteReadOp::of(commands) };
    Op::WriteRead { slot: port.slot, args }
}

/// A server serves so many calls by itself: it takes one, works, may call on, works, and replies.
fn serve(port: &Port, calls: usize, on: Option<u32>) {
    let ops = (0..calls).flat_map(|_| service(port, on)).collect();
    port.actor.start(Op::InTurn { ops });
    port.actor.expect_blocked();
}

fn service(port: &Port, on: Option<u32>) -> Vec<Op> {
    let (from, to) = (port.arena.reserve(WORK), port.arena.reserve(WORK));
    let work = || Op::Copy { from, to, length: WORK };
    let mut ops = vec![step(port, &Commands::new(), ROOM, None), work()];
    if let Some(handle) = on {
        let call = stream(|c| c.transaction(&port.place(handle, 0, &empty())));
        ops.extend([step(port, &call, ROOM, None), work()]);
    }
    ops.push(step(port, &stream(|c| c.reply(&port.place(0, 0, &empty()))), ROOM, None));
    ops
}

/// The codes that a port has read in all its steps.
fn read_by(port: &Port) -> Vec<Return> {
    let Answer::All(answers) = port.actor.finish() else { panic!("several answers") };
    let read = |answer| match answer {
        Answer::WriteRead { errno: 0, read_consumed, returns, .. } => {
            returns[..read_consumed as usize].to_vec()
        }
        Answer::Number(_) => Vec::new(),
        other => panic!("{other:?}"),
    };
    let bytes: Vec<u8> = answers.into_iter().flat_map(read).collect();
    Returns::new(&bytes).map(|item| item.expect("whole items")).collect()
}

/// A chain of three, all on CPU 0, with a bystander.
struct Chain {
    cast: Cast,
    last: Port,
    on_last: u32,
    bystander: Actor,
}

impl Chain {
    /// The second hop is to a node with these flags.
    fn new(t: &Stage, flags: u32) -> Self {
        let cast = cast(t, INHERIT);
        let last = t.server();
        let on_last = introduce_counted(&cast.manager, &last, node(flags), &cast.server);
        let bystander = Actor::new();
        share_a_cpu([&*cast.client.actor, &*cast.server.actor, &*last.actor, &bystander]);
        cast.client.actor.set_schedule(Fifo(50));
        bystander.set_schedule(Fifo(20));
        Self { cast, last, on_last, bystander }
    }

    /// The bystander's count when the client calls, and when it has its reply.
    fn call(&self) -> (u64, u64) {
        let Self { cast, last, on_last, bystander } = self;
        let arena = &cast.client.arena;
        let count = Count::new(arena);
        serve(last, 1, None);
        serve(&cast.server, 1, Some(*on_last));
        count.begin(bystander);
        let call = stream(|c| c.transaction(&cast.client.place(cast.handle, 0, &empty())));
        let (watch, client) = (count.watch(arena), &cast.client);
        client.actor.start(Op::InTurn { ops: vec![step(client, &call, ROOM, Some(watch))] });
        // If the bystander keeps a server from running, the call ends after the bystander.
        let _ = client.actor.answered(Duration::from_millis(300));
        count.end(bystander);
        let is_reply = |item: &Return| matches!(item, Return::Reply(_));
        assert!(read_by(client).iter().any(is_reply), "the client has no reply");
        assert!(read_by(&cast.server).iter().any(is_reply), "the first server has no reply");
        read_by(last);
        for server in [&cast.server, last] {
            assert_eq!(server.actor.schedule(), Nice(0));
            server.forgets_completions();
        }
        counted(watch, watch)
    }
}

// A call of a call of an urgent client: not once does the bystander run between the call and its reply.
case!(nobody_comes_between_two_hops, ["TXN-31", "TXN-12"], on_the_second_cpu, |t, ()| {
    let chain = Chain::new(t, INHERIT);
    for _ in 0..t.tries(20) {
        let (before, after) = chain.call();
        assert!(before > 0);
        let why = format!("the bystander counted from {before} to {after} while two servers served a call");
        if !t.ours_alone(&why, before == after) {
            return;
        }
    }
});

// A oneway call has no waiting caller, but its node may demand a priority, before the wakeup.
case!(nobody_comes_before_a_oneway_call, ["TXN-31"], on_the_second_cpu, |t, ()| {
    let cast = cast(t, FIFO_30);
    let bystander = Actor::new();
    share_a_cpu([&*cast.client.actor, &*cast.server.actor, &bystander]);
    cast.client.actor.set_schedule(Fifo(50));
    bystander.set_schedule(Fifo(20));
    let commands = stream(|c| c.transaction(&cast.client.place_oneway(cast.handle, 0, &empty())));
    let arena = &cast.client.arena;
    for _ in 0..t.tries(20) {
        let count = Count::new(arena);
        let (clients, servers) = (count.watch(arena), count.watch(arena));
        cast.server.start_watching(&Commands::new(), servers);
        cast.server.actor.expect_blocked();
        assert_eq!(cast.server.actor.schedule(), Nice(0));
        count.begin(&bystander);
        cast.client.start_watching(&commands, clients);
        // A server that is not raised gets to run when the bystander has ended.
        let _ = cast.server.actor.answered(Duration::from_millis(300));
        count.end(&bystander);
        cast.client.wait_for(Return::TransactionComplete);
        cast.server.free(&cast.server.wait_call());
        let (sent, received) = counted(clients, servers);
        let why = format!("the bystander counted from {sent} to {received} during a oneway call");
        if !t.ours_alone(&why, sent == received) {
            return;
        }
        assert_eq!(cast.server.actor.schedule(), Fifo(30));
    }
});

// The counterpart: a second hop that does not inherit waits for the bystander, on all drivers.
case!(one_who_does_not_inherit_lets_others_between, ["TXN-31"], on_the_second_cpu, |t, ()| {
    let chain = Chain::new(t, NO_MINIMUM);
    let counted: Vec<_> = (0..3).map(|_| chain.call()).collect();
    assert!(counted.iter().any(|(before, after)| before < after), "{counted:?}: the bystander did not run");
});

/// The counts of the bystander for each time that an urgent client makes two calls without a pause
/// to a process whose threads take so many calls each.
fn counted_in_two_calls(t: &Stage, calls_of_threads: &[usize], rounds: u32) -> Vec<(u64, u64)> {
    let cast = cast(t, INHERIT);
    let threads: Vec<_> = std::iter::once(cast.server.clone())
        .chain((1..calls_of_threads.len()).map(|_| cast.server.looper()))
        .collect();
    let bystander = Actor::new();
    share_a_cpu(threads.iter().map(|port| &*port.actor).chain([&*cast.client.actor, &bystander]));
    cast.client.actor.set_schedule(Fifo(50));
    bystander.set_schedule(Fifo(20));
    let pool: Vec<_> = threads.iter().zip(calls_of_threads.iter().copied()).collect();
    (0..rounds).map(|_| two_calls(&cast, &pool, &bystander)).collect()
}

fn two_calls(cast: &Cast, pool: &[(&Port, usize)], bystander: &Actor) -> (u64, u64) {
    for (port, calls) in pool {
        serve(port, *calls, None);
    }
    let (client, arena) = (&cast.client, &cast.client.arena);
    let count = Count::new(arena);
    count.begin(bystander);
    let call = stream(|c| c.transaction(&client.place(cast.handle, 0, &empty())));
    let watches = [(); 2].map(|()| count.watch(arena));
    let ops = watches.map(|watch| step(client, &call, ROOM, Some(watch))).into();
    client.actor.start(Op::InTurn { ops });
    // If a server is kept from running, it runs when the bystander has ended.
    let _ = client.actor.answered(Duration::from_millis(300));
    count.end(bystander);
    assert_eq!(read_by(client).into_iter().filter(|item| matches!(item, Return::Reply(_))).count(), 2);
    for (port, _) in pool {
        read_by(port);
        port.forgets_completions();
    }
    counted(watches[0], watches[1])
}

// A thread that has replied is no longer urgent, and may take long to come back. The next call goes
// to another one that sleeps.
case!(one_thread_more_than_callers_is_enough, ["TXN-31", "TXN-12"], on_the_second_cpu, |t, ()| {
    for (before, after) in counted_in_two_calls(t, &[1, 1], 1) {
        let why = format!("the bystander counted from {before} to {after} during two calls");
        t.ours_alone(&why, before == after);
    }
});

// If no thread sleeps, the driver cannot raise the one that will take the call: the bystander runs
// first. The kernel may give sharing threads their part at that moment, hence several rounds.
case!(one_who_is_still_busy_lets_others_between, ["TXN-31", "TXN-12"], on_the_second_cpu, |t, ()| {
    let counted = counted_in_two_calls(t, &[2], 3);
    assert!(counted.iter().any(|(before, after)| before < after), "{counted:?}: the bystander did not run");
});

// The real-time limit throttles a server that serves an urgent caller and never sleeps, like any
// thread of its priority: an ordinary thread gets its part of the CPU, and then ends the call.
case!(server_that_never_sleeps_lets_others_run, ["TXN-31", "TXN-12"], |t| {
    let microseconds = PathBuf::from("/proc/sys/kernel/sched_rt_runtime_us");
    t.needs("a limit of real-time threads that may be set", microseconds.exists());
    let _limit = Limit::at(microseconds, 950_000);
    on_the_second_cpu(t);
    let cast = cast(t, INHERIT);
    let other = Actor::new();
    share_a_cpu([&*cast.client.actor, &*cast.server.actor, &other]);
    cast.call(Fifo(50));
    let arena = &cast.client.arena;
    let (of_server, of_other) = (Count::new(arena), Count::new(arena));
    of_server.begin(&cast.server.actor);
    let seen = cast.server.actor.schedule();
    t.ours_alone(&format!("{seen:?} instead of Fifo(50): no inheritance"), seen == Fifo(50));
    // A server that had the CPU to itself would prevent this.
    of_other.begin(&other);
    of_other.end(&other);
    of_server.end(&cast.server.actor);
    cast.answer();
    assert_eq!((cast.server.actor.schedule(), cast.client.actor.schedule()), (Nice(0), Fifo(50)));
});
