// SPDX-License-Identifier: GPL-2.0
//! Objects in a transaction: how the driver finds them among the bytes, and what it refuses.

use super::*;

case!(bytes_between_are_verbatim, ["OBJ-1"], pair, |t, (server, client)| {
    let mut parcel = bytes(&pattern(20, 1));
    parcel.object(&FlatBinderObject::binder(0x10, 0)).bytes(&pattern(36, 2));
    parcel.object(&FlatBinderObject::binder(0x20, 0)).bytes(&pattern(5, 3));
    let data = server.data(&client.call(&server, 0, 0, &parcel));
    assert_eq!(data.len(), parcel.data.len());
    assert_eq!(data[..20], pattern(20, 1));
    assert_eq!(data[44..80], pattern(36, 2));
    assert_eq!(data[104..], pattern(5, 3));
    server.answer(&client, &empty());
});

case!(offsets_arrive, ["OBJ-1", "TXN-29", "ABI-3"], pair, |t, (server, client)| {
    let mut parcel = bytes(&pattern(12, 0));
    parcel.object(&FlatBinderObject::binder(0x10, 0)).bytes(&pattern(4, 0));
    parcel.object(&FlatBinderObject::weak_binder(0x20, 0));
    let call = client.call(&server, 0, 0, &parcel);
    assert_eq!(call.offsets_size, 16);
    assert_eq!(server.memory(call.offsets, 16), [12u64, 40].as_bytes());
    server.answer(&client, &empty());
});

/// Sends a parcel that the driver refuses; returns the errno.
fn refused(client: &Port, parcel: &Parcel) -> i32 {
    let (code, errno) = client.failure(&client.place(0, 0, parcel));
    assert_eq!(code, codes::BR_FAILED_REPLY);
    errno
}

const EINVAL: i32 = -(Errno::EINVAL as i32);
const EFAULT: i32 = -(Errno::EFAULT as i32);

fn two_nodes() -> Parcel {
    parcel_of([0x10, 0x20].map(|ptr| FlatBinderObject::binder(ptr, 0)))
}

