// SPDX-License-Identifier: GPL-2.0
//! `TF_DEFER_COMPLETE` of Linux 7.4: the completion of a reply ends no wait.

use super::*;

pub(super) const DEFER: u32 = TransactionFlags::DEFER_COMPLETE.bits();
/// The drivers of Linux 7.3 ignore the flag.
const NO_FLAG: &str = "a completion is never deferred";
const COMPLETE: Return = Return::TransactionComplete;

fn flagged(data: BinderTransactionData) -> BinderTransactionData {
    BinderTransactionData { flags: data.flags | DEFER, ..data }
}

fn flagged_oneway(sender: &Port) -> BinderTransactionData {
    flagged(sender.place_oneway(0, 7, &empty()))
}

fn flagged_reply(server: &Port) -> Commands {
    stream(|c| c.reply(&flagged(server.place(0, 0, &empty()))))
}

/// A server that has one call to reply to, and its caller, which waits.
fn serving(t: &Stage) -> (Port, Port) {
    let (server, client) = (t.manager(), t.client());
    server.free(&client.call(&server, 0, 0, &empty()));
    (server, client)
}

/// Replies with the flag and reads. Returns whether the thread waits then, as it has to with our
/// driver; the test is over if not.
#[track_caller]
fn waits_after_reply(t: &Stage, server: &Port, client: &Port) -> bool {
    server.start(&flagged_reply(server));
    client.wait_reply();
    if !t.ours_alone(NO_FLAG, server.actor.is_blocked()) {
        server.wait_for(COMPLETE);
        return false;
    }
    true
}

/// Checks that the items are completions, and behind them a call. Returns the call.
#[track_caller]
fn completions_and_call(items: &[Return], completions: usize) -> BinderTransactionData {
    assert_eq!(items.len(), completions + 1, "{items:?}");
    assert!(items[..completions].iter().all(|item| *item == COMPLETE), "{items:?}");
    call_of(&items[completions]).expect("a call")
}

case!(reply_of_a_server_takes_one_ioctl_a_call, ["TXN-33"], serving, |t, (server, client)| {
    for _ in 0..3 {
        if !waits_after_reply(t, &server, &client) {
            return;
        }
        client.start_blocking_call(0, 0, &empty());
        server.free(&completions_and_call(&server.finish_read(), 1));
    }
    server.answer(&client, &empty());
});

case!(oneway_by_accident_from_outside_of_the_pool, ["TXN-33", "TXN-16"], pair, |_t, (server, client)| {
    client.start_transaction(&flagged_oneway(&client));
    assert_eq!(client.finish_read(), [COMPLETE], "it returns before it would wait");
    server.free(&server.wait_call());
});

case!(oneway_by_accident_in_the_pool, ["TXN-33", "TXN-16"], manager_and_server, |t, (server, looper)| {
    looper.start_transaction(&flagged_oneway(&looper));
    assert_eq!(looper.finish_read(), [COMPLETE]);
    server.free(&server.wait_call());
});

case!(oneway_by_accident_while_serving, ["TXN-33", "TXN-16"], trio, |t, (manager, owner, client)| {
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &client);
    owner.free(&client.call(&owner, handle, 0, &empty()));
    owner.start_transaction(&flagged_oneway(&owner));
    assert_eq!(owner.finish_read(), [COMPLETE]);
    owner.answer(&client, &empty());
    manager.free(&manager.wait_call());
});

case!(oneway_by_accident_before_a_call, ["TXN-33", "TXN-16"], pair, |_t, (server, client)| {
    client.send(|c| c.transaction(&flagged_oneway(&client)));
    client.start_transaction(&client.place(0, 0, &empty()));
    assert_eq!(client.finish_read(), [COMPLETE, COMPLETE], "it does not wait for the reply");
    server.free(&server.wait_call());
    finish(&server, &client, &server.wait_call());
});

