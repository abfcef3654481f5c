// SPDX-License-Identifier: GPL-2.0
//! `transaction_log` and `failed_transaction_log`: the last 32 transactions, and the last that failed.

use super::*;
use binder_logs::{Kind, LogEntry, Task, TransactionLog};

/// The number of entries of each log.
const ROOM: usize = 32;

/// The entries that a port's process has sent.
fn sent_by(t: &Stage, log: TransactionLog, port: &Port) -> Vec<LogEntry> {
    let pid = t.global_pid(port) as i32;
    log.entries.into_iter().filter(|entry| entry.from.process == pid).collect()
}

/// Checks the fields that are equal in every entry without a failure.
#[track_caller]
fn check_no_failure(entry: &LogEntry) {
    assert_eq!((entry.return_error, entry.errno, entry.line, entry.is_complete), (0, 0, 0, true));
    assert_eq!(entry.context, "binder");
}

case!(call_and_reply, ["LOG-13"], logged_pair, |t, (logs, server, client)| {
    let mut parcel = bytes(&[1; 40]);
    parcel.object(&FlatBinderObject::binder(8, 0));
    client.call(&server, 0, 0x77, &parcel);
    server.answer(&client, &bytes(b"answer"));
    let (from, to) = (t.task_of(&client), t.task_of(&server));
    let call = only(sent_by(t, logs.log(), &client));
    check_no_failure(&call);
    assert_eq!((call.kind, call.from, call.to), (Kind::Call, from, Task { thread: 0, ..to }));
    assert_eq!((call.node, call.handle), (logs.node(&server, 0).id, 0));
    assert_eq!((call.data_size, call.offsets_size), (64, 8));
    let reply = only(sent_by(t, logs.log(), &server));
    check_no_failure(&reply);
    assert_eq!((reply.kind, reply.from, reply.to), (Kind::Reply, to, from));
    assert_eq!((reply.node, reply.handle, reply.data_size, reply.offsets_size), (0, 0, 6, 0));
    assert!(reply.id > call.id);
    let _ = client.answer_counts();
});

case!(oneway_call, ["LOG-13"], Logs::of, |t, logs| {
    let (manager, owner, client) = (t.manager(), t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(8, 0), &client);
    client.tell(handle, 1, &bytes(b"told"));
    let entry = sent_by(t, logs.log(), &client).pop().expect("the last");
    check_no_failure(&entry);
    let to = Task { process: t.task_of(&owner).process, thread: 0 };
    assert_eq!((entry.kind, entry.from, entry.to), (Kind::Async, t.task_of(&client), to));
    assert_eq!((entry.node, entry.handle), (logs.node(&owner, 8).id, i64::from(handle)));
    owner.wait_call();
});

case!(call_back_names_the_thread, ["LOG-13", "TXN-11"], Logs::of, |t, logs| {
    let (_manager, a, b, on_b, on_a) = couple(t);
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    let entry = sent_by(t, logs.log(), &b).pop().expect("the call back");
    assert_eq!((entry.from, entry.to), (t.task_of(&b), t.task_of(&a)));
    a.answer(&b, &empty());
    b.answer(&a, &empty());
});

