// SPDX-License-Identifier: GPL-2.0
//! Blocks that pointers point to: what arrives, and which pointers may be replaced in which order.

use super::*;
use crate::sg::{pointer_object, refused, EINVAL};

/// The object of a block that has come.
fn block(port: &Port, call: &BinderTransactionData, index: u64) -> BinderBufferObject {
    port.any_object(call, index)
}

/// A manager, a client, and a parcel to be filled.
fn with_parcel(t: &Stage) -> (Port, Port, SgParcel) {
    (t.manager(), t.client(), SgParcel::new())
}

case!(block_arrives, ["OBJ-PTR", "OBJ-3", "OBJ-7"], with_parcel, |t, (server, client, mut parcel)| {
    parcel.block(&client.arena, &pattern(100, 1));
    parcel.parcel.bytes(b"behind");
    let call = client.call_sg(&server, &parcel.call(&client));
    assert_eq!(server.received_block(&call, 0), pattern(100, 1));
    let data = server.data(&call);
    assert_eq!((&data[..8], &data[48..]), (&crate::sg::LEAD[..], &b"behind"[..]));
    let (start, length) = server.space.expect("a space");
    assert!((start..start + length as u64).contains(&block(&server, &call, 0).buffer));
    finish(&server, &client, &call);
});

case!(block_arrives_in_a_reply, ["OBJ-PTR"], pair, |t, (server, client)| {
    server.free(&client.call(&server, 0, 0, &empty()));
    let (parcel, _) = SgParcel::of(&server.arena, &pattern(100, 2));
    server.reply_sg(&parcel.call(&server));
    let reply = client.wait_reply();
    assert_eq!(client.received_block(&reply, 0), pattern(100, 2));
    client.free(&reply);
});

case!(block_arrives_oneway, ["OBJ-PTR"], pair, |t, (server, client)| {
    for round in 0..3 {
        let (parcel, _) = SgParcel::of(&client.arena, &pattern(100, round));
        client.start_sg(&parcel.to(&client, 0, TransactionFlags::ONE_WAY));
        client.wait_for(Return::TransactionComplete);
    }
    for round in 0..3 {
        let call = server.wait_call();
        assert_eq!(server.received_block(&call, 0), pattern(100, round));
        server.free(&call);
    }
});

case!(blocks_lie_behind_the_offsets, ["OBJ-3", "OBJ-7", "ABI-3"], |t| {
    let (server, client, mut parcel) = with_parcel(t);
    let lengths = [13, 8, 1, 40];
    for (seed, length) in lengths.into_iter().enumerate() {
        parcel.block(&client.arena, &pattern(length, seed));
    }
    parcel.parcel.bytes(b"odd");
    let call = client.call_sg(&server, &parcel.call(&client));
    // Each begins where the one before ends, rounded up to eight bytes.
    let mut next = call.offsets + call.offsets_size;
    for (index, length) in lengths.into_iter().enumerate() {
        assert_eq!(block(&server, &call, index as u64).buffer, next);
        assert_eq!(server.received_block(&call, index as u64), pattern(length, index));
        next += (length as u64).next_multiple_of(8);
    }
    finish(&server, &client, &call);
});

case!(rest_of_the_object_is_kept, ["OBJ-PTR"], pair, |t, (server, client)| {
    let sent = BinderBufferObject {
        // Without the flag there is no parent, whatever the other fields are.
        flags: 0xffff_fff0,
        parent: 0x1234_5678_9abc,
        parent_offset: 0xdef0_1234_5678,
        ..pointer_object(client.arena.place(&pattern(24, 0)), 24)
    };
    let mut parcel = SgParcel { room: 24, ..SgParcel::new() };
    parcel.object(&sent);
    let call = client.call_sg(&server, &parcel.call(&client));
    let got = block(&server, &call, 0);
    let rest = |b: &BinderBufferObject| (b.kind, b.flags, b.length, b.parent, b.parent_offset);
    assert_eq!(rest(&got), rest(&sent));
    finish(&server, &client, &call);
});

