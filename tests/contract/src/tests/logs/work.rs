// SPDX-License-Identifier: GPL-2.0
//! The work of threads and processes: transactions, and notifications of every kind.

use super::*;
use binder_logs::{BufferState, Held, Transaction, Work};

const COOKIE: u64 = 0x5eed;

#[track_caller]
fn transaction(work: Work) -> Transaction {
    match work {
        Work::Transaction(transaction) => transaction,
        other => panic!("{other:?}"),
    }
}

case!(call_for_any_thread, ["LOG-3", "LOG-6", "LOG-7"], logged_pair, |t, (logs, server, client)| {
    client.start_blocking_call(0, 5, &bytes(b"waits"));
    let process = logs.process(&server);
    let call = transaction(only(process.work));
    let server_pid = t.task_of(&server).process;
    assert_eq!(
        (call.code, call.from, call.to.process, call.to.thread),
        (5, t.task_of(&client), server_pid, 0)
    );
    let node = Some(logs.node(&server, 0).id);
    assert_eq!(call.held, Held::Here { node, data_size: 5, offsets_size: 0, offset: Some(0) });
    let buffer = only(process.buffers);
    assert_eq!((buffer.id, buffer.state), (Some(call.id), BufferState::Active));
    assert_eq!(logs.stats_of(&server).pending_transactions, Some(1));
    server.wait_call();
    assert_eq!((logs.process(&server).work, logs.stats_of(&server).pending_transactions), (vec![], Some(0)));
    server.answer(&client, &empty());
});

case!(call_for_a_thread, ["LOG-3", "LOG-7"], logged_pair, |t, (logs, server, client)| {
    server.park_without_room();
    client.start_call(0, 5, &bytes(b"waits"));
    server.expect_no_room();
    let call = transaction(only(logs.thread(&server).work));
    assert_eq!((call.code, call.to.process), (5, t.task_of(&server).process));
    assert_eq!(logs.process(&server).work, []);
    server.wait_call();
    assert_eq!(logs.thread(&server).work, []);
    server.answer(&client, &empty());
});

case!(reply_that_is_not_read, ["LOG-3", "LOG-7"], logged_pair, |t, (logs, server, client)| {
    client.send_call_to(&server, 0, 3, &empty());
    server.reply(&bytes(b"answer"));
    let thread = logs.thread(&client);
    assert_eq!(thread.stack, [], "its call is over");
    let [Work::Complete, Work::Transaction(reply)] = &thread.work[..] else { panic!("{:?}", thread.work) };
    assert_eq!((reply.is_reply, reply.is_async), (Some(true), false));
    assert_eq!((reply.from, reply.to), (t.task_of(&server), t.task_of(&client)));
    assert_eq!(reply.held, Held::Here { node: None, data_size: 6, offsets_size: 0, offset: Some(0) });
    assert!(logs.transactions(&client).is_some());
    client.wait_reply();
});

case!(oneway_calls_wait_at_their_node, ["LOG-3", "LOG-4", "LOG-7", "LOG-9", "TXN-22"], |t| {
    let logs = Logs::of(t);
    let (server, client) = (t.manager(), t.client());
    for code in 1..=3 {
        tell(&client, code, b"told");
    }
    let first = transaction(only(logs.process(&server).work));
    assert_eq!((first.code, first.is_async, first.flags), (1, true, 1));
    let codes_of = |node: binder_logs::Node| {
        let waiting: Vec<_> = node.work.into_iter().map(transaction).collect();
        let server_pid = t.task_of(&server).process;
        assert!(waiting.iter().all(|call| (call.to.process, call.to.thread) == (server_pid, 0)));
        waiting.iter().map(|call| call.code).collect::<Vec<_>>()
    };
    assert_eq!(codes_of(logs.node(&server, 0)), [2, 3]);
    assert_eq!(codes_of(only(logs.transactions(&server).expect("there are some").nodes)), [2, 3]);
    let call = server.wait_call();
    assert_eq!((codes_of(logs.node(&server, 0)), logs.process(&server).work), (vec![2, 3], vec![]));
    let stack = logs.thread(&server).stack;
    assert_eq!(stack, [], "a oneway call is on no stack");
    server.free(&call);
    assert_eq!(transaction(only(logs.process(&server).work)).code, 2, "any thread may have the next");
    assert_eq!(codes_of(logs.node(&server, 0)), [3]);
});

case!(completion, ["LOG-7"], Logs::of, |t, logs| {
    let (_server, client) = (t.manager(), t.client());
    client.send(|c| c.transaction(&oneway(&client, 0, b"told")));
    assert_eq!(logs.thread(&client).work, [Work::Complete]);
    client.wait_for(Return::TransactionComplete);
    assert_eq!(logs.thread(&client).work, []);
});

// C has no words for these completions; it prints the number of its kind of work.
case!(completions_without_words, ["LOG-7", "TXN-16", "TXN-17"], Logs::of, |t, logs| {
    let (server, client) = (t.manager_with(2 * page()), t.client());
    let freezer = Freezer::frozen(t, &server);
    client.send(|c| c.transaction(&oneway(&client, 0, b"")));
    assert_eq!(logs.thread(&client).work, [Work::Unknown(3)]);
    client.wait_for(Return::TransactionPendingFrozen);
    freezer.thaw().expect("thaw");
    server.free(&server.wait_call());
    client.ioctl(BINDER_ENABLE_ONEWAY_SPAM_DETECTION, 1u32).expect("enable detection");
    // The second leaves less than a tenth of the space, and the first is more than a quarter.
    tell(&client, 0, &vec![0; page() * 3200 / 4096]);
    client.send(|c| c.transaction(&oneway(&client, 0, &vec![0; page() * 100 / 4096])));
    assert_eq!(logs.thread(&client).work, [Work::Unknown(4)]);
    client.wait_for(Return::OnewaySpamSuspect);
});

