// SPDX-License-Identifier: GPL-2.0
//! poll and epoll: readable exactly when a read would not wait.

use super::*;

case!(work_that_came_during_a_call_served_wakes_epoll, ["POLL-3", "POLL-4"], |t| came_during_a_call_served(
    t,
    false,
    reply_and_read
));
case!(work_that_came_during_a_call_served_is_an_edge, ["POLL-3", "POLL-4"], |t| came_during_a_call_served(
    t,
    true,
    reply_and_read
));
case!(work_that_came_before_a_deferred_completion_is_an_edge, ["POLL-4", "TXN-33"], |t| {
    came_during_a_call_served(t, true, |server| {
        let reply = BinderTransactionData { flags: super::deferred::DEFER, ..server.place(0, 0, &empty()) };
        server.send(|c| c.reply(&reply));
    })
});

const IN: u64 = libc::POLLIN as u64;
const PATIENCE_MS: u16 = 60_000;

fn ready(port: &Port) -> bool {
    port.poll(0) & IN != 0
}

case!(idle_is_not_readable, ["POLL-2"], Stage::server, |t, port| {
    // A new thread may be readable once (POLL-7); `server` has already had its first ioctl.
    assert_eq!(port.poll(0), 0);
});

case!(new_thread_may_be_readable_once, ["POLL-7", "IOCTL-3"], Stage::client, |t, port| {
    // Not settled: the driver has no record of this thread yet.
    let thread = port.used_by(Rc::new(port.actor.thread()));
    let first = thread.poll(0);
    assert_eq!(first, if t.driver == Driver::C { IN } else { 0 });
    if first == IN {
        let outcome = thread.raw(WriteReadOp { room: 256, ..Default::default() });
        assert_eq!(outcome.returns(), [Return::Noop]);
    }
    assert_eq!(thread.poll(0), 0, "from now on it is readable only with work");
});

case!(process_work_is_readable, ["POLL-2", "POLL-3"], pair, |t, (manager, client)| {
    assert!(!ready(&manager));
    client.start_call(0, 0, &empty());
    assert_eq!(manager.poll(PATIENCE_MS), IN);
    assert!(ready(&manager), "still, until it is read");
    manager.wait_call();
    assert!(!ready(&manager));
    manager.answer(&client, &empty());
});

case!(only_input_is_reported, ["POLL-2"], pair, |t, (manager, client)| {
    client.start_call(0, 0, &empty());
    // The poll also requests output and urgent data.
    assert_eq!(manager.poll(PATIENCE_MS), IN);
    manager.serve(&client);
    assert_eq!(client.drain(), []);
});

case!(own_work_is_readable, ["POLL-2"], pair, |t, (manager, client)| {
    // A refused call leaves an error on the thread.
    leave_refusal(&client);
    assert!(ready(&client));
    assert_eq!(client.drain(), [Return::FailedReply]);
    assert!(!ready(&client));
    drop(manager);
});

case!(reply_is_readable, ["POLL-2"], pair, |t, (manager, client)| {
    client.send_call(0, 0, &empty());
    assert!(!ready(&client), "the completion of a call waits for the reply");
    manager.wait_call();
    assert!(!ready(&client));
    manager.reply(&bytes(b"now"));
    assert!(ready(&client));
    client.wait_reply();
    assert!(!ready(&client));
});

case!(busy_thread_does_not_see_process_work, ["POLL-3", "LOOP-9"], |t| {
    let (manager, first, second) = (t.manager(), t.client(), t.client());
    first.call(&manager, 0, 1, &empty());
    // The thread serves a call now, so the next one is for others.
    second.start_blocking_call(0, 2, &empty());
    assert!(!ready(&manager));
    let helper = manager.looper();
    assert!(ready(&helper));
    manager.answer(&first, &empty());
    assert!(ready(&manager), "free again");
    assert_eq!(manager.wait_call().code, 2);
    manager.answer(&second, &empty());
});

case!(work_wakes_a_polling_thread, ["POLL-4"], pair, |t, (manager, client)| {
    manager.actor.start(Op::Poll { slot: manager.slot, timeout_ms: PATIENCE_MS });
    manager.actor.expect_blocked();
    client.start_call(0, 0, &empty());
    assert!(matches!(manager.actor.finish(), Answer::Number(IN)));
    manager.serve(&client);
});

/// The number of times that a thread has gone to sleep.
fn sleeps(port: &Port) -> u64 {
    let (pid, tid) = (port.actor.pid(), port.actor.tid());
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a count").trim().parse().expect("a number")
}

