// SPDX-License-Identifier: GPL-2.0
//! A thread that leaves the driver with `BINDER_THREAD_EXIT`, with each kind of business unfinished.

use super::*;

case!(exit_while_serving, ["TREL-1"], pair, |t, (server, client)| {
    let call = client.call(&server, 0, 0, &bytes(b"never answered"));
    exit(&server);
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    // The buffer is still the process's to free.
    server.free(&call);
    server.enter_looper();
    client.round_trip(0, &server, &empty(), &empty());
});

case!(exit_while_serving_nested_calls, ["TREL-1"], couple, |t, (_manager, a, b, on_b, on_a)| {
    a.call(&b, on_b, 1, &empty());
    b.call(&a, on_a, 2, &empty());
    // a serves the inner call and waits for the outer one.
    exit(&a);
    assert_eq!(b.wait_refusal(), Return::DeadReply);
    b.reply(&bytes(b"to nobody"));
    assert_eq!(a.drain(), []);
    a.enter_looper();
    b.round_trip(on_a, &a, &empty(), &empty());
});

case!(exit_while_calling, ["TREL-1", "TXN-13"], pair, |t, (server, client)| {
    client.send_call(0, 1, &empty());
    exit(&client);
    // The call is still on its way.
    let call = server.wait_call();
    t.known_difference(Driver::Upstream, "a caller that has gone is named", call.sender_pid == 0);
    server.reply(&empty());
    client.round_trip(0, &server, &empty(), &empty());
});

case!(exit_with_a_reply_unread, ["TREL-1"], |t| {
    let (server, client) = (t.manager(), t.client_with(page()));
    client.send_call_to(&server, 0, 0, &empty());
    server.reply(&bytes(&vec![7; page()]));
    exit(&client);
    assert_eq!(client.drain(), []);
    // The unread reply took all the space. Is it free again?
    client.call(&server, 0, 0, &empty());
    server.reply(&bytes(&vec![8; page()]));
    let answered = client.wait("a reply or a refusal", |item| match item {
        Return::Reply(_) => Some(true),
        Return::FailedReply => Some(false),
        _ => None,
    });
    t.known_difference(Driver::C, "the space of an unread reply is lost when the thread exits", answered);
});

case!(exit_with_a_call_back_unread, ["TREL-1"], couple, |t, (_manager, a, b, on_b, on_a)| {
    a.send_call_to(&b, on_b, 1, &empty());
    b.start_blocking_call(on_a, 2, &object(FlatBinderObject::binder(0xb8, 0)));
    exit(&a);
    assert_eq!(b.wait_refusal(), Return::DeadReply);
    b.reply(&empty());
    a.enter_looper();
    b.round_trip(on_a, &a, &empty(), &empty());
});

case!(exit_with_an_error_unread, ["TREL-1", "TREL-3"], Stage::client, |t, client| {
    leave_refusal(&client);
    exit(&client);
    assert_eq!(client.drain(), []);
    assert_eq!(client.extended_error(), super::NO_ERROR);
});

case!(lesson_r11_c16_exit_with_counts_unread, ["TREL-2"], manager_and_server, |t, (manager, owner)| {
    let call = owner.send_call_to(&manager, 0, 0, &object(FlatBinderObject::binder(0x10, 0x20)));
    exit(&owner);
    owner.enter_looper();
    manager.reply(&empty());
    let seen = owner.drain();
    let id = BinderPtrCookie { ptr: 0x10, cookie: 0x20 };
    t.known_difference(Driver::C, count_order::LOST, seen == [Return::Increfs(id), Return::Acquire(id)]);
    manager.free(&call);
});

case!(exit_and_return, ["TREL-3"], pair, |t, (server, client)| {
    for i in 0..20u8 {
        exit(&client);
        client.round_trip(0, &server, &bytes(&[i]), &bytes(&[i]));
        exit(&server);
        server.enter_looper();
    }
});

case!(exit_leaves_the_others_alone, ["TREL-1"], pair, |t, (server, client)| {
    let (helper, other) = (server.looper(), client.thread());
    client.call(&server, 0, 1, &empty());
    other.call(&helper, 0, 2, &empty());
    exit(&server);
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    assert!(other.actor.is_blocked());
    assert_eq!(other.data(&helper.answer(&other, &bytes(b"fine"))), b"fine");
});

// More threads than a driver may have quick access to come and go: each has its own errors.
case!(many_threads_keep_apart, ["TREL-1", "TREL-3"], pair, |t, (server, client)| {
    let mut threads: Vec<Port> = (0..40).map(|_| client.thread()).collect();
    for round in 0..3u8 {
        for (number, thread) in threads.iter().enumerate() {
            let said = bytes(&[round, number as u8]);
            thread.round_trip(0, &server, &said, &said);
            leave_refusal(thread);
            if number % 3 == 0 {
                exit(thread);
            }
        }
        for (number, thread) in threads.iter().enumerate() {
            let has_error = number % 3 != 0;
            assert_eq!(thread.extended_error() != super::NO_ERROR, has_error, "thread {number}");
            assert_eq!(thread.drain().is_empty(), !has_error, "thread {number}");
        }
        // Some end without a word, and others take their place.
        for gone in threads.drain(30..).collect::<Vec<_>>() {
            gone.actor.start(Op::EndThread);
        }
        threads.extend((30..40).map(|_| client.thread()));
    }
});

case!(end_of_a_thread_without_exit, ["TREL-1", "REL-2"], pair, |t, (server, client)| {
    let helper = server.looper();
    client.call(&helper, 0, 1, &empty());
    helper.actor.start(Op::EndThread);
    // The driver has no hook at a task's end; the call ends with the process.
    assert!(client.actor.is_blocked());
    server.kill_serving(&client);
});