case!(failure, ["LOG-7"], logged_pair, |t, (logs, server, client)| {
    client.send_call_to(&server, 0, 0, &empty());
    server.kill();
    let work = until("the caller has its error", || {
        let work = logs.thread(&client).work;
        (work.len() == 2).then_some(work)
    });
    assert_eq!(work, [Work::Complete, Work::Error(codes::BR_DEAD_REPLY)]);
    assert_eq!(client.wait_refusal(), Return::DeadReply);
});

case!(updates_of_a_node, ["LOG-7"], Logs::of, |t, logs| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &holder);
    holder.send(|c| c.release(handle));
    let node = logs.node(&owner, 0x10);
    let (ptr, cookie) = (binder_logs::Pointer::Value(0x10), binder_logs::Pointer::Value(0x20));
    assert_eq!(logs.process(&owner).work, [Work::Node { id: node.id, ptr, cookie }]);
    let _ = owner.answer_counts();
    assert_eq!(logs.process(&owner).work, []);
    let _ = owner.answer_counts();
});

/// A manager that will die, and a holder that has requested the death.
fn dying(t: &Stage) -> (Port, Port) {
    let (server, holder) = (t.manager(), t.client());
    holder.send(|c| c.acquire(0).request_death(0, COOKIE));
    (server, holder)
}

#[track_caller]
fn work_of(logs: &Logs<'_>, port: &Port, wanted: Work) {
    until(&format!("{wanted:?}"), || (logs.process(port).work == [wanted.clone()]).then_some(()));
}

case!(death_notifications, ["LOG-5", "LOG-7", "DN-2"], Logs::of, |t, logs| {
    let (server, holder) = dying(t);
    let reference = || only(logs.process(&holder).references);
    assert!(!reference().death.expect("a death link").is_null());
    server.kill();
    work_of(&logs, &holder, Work::DeadBinder);
    assert!(reference().is_dead);
    assert_eq!(holder.drain(), [Return::DeadBinder(COOKIE)]);
    holder.send(|c| c.dead_binder_done(COOKIE));
});

case!(deaths_that_are_cleared, ["LOG-7", "DN-3"], Logs::of, |t, logs| {
    let (server, holder) = dying(t);
    holder.send(|c| c.clear_death(0, COOKIE));
    work_of(&logs, &holder, Work::ClearedDeath);
    assert!(only(logs.process(&holder).references).death.expect("a death link").is_null());
    assert_eq!(holder.drain(), [Return::ClearDeathNotificationDone(COOKIE)]);
    holder.send(|c| c.request_death(0, COOKIE));
    server.kill();
    work_of(&logs, &holder, Work::DeadBinder);
    holder.send(|c| c.clear_death(0, COOKIE));
    work_of(&logs, &holder, Work::ClearedDeadBinder);
    assert_eq!(holder.drain(), [Return::DeadBinder(COOKIE)]);
    holder.send(|c| c.dead_binder_done(COOKIE));
    assert_eq!(holder.drain(), [Return::ClearDeathNotificationDone(COOKIE)]);
});

case!(death_that_was_told, ["LOG-7", "DN-4"], Logs::of, |t, logs| {
    let (server, holder) = dying(t);
    let told = || logs.process(&holder).has_delivered_death;
    server.kill();
    work_of(&logs, &holder, Work::DeadBinder);
    assert!(!told());
    assert_eq!(holder.drain(), [Return::DeadBinder(COOKIE)]);
    assert!(told());
    holder.send(|c| c.dead_binder_done(COOKIE));
    assert!(!told());
});

case!(freeze_notifications, ["LOG-7", "FRZN-2"], Logs::of, |t, logs| {
    let (server, holder) = (t.manager(), t.client());
    let freezer = Freezer::of(t, &server);
    holder.send(|c| c.acquire(0).request_freeze(0, COOKIE));
    let told = || logs.process(&holder).has_delivered_freeze;
    work_of(&logs, &holder, Work::FrozenBinder);
    assert!(!told());
    assert_eq!(holder.drain(), [notification(COOKIE, 0)]);
    assert!(told());
    holder.send(|c| c.freeze_done(COOKIE));
    assert!(!told());
    freezer.freeze(0).expect("freeze");
    work_of(&logs, &holder, Work::FrozenBinder);
    assert_eq!(holder.drain(), [notification(COOKIE, 1)]);
    holder.send(|c| c.freeze_done(COOKIE));
    holder.send(|c| c.clear_freeze(0, COOKIE));
    work_of(&logs, &holder, Work::ClearedFreeze);
    assert_eq!(holder.drain(), [cleared(COOKIE)]);
    freezer.thaw().expect("thaw");
});

case!(calls_to_the_frozen, ["LOG-3", "LOG-7", "FRZ-4"], logged_pair, |t, (logs, server, client)| {
    let freezer = Freezer::frozen(t, &server);
    client.tell_with(&oneway(&client, 9, b"for later"), Return::TransactionPendingFrozen);
    let call = transaction(only(logs.process(&server).work));
    assert_eq!((call.code, call.is_async), (9, true));
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::FrozenReply);
    let stack = logs.thread(&client).stack;
    assert_eq!(stack, [], "what is refused is on no stack");
    freezer.thaw().expect("thaw");
    server.wait_call();
});
