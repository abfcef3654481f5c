// SPDX-License-Identifier: GPL-2.0
//! `TF_UPDATE_TXN`: a oneway call to a frozen process takes the place of an equal one that waits.

use super::freeze::hear;
use super::*;

/// Sends a oneway call, which has to wait for a frozen process.
#[track_caller]
fn tell(client: &Port, code: u32, data: &[u8], flags: TransactionFlags) {
    let call = client.place_flagged(0, code, &bytes(data), flags);
    client.tell_with(&call, Return::TransactionPendingFrozen);
}

#[track_caller]
fn update(client: &Port, code: u32, data: &[u8]) {
    tell(client, code, data, UPDATE);
}

/// A frozen manager whose node is busy with a oneway call that it has read.
fn busy(t: &Stage) -> (Port, Port, Freezer, BinderTransactionData) {
    let (server, client) = (t.manager(), t.client());
    client.tell(0, 0, &bytes(b"busy"));
    let call = server.wait_call();
    let freezer = Freezer::frozen(t, &server);
    (server, client, freezer, call)
}

/// Sends two equal updates to a process that is not frozen, whose node is busy: "one", and "two".
#[track_caller]
fn queue_behind(client: &Port) {
    for word in [b"one", b"two"] {
        let call = client.place_flagged(0, 1, &bytes(word), UPDATE);
        client.tell_with(&call, Return::TransactionComplete);
    }
}

/// Thaws the server and ends the call that kept its node busy.
#[track_caller]
fn resume(server: &Port, freezer: &Freezer, call: &BinderTransactionData) {
    assert_eq!(freezer.thaw(), Ok(()));
    server.free(call);
}

/// Reads everything that the server has still to get, in this order.
#[track_caller]
fn hear_all(server: &Port, words: &[&[u8]]) {
    words.iter().for_each(|word| hear(server, word));
    assert_eq!(server.drain(), []);
}

case!(supersedes_an_equal_call_that_waits, ["TXN-23", "TXN-16"], |t| {
    let (server, client, freezer, call) = busy(t);
    update(&client, 1, b"old");
    update(&client, 1, b"newer");
    update(&client, 1, b"newest");
    resume(&server, &freezer, &call);
    hear_all(&server, &[b"newest"]);
    assert_eq!(client.drain(), []);
});

case!(goes_to_the_tail, ["TXN-23"], busy, |t, (server, client, freezer, call)| {
    update(&client, 1, b"old one");
    update(&client, 2, b"two");
    update(&client, 1, b"new one");
    resume(&server, &freezer, &call);
    hear_all(&server, &[b"two", b"new one"]);
});

case!(only_while_frozen, ["TXN-23"], busy, |t, (server, client, freezer, call)| {
    assert_eq!(freezer.thaw(), Ok(()));
    queue_behind(&client);
    server.free(&call);
    hear(&server, b"one");
    hear(&server, b"two");
});

case!(not_what_is_queued_for_the_process, ["TXN-23"], freezable_pair, |t, (server, client, freezer)| {
    assert_eq!(freezer.freeze(0), Ok(()));
    update(&client, 1, b"next");
    update(&client, 1, b"old");
    update(&client, 1, b"new");
    assert_eq!(freezer.thaw(), Ok(()));
    hear_all(&server, &[b"next", b"new"]);
});

case!(only_equal_calls, ["TXN-23"], busy, |t, (server, client, freezer, call)| {
    let other = t.client();
    update(&client, 1, b"first");
    update(&client, 2, b"another code");
    tell(&client, 1, b"another flag", UPDATE.union(TransactionFlags::CLEAR_BUF));
    tell(&client, 1, b"no update", TransactionFlags::ONE_WAY);
    tell(&client, 1, b"nor this", TransactionFlags::ONE_WAY);
    update(&other, 1, b"another process");
    resume(&server, &freezer, &call);
    let apart: [&[u8]; 6] =
        [b"first", b"another code", b"another flag", b"no update", b"nor this", b"another process"];
    hear_all(&server, &apart);
});

case!(equal_by_process_not_by_thread, ["TXN-23"], busy, |t, (server, client, freezer, call)| {
    let thread = client.thread();
    update(&client, 1, b"of one thread");
    update(&thread, 1, b"of another");
    resume(&server, &freezer, &call);
    hear_all(&server, &[b"of another"]);
});

