// SPDX-License-Identifier: GPL-2.0
//! Scheduling attributes other than nice values and real-time priorities: deadlines, utilization
//! bounds (`uclamp`), a slice of its own, and whether children inherit any of it. None of this
//! travels with calls, and a thread has all of it after a call as before.

use super::*;
use crate::cast::{cast, inheriting, node, FIFO, INHERIT};
use crate::scheduling::{Attributes, RoundRobin, Schedule};

const FIFO_30: u32 = FIFO | 30;

/// Fails if a thread is not scheduled as it should be, unless the driver inherits no such priority.
#[track_caller]
fn expect(t: &Stage, port: &Port, wanted: Schedule) {
    let seen = port.actor.schedule();
    let why = format!("{seen:?} instead of {wanted:?}: no inheritance");
    match wanted {
        Nice(_) => t.known_difference(Driver::Upstream, &why, seen == wanted),
        Fifo(_) | RoundRobin(_) => t.ours_alone(&why, seen == wanted),
    };
}

/// Gives a thread a deadline, if the guest has room for one.
fn give_a_deadline(t: &Stage, port: &Port) {
    let result = port.actor.set_attributes(Attributes::with_deadline());
    t.needs("a thread that may have a deadline", result.is_ok());
}

#[track_caller]
fn expect_deadline(port: &Port, nice: i32) {
    let (seen, set) = (port.actor.attributes(), Attributes::with_deadline());
    let of = |a: Attributes| (a.policy, a.runtime, a.deadline, a.period);
    assert_eq!(of(seen), of(set));
    assert_eq!(port.actor.nice(), nice);
}

// A caller with a deadline counts by its nice value, for nodes of any kind.
case!(deadline_is_not_inherited, ["TXN-31"], inheriting, |t, cast| {
    let object = FlatBinderObject { binder: 0x300, ..node(19) };
    let plain = introduce_counted(&cast.manager, &cast.server, object, &cast.client);
    cast.client.actor.set_schedule(Nice(7));
    give_a_deadline(t, &cast.client);
    for handle in [cast.handle, plain] {
        cast.server.park();
        cast.client.call(&cast.server, handle, 0, &empty());
        expect(t, &cast.server, Nice(7));
        assert_eq!(cast.server.actor.policy(), libc::SCHED_OTHER);
        cast.answer();
        expect(t, &cast.server, Nice(0));
        expect_deadline(&cast.client, 7);
    }
});

// A deadline stays with any caller and any demand of the node: nothing is more urgent.
case!(server_keeps_its_deadline, ["TXN-31", "TXN-12"], |t| {
    let mut cast = cast(t, INHERIT);
    cast.server.park();
    give_a_deadline(t, &cast.server);
    for caller in [Nice(5), Nice(-5), Fifo(20), RoundRobin(99)] {
        cast.call(caller);
        let served = cast.server.actor.nice();
        if let Nice(nice) = caller {
            t.known_difference(Driver::Upstream, "nice values are not inherited", served == nice);
        }
        expect_deadline(&cast.server, served);
        cast.answer();
        expect_deadline(&cast.server, 0);
        cast.server.park();
    }
    cast.client.actor.set_schedule(Nice(0));
    // It must be free to introduce the next node.
    cast.call(Nice(0));
    cast.answer();
    let object = FlatBinderObject { binder: 0x300, ..node(FIFO_30) };
    cast.handle = introduce_counted(&cast.manager, &cast.server, object, &cast.client);
    cast.server.park();
    cast.call(Nice(3));
    let served = cast.server.actor.nice();
    expect_deadline(&cast.server, served);
    cast.answer();
    expect_deadline(&cast.server, 0);
});

// A server with a deadline passes on its nice value, which is its caller's while it serves.
case!(chain_goes_on_from_a_deadline, ["TXN-31"], inheriting, |t, cast| {
    let last = t.server();
    let on_last = introduce_counted(&cast.manager, &last, node(INHERIT), &cast.server);
    cast.server.park();
    give_a_deadline(t, &cast.server);
    cast.call(Nice(6));
    cast.server.call(&last, on_last, 0, &empty());
    expect(t, &last, Nice(6));
    last.reply(&empty());
    expect(t, &last, Nice(0));
    cast.server.wait_reply();
    cast.answer();
    expect_deadline(&cast.server, 0);
});

// Only the thread itself begins or ends a deadline: one that began during a service stays.
case!(deadline_begun_while_serving_stays, ["TXN-12"], inheriting, |t, cast| {
    for caller in [Nice(4), Fifo(40)] {
        cast.server.park();
        cast.call(caller);
        give_a_deadline(t, &cast.server);
        cast.answer();
        expect_deadline(&cast.server, 0);
        cast.server.actor.set_schedule(Nice(0));
    }
});

