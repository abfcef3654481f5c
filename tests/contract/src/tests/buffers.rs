// SPDX-License-Identifier: GPL-2.0
//! Buffers: where they lie, who may give them back, and what becomes of the space.

use super::*;

case!(freed_twice, ["OBJ-12"], pair, |t, (server, client)| {
    let first = keep(&server, &client, &pattern(100, 1));
    let second = keep(&server, &client, &pattern(100, 2));
    server.free(&first);
    server.free(&first);
    assert_eq!(server.data(&second), pattern(100, 2));
    assert_eq!(server.drain(), []);
});

case!(freed_by_an_address_inside, ["OBJ-12"], |t| {
    let (server, client) = (t.manager_with(page()), t.client());
    let call = keep(&server, &client, &pattern(page(), 1));
    for offset in [1, 8, page() as u64 - 1] {
        server.send(|c| c.free_buffer(call.buffer + offset));
    }
    let refused = client.refused(&client.place(0, 0, &bytes(b"full")));
    assert_eq!(refused, Return::FailedReply, "nothing was freed");
    server.consume(&call, pattern(page(), 1));
    client.round_trip(0, &server, &bytes(b"free"), &empty());
});

case!(freed_by_an_unknown_address, ["OBJ-12"], pair, |t, (server, client)| {
    let (start, length) = server.space.expect("a space");
    let call = keep(&server, &client, b"mine");
    for address in [0, 1, start - 8, start + length as u64, start + 0x8000, u64::MAX] {
        server.send(|c| c.free_buffer(address));
    }
    assert_eq!(server.data(&call), b"mine");
    client.round_trip(0, &server, &empty(), &empty());
});

case!(freed_before_the_reply, ["OBJ-12"], pair, |t, (server, client)| {
    server.free(&client.call(&server, 0, 0, &bytes(b"short-lived")));
    assert!(client.actor.is_blocked());
    assert_eq!(client.data(&server.answer(&client, &bytes(b"all the same"))), b"all the same");
});

case!(freed_by_another_thread, ["OBJ-12"], |t| {
    let (server, client) = (t.manager_with(page()), t.client());
    server.thread().free(&keep(&server, &client, &pattern(page(), 0)));
    client.round_trip(0, &server, &bytes(&pattern(page(), 1)), &empty());
});

case!(undelivered_cannot_be_freed, ["OBJ-12", "ALLOC-9"], pair, |t, (server, client)| {
    // An earlier call shows where the next one will lie.
    let place = keep(&server, &client, b"earlier!");
    server.free(&place);
    client.start_blocking_call(0, 0, &bytes(b"pending!"));
    server.send(|c| c.free_buffer(place.buffer));
    let call = server.wait_call();
    assert_eq!(call.buffer, place.buffer, "the place was guessed wrong");
    assert_eq!(server.data(&call), b"pending!");
    server.answer(&client, &empty());
});

case!(kept_ones_use_up_the_space, ["ALLOC-2", "ALLOC-1"], |t| {
    let (server, client) = (t.manager_with(64 << 10), t.client());
    let mut kept: Vec<_> = (0..16).map(|i| keep(&server, &client, &pattern(4096, i))).collect();
    assert_eq!(client.failure(&client.place(0, 0, &bytes(b"one more"))), failed(Errno::ENOSPC));
    for (i, call) in kept.iter().enumerate() {
        assert_eq!(server.data(call), pattern(4096, i));
    }
    let middle = kept.swap_remove(7);
    server.free(&middle);
    assert_eq!(keep(&server, &client, &pattern(4096, 77)).buffer, middle.buffer, "the only free place");
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::FailedReply);
});

case!(freed_neighbours_become_one, ["ALLOC-1"], |t| {
    let (server, client) = (t.manager_with(64 << 10), t.client());
    let kept: Vec<_> = (0..16).map(|i| keep(&server, &client, &pattern(4096, i))).collect();
    // Every second one, then the rest: in the end all of it is one piece again.
    for call in kept.iter().step_by(2) {
        server.free(call);
    }
    let large = client.place(0, 0, &bytes(&pattern(4104, 0)));
    assert_eq!(client.refused(&large), Return::FailedReply, "no piece is that large");
    for call in kept.iter().skip(1).step_by(2) {
        server.free(call);
    }
    client.round_trip(0, &server, &bytes(&pattern(64 << 10, 9)), &empty());
});