case!(reply_behind_a_oneway_call_is_not_deferred, ["TXN-33"], trio, |t, (server, other, client)| {
    let handle = give_in_a_call(&server, &other, FlatBinderObject::binder(0x10, 0x20));
    server.free(&client.call(&server, 0, 0, &empty()));
    let mut commands = stream(|c| c.transaction(&flagged(server.place_oneway(handle, 0, &empty()))));
    commands.reply(&flagged(server.place(0, 0, &empty())));
    server.start(&commands);
    assert_eq!(server.finish_read(), [COMPLETE, COMPLETE]);
    client.wait_reply();
    other.free(&other.wait_call());
});

case!(reply_during_a_call, ["TXN-33", "TXN-26"], pair, |t, (server, client)| {
    let handle = give_in_a_call(&server, &client, FlatBinderObject::binder(0x10, 0x20));
    server.free(&client.call(&server, 0, 0, &empty()));
    // The server calls back, and waits for the reply when the outer call has its own.
    client.free(&server.call(&client, handle, 0, &empty()));
    client.start(&flagged_reply(&client));
    server.free(&server.wait_reply());
    let waits = t.ours_alone(NO_FLAG, client.actor.is_blocked());
    server.reply(&empty());
    if waits {
        let items = client.finish_read();
        assert!(matches!(items[..], [COMPLETE, Return::Reply(_)]), "{items:?}");
    } else {
        client.wait_reply();
    }
});

case!(failed_reply_is_not_deferred, ["TXN-33", "TXN-25"], pair, |_t, (server, client)| {
    // Its thread has the place for a completion since the first one.
    client.round_trip(0, &server, &empty(), &empty());
    server.free(&client.call(&server, 0, 0, &empty()));
    let reply = BinderTransactionData { data_size: 8 << 20, ..server.place(0, 0, &empty()) };
    server.start(&stream(|c| c.reply(&flagged(reply))));
    assert_eq!(server.finish_read(), [COMPLETE]);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
});

case!(failed_reply_with_objects_is_not_deferred, ["TXN-33", "TXN-25"], serving, |_t, (server, client)| {
    let reply = server.place(0, 0, &object(FlatBinderObject::strong_handle(NO_HANDLE)));
    server.start(&stream(|c| c.reply(&flagged(reply))));
    assert_eq!(server.finish_read(), [COMPLETE]);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
});

case!(node_update_is_read_with_its_completion, ["TXN-33", "NODE-7"], serving, |_t, (server, client)| {
    let node = FlatBinderObject::binder(0x10, 0x20);
    let id = BinderPtrCookie { ptr: 0x10, cookie: 0x20 };
    server.start(&stream(|c| c.reply(&flagged(server.place(0, 0, &object(node))))));
    assert_eq!(server.finish_read(), [Return::Increfs(id), Return::Acquire(id), COMPLETE]);
    client.wait_reply();
});

case!(frozen_receiver_is_not_deferred, ["TXN-33", "TXN-16"], pair, |t, (server, client)| {
    let freezer = Freezer::frozen(t, &server);
    assert_eq!(client.completion(&flagged_oneway(&client)), Return::TransactionPendingFrozen);
    assert_eq!(freezer.thaw(), Ok(()));
    server.free(&server.wait_call());
});

case!(poll_waits_for_work, ["TXN-33", "POLL-2"], serving, |t, (server, client)| {
    const IN: u64 = libc::POLLIN as u64;
    assert_eq!(server.poll(0), 0);
    server.write(&flagged_reply(&server));
    client.wait_reply();
    if !t.ours_alone(NO_FLAG, server.poll(0) == 0) {
        return;
    }
    server.nonblocking(true);
    assert_eq!(server.raw(WriteReadOp { room: ROOM, ..Default::default() }).errno, Errno::EAGAIN);
    client.start_blocking_call(0, 0, &empty());
    assert_eq!(server.poll(60_000), IN);
    server.free(&completions_and_call(&server.read_once(), 1));
    server.nonblocking(false);
    server.answer(&client, &empty());
});

