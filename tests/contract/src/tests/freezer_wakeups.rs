// SPDX-License-Identifier: GPL-2.0
//! A freezer is woken when the last call of its target ends, in whichever way.

use super::freeze::if_woken;
use super::wakeups::{file, oneway_file, unwritable_read};
use super::*;

/// One who freezes the process of `target`, which has to take time because of a call.
#[track_caller]
fn freezing(t: &Stage, target: &Port) -> Freezer {
    let freezer = Freezer::of(t, target);
    freezer.start(if_woken(t));
    freezer
}

/// A thread of the manager's other than the conductor's first has a call, and was not able to read it.
fn unread(t: &Stage) -> (Port, Port, Port) {
    let (server, client) = (t.manager(), t.client());
    let helper = server.looper();
    helper.park_without_room();
    client.start_call(0, 0, &empty());
    helper.expect_no_room();
    (server, helper, client)
}

case!(the_thread_exits_with_the_call_unread, ["TXN-24", "TREL-1"], unread, |t, (server, helper, client)| {
    let freezer = freezing(t, &server);
    exit(&helper);
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    assert_eq!(freezer.finish(), Ok(()));
});

case!(the_process_dies_with_the_call_unread, ["TXN-24", "REL-2"], unread, |t, (server, _helper, client)| {
    let freezer = freezing(t, &server);
    server.kill_serving(&client);
    assert_eq!(freezer.finish(), Ok(()));
});

case!(a_call_is_undeliverable, ["TXN-24", "TXN-27"], file_pair, |t, (server, client)| {
    server.actor.limit_files(0);
    client.start_blocking_call(0, 0, &file(&client));
    let freezer = freezing(t, &server);
    server.park();
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    assert_eq!(freezer.finish(), Ok(()));
});

case!(a_oneway_call_is_undeliverable, ["TXN-24", "TXN-27"], file_pair, |t, (server, client)| {
    server.actor.limit_files(0);
    oneway_file(&client);
    let freezer = freezing(t, &server);
    server.park();
    assert_eq!(freezer.finish(), Ok(()));
});

case!(a_call_cannot_be_written, ["TXN-24", "TXN-28"], pair, |t, (server, client)| {
    client.start_blocking_call(0, 0, &empty());
    let freezer = freezing(t, &server);
    unwritable_read(&server);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    assert_eq!(freezer.finish(), Ok(()));
});

/// A client with a reply that it has not read, and who freezes it; the reply has a file or not.
fn replied(t: &Stage, reply: impl Fn(&Port) -> Parcel) -> (Port, Freezer, Port) {
    let (server, client) = (t.manager(), t.client());
    let call = client.place_flagged(0, 0, &empty(), TransactionFlags::ACCEPT_FDS);
    client.send(|c| c.transaction(&call));
    server.wait_call();
    server.reply(&reply(&server));
    let freezer = freezing(t, &client);
    (client, freezer, server)
}

case!(a_reply_is_undeliverable, ["TXN-24", "TXN-27"], |t| {
    let (client, freezer, _server) = replied(t, file);
    client.actor.limit_files(0);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    assert_eq!(freezer.finish(), Ok(()));
});

case!(the_caller_exits_with_the_reply_unread, ["TXN-24", "TREL-1"], |t| {
    let (client, freezer, _server) = replied(t, |_| empty());
    exit(&client);
    assert_eq!(freezer.finish(), Ok(()));
});

case!(the_caller_exits_with_a_call_back_unread, ["TXN-24", "TREL-1"], |t| {
    let (manager, a, b, on_b, on_a) = couple(t);
    a.send_call_to(&b, on_b, 1, &empty());
    b.start_blocking_call(on_a, 2, &empty());
    let freezer = freezing(t, &a);
    exit(&a);
    assert_eq!(b.wait_refusal(), Return::DeadReply);
    assert_eq!(freezer.finish(), Ok(()));
    b.reply(&empty());
    drop(manager);
});