case!(empty_ones_have_addresses_of_their_own, ["OBJ-3"], pair, |t, (server, client)| {
    let mut addresses: Vec<u64> = (0..20).map(|_| keep(&server, &client, b"").buffer).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 20);
    for address in addresses {
        server.send(|c| c.free_buffer(address));
    }
    client.round_trip(0, &server, &bytes(&pattern(SPACE, 0)), &empty());
});

case!(best_fit, ["ALLOC-1"], |t| {
    let (server, client) = (t.manager_with(64 << 10), t.client());
    // Holes of 4096, 1024 and 2048 bytes between kept buffers, and a large rest.
    let mut holes = Vec::new();
    for size in [4096, 1024, 2048] {
        holes.push(keep(&server, &client, &pattern(size, 0)));
        keep(&server, &client, &pattern(64, 0));
    }
    holes.iter().for_each(|call| server.free(call));
    let fits = keep(&server, &client, &pattern(1000, 0));
    let best = fits.buffer == holes[1].buffer;
    t.known_difference(Driver::Upstream, "a hole larger than needed is taken", best);
    // The largest request must find its place in any case.
    keep(&server, &client, &pattern(4096, 0));
});

case!(neighbours_are_not_touched, ["ALLOC-1", "ALLOC-4"], pair, |t, (server, client)| {
    // Small buffers share pages with neighbours that come and go.
    let kept: Vec<_> = (0..24).map(|i| keep(&server, &client, &pattern(100 + i, i))).collect();
    for (i, call) in kept.iter().enumerate().skip(1).step_by(2) {
        server.free(call);
        assert_eq!(server.data(&keep(&server, &client, &pattern(50, i + 1000))), pattern(50, i + 1000));
    }
    for (i, call) in kept.iter().enumerate().step_by(2) {
        assert_eq!(server.data(call), pattern(100 + i, i));
    }
});

case!(wiped_when_asked_for, ["ALLOC-6"], pair, |t, (server, client)| {
    // Neighbours keep the page where it is.
    keep(&server, &client, b"before");
    let secret = pattern(256, 5);
    let call =
        client.call_with(&server, &client.place_flagged(0, 0, &bytes(&secret), TransactionFlags::CLEAR_BUF));
    server.answer(&client, &empty());
    keep(&server, &client, b"after");
    server.consume(&call, secret);
    assert_eq!(server.data(&call), [0; 256]);
});

case!(kept_intact_until_freed, ["ALLOC-5", "ALLOC-4"], pair, |t, (server, client)| {
    let kept: Vec<_> = (0..10).map(|i| keep(&server, &client, &pattern(10_000, i))).collect();
    for i in 0..20 {
        client.round_trip(0, &server, &bytes(&pattern(i * 977, i)), &empty());
    }
    for (i, call) in kept.iter().enumerate() {
        assert_eq!(server.data(call), pattern(10_000, i));
    }
});

case!(any_order_of_freeing, ["ALLOC-1", "ALLOC-4"], |t| {
    use rand::seq::SliceRandom;
    use rand::SeedableRng;
    let mut random = rand::rngs::SmallRng::seed_from_u64(1);
    let (server, client) = (t.manager_with(256 << 10), t.client());
    for _ in 0..2 {
        let mut kept: Vec<_> =
            (0..25).map(|i| (i, keep(&server, &client, &pattern(i * 137 % 6000, i)))).collect();
        kept.shuffle(&mut random);
        for (i, call) in kept {
            server.consume(&call, pattern(i * 137 % 6000, i));
        }
    }
    client.round_trip(0, &server, &bytes(&pattern(256 << 10, 9)), &empty());
});
