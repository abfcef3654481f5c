// SPDX-License-Identifier: GPL-2.0
//! Real-time priorities travel with calls of nodes that request it, as on Android's kernels. On C
//! and on the kernel's Rust driver, which do not have this, each test is an expected difference.

use super::*;
use crate::cast::{
    cast, cast_with, inheriting, node, opened_after, opened_at, Cast, FIFO, INHERIT_RT, NO_MINIMUM,
    ROUND_ROBIN,
};
use crate::scheduling::{share_a_cpu, RoundRobin, Schedule};

/// Fails if our driver schedules a thread in another way. Other drivers do nothing of this.
#[track_caller]
fn expect(t: &Stage, port: &Port, wanted: Schedule) {
    let seen = port.actor.schedule();
    t.ours_alone(&format!("{seen:?} instead of {wanted:?}: no inheritance"), seen == wanted);
}

impl Cast {
    /// From now on calls are for another node of the server's.
    fn retarget(&mut self, flags: u32) {
        self.client.actor.set_schedule(Nice(0));
        let node = FlatBinderObject { binder: 0x100 + u64::from(self.handle) * 0x10, ..node(flags) };
        self.handle = introduce_counted(&self.manager, &self.server, node, &self.client);
    }

    /// Calls a server that waits, and leaves it with the call: now it is the client who has to make
    /// the server urgent, before waking it.
    fn call_waiting(&self, caller: Schedule) -> BinderTransactionData {
        self.server.park();
        self.call(caller)
    }

    /// One call of a caller, served in another way by a server that comes for it, and by one that waits.
    #[track_caller]
    fn served(&self, t: &Stage, caller: Schedule, wanted: Schedule) {
        for call in [Self::call, Self::call_waiting] {
            call(self, caller);
            expect(t, &self.server, wanted);
            self.answer();
            expect(t, &self.server, Nice(0));
        }
    }

    /// Has the server exit and enter again after each interruption; returns whether it gets the
    /// call. C interrupts a thread with a call, too, and the call ends with the thread.
    fn call_outlives_its_server(&self) -> bool {
        while self.server.finish_raw().errno == Errno::EINTR {
            self.server.ioctl(BINDER_THREAD_EXIT, 0i32).expect("exit");
            self.server.enter_looper();
            self.server.start_read();
            let deadline = Instant::now() + patience();
            while !self.server.actor.answered(Duration::from_millis(1)) {
                if self.client.actor.answered(Duration::ZERO) {
                    return false;
                }
                assert!(Instant::now() < deadline, "nobody gets the call");
            }
        }
        true
    }

    /// The scheduling of the server during a oneway call.
    fn told(&self) -> Schedule {
        self.client.tell(self.handle, 0, &empty());
        let call = self.server.wait_call();
        let seen = self.server.actor.schedule();
        self.server.free(&call);
        seen
    }
}

case!(call_is_served_at_the_callers, ["TXN-31"], inheriting, |t, cast| {
    for caller in [Fifo(10), RoundRobin(7), Fifo(1), Fifo(99), RoundRobin(99), Nice(5), Nice(-5)] {
        cast.served(t, caller, caller);
    }
});

case!(counts_as_nice_zero_unless_wanted, ["TXN-31"], |t| {
    let cast = cast(t, NO_MINIMUM);
    cast.client.actor.set_schedule(Nice(5));
    cast.client.actor.set_policy(libc::SCHED_FIFO, 10);
    cast.client.call(&cast.server, cast.handle, 0, &empty());
    expect(t, &cast.server, Nice(0));
    cast.answer();
    assert_eq!(cast.server.actor.schedule(), Nice(0));
});

case!(node_demands_a_minimum, ["TXN-31", "NODE-1"], |t| {
    // The steps of binderLibTest's SchedPolicySet.
    let cast = cast(t, ROUND_ROBIN | 1);
    for nice in [0, -20, 19] {
        cast.served(t, Nice(nice), RoundRobin(1));
    }
});

case!(node_demands_a_minimum_for_oneway_calls, ["TXN-31", "LOOP-7"], |t| {
    let cast = cast(t, FIFO | 20);
    let seen = cast.told();
    t.ours_alone("oneway calls of the node are not served as it demands", seen == Fifo(20));
    cast.server.park();
    expect(t, &cast.server, Nice(0));
});