case!(of_any_length, ["OBJ-PTR", "OBJ-7"], pair, |t, (server, client)| {
    for length in (1..34).chain([4095, 4096, 4097]) {
        let (mut parcel, _) = SgParcel::of(&client.arena, &pattern(length, length));
        parcel.block(&client.arena, b"the next");
        let call = client.call_sg(&server, &parcel.call(&client));
        assert_eq!(server.received_block(&call, 0), pattern(length, length), "{length}");
        assert_eq!(server.received_block(&call, 1), b"the next", "{length}");
        finish(&server, &client, &call);
    }
});

case!(of_no_length, ["OBJ-PTR"], pair, |t, (server, client)| {
    // Neither room nor memory is needed for it.
    let mut parcel = SgParcel::new();
    parcel.block_at(0, 0);
    parcel.block_at(BAD_ADDRESS, 0);
    let call = client.call_sg(&server, &parcel.call(&client));
    assert_eq!((block(&server, &call, 0).length, block(&server, &call, 1).length), (0, 0));
    assert_ne!(block(&server, &call, 1).buffer, BAD_ADDRESS, "not the sender's address");
    finish(&server, &client, &call);
    // Also by the command that leaves no room.
    finish(&server, &client, &client.call_with(&server, &parcel.call(&client).data));
});

case!(over_many_pages, ["OBJ-PTR", "ALLOC-4"], with_parcel, |t, (server, client, mut parcel)| {
    for (seed, length) in [50_001, 8192, 100_000].into_iter().enumerate() {
        parcel.block(&client.arena, &pattern(length, seed));
    }
    let call = client.call_sg(&server, &parcel.call(&client));
    for (seed, length) in [50_001, 8192, 100_000].into_iter().enumerate() {
        assert_eq!(server.received_block(&call, seed as u64), pattern(length, seed));
    }
    finish(&server, &client, &call);
});

/// Checks a block of which some eight bytes are pointers to the blocks of other objects, and the
/// rest is the pattern of this seed.
#[track_caller]
fn expect_block(
    port: &Port,
    call: &BinderTransactionData,
    index: u64,
    seed: usize,
    children: &[(usize, u64)],
) {
    let found = port.received_block(call, index);
    let mut wanted = pattern(found.len(), seed);
    for (offset, child) in children {
        let address = block(port, call, *child).buffer;
        wanted[*offset..offset + 8].copy_from_slice(&address.to_ne_bytes());
    }
    assert_eq!(found, wanted, "block {index}");
}

case!(nested, ["OBJ-4", "OBJ-7"], pair, |t, (server, client)| {
    // At the start, in the middle, aligned to four bytes only, at the end.
    for offset in [0, 16, 20, 56] {
        let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(64, 1));
        let inner = parcel.child(&client.arena, &pattern(30, 2), outer, offset);
        let call = client.call_sg(&server, &parcel.call(&client));
        expect_block(&server, &call, outer, 1, &[(offset as usize, inner)]);
        expect_block(&server, &call, inner, 2, &[]);
        let got = block(&server, &call, inner);
        assert_eq!((got.flags, got.parent, got.parent_offset), (1, outer, offset));
        finish(&server, &client, &call);
    }
});

case!(family, ["OBJ-4", "OBJ-7"], pair, |t, (server, client)| {
    // A has B, C and E; C has D; E has F and G.
    let mut parcel = SgParcel::new();
    let arena = client.arena.clone();
    let a = parcel.block(&arena, &pattern(64, 1));
    let b = parcel.child(&arena, &pattern(10, 2), a, 0);
    let c = parcel.child(&arena, &pattern(32, 3), a, 16);
    let d = parcel.child(&arena, &pattern(7, 4), c, 8);
    let e = parcel.child(&arena, &pattern(24, 5), a, 40);
    let f = parcel.child(&arena, &pattern(1, 6), e, 0);
    let g = parcel.child(&arena, &pattern(2, 7), e, 16);
    let call = client.call_sg(&server, &parcel.call(&client));
    expect_block(&server, &call, a, 1, &[(0, b), (16, c), (40, e)]);
    expect_block(&server, &call, b, 2, &[]);
    expect_block(&server, &call, c, 3, &[(8, d)]);
    expect_block(&server, &call, d, 4, &[]);
    expect_block(&server, &call, e, 5, &[(0, f), (16, g)]);
    expect_block(&server, &call, f, 6, &[]);
    expect_block(&server, &call, g, 7, &[]);
    finish(&server, &client, &call);
});

