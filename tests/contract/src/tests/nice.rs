// SPDX-License-Identifier: GPL-2.0
//! Nice values travel with calls: a server has its caller's nice value, or its node's demand, and
//! its own value afterwards.

use super::*;
use crate::cast::{cast, cast_with, node, opened_at, Cast};

/// A node that demands nothing.
const ANY: u32 = 19;

/// A client that holds such a node.
fn usual(t: &Stage) -> Cast {
    cast(t, ANY)
}

/// Fails if a thread has another priority than it should, unless the driver inherits none at all.
#[track_caller]
fn expect(t: &Stage, port: &Port, nice: i32) {
    let seen = port.actor.schedule();
    let why = format!("{seen:?} instead of {nice}: nice values are not inherited");
    t.known_difference(Driver::Upstream, &why, seen == Nice(nice));
}

impl Cast {
    /// One call at a nice value, served at another.
    #[track_caller]
    fn served_at(&self, t: &Stage, nice: i32, wanted: i32) {
        self.call(Nice(nice));
        expect(t, &self.server, wanted);
        self.answer();
        expect(t, &self.server, 0);
    }

    fn tell(&self) {
        self.client.tell(self.handle, 0, &empty());
    }
}

case!(call_is_served_at_the_callers, ["TXN-31"], usual, |t, cast| {
    for nice in [5, -7, 0, 18, 19, -20, 1] {
        cast.served_at(t, nice, nice);
    }
});

case!(node_demands_a_minimum, ["TXN-31", "NODE-1"], |t| {
    let cast = cast(t, 3);
    for (caller, served) in [(10, 3), (4, 3), (3, 3), (2, 2), (0, 0), (-15, -15), (19, 3)] {
        cast.served_at(t, caller, served);
    }
});

case!(plain_node_demands_zero, ["TXN-31"], |t| {
    let cast = cast(t, 0);
    for (caller, served) in [(10, 0), (0, 0), (-3, -3)] {
        cast.served_at(t, caller, served);
    }
});

case!(minimum_is_not_signed, ["TXN-31"], |t| {
    // In user space 0xec means -20; here it is no demand at all.
    let cast = cast(t, 0xec);
    for nice in [10, 0, -3] {
        cast.served_at(t, nice, nice);
    }
});

case!(first_flags_of_a_node_count, ["TXN-31", "NODE-1"], |t| {
    let cast = cast(t, 3);
    cast.server.call(&cast.manager, 0, 0, &object(node(ANY)));
    cast.manager.answer(&cast.server, &empty());
    cast.served_at(t, 10, 3);
});

case!(manager_chooses_its_minimum, ["TXN-31", "IOCTL-SET_CONTEXT_MGR_EXT"], |t| {
    let (manager, client) = (t.server(), t.client());
    manager.set_context_manager_ext(node(7)).expect("become context manager");
    let server = manager.clone();
    let cast = Cast { manager, server, client, handle: 0 };
    cast.served_at(t, 12, 7);
    cast.served_at(t, 2, 2);
});

case!(callers_counts_when_it_calls, ["TXN-31"], usual, |t, cast| {
    cast.client.actor.set_schedule(Nice(5));
    cast.client.start_blocking_call(cast.handle, 0, &empty());
    cast.client.actor.set_schedule(Nice(9));
    cast.server.wait_call();
    expect(t, &cast.server, 5);
    cast.answer();
    expect(t, &cast.server, 0);
});

case!(oneway_is_not_inherited, ["TXN-31"], usual, |t, cast| {
    for nice in [-10, 10] {
        cast.client.actor.set_schedule(Nice(nice));
        cast.tell();
        let call = cast.server.wait_call();
        expect(t, &cast.server, 0);
        cast.server.free(&call);
    }
});

case!(oneway_has_the_nodes_minimum, ["TXN-31", "LOOP-7"], |t| {
    let cast = cast_with(t, opened_at(t, Nice(10)), 4);
    cast.tell();
    let call = cast.server.wait_call();
    expect(t, &cast.server, 4);
    cast.server.free(&call);
    expect(t, &cast.server, 4);
    cast.server.park();
    expect(t, &cast.server, 10);
});

case!(chain_inherits, ["TXN-31"], usual, |t, cast| {
    let last = t.server();
    let on_last = introduce_counted(&cast.manager, &last, node(ANY), &cast.server);
    cast.call(Nice(6));
    cast.server.call(&last, on_last, 0, &empty());
    expect(t, &last, 6);
    last.reply(&empty());
    expect(t, &last, 0);
    cast.server.wait_reply();
    expect(t, &cast.server, 6);
    cast.answer();
    expect(t, &cast.server, 0);
});

case!(call_back_inherits, ["TXN-31", "TXN-11"], usual, |t, cast| {
    let back = introduce_counted(&cast.manager, &cast.client, node(ANY), &cast.server);
    cast.call(Nice(6));
    // In the middle of a chain a thread becomes more urgent, and so do the threads it waits for.
    cast.server.actor.set_schedule(Nice(-2));
    cast.server.call(&cast.client, back, 0, &empty());
    expect(t, &cast.client, -2);
    cast.client.reply(&empty());
    expect(t, &cast.client, 6);
    cast.server.wait_reply();
    expect(t, &cast.server, -2);
    cast.answer();
    expect(t, &cast.server, 0);
});

case!(reply_restores_whatever_happened, ["TXN-31", "TXN-12"], usual, |t, cast| {
    for meanwhile in [15, -15, 0] {
        cast.call(Nice(5));
        cast.server.actor.set_schedule(Nice(meanwhile));
        cast.answer();
        expect(t, &cast.server, 0);
    }
});