case!(more_urgent_of_two_wins, ["TXN-31"], |t| {
    let mut cast = cast(t, NO_MINIMUM);
    for (flags, caller, served) in [
        (FIFO | 10, Fifo(50), Fifo(50)),
        (FIFO | 10, RoundRobin(50), RoundRobin(50)),
        (ROUND_ROBIN | 10, Fifo(5), RoundRobin(10)),
        // Of two equals, the one that does not take turns.
        (FIFO | 10, RoundRobin(10), Fifo(10)),
        (ROUND_ROBIN | 10, Fifo(10), Fifo(10)),
    ] {
        cast.retarget(INHERIT_RT | flags);
        cast.served(t, caller, served);
        // The caller's counts as nice 0: the minimum is more.
        let minimum = if flags & FIFO != 0 { Fifo(10) } else { RoundRobin(10) };
        cast.retarget(flags);
        cast.served(t, caller, minimum);
    }
});

case!(impossible_minimum_is_a_nice_value, ["TXN-31"], |t| {
    let mut cast = cast(t, INHERIT_RT | FIFO);
    cast.served(t, Nice(10), Nice(0));
    cast.served(t, Fifo(10), Fifo(10));
    // So is one beyond the highest, which is also beyond the last nice value.
    cast.retarget(FIFO | 100);
    cast.served(t, Nice(10), Nice(10));
});

case!(manager_inherits, ["TXN-31", "IOCTL-SET_CONTEXT_MGR_EXT"], |t| {
    let (manager, client) = (t.server(), t.client());
    manager.set_context_manager_ext(node(INHERIT_RT | NO_MINIMUM)).expect("become context manager");
    let server = manager.clone();
    let cast = Cast { manager, server, client, handle: 0 };
    cast.served(t, RoundRobin(30), RoundRobin(30));
});

case!(oneway_is_not_inherited, ["TXN-31"], inheriting, |t, cast| {
    cast.client.actor.set_schedule(Fifo(40));
    assert_eq!(cast.told(), Nice(0));
});

case!(chain_inherits, ["TXN-31"], inheriting, |t, cast| {
    let (middle, last) = (t.server(), t.server());
    let on_middle = introduce(&cast.manager, &middle, node(INHERIT_RT | NO_MINIMUM), &cast.server);
    // One that is not interested is between the third and the fourth.
    let on_last = introduce_counted(&cast.manager, &last, node(NO_MINIMUM), &middle);
    middle.settle_counts();
    cast.call(Fifo(20));
    cast.server.call(&middle, on_middle, 0, &empty());
    expect(t, &middle, Fifo(20));
    middle.call(&last, on_last, 0, &empty());
    expect(t, &last, Nice(0));
    last.answer(&middle, &empty());
    middle.reply(&empty());
    expect(t, &middle, Nice(0));
    cast.server.wait_reply();
    expect(t, &cast.server, Fifo(20));
    cast.answer();
    expect(t, &cast.server, Nice(0));
});

case!(call_back_inherits, ["TXN-31", "TXN-11"], |t| {
    let cast = cast(t, INHERIT_RT | FIFO | 60);
    let back = introduce_counted(&cast.manager, &cast.client, node(INHERIT_RT | NO_MINIMUM), &cast.server);
    cast.call(Nice(3));
    // The node's minimum travels on as if the server had it of its own.
    cast.server.call(&cast.client, back, 0, &empty());
    expect(t, &cast.server, Fifo(60));
    expect(t, &cast.client, Fifo(60));
    cast.client.reply(&empty());
    expect(t, &cast.client, Nice(3));
    cast.server.wait_reply();
    cast.answer();
    expect(t, &cast.server, Nice(0));
});

case!(reply_restores_whatever_happened, ["TXN-31", "TXN-12"], inheriting, |t, cast| {
    for meanwhile in [Nice(15), RoundRobin(3), Fifo(90)] {
        cast.call(Fifo(5));
        cast.server.actor.set_schedule(meanwhile);
        cast.answer();
        expect(t, &cast.server, Nice(0));
    }
});

case!(exit_of_the_server_restores, ["TREL-1"], inheriting, |t, cast| {
    cast.call(Fifo(5));
    cast.server.ioctl(BINDER_THREAD_EXIT, 0i32).expect("exit");
    assert_eq!(cast.client.wait_refusal(), Return::DeadReply);
    expect(t, &cast.server, Nice(0));
});