// A thread with the flag keeps it while it serves; a thread without it has none afterwards.
case!(server_keeps_its_flag, ["TXN-31", "TXN-12"], inheriting, |t, cast| {
    let (flag, actor) = (libc::SCHED_RESET_ON_FORK, &cast.server.actor);
    for (policy, priority) in
        [(libc::SCHED_OTHER, 0), (libc::SCHED_BATCH, 0), (libc::SCHED_RR, 12), (libc::SCHED_FIFO, 1)]
    {
        for caller in [Nice(5), Nice(-5), Fifo(20), RoundRobin(1)] {
            for flag in [0, flag] {
                cast.server.park();
                actor.set_policy(policy | flag, priority);
                cast.call(caller);
                let serving = actor.policy();
                let why = format!(
                    "{serving:#x} for {caller:?}: children inherit what {policy} would not give them"
                );
                assert!(flag == 0 || actor.resets_on_fork(), "{why}");
                cast.answer();
                assert_eq!(actor.policy(), policy | flag, "after a call of {caller:?}");
                actor.set_policy(libc::SCHED_OTHER, 0);
            }
        }
    }
});

case!(flag_is_not_inherited, ["TXN-31"], |t| {
    let cast = cast(t, 19);
    let flag = libc::SCHED_RESET_ON_FORK;
    for (policy, priority) in [(libc::SCHED_OTHER, 0), (libc::SCHED_FIFO, 5)] {
        cast.server.park();
        cast.client.actor.set_policy(policy | flag, priority);
        cast.client.call(&cast.server, cast.handle, 0, &empty());
        assert_eq!(cast.server.actor.policy(), libc::SCHED_OTHER);
        cast.answer();
        assert_eq!(cast.server.actor.policy(), libc::SCHED_OTHER);
        assert_eq!(cast.client.actor.policy(), policy | flag);
    }
});

// A thread that waits for calls gets the opener's priority, and keeps its own flag.
case!(pool_keeps_its_flag, ["LOOP-7"], Stage::server, |t, server| {
    for policy in [libc::SCHED_OTHER, libc::SCHED_RR] {
        let priority = i32::from(policy == libc::SCHED_RR);
        server.actor.set_policy(policy | libc::SCHED_RESET_ON_FORK, priority);
        server.park();
        assert!(server.actor.resets_on_fork(), "{:#x} while it waits", server.actor.policy());
        server.interrupt_wait();
    }
});

// A oneway call at a real-time priority gives its thread the flag as long as it lasts, and takes
// none away.
case!(flag_outlives_oneway_calls, ["TXN-31", "LOOP-7"], |t| {
    let cast = cast(t, FIFO_30);
    let actor = &cast.server.actor;
    for flag in [0, libc::SCHED_RESET_ON_FORK, 0] {
        actor.set_policy(libc::SCHED_OTHER | flag, 0);
        for _ in 0..2 {
            cast.client.tell(cast.handle, 0, &empty());
            let call = cast.server.wait_call();
            expect(t, &cast.server, Fifo(30));
            cast.server.free(&call);
            cast.server.park();
            assert_eq!(actor.policy(), libc::SCHED_OTHER | flag, "while it waits for the next");
        }
        cast.server.interrupt_wait();
    }
});

// The bounds are a thread's own: the kernel has no way to inherit them, and changes by a driver
// must leave them alone.
case!(clamps_stay_with_their_threads, ["TXN-31", "TXN-12"], inheriting, |t, cast| {
    let set = |port: &Port, util_min, util_max| {
        let flags = Attributes::CLAMPS | Attributes::KEEP_ALL;
        port.actor.set_attributes(Attributes { flags, util_min, util_max, ..Attributes::default() })
    };
    let clamps = |port: &Port| {
        let seen = port.actor.attributes();
        (seen.util_min, seen.util_max)
    };
    cast.server.park();
    t.needs("CONFIG_UCLAMP_TASK", set(&cast.server, 100, 700) != Err(Errno::EOPNOTSUPP));
    set(&cast.client, 300, 900).expect("sched_setattr");
    for caller in [Nice(5), Fifo(20), RoundRobin(3), Nice(-5)] {
        cast.call(caller);
        assert_eq!((clamps(&cast.client), clamps(&cast.server)), ((300, 900), (100, 700)), "{caller:?}");
        cast.answer();
        assert_eq!((clamps(&cast.client), clamps(&cast.server)), ((300, 900), (100, 700)), "{caller:?}");
        cast.server.park();
    }
});

// A thread that shares may have requested a slice. It has the slice again after a call at a
// real-time priority, and keeps it during a call at another nice value.
case!(slice_of_its_own_is_kept, ["TXN-31", "TXN-12"], inheriting, |t, cast| {
    cast.server.park();
    let runtime = 1_700_000;
    cast.server.actor.set_attributes(Attributes { runtime, ..Attributes::default() }).expect("sched_setattr");
    let is_told = cast.server.actor.attributes().runtime == runtime;
    t.needs("a kernel with slices", is_told);
    for caller in [Nice(5), Fifo(20), Nice(-5)] {
        cast.call(caller);
        if let Nice(_) = caller {
            assert_eq!(cast.server.actor.attributes().runtime, runtime, "while {caller:?} is served");
        }
        cast.answer();
        assert_eq!(cast.server.actor.attributes().runtime, runtime, "after {caller:?}");
        cast.server.park();
    }
});