case!(failed_reply_restores, ["TXN-12", "TXN-25"], usual, |t, cast| {
    cast.call(Nice(5));
    let data = cast.server.place(0, 0, &empty());
    cast.server.reply_with(&BinderTransactionData { data_size: 8, buffer: cast.server.arena.end(), ..data });
    assert_eq!(cast.client.wait_refusal(), Return::FailedReply);
    expect(t, &cast.server, 0);
});

case!(reply_without_a_call_restores_nothing, ["TXN-12"], usual, |t, cast| {
    cast.served_at(t, 5, 5);
    cast.server.actor.set_schedule(Nice(7));
    cast.server.start(&stream(|c| c.reply(&cast.server.place(0, 0, &empty()))));
    assert_eq!(cast.server.wait_refusal(), Return::FailedReply);
    assert_eq!(cast.server.actor.schedule(), Nice(7));
    // Nor does a call that goes nowhere.
    assert_eq!(cast.server.refused(&cast.server.place(NO_HANDLE, 0, &empty())), Return::FailedReply);
    assert_eq!(cast.server.actor.schedule(), Nice(7));
});

case!(reply_to_the_dead_restores, ["TXN-12", "TXN-13"], usual, |t, cast| {
    cast.call(Nice(5));
    cast.client.kill();
    expect(t, &cast.server, 5);
    cast.server.write(&stream(|c| c.reply(&cast.server.place(0, 0, &empty()))));
    expect(t, &cast.server, 0);
});

case!(exit_of_the_server_restores, ["TREL-1"], usual, |t, cast| {
    cast.call(Nice(5));
    cast.server.ioctl(BINDER_THREAD_EXIT, 0i32).expect("exit");
    assert_eq!(cast.client.wait_refusal(), Return::DeadReply);
    let seen = cast.server.actor.schedule();
    let why = "a thread that exits in the middle of a call keeps its priority";
    if !t.upstream() {
        t.known_difference(Driver::C, why, seen == Nice(0));
    }
});

case!(waiting_for_the_pool_resets, ["LOOP-7"], usual, |t, cast| {
    cast.server.actor.set_schedule(Nice(9));
    cast.server.park();
    expect(t, &cast.server, 0);
    // Nothing resets a thread that waits: the next call begins from this value.
    cast.server.actor.set_schedule(Nice(11));
    cast.call(Nice(-4));
    expect(t, &cast.server, -4);
    cast.answer();
    expect(t, &cast.server, 11);
    assert_eq!(cast.server.drain(), []);
    expect(t, &cast.server, 0);
});

case!(waiting_for_a_reply_does_not, ["LOOP-7"], usual, |t, cast| {
    cast.call(Nice(9));
    cast.client.actor.expect_blocked();
    assert_eq!(cast.client.actor.schedule(), Nice(9));
    cast.answer();
    assert_eq!(cast.client.actor.schedule(), Nice(9));
});

case!(default_is_the_openers, ["OPEN-1", "LOOP-7"], |t| {
    let port = opened_at(t, Nice(4));
    port.actor.set_schedule(Nice(0));
    let looper = port.parked_looper();
    expect(t, &looper, 4);
    assert_eq!(port.actor.schedule(), Nice(0));
    port.park();
    expect(t, &port, 4);
});

case!(threads_differ, ["TXN-31"], usual, |t, cast| {
    let (other, looper) = (t.client(), cast.server.looper());
    let handle = introduce(&cast.manager, &cast.server, node(0), &other);
    cast.call(Nice(5));
    other.actor.set_schedule(Nice(-5));
    other.call(&looper, handle, 0, &empty());
    expect(t, &cast.server, 5);
    expect(t, &looper, -5);
    looper.reply(&empty());
    expect(t, &looper, 0);
    expect(t, &cast.server, 5);
    cast.answer();
});

case!(limit_of_the_server, ["TXN-31", "LSM-2"], usual, |t, cast| {
    cast.server.actor.restrict(-2, 0);
    for (caller, served) in [(-10, -2), (-2, -2), (-1, -1), (10, 10)] {
        cast.served_at(t, caller, served);
    }
});

case!(server_that_may_not_choose, ["TXN-31", "LSM-2"], usual, |t, cast| {
    cast.server.actor.restrict(20, 0);
    for caller in [-10, 10] {
        cast.served_at(t, caller, 0);
    }
});

case!(way_back_is_not_limited, ["TXN-31", "LSM-2"], |t| {
    let cast = cast_with(t, opened_at(t, Nice(-5)), ANY);
    cast.server.actor.restrict(0, 0);
    cast.call(Nice(3));
    expect(t, &cast.server, 3);
    cast.answer();
    if !t.upstream() {
        let why = "a thread whose limits do not reach so far does not get back what it had";
        t.known_difference(Driver::C, why, cast.server.actor.schedule() == Nice(-5));
    }
});

case!(policies_that_share_are_kept, ["TXN-31"], usual, |t, cast| {
    for policy in [libc::SCHED_BATCH, libc::SCHED_IDLE] {
        cast.server.park();
        cast.server.actor.set_policy(policy, 0);
        cast.call(Nice(5));
        expect(t, &cast.server, 5);
        assert_eq!(cast.server.actor.policy(), policy);
        cast.answer();
        assert_eq!(cast.server.actor.policy(), policy);
        expect(t, &cast.server, 0);
    }
});