case!(offsets_size_must_be_whole, ["TXN-19"], pair, |t, (server, client)| {
    for size in [1, 4, 7, 9, 12] {
        let data = BinderTransactionData { offsets_size: size, ..client.place(0, 0, &two_nodes()) };
        assert_eq!(client.failure(&data), failed(Errno::EINVAL), "{size}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

/// A parcel of one node at a given offset in 64 bytes.
fn node_at(offset: u64) -> Parcel {
    let mut parcel = bytes(&[0; 64]);
    let object = FlatBinderObject::binder(0x10, 0);
    let start = offset.min(40) as usize;
    parcel.data[start..start + 24].copy_from_slice(object.as_bytes());
    parcel.offsets.push(offset);
    parcel
}

case!(lesson_c08_offset_must_be_aligned, ["OBJ-1"], pair, |t, (server, client)| {
    for offset in [1, 2, 3, 5, 7, 9, 39] {
        assert_eq!(refused(&client, &node_at(offset)), EINVAL, "{offset}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_c03_offset_beyond_the_data, ["OBJ-1"], pair, |t, (server, client)| {
    // At the end of the data there is no room for an object; beyond it there is nothing to be copied.
    for (offset, wanted) in [(64, EINVAL), (68, EFAULT), (4096, EFAULT), (1 << 32, EFAULT)] {
        assert_eq!(refused(&client, &node_at(offset)), wanted, "{offset:#x}");
    }
    for offset in [u64::MAX - 3, u64::MAX - 23, u64::MAX] {
        assert_eq!(refused(&client, &node_at(offset)), EFAULT, "{offset:#x}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(object_cut_by_the_end, ["OBJ-1"], pair, |t, (server, client)| {
    for offset in [44, 48, 56, 60] {
        assert_eq!(refused(&client, &node_at(offset)), EINVAL, "{offset}");
    }
    // Room for the smallest object, and yet not for this type.
    let mut parcel = Parcel::new();
    parcel.offsets.push(0);
    for length in [0, 3, 4, 8, 16, 20, 23] {
        parcel.data = FlatBinderObject::binder(0x10, 0).as_bytes()[..length].to_vec();
        assert_eq!(refused(&client, &parcel), EINVAL, "{length}");
    }
    // The rest is there, behind the data.
    let mut parcel = bytes(&[0; 40]);
    parcel.object(&FlatBinderObject::binder(0x10, 0));
    for missing in [1, 4, 8, 20] {
        let whole = client.place(0, 0, &parcel);
        let data = BinderTransactionData { data_size: whole.data_size - missing, ..whole };
        assert_eq!(client.failure(&data), failed(Errno::EINVAL), "{missing}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_r16_objects_must_not_overlap, ["OBJ-1"], pair, |t, (server, client)| {
    let mut parcel = two_nodes();
    for second in [0, 4, 8, 12, 16, 20] {
        parcel.offsets = vec![0, second];
        let wanted = if t.upstream() { EINVAL } else { EFAULT };
        assert_eq!(refused(&client, &parcel), wanted, "{second}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(objects_must_be_in_order, ["OBJ-1"], pair, |t, (server, client)| {
    let mut parcel = two_nodes();
    parcel.offsets.reverse();
    let wanted = if t.upstream() { EINVAL } else { EFAULT };
    assert_eq!(refused(&client, &parcel), wanted);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(unknown_type, ["OBJ-1"], pair, |t, (server, client)| {
    for kind in [0, 1, u32::MAX, ObjectType::BINDER + 1, ObjectType::BINDER.swap_bytes(), 0x7362_2a00] {
        let wrong = FlatBinderObject { kind, ..FlatBinderObject::binder(0x10, 0) };
        assert_eq!(refused(&client, &object(wrong)), EINVAL, "{kind:#x}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(offsets_must_be_readable, ["TXN-19"], pair, |t, (server, client)| {
    let parcel = object(FlatBinderObject::binder(0x10, 0));
    let data = BinderTransactionData { offsets: BAD_ADDRESS, ..client.place(0, 0, &parcel) };
    assert_eq!(client.failure(&data), failed(Errno::EFAULT));
    client.round_trip(0, &server, &empty(), &empty());
});

case!(offsets_may_lie_anywhere, ["OBJ-1"], pair, |t, (server, client)| {
    let parcel = object(FlatBinderObject::binder(0x10, 0));
    let odd = client.arena.place(&[0; 32]) + 3;
    let data = BinderTransactionData { offsets: odd, ..client.place(0, 0, &parcel) };
    assert_eq!(server.object(&client.call_with(&server, &data)).kind, ObjectType::HANDLE);
    server.answer(&client, &empty());
});

case!(many, ["OBJ-1", "NODE-3"], pair, |t, (server, client)| {
    let parcel = parcel_of((0..500).map(|i| FlatBinderObject::binder(0x1000 + i * 8, i)));
    let call = client.call(&server, 0, 0, &parcel);
    for i in (0..500).step_by(37) {
        let object = server.object_at(&call, i);
        assert_eq!((object.kind, object.handle()), (ObjectType::HANDLE, i as u32 + 1));
    }
    finish(&server, &client, &call);
});

case!(four_byte_alignment_is_enough, ["OBJ-1"], pair, |t, (server, client)| {
    for offset in [4, 12, 20, 36] {
        let call = client.call(&server, 0, 0, &node_at(offset));
        assert_eq!(server.object(&call).kind, ObjectType::HANDLE, "{offset}");
        finish(&server, &client, &call);
        client.settle_counts();
    }
});

case!(no_senders_pointers_leak, ["OBJ-2"], pair, |t, (server, client)| {
    let node = FlatBinderObject::binder(0x1234_5678_9abc_def0, 0xfeed_f00d_dead_beef);
    let received = server.object(&client.call(&server, 0, 0, &object(node)));
    assert_eq!(received.binder >> 32, 0, "only a handle: {received:x?}");
    assert_eq!(received.cookie, 0);
    server.answer(&client, &empty());
});

/// Nothing that the owner has is held any more, once it has answered all count requests.
#[track_caller]
fn expect_no_nodes(port: &Port) {
    port.expect_forgotten();
    assert_eq!(port.drain(), []);
}

case!(lesson_c06_r06_failure_undoes_what_was_done, ["OBJ-10"], pair, |t, (server, client)| {
    for good in 0..5 {
        let mut parcel = parcel_of((0..good).map(|i| FlatBinderObject::binder(0x1000 + i * 16, 0)));
        parcel.object(&FlatBinderObject::strong_handle(NO_HANDLE));
        parcel.object(&FlatBinderObject::binder(0x2000, 0));
        client.refused(&client.place(0, 0, &parcel));
        expect_no_nodes(&client);
    }
    // The receiver's handles are free again.
    client.start_call(0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    assert_eq!(server.object(&server.wait_call()).handle(), 1);
    server.answer(&client, &empty());
});

case!(lesson_c06_what_was_not_reached_keeps_its_counts, ["OBJ-10"], |t| {
    let (server, client) = (t.manager(), t.server());
    let behind = FlatBinderObject::binder(0x2000, 0);
    let handle = give_in_a_call(&server, &client, behind);
    client.settle_counts();
    for _ in 0..3 {
        let parcel = parcel_of([FlatBinderObject::strong_handle(NO_HANDLE), behind]);
        client.refused(&client.place(0, 0, &parcel));
    }
    // The receiver has the one count that it took.
    assert_eq!(client.answer_counts(), []);
    server.round_trip(handle, &client, &empty(), &empty());
    server.send(|c| c.release(handle));
    assert_eq!(server.refused(&server.place(handle, 0, &empty())), Return::FailedReply);
});

case!(failure_keeps_the_senders_counts, ["OBJ-10"], manager_and_server, |t, (server, client)| {
    // The server gets a handle, and sends it back many times in a reply that fails at its end.
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(0x10, 0x11)));
    let handle = server.keep_handle(&call);
    let mut parcel = empty();
    for _ in 0..10 {
        parcel.object(&FlatBinderObject::strong_handle(handle));
        parcel.object(&FlatBinderObject::weak_handle(handle));
    }
    parcel.object(&FlatBinderObject::strong_handle(NO_HANDLE));
    server.reply(&parcel);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    let seen = client.answer_counts();
    assert!(!seen.iter().any(|item| matches!(item, Return::Release(_) | Return::Decrefs(_))), "{seen:?}");
    // One count is left: giving it back is the end.
    server.send(|c| c.release(handle));
    expect_no_nodes(&client);
});

case!(reply_carries_objects, ["OBJ-1"], pair, |t, (server, client)| {
    client.call(&server, 0, 0, &empty());
    let mut parcel = bytes(b"before12");
    parcel.object(&FlatBinderObject::binder(0x51, 0x52));
    let handle = client.keep_handle(&server.answer(&client, &parcel));
    let call = client.call(&server, handle, 9, &empty());
    assert_eq!((call.target, call.cookie, call.code), (0x51, 0x52, 9));
    server.answer(&client, &empty());
});