// Nor does it when the looper has no room for more than the one call.
case!(work_of_a_waiting_looper_wakes_no_polling_thread, ["POLL-4", "LOOP-6"], |t| {
    const ROUNDS: u64 = 16;
    let (manager, client) = (t.manager(), t.client());
    let poller = manager.thread();
    poller.actor.start(Op::Poll { slot: poller.slot, timeout_ms: u16::MAX });
    let mut woken = 0;
    for code in 0..ROUNDS as u32 {
        manager.start_raw(WriteReadOp { room: 100, ..Default::default() });
        manager.actor.expect_blocked();
        poller.actor.expect_blocked();
        let before = sleeps(&poller);
        client.start_call(0, code, &empty());
        let [Return::Noop, Return::Transaction(call)] = manager.finish_raw().returns()[..] else {
            panic!("a call was made");
        };
        poller.actor.expect_blocked();
        woken += sleeps(&poller) - before;
        finish(&manager, &client, &call);
    }
    assert!(woken < ROUNDS / 4, "woken {woken} times in {ROUNDS} rounds");
    client.start_call(0, 0, &empty());
    assert!(matches!(poller.actor.finish(), Answer::Number(IN)));
});

// Deaths that will not be notified any more leave nothing to read, however many there are.
case!(lesson_s24_deaths_that_will_not_be_told, ["POLL-2", "NODE-10"], pair, |t, (manager, owner)| {
    let nodes = parcel_of((1..=200).map(|ptr| FlatBinderObject::binder(ptr * 16, 0)));
    let call = owner.call(&manager, 0, 0, &nodes);
    let (mut requests, mut releases) = (Commands::new(), Commands::new());
    for handle in manager.objects(&call).iter().map(FlatBinderObject::handle) {
        requests.acquire(handle).request_death(handle, u64::from(handle));
        releases.release(handle);
    }
    manager.write(&requests);
    manager.free(&call);
    manager.reply(&empty());
    owner.kill();
    assert_eq!(manager.poll(PATIENCE_MS), IN, "the deaths");
    manager.write(&releases);
    assert_eq!(manager.poll(0), 0, "the deaths are withdrawn");
    assert_eq!(manager.drain(), []);
});

case!(work_wakes_epoll, ["POLL-1", "POLL-4"], pair, |t, (manager, client)| {
    let set = manager.epoll(false);
    for code in 0..10 {
        assert_eq!(manager.epoll_wait(set, 0), 0);
        manager.actor.start(Op::EpollWait { set, timeout_ms: PATIENCE_MS });
        manager.actor.expect_blocked();
        client.start_call(0, code, &empty());
        assert!(matches!(manager.actor.finish(), Answer::Number(IN)));
        assert_eq!(manager.wait_call().code, code);
        manager.answer(&client, &empty());
    }
});

// When work comes, a thread of the kernel polls again.
case!(work_wakes_asynchronous_io, ["POLL-4"], |t| {
    t.needs("CONFIG_AIO", crate::aio::is_there());
    let (manager, client) = (t.manager(), t.client());
    let poll = |timeout_ms| Op::AioPoll { slot: manager.slot, timeout_ms };
    assert_eq!(manager.actor.number(poll(0)), Ok(0), "there is nothing to read");
    for code in 0..3 {
        manager.actor.start(poll(PATIENCE_MS));
        manager.actor.expect_blocked();
        client.send(|c| c.transaction(&client.place_oneway(0, code, &empty())));
        let answer = manager.actor.finish();
        assert!(matches!(answer, Answer::Number(IN)), "{answer:?}");
        let call = manager.wait_call();
        assert_eq!(call.code, code);
        // Or the next one would wait for that.
        manager.free(&call);
        assert_eq!(manager.actor.number(poll(0)), Ok(0), "it is read");
        client.wait_for(Return::TransactionComplete);
    }
});

/// Somebody calls a thread that is busy. Its epoll set looks, and finds nothing to read.
fn call_the_busy(port: &Port, set: usize, caller: &Port) {
    caller.start_blocking_call(0, 2, &empty());
    assert_eq!(port.epoll_wait(set, 0), 0, "the call is for others");
}

/// The thread that polls can read the call that has come.
fn expect_the_call(port: &Port, set: usize, caller: &Port) {
    assert_eq!(port.epoll_wait(set, PATIENCE_MS), IN, "the thread is free again, and a call waits");
    assert_eq!(port.wait_call().code, 2);
    port.answer(caller, &empty());
}