case!(deep, ["OBJ-4"], with_parcel, |t, (server, client, mut parcel)| {
    let mut parent = parcel.block(&client.arena, &pattern(24, 0));
    for depth in 1..100 {
        parent = parcel.child(&client.arena, &pattern(24, depth), parent, 8);
    }
    // Back up at once: the outermost is open still, and a child of it comes behind all others.
    let late = parcel.child(&client.arena, b"late", 0, 16);
    let call = client.call_sg(&server, &parcel.call(&client));
    expect_block(&server, &call, 0, 0, &[(8, 1), (16, late)]);
    for depth in 1..99 {
        expect_block(&server, &call, depth, depth as usize, &[(8, depth + 1)]);
    }
    assert_eq!(server.received_block(&call, late), b"late");
    finish(&server, &client, &call);
});

// The blocks are nested so deep that the records of the open ones exceed the kernel's largest
// contiguous allocation.
case!(lesson_s07_as_deep_as_the_space_allows, ["OBJ-4", "lesson S07"], |t| {
    const BLOCKS: u64 = 65_600;
    let (server, client) = (t.manager_with(4 << 20), t.client());
    let (mut parcel, mut parent) = SgParcel::of(&client.arena, &pattern(8, 0));
    for _ in 1..BLOCKS {
        parent = parcel.child(&client.arena, &pattern(8, 1), parent, 0);
    }
    let call = client.call_sg(&server, &parcel.call(&client));
    let innermost = block(&server, &call, BLOCKS - 1);
    assert_eq!((innermost.parent, innermost.parent_offset), (BLOCKS - 2, 0));
    expect_block(&server, &call, BLOCKS - 1, 1, &[]);
    let around = block(&server, &call, BLOCKS - 2);
    assert_eq!(server.memory(around.buffer, 8), innermost.buffer.to_ne_bytes());
    finish(&server, &client, &call);
});

case!(side_by_side, ["OBJ-4"], pair, |t, (server, client)| {
    // Pointers without a byte between them, from the first to the last.
    let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(160, 1));
    let children: Vec<(usize, u64)> =
        (0..20).map(|i| (i * 8, parcel.child(&client.arena, &pattern(i, i), outer, i as u64 * 8))).collect();
    let call = client.call_sg(&server, &parcel.call(&client));
    expect_block(&server, &call, outer, 1, &children);
    for (i, (_, child)) in children.iter().enumerate() {
        expect_block(&server, &call, *child, i, &[]);
    }
    finish(&server, &client, &call);
});

case!(senders_pointers_do_not_arrive, ["OBJ-2", "OBJ-7"], pair, |t, (server, client)| {
    let secret = client.arena.place(&pattern(16, 2));
    let mut parcel = SgParcel { room: 32, ..SgParcel::new() };
    let outer = parcel.object(&pointer_object(client.arena.place(&secret.to_ne_bytes()), 8));
    parcel.object(&BinderBufferObject {
        flags: BinderBufferObject::HAS_PARENT,
        parent: outer,
        ..pointer_object(secret, 16)
    });
    let call = client.call_sg(&server, &parcel.call(&client));
    let size = call.offsets + call.offsets_size + 32 - call.buffer;
    let all = server.memory(call.buffer, size as usize);
    let hidden = !all.windows(8).any(|window| window == secret.to_ne_bytes());
    assert!(hidden, "the sender's address is in the buffer");
    finish(&server, &client, &call);
});