// A serving thread, whose device another one closes, loses its caller's priority.
case!(close_by_another_thread_restores, ["TREL-1", "REL-1"], inheriting, |t, cast| {
    let other = cast.server.thread();
    cast.call(Fifo(5));
    expect(t, &cast.server, Fifo(5));
    other.give_up();
    assert_eq!(cast.client.wait_refusal(), Return::DeadReply);
    expect(t, &cast.server, Nice(0));
});

case!(restores_what_was_real_time, ["TXN-12"], inheriting, |t, cast| {
    // The policy while it waits is restored, with the flag.
    cast.server.park();
    cast.server.actor.set_policy(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 12);
    cast.call(Nice(4));
    expect(t, &cast.server, Nice(4));
    cast.answer();
    assert_eq!(cast.server.actor.schedule(), RoundRobin(12));
    assert!(cast.server.actor.resets_on_fork());
});

case!(waiting_for_the_pool_resets, ["LOOP-7", "OPEN-1"], Stage::server, |t, ordinary| {
    ordinary.actor.set_schedule(Fifo(7));
    ordinary.park();
    expect(t, &ordinary, Nice(0));
    let urgent = opened_at(t, RoundRobin(3));
    urgent.actor.set_schedule(Nice(2));
    urgent.park();
    expect(t, &urgent, RoundRobin(3));
});

// After a oneway call a thread that was real-time gets the priority of the device's opener.
case!(opener_that_shares_is_the_default, ["LOOP-7", "OPEN-1"], pair, |t, (manager, client)| {
    for policy in [libc::SCHED_BATCH, libc::SCHED_IDLE] {
        let server = opened_after(t, |actor| actor.set_policy(policy, 0));
        let handle = introduce_counted(&manager, &server, node(FIFO | 20), &client);
        let cast = Cast { manager: manager.clone(), server, client: client.clone(), handle };
        let seen = cast.told();
        t.ours_alone("oneway calls of the node are not served as it demands", seen == Fifo(20));
        cast.server.park();
        assert_eq!(cast.server.actor.policy(), policy);
    }
});

// While it serves, a thread's policy reads as on Android's kernels: with the flag that keeps it
// from children.
case!(lesson_s15_policy_is_inherited_by_one_thread_alone, ["TXN-31"], inheriting, |t, cast| {
    for (caller, policy) in [(Fifo(5), libc::SCHED_FIFO), (RoundRobin(6), libc::SCHED_RR)] {
        cast.call(caller);
        expect(t, &cast.server, caller);
        let seen = cast.server.actor.policy();
        let why = format!("policy {seen:#x} while a call of {caller:?} is served");
        t.ours_alone(&why, seen == policy | libc::SCHED_RESET_ON_FORK);
        let child = cast.server.actor.fork();
        assert_eq!((child.schedule(), child.policy()), (Nice(0), libc::SCHED_OTHER));
        cast.answer();
        assert_eq!(cast.server.actor.policy(), libc::SCHED_OTHER);
    }
});

case!(limit_of_the_server, ["TXN-31", "LSM-2"], inheriting, |t, cast| {
    cast.server.actor.restrict(0, 5);
    cast.served(t, Fifo(50), Fifo(5));
    cast.served(t, RoundRobin(3), RoundRobin(3));
});

case!(server_without_a_limit_gets_the_best_it_may, ["TXN-31", "LSM-2"], |t| {
    let some = cast(t, INHERIT_RT | NO_MINIMUM);
    some.server.actor.restrict(-5, 0);
    some.served(t, Fifo(50), Nice(-5));
});

case!(server_keeps_what_it_has, ["TXN-31", "LSM-2"], |t| {
    let cast = cast_with(t, opened_at(t, Fifo(30)), INHERIT_RT | NO_MINIMUM);
    cast.server.actor.restrict(20, 0);
    for (caller, served) in [(Fifo(50), Fifo(30)), (RoundRobin(10), Fifo(10)), (Nice(7), Nice(0))] {
        cast.call(caller);
        expect(t, &cast.server, served);
        cast.answer();
        expect(t, &cast.server, Fifo(30));
    }
});