fn came_during_a_call_served(t: &Stage, edge: bool, reply: impl Fn(&Port)) {
    let (manager, first, second) = (t.manager(), t.client(), t.client());
    first.round_trip(0, &manager, &empty(), &empty());
    let set = manager.epoll(edge);
    first.start_call(0, 1, &empty());
    assert_eq!(manager.epoll_wait(set, PATIENCE_MS), IN);
    manager.wait_call();
    call_the_busy(&manager, set, &second);
    reply(&manager);
    first.wait_reply();
    expect_the_call(&manager, set, &second);
}

/// Replies as libbinder does: with room to read that the reply is sent.
fn reply_and_read(server: &Port) {
    let reply = stream(|c| c.reply(&server.place(0, 0, &empty())));
    let outcome = server.raw(WriteReadOp { room: 256, ..WriteReadOp::of(&reply) });
    assert_eq!(outcome.returns(), [Return::Noop, Return::TransactionComplete]);
}

case!(work_that_came_during_a_call_made_wakes_epoll, ["POLL-3", "POLL-4"], |t| {
    let (manager, server, second) = (t.manager(), t.server(), t.client());
    let handle = give_in_a_call(&manager, &server, FlatBinderObject::binder(0x100, 0));
    server.settle_counts();
    let set = manager.epoll(false);
    assert_eq!(manager.epoll_wait(set, 0), 0);
    manager.send_call_to(&server, handle, 0, &empty());
    call_the_busy(&manager, set, &second);
    manager.start_raw(WriteReadOp { room: 256, ..Default::default() });
    manager.actor.expect_blocked();
    server.reply(&empty());
    let [Return::Noop, Return::TransactionComplete, Return::Reply(reply)] =
        manager.finish_raw().returns()[..]
    else {
        panic!("the server has replied");
    };
    manager.free(&reply);
    expect_the_call(&manager, set, &second);
});

case!(work_that_came_before_exit_wakes_epoll, ["POLL-3", "POLL-6"], |t| {
    let (manager, first, second) = (t.manager(), t.client(), t.client());
    let set = manager.epoll(false);
    first.start_call(0, 1, &empty());
    assert_eq!(manager.epoll_wait(set, PATIENCE_MS), IN);
    manager.wait_call();
    call_the_busy(&manager, set, &second);
    assert_eq!(manager.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    assert_eq!(first.wait_refusal(), Return::DeadReply);
    expect_the_call(&manager, set, &second);
});

case!(lesson_c01_r18_thread_exit_under_epoll, ["POLL-6"], pair, |t, (manager, client)| {
    let set = manager.epoll(false);
    for _ in 0..20 {
        assert_eq!(manager.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
        // C's next record of the thread is readable once (POLL-7).
        let readable = manager.epoll_wait(set, 0);
        assert_eq!(readable, if t.driver == Driver::C { IN } else { 0 });
    }
    // The set is still there when the device goes.
    manager.enter_looper();
    client.round_trip(0, &manager, &empty(), &empty());
});

// A thread that replies without reading makes itself readable, and an epoll set must report it.
case!(lesson_s19_own_completion_wakes_epoll, ["POLL-5", "TXN-17"], |t| own_completion_wakes(t, false));

// The test above with an edge-triggered set.
case!(lesson_s19_own_completion_is_an_edge, ["POLL-5", "TXN-17"], |t| own_completion_wakes(t, true));

fn own_completion_wakes(t: &Stage, edge: bool) {
    let (manager, client) = (t.manager(), t.client());
    let set = manager.epoll(edge);
    for code in 0..3 {
        client.start_call(0, code, &empty());
        assert_eq!(manager.epoll_wait(set, PATIENCE_MS), IN);
        assert_eq!(manager.epoll_wait(set, 0), if edge { 0 } else { IN });
        assert_eq!(manager.wait_call().code, code);
        assert_eq!(manager.epoll_wait(set, 0), 0);
        manager.send(|c| c.reply(&manager.place(0, 0, &empty())));
        assert_eq!(manager.epoll_wait(set, PATIENCE_MS), IN, "the completion of reply {code}");
        assert_eq!(manager.drain(), [Return::TransactionComplete]);
        client.wait_reply();
        assert_eq!(manager.epoll_wait(set, 0), 0);
    }
}

case!(close_under_epoll, ["POLL-6"], Stage::client, |t, client| {
    for _ in 0..8 {
        let manager = t.manager();
        let set = manager.epoll(false);
        client.start_call(0, 0, &empty());
        assert_eq!(manager.epoll_wait(set, PATIENCE_MS), IN);
        manager.give_up();
        assert_eq!(manager.epoll_wait(set, 0), 0, "a closed file leaves the set");
        assert_eq!(client.wait_refusal(), Return::DeadReply);
        manager.actor.exit();
    }
});
