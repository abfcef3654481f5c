// SPDX-License-Identifier: GPL-2.0
//! Oneway calls: completed when they are queued, handled one at a time for each node, and paid for
//! out of half of the space.

use super::*;

/// Sends a oneway call and waits for its completion.
#[track_caller]
fn tell(client: &Port, handle: u32, data: &[u8]) {
    client.tell(handle, 0, &bytes(data));
}

pub(super) fn oneway(client: &Port, handle: u32, data: &[u8]) -> BinderTransactionData {
    client.place_oneway(handle, 0, &bytes(data))
}

/// Receives the next call, which has to have this data.
#[track_caller]
fn hear(server: &Port, data: &[u8]) -> BinderTransactionData {
    let call = server.wait_call();
    assert_eq!(server.data(&call), data);
    call
}

case!(completed_when_queued, ["TXN-16", "TXN-2", "TXN-5"], pair, |t, (server, client)| {
    tell(&client, 0, b"ping");
    assert_eq!(client.extended_error().1, NO_ERROR.1);
    let call = hear(&server, b"ping");
    assert_eq!(call.flags, TransactionFlags::ONE_WAY.bits());
    assert_eq!((call.sender_pid, call.sender_euid), (0, 0));
    server.free(&call);
    assert_eq!(client.drain(), [], "nothing comes back");
});

case!(has_no_reply, ["TXN-12"], pair, |t, (server, client)| {
    tell(&client, 0, b"");
    let call = server.wait_call();
    server.start(&stream(|c| c.reply(&server.place(0, 0, &empty()))));
    assert_eq!(server.wait_refusal(), Return::FailedReply);
    let errno = if t.upstream() { Errno::EINVAL } else { Errno::EPROTO };
    assert_eq!(server.extended_error(), failed(errno));
    server.free(&call);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(one_at_a_time_for_a_node, ["TXN-22", "OBJ-12"], pair, |t, (server, client)| {
    for word in [b"one", b"two", b"six"] {
        tell(&client, 0, word);
    }
    let one = hear(&server, b"one");
    assert_eq!(server.drain(), [], "two waits for one");
    server.free(&one);
    let two = hear(&server, b"two");
    assert_eq!(server.drain(), [], "six waits for two");
    server.free(&two);
    server.free(&hear(&server, b"six"));
    assert_eq!(server.drain(), []);
});

case!(many_in_their_order, ["TXN-22"], pair, |t, (server, client)| {
    for i in 0..100 {
        tell(&client, 0, &pattern(i, i));
    }
    for i in 0..100 {
        server.free(&hear(&server, &pattern(i, i)));
    }
});

case!(nodes_do_not_wait_for_each_other, ["TXN-22"], pair, |t, (server, client)| {
    server.free(&client.call(&server, 0, 0, &empty()));
    let reply = server.answer(&client, &object(FlatBinderObject::binder(0x1000, 0x2000)));
    let other = client.object(&reply).handle();
    tell(&client, 0, b"slow");
    tell(&client, 0, b"behind slow");
    tell(&client, other, b"other");
    let slow = hear(&server, b"slow");
    let call = hear(&server, b"other");
    assert_eq!((call.target, call.cookie), (0x1000, 0x2000));
    server.free(&call);
    server.free(&slow);
    hear(&server, b"behind slow");
});

case!(calls_overtake, ["TXN-22"], pair, |t, (server, client)| {
    tell(&client, 0, b"in progress");
    tell(&client, 0, b"waiting");
    let first = hear(&server, b"in progress");
    client.round_trip(0, &server, &bytes(b"now"), &bytes(b"at once"));
    server.free(&first);
    hear(&server, b"waiting");
});

case!(not_routed_to_a_waiting_thread, ["TXN-11"], pair, |t, (server, client)| {
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    tell(&server, server.object(&call).handle(), b"for the pool");
    assert!(client.actor.is_blocked(), "it waits for its reply alone");
    server.answer(&client, &empty());
    client.enter_looper();
    hear(&client, b"for the pool");
});

case!(pays_with_half_of_the_space, ["ALLOC-2", "ALLOC-3", "MMAP-6"], |t| {
    let (server, client) = (t.manager_with(2 * page()), t.client());
    let too_much = oneway(&client, 0, &pattern(page() + 8, 1));
    assert_eq!(client.failure(&too_much), failed(Errno::ENOSPC));
    tell(&client, 0, &pattern(page(), 2));
    hear(&server, &pattern(page(), 2));
    client.round_trip(0, &server, &bytes(&pattern(page(), 3)), &empty());
});

case!(pays_until_it_is_freed, ["ALLOC-3"], |t| {
    let (server, client) = (t.manager_with(2 * page()), t.client());
    tell(&client, 0, &pattern(page() / 2, 1));
    tell(&client, 0, &pattern(page() / 2, 2));
    assert_eq!(client.failure(&oneway(&client, 0, &pattern(8, 3))), failed(Errno::ENOSPC));
    server.free(&hear(&server, &pattern(page() / 2, 1)));
    tell(&client, 0, &pattern(8, 3));
    server.free(&hear(&server, &pattern(page() / 2, 2)));
    hear(&server, &pattern(8, 3));
});

case!(survives_its_sender, ["TXN-16"], pair, |t, (server, client)| {
    tell(&client, 0, b"last words");
    tell(&client, 0, b"and more");
    client.kill();
    server.free(&hear(&server, b"last words"));
    server.free(&hear(&server, b"and more"));
});

case!(ends_with_its_receiver, ["REL-2", "TXN-22"], pair, |t, (server, client)| {
    for _ in 0..10 {
        tell(&client, 0, &pattern(500, 1));
    }
    assert_eq!(hear(&server, &pattern(500, 1)).data_size, 500);
    server.kill();
    assert_eq!(client.refused(&oneway(&client, 0, b"late")), Return::DeadReply);
});