// Client and server share a CPU with a thread that is more urgent than the server, but not than the
// client: it must not run between the two.
case!(server_is_raised_before_it_runs, ["TXN-31"], on_the_second_cpu, |t, ()| {
    let cast = cast(t, INHERIT_RT | NO_MINIMUM);
    let bystander = Actor::new();
    share_a_cpu([&*cast.client.actor, &*cast.server.actor, &bystander]);
    let arena = cast.client.arena.clone();
    let count = Count::new(&arena);
    let (clients, servers) = (count.watch(&arena), count.watch(&arena));

    cast.server.start_watching(&Commands::new(), servers);
    cast.server.actor.expect_blocked();
    cast.client.actor.set_schedule(Fifo(50));
    bystander.set_schedule(Fifo(20));
    count.begin(&bystander);
    let commands = stream(|c| c.transaction(&cast.client.place(cast.handle, 0, &empty())));
    cast.client.start_watching(&commands, clients);
    // A server that is not raised gets to run when the bystander has ended.
    let _ = cast.server.actor.answered(Duration::from_millis(300));
    count.end(&bystander);
    cast.server.wait_call();
    cast.answer();
    let (sent, received) = counted(clients, servers);
    assert!(sent > 0);
    let why = format!("the bystander counted from {sent} to {received} while a call was on its way");
    t.ours_alone(&why, sent == received);
});

// A signal wakes the server between its choice for a call and the call. The server then exits, if
// it can.
case!(signals_do_not_come_between, ["TXN-31", "WR-7"], inheriting, |t, cast| {
    cast.client.actor.set_schedule(Fifo(20));
    for _ in 0..t.tries(300) {
        if !cast.server.actor.is_busy() {
            cast.server.park();
        }
        cast.client.start_call(cast.handle, 0, &empty());
        cast.server.actor.interrupt();
        if cast.call_outlives_its_server() {
            expect(t, &cast.server, Fifo(20));
            cast.answer();
            expect(t, &cast.server, Nice(0));
        } else {
            assert_eq!(cast.client.wait_refusal(), Return::DeadReply);
        }
    }
});

// A thread is chosen for a call back while the target of its own call dies. It reads of one first,
// and of the other afterwards: a call back that comes late is for another thread.
case!(death_does_not_come_between, ["TXN-31", "TXN-26"], manager_and_server, |t, (last, first)| {
    let on_first = give_in_a_call(&last, &first, node(INHERIT_RT | NO_MINIMUM));
    first.settle_counts();
    let other = first.looper();
    for round in 0..10 {
        let middle = t.server();
        let object = FlatBinderObject::binder(0x1000 + round * 16, 0);
        let on_middle = introduce_counted(&last, &middle, object, &first);
        first.call(&middle, on_middle, 0, &empty());
        middle.call(&last, 0, 0, &empty());
        if !other.actor.is_busy() {
            other.park();
        }
        first.actor.expect_blocked();
        last.actor.set_schedule(Fifo(20));
        last.start_call(on_first, 7, &empty());
        middle.kill();
        let mut told = first.finish_raw().returns();
        told.retain(|item| matches!(item, Return::Transaction(_) | Return::DeadReply));
        match told[..] {
            [Return::Transaction(_)] => {
                first.answer(&last, &empty());
                last.reply(&empty());
                assert_eq!(first.wait_refusal(), Return::DeadReply);
            }
            [Return::DeadReply] => {
                assert_eq!(first.drain(), [], "after the death");
                assert_eq!(other.wait_call().code, 7);
                other.answer(&last, &empty());
                last.reply(&empty());
            }
            _ => panic!("{told:?}"),
        }
        first.send(|c| c.release(on_middle));
    }
});

// A call that cannot be written to the server leaves it as it was.
case!(undelivered_call_restores, ["TXN-31", "TXN-27"], inheriting, |t, cast| {
    cast.client.actor.set_schedule(Fifo(20));
    let read_buffer = Some(BAD_ADDRESS);
    cast.server.start_raw(WriteReadOp { room: ROOM, read_buffer, read_consumed: 4, ..Default::default() });
    cast.server.actor.expect_blocked();
    cast.client.start_call(cast.handle, 0, &empty());
    assert_eq!(cast.server.finish_raw().errno, Errno::EFAULT);
    assert_eq!(cast.client.wait_refusal(), Return::FailedReply);
    assert_eq!(cast.server.actor.schedule(), Nice(0));
});
