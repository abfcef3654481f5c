// SPDX-License-Identifier: GPL-2.0
//! Reports over netlink: one for each call or reply that fails, for each oneway call that is
//! suspected of spam, and for each that has to wait for a frozen process.
//!
//! Pids in reports are those of the initial pid namespace, in any namespace of the test.

use super::failures::{self, Row};
use super::spam::{FIRST, LENGTH, SPACE};
use super::*;
use crate::netlink::Report;

fn code(answer: Return) -> u32 {
    match answer {
        Return::FailedReply => codes::BR_FAILED_REPLY,
        Return::DeadReply => codes::BR_DEAD_REPLY,
        Return::FrozenReply => codes::BR_FROZEN_REPLY,
        Return::OnewaySpamSuspect => codes::BR_ONEWAY_SPAM_SUSPECT,
        Return::TransactionPendingFrozen => codes::BR_TRANSACTION_PENDING_FROZEN,
        other => panic!("{other:?} is never reported"),
    }
}

fn joined() -> Listener {
    Listener::join().expect("join the group")
}

/// The report of a call that failed before its target was looked up.
pub(super) fn lost(t: &Stage, from: &Port, data: &BinderTransactionData, answer: Return) -> Report {
    let pid = t.global_pid(from);
    Report {
        error: code(answer),
        context: "binder".into(),
        from: (pid, pid),
        to_pid: None,
        to_tid: None,
        is_reply: false,
        flags: data.flags,
        code: data.code,
        data_size: data.data_size as u32,
    }
}

/// The report of a call that failed afterwards.
pub fn refused(t: &Stage, from: &Port, to: &Port, data: &BinderTransactionData, answer: Return) -> Report {
    Report { to_pid: Some(t.global_pid(to)), ..lost(t, from, data, answer) }
}

fn oneway(port: &Port, data: &[u8]) -> BinderTransactionData {
    port.place_oneway(0, 3, &bytes(data))
}

case!(family_and_group, ["NL-1"], |_t| {
    let family = binder_family().expect("look the family up").expect("the family");
    assert_eq!((family.version, family.header_size, family.has_operations), (1, 0, false));
    let names: Vec<_> = family.groups.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["report"]);
});

case!(anybody_may_listen, ["NL-1"], Stage::client, |t, client| {
    let listener = Listener::join().expect("join");
    let data = client.place(NO_HANDLE, 0, &empty());
    assert_eq!(client.refused(&data), Return::FailedReply);
    assert_eq!(listener.unread(), [lost(t, &client, &data, Return::FailedReply)]);
});

case!(not_in_other_namespaces, ["NL-1"], |t| {
    let (client, here) = (t.client(), joined());
    let elsewhere = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).map(|()| joined()));
    let elsewhere = elsewhere.join().expect("a thread").unwrap_or_else(|_| t.lacks("network namespaces"));
    client.refused(&client.place(NO_HANDLE, 0, &empty()));
    assert_eq!(elsewhere.unread(), []);
    here.only();
});

/// Sends a request that fails, and compares its report.
#[track_caller]
fn check(port: &Port, listener: &Listener, is_reply: bool, row: &Row, wanted: Report) {
    let (name, request, answer, _) = row;
    port.start(&request.commands(is_reply));
    assert_eq!(port.wait_refusal(), *answer, "{name}");
    assert_eq!(listener.unread(), [wanted], "{name}");
}

