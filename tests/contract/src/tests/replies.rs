// SPDX-License-Identifier: GPL-2.0
//! Replies that fail, and the returns of both sides.

use super::*;

/// The errno of a reply that answers nothing.
fn nothing_to_answer(t: &Stage) -> (u32, i32) {
    failed(if t.upstream() { Errno::EINVAL } else { Errno::EPROTO })
}

/// Sends a reply that the driver refuses to the replier itself.
fn refused_reply(port: &Port) -> Return {
    port.start(&stream(|c| c.reply(&port.place(0, 0, &empty()))));
    port.wait_refusal()
}

case!(without_a_call, ["TXN-12"], pair, |t, (server, client)| {
    assert_eq!(refused_reply(&server), Return::FailedReply);
    assert_eq!(server.extended_error(), nothing_to_answer(t));
    client.round_trip(0, &server, &empty(), &empty());
});

case!(behind_a_freed_buffer, ["TXN-12"], pair, |t, (server, client)| {
    client.tell(0, 0, &empty());
    let buffer = server.wait_call().buffer;
    server.start(&stream(|c| c.free_buffer(buffer).reply(&server.place(0, 0, &empty()))));
    assert_eq!(server.wait_refusal(), Return::FailedReply);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(twice, ["TXN-12"], pair, |t, (server, client)| {
    client.round_trip(0, &server, &empty(), &bytes(b"one"));
    assert_eq!(refused_reply(&server), Return::FailedReply);
    assert_eq!(client.drain(), []);
});

case!(by_another_thread, ["TXN-12"], pair, |t, (server, client)| {
    let other = server.looper();
    client.call(&server, 0, 0, &empty());
    assert_eq!(refused_reply(&other), Return::FailedReply);
    assert_eq!(other.extended_error(), nothing_to_answer(t));
    assert!(client.actor.is_blocked());
    assert_eq!(client.data(&server.answer(&client, &bytes(b"right"))), b"right");
});

case!(to_a_call_that_was_sent_not_received, ["TXN-12"], pair, |t, (server, client)| {
    client.send_call(0, 0, &empty());
    assert_eq!(refused_reply(&client), Return::FailedReply);
    assert_eq!(client.extended_error(), nothing_to_answer(t));
    server.serve(&client);
});

/// Has the server answer a call with a reply that fails; returns the client's refusal and its
/// extended error.
fn failing(server: &Port, client: &Port, reply: &BinderTransactionData) -> (Return, (u32, i32)) {
    client.call(server, 0, 0, &empty());
    server.reply_with(reply);
    (client.wait_refusal(), client.extended_error())
}

case!(that_cannot_be_translated, ["TXN-25", "TXN-12"], pair, |t, (server, client)| {
    let reply = server.place(0, 0, &object(FlatBinderObject::strong_handle(NO_HANDLE)));
    let (told, error) = failing(&server, &client, &reply);
    assert_eq!(told, Return::FailedReply);
    let as_c = error == failed(Errno::EINVAL);
    if !as_c {
        assert!(t.upstream(), "{error:?}");
    }
    assert_eq!(server.passed(), [], "the replier reads its completion, and nothing else");
});

// C has one place for the outcome of a failed reply. Found by random programs.
case!(that_fails_while_another_is_unread, ["TXN-25"], pair, |t, (server, client)| {
    let reply = server.place(0, 0, &object(FlatBinderObject::strong_handle(NO_HANDLE)));
    for _ in 0..2 {
        client.send_call_to(&server, 0, 0, &empty());
        server.reply_with(&reply);
    }
    // The inbox takes the first outcome for the completion of the second call.
    client.may_complete(&stream(|c| c.transaction(&client.place(0, 0, &empty()))));
    let both = [Return::TransactionComplete, Return::FailedReply].repeat(2);
    t.ours_alone("the second of two unread outcomes is lost", client.drain() == both);
});

case!(that_does_not_fit, ["TXN-25", "ALLOC-2"], |t| {
    let (server, client) = (t.manager(), t.client_with(2 * page()));
    let reply = server.place(0, 0, &bytes(&pattern(2 * page() + 1, 0)));
    let (told, error) = failing(&server, &client, &reply);
    assert_eq!(told, Return::FailedReply);
    assert_eq!(error.0, BR_FAILED_REPLY);
    assert_eq!(error.1, -(Errno::ENOSPC as i32));
    client.round_trip(0, &server, &empty(), &bytes(&pattern(2 * page(), 0)));
});

case!(from_unreadable_memory, ["TXN-25"], pair, |t, (server, client)| {
    let reply = BinderTransactionData { buffer: BAD_ADDRESS, ..server.place(0, 0, &bytes(b"12345678")) };
    let (told, error) = failing(&server, &client, &reply);
    assert_eq!((told, error), (Return::FailedReply, failed(Errno::EFAULT)));
    client.round_trip(0, &server, &empty(), &empty());
});

case!(to_an_unmapped_caller, ["TXN-25", "MMAP-7"], pair, |t, (server, client)| {
    client.send_call_to(&server, 0, 0, &empty());
    client.unmap();
    server.reply_with(&server.place(0, 0, &bytes(&pattern(5000, 0))));
    let told = client.wait_refusal();
    t.known_difference(Driver::Upstream, "the caller is told BR_FAILED_REPLY", told == Return::DeadReply);
});

case!(to_a_caller_who_exited_its_thread, ["TXN-13", "TREL-1"], pair, |t, (server, client)| {
    client.send_call_to(&server, 0, 1, &empty());
    assert_eq!(client.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    server.reply(&bytes(b"to nobody"));
    assert_eq!(client.drain(), [], "the new thread of that name is not the old one");
    client.round_trip(0, &server, &bytes(b"again"), &bytes(b"and now"));
});

case!(to_a_dead_caller, ["TXN-13", "TXN-25"], pair, |t, (server, client)| {
    let call = client.call(&server, 0, 0, &empty());
    client.kill();
    server.reply(&bytes(b"to nobody"));
    server.free(&call);
    let next = t.client();
    next.round_trip(0, &server, &bytes(b"next"), &bytes(b"please"));
});

case!(failed_one_is_final, ["TXN-12", "TXN-25"], pair, |t, (server, client)| {
    failing(&server, &client, &server.place(0, 0, &object(FlatBinderObject::strong_handle(NO_HANDLE))));
    assert_eq!(refused_reply(&server), Return::FailedReply, "the call has been answered");
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_r21_oneway_flag_means_nothing, ["TXN-15"], |t| {
    let (server, client) = (t.manager(), t.client_with(64 << 10));
    for _ in 0..3 {
        client.call(&server, 0, 0, &empty());
        // More than the half of the space that oneway calls may use.
        let answer = pattern(60 << 10, 0);
        let data = server.place_oneway(0, 0, &bytes(&answer));
        server.start(&stream(|c| c.reply(&data)));
        server.wait_for(Return::TransactionComplete);
        let got = client.wait("a reply or a refusal", |item| match item {
            Return::Reply(reply) => Some(Some(*reply)),
            Return::FailedReply => Some(None),
            _ => None,
        });
        let Some(reply) = got else {
            t.known_difference(Driver::Upstream, "a reply counts as a oneway call", false);
            return;
        };
        client.consume(&reply, answer);
    }
});

case!(can_be_huge, ["TXN-29", "TXN-15"], |t| {
    let (server, client) = (t.manager_with(4096), t.client_with(4 << 20));
    let answer = pattern(4 << 20, 3);
    assert_eq!(client.round_trip(0, &server, &empty(), &bytes(&answer)), answer);
});

case!(completed_at_once, ["TXN-17"], pair, |t, (server, client)| {
    client.send_call_to(&server, 0, 0, &empty());
    server.start(&stream(|c| c.reply(&server.place(0, 0, &empty()))));
    // The client has read nothing yet.
    assert_eq!(server.finish_raw().returns(), [Return::Noop, Return::TransactionComplete]);
    client.wait_reply();
    assert_eq!(client.extended_error(), NO_ERROR);
});

case!(answer_to_the_first_of_two_threads, ["TXN-13", "TXN-14"], pair, |t, (server, client)| {
    let other = client.thread();
    let second = server.looper();
    assert_eq!(client.call(&server, 0, 1, &empty()).code, 1);
    assert_eq!(other.call(&second, 0, 2, &empty()).code, 2);
    assert_eq!(client.data(&server.answer(&client, &bytes(b"one"))), b"one");
    assert!(other.actor.is_blocked());
    assert_eq!(other.data(&second.answer(&other, &bytes(b"two"))), b"two");
});