case!(the_first_of_several, ["TXN-23", "FRZ-5"], busy, |t, (server, client, freezer, call)| {
    assert_eq!(freezer.thaw(), Ok(()));
    queue_behind(&client);
    // Those two keep the process from being frozen, but it takes no calls any more.
    freezer.start(LONG);
    update(&client, 1, b"six");
    server.free(&call);
    hear(&server, b"two");
    hear(&server, b"six");
    assert_eq!(freezer.finish(), Ok(()));
    assert_eq!(server.drain(), []);
});

case!(lesson_r10_does_not_advance_the_queue, ["TXN-23", "TXN-22"], |t| {
    let (server, client, freezer, call) = busy(t);
    update(&client, 1, b"old");
    update(&client, 2, b"other");
    update(&client, 1, b"new");
    assert_eq!(server.drain(), [], "the node is busy still");
    assert_eq!(freezer.thaw(), Ok(()));
    assert_eq!(server.drain(), [], "the node is busy still");
    server.free(&call);
    let other = server.wait_call();
    assert_eq!(server.data(&other), b"other");
    assert_eq!(server.drain(), [], "one at a time");
    server.free(&other);
    hear(&server, b"new");
});

case!(lesson_c14_lets_go_of_what_it_holds, ["TXN-23", "OBJ-10"], |t| {
    let (server, client, freezer, call) = busy(t);
    client.enter_looper();
    let parcel = object(FlatBinderObject::binder(0x10, 0));
    client.tell_with(&client.place_flagged(0, 1, &parcel, UPDATE), Return::TransactionPendingFrozen);
    client.settle_counts();
    assert_eq!(client.node_debug_info(0).has_strong_ref, 1);
    update(&client, 1, b"nothing in it");
    let released = client.answer_counts();
    assert!(matches!(released[..], [Return::Release(_), Return::Decrefs(_)]), "{released:?}");
    resume(&server, &freezer, &call);
    hear(&server, b"nothing in it");
});

case!(gives_its_space_back, ["TXN-23", "ALLOC-3"], busy, |t, (server, client, freezer, call)| {
    // All together would not fit.
    let large = super::pattern(SPACE / 8, 1);
    for _ in 0..20 {
        update(&client, 1, &large);
    }
    resume(&server, &freezer, &call);
    hear_all(&server, &[&large]);
});

case!(counts_once, ["TXN-23", "TXN-24"], busy, |t, (server, client, freezer, call)| {
    for _ in 0..5 {
        update(&client, 1, b"again");
    }
    assert_eq!(freezer.info(), Ok((2, 1)));
    resume(&server, &freezer, &call);
    hear(&server, b"again");
    assert_eq!(freezer.info(), Ok((0, 0)));
    assert_eq!(freezer.freeze(0), Ok(()));
});

case!(sender_of_the_superseded_is_dead, ["TXN-23"], busy, |t, (server, client, freezer, call)| {
    let other = t.client();
    update(&other, 1, b"last words");
    other.kill();
    update(&client, 1, b"of the living");
    resume(&server, &freezer, &call);
    hear(&server, b"last words");
    hear(&server, b"of the living");
});

case!(owner_dies_with_updates_waiting, ["TXN-23", "REL-2"], busy, |t, (server, client, _freezer, _call)| {
    update(&client, 1, b"old");
    update(&client, 1, b"new");
    update(&client, 2, b"other");
    server.kill();
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
});

/// The time of a call with these flags.
fn time_of_sending(client: &Port, flags: TransactionFlags) -> Duration {
    let start = Instant::now();
    tell(client, 1, b"", flags);
    start.elapsed()
}

// A row of `make growth`: each send once took longer by all calls that wait, and delayed the
// receiver. An update has to look at them. A plain call need not, so it must take less time.
case!(oneway_calls_frozen_send_looks_at_nobody_who_waits, ["TXN-23"], Stage::needs_no_kasan, |t, ()| {
    let (_server, client, _freezer, _call) = busy(t);
    (0..40_000).for_each(|_| tell(&client, 1, b"", TransactionFlags::ONE_WAY));
    // In turn, so that a disturbance meets both; the shortest of many tries, for a busy host.
    let tries =
        (0..160).map(|_| [TransactionFlags::ONE_WAY, UPDATE].map(|flags| time_of_sending(&client, flags)));
    let [call, update] = tries.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]).expect("some tries");
    assert!(3 * call < 2 * update, "a call took {call:?} with 40 000 that wait, and an update {update:?}");
});