case!(of_refused_calls, ["NL-2", "NL-3"], |t| {
    let (world, listener) = (failures::world(t), joined());
    listener.unread();
    for row in failures::wrong_target(&world) {
        let (_, request, answer, errno) = &row;
        // The report names the target if the driver looks it up before the failure.
        let wanted = match (request.data.target as u32, *errno) {
            (_, libc::EINVAL) => lost(t, &world.client, &request.data, *answer),
            (0, _) => refused(t, &world.client, &world.manager, &request.data, *answer),
            _ => refused(t, &world.client, &world.servers[2], &request.data, *answer),
        };
        check(&world.client, &listener, false, &row, wanted);
    }
    for row in failures::wrong_content(&world.client) {
        let wanted = refused(t, &world.client, &world.manager, &row.1.data, row.2);
        check(&world.client, &listener, false, &row, wanted);
    }
    // The report has the values of the request as they are.
    let strange = BinderTransactionData {
        code: 0xdead_beef,
        flags: TransactionFlags::ACCEPT_FDS.bits() | 0x8000_0000,
        ..world.client.place(NO_HANDLE, 0, &bytes(b"twelve bytes"))
    };
    world.client.refused(&strange);
    let report = listener.only();
    assert_eq!(report, lost(t, &world.client, &strange, Return::FailedReply));
    assert_eq!((report.code, report.data_size), (0xdead_beef, 12));
});

case!(without_a_manager, ["NL-2", "NL-3"], |t| {
    let (client, listener) = (t.client(), joined());
    let data = client.place(0, 7, &empty());
    assert_eq!(client.refused(&data), Return::DeadReply);
    assert_eq!(listener.unread(), [lost(t, &client, &data, Return::DeadReply)]);
});

case!(of_refused_replies, ["NL-2", "NL-3"], |t| {
    let (manager, client, listener) = (t.manager(), t.client(), joined());
    // Nothing to reply to.
    let data = manager.place(0, 9, &empty());
    manager.start(Commands::new().reply(&data));
    assert_eq!(manager.wait_refusal(), Return::FailedReply);
    let wanted = Report { is_reply: true, ..lost(t, &manager, &data, Return::FailedReply) };
    assert_eq!(listener.unread(), [wanted]);
    // A reply that cannot be copied: who waits for it is known, down to the thread.
    client.call(&manager, 0, 1, &empty());
    let data = BinderTransactionData { buffer: manager.arena.end(), ..manager.place(0, 9, &bytes(b"reply")) };
    manager.start(Commands::new().reply(&data));
    manager.wait_for(Return::TransactionComplete);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    let wanted = Report {
        is_reply: true,
        to_tid: Some(t.global_pid(&client)),
        ..refused(t, &manager, &client, &data, Return::FailedReply)
    };
    assert_eq!(listener.unread(), [wanted]);
});

case!(of_a_reply_to_the_dead, ["NL-2", "NL-3"], |t| {
    let (manager, client, listener) = (t.manager(), t.client(), joined());
    client.call(&manager, 0, 1, &empty());
    kill_and_wait(t, &client);
    let data = manager.place(0, 9, &bytes(b"too late"));
    manager.reply_with(&data);
    let wanted = Report { is_reply: true, ..lost(t, &manager, &data, Return::DeadReply) };
    assert_eq!(listener.unread(), [wanted]);
});

case!(of_a_refused_call_within_a_call, ["NL-2", "NL-3"], couple, |t, (_manager, a, b, on_b, on_a)| {
    let listener = joined();
    a.call(&b, on_b, 1, &empty());
    // A call back is for the thread that waits.
    let data = BinderTransactionData { buffer: b.arena.end(), ..b.place(on_a, 2, &bytes(b"call back")) };
    assert_eq!(b.refused(&data), Return::FailedReply);
    let to_tid = Some(t.global_pid(&a));
    assert_eq!(listener.unread(), [Report { to_tid, ..refused(t, &b, &a, &data, Return::FailedReply) }]);
    b.answer(&a, &empty());
});

case!(of_a_call_within_a_call_out_of_turn, ["NL-2", "NL-3"], couple, |t, (_manager, a, _b, on_b, _)| {
    let listener = joined();
    a.nonblocking(true);
    a.send_call(on_b, 1, &empty());
    // It waits for a reply: no time for another call.
    let data = a.place(on_b, 2, &bytes(b"impatient"));
    a.write(Commands::new().transaction(&data));
    assert_eq!(listener.unread(), [lost(t, &a, &data, Return::FailedReply)]);
    assert_eq!(a.wait_refusal(), Return::FailedReply);
});