case!(among_nodes, ["OBJ-1", "OBJ-PTR"], with_parcel, |t, (server, client, mut parcel)| {
    let first = parcel.object(&FlatBinderObject::binder(0x10, 0));
    let outer = parcel.block(&client.arena, &pattern(16, 1));
    let second = parcel.object(&FlatBinderObject::weak_binder(0x20, 0));
    // Other objects in between do not close a block.
    let inner = parcel.child(&client.arena, &pattern(9, 2), outer, 8);
    let call = client.call_sg(&server, &parcel.call(&client));
    assert_eq!((server.object_at(&call, first).handle(), server.object_at(&call, second).handle()), (1, 2));
    expect_block(&server, &call, outer, 1, &[(8, inner)]);
    expect_block(&server, &call, inner, 2, &[]);
    finish(&server, &client, &call);
});

case!(more_room_than_needed, ["OBJ-8"], pair, |t, (server, client)| {
    for room in [16, 64, 8000] {
        let (mut parcel, _) = SgParcel::of(&client.arena, b"sixteen bytes...");
        parcel.room = room;
        let call = client.call_sg(&server, &parcel.call(&client));
        assert_eq!(server.received_block(&call, 0), b"sixteen bytes...");
        finish(&server, &client, &call);
    }
    // Room and no objects at all.
    let roomy = SgParcel { room: 64, ..SgParcel::new() };
    finish(&server, &client, &client.call_sg(&server, &roomy.call(&client)));
});