case!(poll_finds_work_that_came_while_serving, ["TXN-33", "POLL-4"], serving, |t, (server, client)| {
    const IN: u64 = libc::POLLIN as u64;
    let other = t.client();
    assert_eq!(server.poll(0), 0);
    other.start_blocking_call(0, 0, &empty());
    assert_eq!(server.poll(0), 0, "it serves another call");
    server.write(&flagged_reply(&server));
    client.wait_reply();
    assert_eq!(server.poll(60_000), IN);
    let items = server.read_once();
    if t.ours_alone(NO_FLAG, items.len() == 2) {
        server.free(&completions_and_call(&items, 1));
    } else {
        server.free(&server.wait_call());
    }
    server.answer(&other, &empty());
});

case!(signal_leaves_it_unread, ["TXN-33", "WR-7"], serving, |t, (server, client)| {
    if !waits_after_reply(t, &server, &client) {
        return;
    }
    server.interrupt_wait();
    client.start_call(0, 0, &empty());
    server.free(&completions_and_call(&server.read_once(), 1));
    server.answer(&client, &empty());
});

case!(exit_with_it_unread, ["TXN-33", "TREL-1"], serving, |t, (server, client)| {
    server.write(&flagged_reply(&server));
    client.wait_reply();
    server.ioctl(BINDER_THREAD_EXIT, 0u32).expect("exit");
    server.forgets_completions();
    client.start_blocking_call(0, 0, &empty());
    finish(&server, &client, &server.wait_call());
    assert_eq!(server.passed(), [], "{}", t.driver.module());
});

case!(unread_one_does_not_keep_from_freezing, ["TXN-33", "FRZ-2"], serving, |t, (server, client)| {
    let freezer = Freezer::of(t, &server);
    server.write(&flagged_reply(&server));
    client.wait_reply();
    assert_eq!(freezer.freeze(0), Ok(()));
    assert_eq!(freezer.thaw(), Ok(()));
    client.start_blocking_call(0, 0, &empty());
    finish(&server, &client, &server.wait_call());
});

case!(thread_is_requested_with_the_next_call, ["TXN-33", "LOOP-5"], pair, |t, (server, client)| {
    server.free(&client.call(&server, 0, 0, &empty()));
    server.ioctl(BINDER_SET_MAX_THREADS, 1u32).expect("set the limit");
    if !waits_after_reply(t, &server, &client) {
        server.ignore_passed();
        return;
    }
    client.start_blocking_call(0, 0, &empty());
    let items = server.finish_raw().returns();
    assert_eq!(items[0], Return::SpawnLooper, "{items:?}");
    server.free(&completions_and_call(&items[1..], 1));
    server.answer(&client, &empty());
});

case!(call_behind_it_is_served_before_another_is_made, ["TXN-33", "TXN-10"], |t| {
    let (server, other, client) = (t.manager(), t.server(), t.client());
    let handle = give_in_a_call(&server, &other, FlatBinderObject::binder(0x10, 0x20));
    server.free(&client.call(&server, 0, 0, &empty()));
    server.start_raw(WriteReadOp { room: 40, ..WriteReadOp::of(&flagged_reply(&server)) });
    client.wait_reply();
    if !t.ours_alone(NO_FLAG, server.actor.is_blocked()) {
        server.finish_raw();
        return;
    }
    client.start_blocking_call(0, 0, &empty());
    server.expect_no_room();
    server.start_call(handle, 0, &empty());
    let call = completions_and_call(&server.finish_read(), 1);
    assert_eq!(server.read_once(), [Return::FailedReply]);
    finish(&server, &client, &call);
});

case!(parameter_switches_it_off, ["TXN-33"], serving, |t, (server, client)| {
    let file = t.driver.parameter("defer_complete");
    if !t.ours_alone(NO_FLAG, file.exists()) {
        return;
    }
    let _off = Limit::at(file, 0);
    server.start(&flagged_reply(&server));
    assert_eq!(server.finish_read(), [COMPLETE]);
    client.wait_reply();
});