case!(frozen_and_pending, ["NL-3", "FRZ-4"], |t| {
    let (server, client, listener) = (t.manager(), t.client(), joined());
    let freezer = Freezer::frozen(t, &server);
    let data = client.place(0, 5, &bytes(b"now"));
    assert_eq!(client.refused(&data), Return::FrozenReply);
    assert_eq!(listener.unread(), [refused(t, &client, &server, &data, Return::FrozenReply)]);
    let data = oneway(&client, b"later");
    assert_eq!(client.completion(&data), Return::TransactionPendingFrozen);
    let wanted = refused(t, &client, &server, &data, Return::TransactionPendingFrozen);
    assert_eq!(listener.unread(), [wanted]);
    assert_eq!(freezer.thaw(), Ok(()));
    assert_eq!(client.completion(&data), Return::TransactionComplete);
    assert_eq!(listener.unread(), []);
});

case!(spam_unasked_for, ["NL-3", "ALLOC-7"], |t| {
    let (server, client, listener) = (t.manager_with(SPACE), t.client(), joined());
    let data = oneway(&client, &pattern(LENGTH, LENGTH));
    for _ in 1..FIRST {
        assert_eq!(client.completion(&data), Return::TransactionComplete);
    }
    assert_eq!(listener.unread(), []);
    // The sender has not enabled detection, and reads no suspicion.
    assert_eq!(client.completion(&data), Return::TransactionComplete);
    let wanted = refused(t, &client, &server, &data, Return::OnewaySpamSuspect);
    assert_eq!(listener.unread(), [wanted]);
    // Once suspected, reported once.
    assert_eq!(client.completion(&data), Return::TransactionComplete);
    assert_eq!(listener.unread(), []);
});

case!(spam_for_a_frozen_process_is_reported_twice, ["NL-3", "ALLOC-7", "FRZ-4"], |t| {
    let (server, client, listener) = (t.manager_with(SPACE), t.client(), joined());
    let data = oneway(&client, &pattern(LENGTH, LENGTH));
    assert_eq!(Freezer::of(t, &server).freeze(0), Ok(()));
    for _ in 1..FIRST {
        assert_eq!(client.completion(&data), Return::TransactionPendingFrozen);
        assert_eq!(listener.only().error, codes::BR_TRANSACTION_PENDING_FROZEN);
    }
    assert_eq!(client.completion(&data), Return::TransactionPendingFrozen);
    let reports = listener.unread();
    let errors: Vec<_> = reports.iter().map(|report| report.error).collect();
    let wanted = [Return::OnewaySpamSuspect, Return::TransactionPendingFrozen];
    assert_eq!(errors, wanted.map(code));
    assert_eq!(reports[1], Report { error: errors[1], ..reports[0].clone() });
});

case!(names_of_devices, ["NL-2"], |t| {
    let (client, listener) = (t.client(), joined());
    let longest = "n".repeat(255);
    add_device(t.root(), &longest).expect("add a device");
    for name in ["hwbinder", &longest] {
        let port = Port::open(client.actor.clone(), &client.arena, &t.device(name), 0).expect("open");
        port.refused(&port.place(NO_HANDLE, 0, &empty()));
        assert_eq!(listener.only().context, name);
    }
});

case!(every_listener_is_told, ["NL-1"], |t| {
    let (client, listeners) = (t.client(), [joined(), joined()]);
    let data = client.place(NO_HANDLE, 0, &empty());
    client.refused(&data);
    for listener in &listeners {
        assert_eq!(listener.unread(), [lost(t, &client, &data, Return::FailedReply)]);
    }
});

case!(nothing_of_what_succeeds, ["NL-3"], |t| {
    let (server, client, listener) = (t.manager(), t.client(), joined());
    client.round_trip(0, &server, &bytes(b"question"), &bytes(b"answer"));
    assert_eq!(client.completion(&oneway(&client, b"ping")), Return::TransactionComplete);
    server.free(&server.wait_call());
    client.send(|c| c.release(NO_HANDLE).free_buffer(0xdead_0000));
    assert_eq!(listener.unread(), []);
});