case!(room_must_be_whole, ["OBJ-8"], pair, |t, (server, client)| {
    for odd in [1, 2, 4, 7] {
        let (mut parcel, _) = SgParcel::of(&client.arena, &pattern(24, 0));
        parcel.room += odd;
        assert_eq!(refused(&client, &parcel), EINVAL, "{odd}");
        assert_eq!(refused(&client, &SgParcel { room: odd, ..SgParcel::new() }), EINVAL, "{odd}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(no_room, ["OBJ-8", "OBJ-PTR"], with_parcel, |t, (server, client, mut parcel)| {
    parcel.block(&client.arena, b"one byte is too many");
    assert_eq!(client.failure(&parcel.call(&client).data), failed(Errno::EINVAL));
    parcel.room = 0;
    assert_eq!(refused(&client, &parcel), EINVAL);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_c07_too_large, ["OBJ-PTR", "lesson C07"], pair, |t, (server, client)| {
    let address = client.arena.place(&pattern(64, 0));
    for length in [33, 40, 4096, 1 << 32, 1 << 63, u64::MAX - 7, u64::MAX - 6, u64::MAX] {
        let mut parcel = SgParcel { room: 32, ..SgParcel::new() };
        parcel.object(&pointer_object(address, length));
        assert_eq!(refused(&client, &parcel), EINVAL, "{length:#x}");
        // An earlier block takes its part of the room.
        let mut parcel = SgParcel { room: 32 + 8, ..SgParcel::new() };
        parcel.object(&pointer_object(address, 1));
        parcel.object(&pointer_object(address, length));
        assert_eq!(refused(&client, &parcel), EINVAL, "{length:#x}");
    }
    for room in [1 << 32, 1 << 63, u64::MAX - 7, u64::MAX] {
        let errno = refused(&client, &SgParcel { room, ..SgParcel::new() });
        let allowed = [EINVAL, -(Errno::ENOSPC as i32), -(Errno::ENOMEM as i32)];
        assert!(allowed.contains(&errno), "{room:#x}: {errno}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_c03_parent_must_be_an_earlier_block, ["OBJ-4", "lesson C03"], pair, |t, (server, client)| {
    // 0 is a node, 1 a block, 2 the child itself, 3 a later block.
    for parent in [0, 2, 3, 4, 5, 1 << 32, (1 << 61) + 1, u64::MAX / 8 + 2, u64::MAX] {
        let mut parcel = SgParcel::new();
        parcel.object(&FlatBinderObject::binder(0x10, 0));
        parcel.block(&client.arena, &pattern(32, 0));
        parcel.child(&client.arena, &pattern(8, 1), parent, 0);
        parcel.block(&client.arena, &pattern(32, 0));
        assert_eq!(refused(&client, &parcel), EINVAL, "{parent:#x}");
    }
    // Without any block before it.
    let mut parcel = SgParcel::new();
    parcel.child(&client.arena, &pattern(8, 1), 0, 0);
    assert_eq!(refused(&client, &parcel), EINVAL);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(parent_must_be_open, ["OBJ-4"], pair, |t, (server, client)| {
    let arena = client.arena.clone();
    // Another family has begun.
    let (mut parcel, a) = SgParcel::of(&arena, &pattern(32, 0));
    parcel.block(&arena, &pattern(32, 0));
    parcel.child(&arena, &pattern(8, 1), a, 0);
    assert_eq!(refused(&client, &parcel), EINVAL);
    // A brother of the last one's, who has gone by.
    let (mut parcel, a) = SgParcel::of(&arena, &pattern(32, 0));
    let b = parcel.child(&arena, &pattern(8, 1), a, 0);
    parcel.child(&arena, &pattern(8, 1), a, 8);
    parcel.child(&arena, &pattern(8, 1), b, 0);
    assert_eq!(refused(&client, &parcel), EINVAL);
    // A descendant of one that has been gone back to.
    let (mut parcel, a) = SgParcel::of(&arena, &pattern(32, 0));
    let b = parcel.child(&arena, &pattern(16, 1), a, 0);
    let c = parcel.child(&arena, &pattern(16, 1), b, 0);
    parcel.child(&arena, &pattern(8, 1), a, 16);
    parcel.child(&arena, &pattern(8, 1), c, 0);
    assert_eq!(refused(&client, &parcel), EINVAL);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(pointer_must_lie_in_the_parent, ["OBJ-4", "lesson C07"], pair, |t, (server, client)| {
    for (length, offset) in [
        (32, 28),
        (32, 32),
        (32, 40),
        (4, 0),
        (0, 0),
        (12, 8),
        (32, 1 << 32),
        (32, u64::MAX - 7),
        (32, u64::MAX - 3),
        (7, u64::MAX - 3),
    ] {
        let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(length, 0));
        parcel.child(&client.arena, &pattern(64, 1), outer, offset);
        assert_eq!(refused(&client, &parcel), EINVAL, "{offset:#x} of {length}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_r16_pointers_must_come_in_order, ["OBJ-4", "lesson R16"], pair, |t, (server, client)| {
    for (first, second) in [(16, 0), (16, 8), (16, 12), (16, 16), (16, 20), (0, 0), (0, 4)] {
        let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(32, 0));
        parcel.child(&client.arena, &pattern(8, 1), outer, first);
        parcel.child(&client.arena, &pattern(8, 1), outer, second);
        assert_eq!(refused(&client, &parcel), EINVAL, "{first}, {second}");
        // Now the first one's own children are between them.
        let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(32, 0));
        let inner = parcel.child(&client.arena, &pattern(8, 1), outer, first);
        parcel.child(&client.arena, &pattern(8, 1), inner, 0);
        parcel.child(&client.arena, &pattern(8, 1), outer, second);
        assert_eq!(refused(&client, &parcel), EINVAL, "{first}, {second}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_c08_pointer_must_be_aligned, ["OBJ-6", "lesson C08"], pair, |t, (server, client)| {
    for offset in [1, 2, 3, 5, 9] {
        let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(32, 0));
        parcel.child(&client.arena, &pattern(8, 1), outer, offset);
        client.start_sg(&parcel.call(&client));
        let accepted = client.actor.is_blocked();
        if t.known_difference(Driver::Upstream, "pointers may lie anywhere", !accepted) {
            client.wait_refusal();
            assert_eq!(client.extended_error(), failed(Errno::EINVAL), "{offset}");
        } else {
            finish(&server, &client, &server.wait_call());
        }
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_c18_parent_at_the_start_of_the_data, ["OBJ-5", "lesson C18"], pair, |t, (server, client)| {
    let mut parcel = SgParcel { parcel: empty(), room: 0 };
    let outer = parcel.block(&client.arena, &pattern(32, 1));
    let inner = parcel.child(&client.arena, &pattern(8, 2), outer, 8);
    client.start_sg(&parcel.call(&client));
    let accepted = client.actor.is_blocked();
    if t.known_difference(Driver::C, "a block described at offset 0 is nobody's parent", accepted) {
        let call = server.wait_call();
        expect_block(&server, &call, outer, 1, &[(8, inner)]);
        finish(&server, &client, &call);
    } else {
        client.wait_refusal();
        assert_eq!(client.extended_error(), failed(Errno::EINVAL));
    }
    // As long as it has no children, nobody minds.
    let mut parcel = SgParcel { parcel: empty(), room: 0 };
    parcel.block(&client.arena, &pattern(32, 1));
    finish(&server, &client, &client.call_sg(&server, &parcel.call(&client)));
});

case!(unreadable_block, ["OBJ-PTR"], pair, |t, (server, client)| {
    let edge = client.arena.end() - 16;
    for (address, length) in
        [(BAD_ADDRESS, 8), (edge, 17), (edge, 4096), (0, 1), (u64::MAX - 7, 8), (1 << 63, 64)]
    {
        let mut parcel = SgParcel::new();
        parcel.block_at(address, length);
        let errno = refused(&client, &parcel);
        let upstream = t.upstream() && errno == -(Errno::EFAULT as i32);
        assert!(errno == EINVAL || upstream, "{address:#x}: {errno}");
    }
    let mut parcel = SgParcel::new();
    parcel.block_at(edge, 16);
    finish(&server, &client, &client.call_sg(&server, &parcel.call(&client)));
});

case!(unreadable_block_is_not_needed_where_replaced, ["OBJ-7"], pair, |t, (server, client)| {
    let mut parcel = SgParcel::new();
    let outer = parcel.block_at(BAD_ADDRESS & !7, 16);
    let first = parcel.child(&client.arena, b"first", outer, 0);
    let second = parcel.child(&client.arena, b"second", outer, 8);
    let call = client.call_sg(&server, &parcel.call(&client));
    expect_block(&server, &call, outer, 0, &[(0, first), (8, second)]);
    finish(&server, &client, &call);
});

case!(refused_call_undoes_what_was_done, ["OBJ-10", "lesson C06"], |t| {
    let (server, client) = (t.manager_with(page()), t.client());
    for _ in 0..20 {
        let mut parcel = SgParcel::new();
        parcel.object(&FlatBinderObject::binder(0x10, 0));
        let outer = parcel.block(&client.arena, &pattern(1000, 0));
        parcel.child(&client.arena, &pattern(1000, 1), outer, 8);
        parcel.object(&FlatBinderObject::strong_handle(NO_HANDLE));
        assert_eq!(refused(&client, &parcel), EINVAL);
        for _ in 0..3 {
            client.settle_counts();
        }
        assert_eq!(client.node_debug_info(0), BinderNodeDebugInfo::default());
    }
    client.round_trip(0, &server, &bytes(&pattern(page(), 2)), &empty());
});

case!(wiped_when_asked_for, ["ALLOC-6"], with_parcel, |t, (server, client, mut parcel)| {
    parcel.block(&client.arena, &pattern(100, 1));
    let call = client.call_sg(&server, &parcel.to(&client, 0, TransactionFlags::CLEAR_BUF));
    // A neighbour keeps the page where it is.
    server.answer(&client, &empty());
    keep(&server, &client, b"after");
    let block = block(&server, &call, 0);
    assert_eq!(server.memory(block.buffer, 100), pattern(100, 1));
    server.free(&call);
    assert_eq!(server.memory(block.buffer, 104), [0; 104]);
    assert_eq!(server.data(&call), vec![0; call.data_size as usize]);
});

case!(lesson_r21_wiped_when_refused, ["OBJ-10", "ALLOC-6", "lesson R21"], pair, |t, (server, client)| {
    // Neighbours on both sides keep the pages; what lies between is where the next call goes.
    keep(&server, &client, b"before");
    let between = keep(&server, &client, &pattern(512, 1));
    keep(&server, &client, b"after");
    server.free(&between);
    let mut parcel = SgParcel::new();
    parcel.parcel.bytes(&pattern(200, 2));
    parcel.block(&client.arena, &pattern(96, 3));
    parcel.object(&FlatBinderObject::strong_handle(NO_HANDLE));
    for flags in [TransactionFlags::CLEAR_BUF, TransactionFlags::CLEAR_BUF | TransactionFlags::ONE_WAY] {
        assert_eq!(client.refused_sg(&parcel.to(&client, 0, flags)), failed(Errno::EINVAL));
        let size = parcel.parcel.data.len().next_multiple_of(8) + 8 * parcel.parcel.offsets.len() + 96;
        let wiped = server.memory(between.buffer, size) == vec![0; size];
        t.known_difference(Driver::Upstream, "what was refused is not wiped", wiped);
    }
});

// A buffer without data still has some bytes.
case!(wiped_when_refused_without_data, ["OBJ-10", "ALLOC-6"], pair, |t, (server, client)| {
    let kept = [1, 2, 3].map(|byte| keep(&server, &client, &[byte; 8]));
    server.free(&kept[1]);
    let freezer = Freezer::of(t, &server);
    assert_eq!(freezer.freeze(LONG), Ok(()));
    let call = client.place_flagged(0, 0, &empty(), TransactionFlags::CLEAR_BUF);
    assert_eq!(client.refused(&call), Return::FrozenReply);
    let wiped = server.memory(kept[1].buffer, 8) == [0; 8];
    t.known_difference(Driver::Upstream, "what was refused is not wiped", wiped);
    assert_eq!(freezer.thaw(), Ok(()));
});

case!(lesson_c17_command_must_lie_in_the_buffer, ["WR-4", "lesson C17"], pair, |t, (server, client)| {
    let (parcel, _) = SgParcel::of(&client.arena, &pattern(16, 0));
    let commands = stream(|c| c.transaction_sg(&parcel.to(&client, 0, TransactionFlags::ONE_WAY)));
    for cut in [4, 40, 75] {
        let outcome = client.raw(WriteReadOp { write_size: Some(cut), ..WriteReadOp::of(&commands) });
        let refused = (outcome.errno, outcome.write_consumed) == (Errno::EFAULT, 0);
        t.known_difference(Driver::C, "the size of the buffer does not bound a command", refused);
        if !refused {
            server.free(&server.wait_call());
        }
    }
    assert_eq!(server.drain(), []);
});

case!(room_counts_as_space, ["ALLOC-2", "ALLOC-1"], |t| {
    let all = 4 * page() as u64;
    let (server, client) = (t.manager_with(4 * page()), t.client());
    let fits = SgParcel { room: all - 8, ..SgParcel::new() };
    finish(&server, &client, &client.call_sg(&server, &fits.call(&client)));
    let large = SgParcel { room: all, ..SgParcel::new() };
    assert_eq!(client.refused_sg(&large.call(&client)), failed(Errno::ENOSPC));
    // Oneway calls have half of it.
    let half = SgParcel { room: all / 2, ..SgParcel::new() };
    let oneway = half.to(&client, 0, TransactionFlags::ONE_WAY);
    assert_eq!(client.refused_sg(&oneway), failed(Errno::ENOSPC));
    client.round_trip(0, &server, &empty(), &empty());
});

case!(space_comes_back, ["OBJ-12", "ALLOC-1"], |t| {
    let (server, client) = (t.manager_with(2 * page()), t.client());
    for round in 0..50 {
        let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(2000, round));
        let inner = parcel.child(&client.arena, &pattern(2000 + round, round), outer, 8 * round as u64);
        let call = client.call_sg(&server, &parcel.call(&client));
        expect_block(&server, &call, outer, round, &[(8 * round, inner)]);
        finish(&server, &client, &call);
    }
    client.round_trip(0, &server, &bytes(&pattern(2 * page(), 1)), &empty());
});