case!(last_ones_in_their_order, ["LOG-13"], logged_pair, |t, (logs, server, client)| {
    for length in 0..50 {
        tell(&client, 0, &vec![0; length]);
        server.free(&server.wait_call());
    }
    let entries = sent_by(t, logs.log(), &client);
    assert_eq!(entries.len(), ROOM);
    let sizes: Vec<_> = entries.iter().map(|entry| entry.data_size).collect();
    assert_eq!(sizes, (50 - ROOM as i64..50).collect::<Vec<_>>());
    assert!(entries.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(logs.log().entries.len(), ROOM);
});

case!(last_ones_of_two_cpus, ["LOG-13"], needs_two_cpus, |t, ()| {
    let logs = Logs::of(t);
    let (server, client) = (t.manager(), t.client());
    let mut sent = 0;
    // More than there is room for on each of them alone, and then the last ones on both.
    for (cpu, count) in [(0, ROOM + 1), (1, ROOM + 1), (0, ROOM / 2)] {
        client.actor.pin(cpu);
        for _ in 0..count {
            tell(&client, 0, &vec![0; sent]);
            server.free(&server.wait_call());
            sent += 1;
        }
        let entries = sent_by(t, logs.log(), &client);
        let sizes: Vec<_> = entries.iter().map(|entry| entry.data_size as usize).collect();
        assert_eq!(sizes, (sent - ROOM..sent).collect::<Vec<_>>(), "the last ones on CPU {cpu}");
    }
});

case!(last_ones_of_two_processes, ["LOG-13", "NODE-15"], Logs::of, |t, logs| {
    let (server, clients) = (t.manager(), [t.client(), t.client()]);
    let mut sent = 0;
    let mut tell_next = |who: usize| {
        tell(&clients[who], 0, &vec![0; sent]);
        server.free(&server.wait_call());
        sent += 1;
    };
    // One has sent much before the other begins: numbers for each process would not give the order.
    (0..2 * ROOM).for_each(|_| tell_next(0));
    (0..ROOM).for_each(|turn| tell_next(turn % 3 % 2));
    let pids = clients.each_ref().map(|client| t.global_pid(client) as i32);
    let (mut entries, mut numbers) = (logs.log().entries, BTreeSet::new());
    entries.retain(|entry| pids.contains(&entry.from.process));
    let seen: Vec<_> = entries.iter().map(|entry| (entry.data_size as usize, entry.from.process)).collect();
    let wanted: Vec<_> = (0..ROOM).map(|turn| (sent - ROOM + turn, pids[turn % 3 % 2])).collect();
    assert_eq!(seen, wanted, "the last ones in their order");
    assert!(entries.iter().all(|entry| numbers.insert(entry.id)), "{entries:?}");
});

case!(fewer_than_there_is_room_for, ["LOG-13"], logged_pair, |t, (logs, server, client)| {
    let ids = || {
        let sent = [&client, &server].into_iter().flat_map(|port| sent_by(t, logs.log(), port));
        sent.map(|entry| entry.id).collect::<BTreeSet<_>>()
    };
    client.round_trip(0, &server, &empty(), &empty());
    let before = ids();
    assert_eq!(before.len(), 2);
    for _ in 0..3 {
        client.round_trip(0, &server, &empty(), &empty());
    }
    let after = ids();
    assert!(after.len() == 8 && after.is_superset(&before), "{before:?}, then {after:?}");
});

case!(number_is_that_of_the_call, ["LOG-13", "LOG-3"], logged_pair, |t, (logs, server, client)| {
    client.call(&server, 0, 0, &empty());
    let id = only(logs.thread(&client).stack).transaction.id;
    assert_eq!(only(sent_by(t, logs.log(), &client)).id, id);
    server.answer(&client, &empty());
});

case!(context_is_the_devices_name, ["LOG-13", "BFS-9"], Logs::of, |t, logs| {
    let name = "a device node 5";
    binder_sys::fs::add_device(t.root(), name).expect("add a device");
    let client = t.client();
    let other = Port::open(Rc::new(client.actor.thread()), &client.arena, &t.device(name), 0).expect("open");
    assert_eq!(other.refused(&other.place(0, 0, &empty())), Return::DeadReply, "there is no manager");
    assert_eq!(only(sent_by(t, logs.log(), &client)).context, name);
    assert_eq!(only(sent_by(t, logs.failed(), &client)).context, name);
});

case!(all_devices_in_one, ["LOG-13"], logged_pair, |t, (logs, manager, client)| {
    let other = t.client_at(&t.device("hwbinder"), Rc::new(client.actor.thread()));
    for _ in 0..2 {
        tell(&client, 0, b"here");
        other.refused(&other.place(0, 0, &empty()));
    }
    let contexts: Vec<_> = sent_by(t, logs.log(), &client).into_iter().map(|entry| entry.context).collect();
    assert_eq!(contexts, ["binder", "hwbinder", "binder", "hwbinder"]);
    let _ = manager.drain();
});

/// Has a call refused, and compares the log with the caller's extended error.
#[track_caller]
fn check_refused(t: &Stage, logs: &Logs<'_>, client: &Port, data: &BinderTransactionData, error: (u32, i32)) {
    client.refused(data);
    assert_eq!(client.extended_error(), error);
    let entry = sent_by(t, logs.failed(), client).pop().expect("a failure");
    assert_eq!((entry.return_error, entry.errno), error);
    assert!(entry.line > 0 && entry.is_complete, "{entry:?}");
    assert_eq!((entry.from, entry.context.as_str()), (t.task_of(client), "binder"));
    assert_eq!((entry.data_size, entry.offsets_size), (data.data_size as i64, data.offsets_size as i64));
    assert_eq!(entry.handle, data.target as i64);
    let is_async = data.flags & TransactionFlags::ONE_WAY.bits() != 0;
    assert_eq!(entry.kind, if is_async { Kind::Async } else { Kind::Call });
    assert_eq!(sent_by(t, logs.log(), client).last(), Some(&entry), "it is the same in both");
}

case!(failures_of_calls, ["LOG-14", "TXN-1", "TXN-3"], Logs::of, |t, logs| {
    let (manager, client) = (t.manager_with(64 << 10), t.client());
    let gone = t.server();
    let handle = introduce(&manager, &gone, FlatBinderObject::binder(8, 0), &client);
    gone.kill();
    let check = |data: &BinderTransactionData, error| check_refused(t, &logs, &client, data, error);
    check(&client.place(NO_HANDLE, 1, &empty()), failed(Errno::EINVAL));
    let data = client.place(handle, 2, &empty());
    client.refused(&data);
    let error = client.extended_error();
    assert_eq!(error.0, codes::BR_DEAD_REPLY);
    check(&data, error);
    check(&client.place(0, 3, &bytes(&vec![0; 128 << 10])), failed(Errno::ENOSPC));
    check(&oneway(&client, 4, &vec![0; 40 << 10]), failed(Errno::ENOSPC));
    let lost = FlatBinderObject::strong_handle(NO_HANDLE);
    check(&client.place(0, 5, &object(lost)), failed(Errno::EINVAL));
    let freezer = Freezer::frozen(t, &manager);
    let data = client.place(0, 6, &empty());
    client.refused(&data);
    let error = client.extended_error();
    assert_eq!(error.0, codes::BR_FROZEN_REPLY);
    check(&data, error);
    freezer.thaw().expect("thaw");
    // The node is found, but the call is not for it.
    check_refused(t, &logs, &manager, &manager.place(0, 0, &empty()), failed(Errno::EINVAL));
    assert_eq!(sent_by(t, logs.failed(), &manager).pop().expect("a failure").node, 0);
    // Before the first one is answered.
    let commands =
        stream(|c| c.transaction(&client.place(0, 7, &empty())).transaction(&client.place(0, 8, &empty())));
    client.start(&commands);
    client.wait_refusal();
    let (made, refused) = (sent_by(t, logs.log(), &client), sent_by(t, logs.failed(), &client));
    let made = made.iter().rev().nth(1).expect("the first");
    let refused = refused.last().expect("the second");
    assert_eq!((refused.return_error, refused.errno), failed(Errno::EPROTO));
    assert!(made.node != 0 && refused.node == made.node, "{made:?} {refused:?}");
    manager.serve(&client);
});

case!(failures_at_different_lines, ["LOG-14"], Logs::of, |t, logs| {
    let (_manager, client) = (t.manager_with(64 << 10), t.client());
    let line_of = |data: &BinderTransactionData| {
        client.refused(data);
        sent_by(t, logs.failed(), &client).pop().expect("a failure").line
    };
    let too_much = client.place(0, 0, &bytes(&vec![0; 128 << 10]));
    let unreadable =
        BinderTransactionData { buffer: client.arena.end(), data_size: 8, ..client.place(0, 0, &empty()) };
    assert_ne!(line_of(&too_much), line_of(&unreadable));
});

case!(failures_of_replies, ["LOG-14", "TXN-12"], logged_pair, |t, (logs, server, client)| {
    // There is nothing to reply to.
    let data = server.place(0, 0, &bytes(b"why"));
    server.start(&stream(|c| c.reply(&data)));
    server.wait_refusal();
    let entry = only(sent_by(t, logs.failed(), &server));
    assert_eq!((entry.kind, entry.to, entry.node), (Kind::Reply, Task::default(), 0));
    assert_eq!((entry.return_error, entry.errno), server.extended_error());
    assert_eq!(entry.data_size, 3);
    // There is no room for it.
    client.call(&server, 0, 0, &empty());
    server.reply_with(&server.place(0, 0, &bytes(&vec![0; 2 << 20])));
    client.wait_refusal();
    let entry = sent_by(t, logs.failed(), &server).pop().expect("a failure");
    assert_eq!((entry.return_error, entry.errno), failed(Errno::ENOSPC));
    assert_eq!((entry.kind, entry.to), (Kind::Reply, t.task_of(&client)));
});

case!(failed_ones_are_among_all, ["LOG-13", "LOG-14"], logged_pair, |t, (logs, server, client)| {
    for _ in 0..3 {
        client.round_trip(0, &server, &empty(), &empty());
        client.refused(&client.place(NO_HANDLE, 0, &empty()));
    }
    let all: Vec<_> = sent_by(t, logs.log(), &client).iter().map(|entry| entry.return_error).collect();
    let error = codes::BR_FAILED_REPLY;
    assert_eq!(all, [0, error, 0, error, 0, error]);
    let failed = sent_by(t, logs.failed(), &client);
    assert_eq!(failed.len(), 3);
    let all = sent_by(t, logs.log(), &client);
    assert!(failed.iter().all(|entry| all.contains(entry)));
});

case!(what_succeeds_is_not_among_the_failed, ["LOG-14"], logged_pair, |t, (logs, server, client)| {
    let data = client.place(NO_HANDLE, 0, &empty());
    for _ in 0..ROOM + 3 {
        client.refused(&data);
    }
    let failed = logs.failed();
    assert_eq!(sent_by(t, failed.clone(), &client).len(), ROOM);
    for _ in 0..ROOM {
        client.round_trip(0, &server, &empty(), &empty());
    }
    assert_eq!(logs.failed(), failed, "it is not pushed out by what succeeds");
    assert!(sent_by(t, logs.log(), &client).iter().all(|entry| entry.return_error == 0));
});
