// SPDX-License-Identifier: GPL-2.0
//! Synchronous calls and their replies: their data, and the other fields.

use super::*;

case!(every_size, ["TXN-29", "TXN-17", "TXN-18", "ALLOC-1"], pair, |t, (server, client)| {
    let sizes = [0, 1, 2, 3, 4, 7, 8, 9, 100, 4095, 4096, 4097, 8191, 8192, 65536, 65537, 300_000];
    for (seed, size) in sizes.into_iter().enumerate() {
        let (question, answer) = (pattern(size, seed), pattern(size, seed + 100));
        let got = client.round_trip(0, &server, &bytes(&question), &bytes(&answer));
        assert_eq!(got, answer, "the answer of {size} bytes");
    }
});

case!(up_to_the_whole_space, ["ALLOC-2", "ALLOC-1"], |t| {
    let space = 64 << 10;
    let (server, client) = (t.manager_with(space), t.client_with(space));
    let (question, answer) = (pattern(space, 1), pattern(space, 2));
    for _ in 0..3 {
        assert_eq!(client.round_trip(0, &server, &bytes(&question), &bytes(&answer)), answer);
    }
});

case!(beyond_the_space, ["ALLOC-2", "TXN-19"], |t| {
    let space = 64 << 10;
    let (server, client) = (t.manager_with(space), t.client_with(space));
    for size in [space + 1, space + 8, 2 * space] {
        assert_eq!(
            client.failure(&client.place(0, 0, &bytes(&pattern(size, 0)))),
            failed(Errno::ENOSPC),
            "{size}"
        );
    }
    assert!(client.passed().is_empty(), "a failed call has no completion");
    client.round_trip(0, &server, &bytes(&pattern(space, 0)), &empty());
});

case!(sizes_that_overflow, ["OBJ-3", "TXN-19"], pair, |t, (server, client)| {
    let base = client.place(0, 0, &bytes(b"12345678"));
    let wrong = [
        BinderTransactionData { data_size: u64::MAX, ..base },
        BinderTransactionData { data_size: u64::MAX - 7, ..base },
        BinderTransactionData { data_size: 1 << 63, ..base },
        BinderTransactionData { data_size: u64::MAX - 15, offsets_size: 16, ..base },
        BinderTransactionData { data_size: 1 << 32, ..base },
    ];
    for data in wrong {
        assert_eq!(client.refused(&data), Return::FailedReply, "{data:?}");
        assert_ne!(client.extended_error().1, 0);
    }
    client.round_trip(0, &server, &bytes(b"after that"), &bytes(b"all is well"));
});

/// Sends a call, and returns what arrives; the call is answered and done.
fn delivered(server: &Port, client: &Port, data: &BinderTransactionData) -> BinderTransactionData {
    let call = client.call_with(server, data);
    finish(server, client, &call);
    call
}

case!(code_and_flags_are_verbatim, ["TXN-3", "TXN-29"], pair, |t, (server, client)| {
    for (code, flags) in [(0, 0), (u32::MAX, 0), (0x5f50_4e47, 0x10), (1, 0x0200_0004), (2, !0x1 & !0x40)] {
        let data = BinderTransactionData { flags, ..client.place(0, code, &empty()) };
        let call = delivered(&server, &client, &data);
        assert_eq!((call.code, call.flags), (code, flags));
    }
    client.call(&server, 0, 0, &empty());
    server.reply_with(&BinderTransactionData { flags: 0x8, code: 77, ..server.place(0, 0, &empty()) });
    let reply = client.wait_reply();
    assert_eq!((reply.code, reply.flags), (77, 0x8), "a reply's, too");
});

case!(sender_cannot_lie, ["TXN-3", "TXN-4", "TXN-5"], pair, |t, (server, client)| {
    let data = BinderTransactionData {
        cookie: 0xbad,
        sender_pid: 1,
        sender_euid: 4242,
        ..client.place(0, 0, &empty())
    };
    let call = delivered(&server, &client, &data);
    assert_eq!((call.sender_pid, call.sender_euid, call.cookie), (client.actor.pid(), 0, 0));
    client.call(&server, 0, 0, &empty());
    server.reply_with(&BinderTransactionData { target: 7, ..data });
    let reply = client.wait_reply();
    assert_eq!((reply.sender_pid, reply.sender_euid), (0, 0), "a reply names no process");
    assert_eq!((reply.target, reply.cookie), (0, 0));
});

case!(sender_user_is_the_threads_own, ["TXN-4"], pair, |t, (server, client)| {
    client.actor.number(Op::SetUser { uid: 1234 }).expect("change the user");
    let call = delivered(&server, &client, &client.place(0, 0, &empty()));
    assert_eq!(call.sender_euid, 1234, "the user now, not the one who opened the device");
});

case!(node_is_named_to_its_owner, ["TXN-29", "NODE-1"], trio, |t, (manager, owner, holder)| {
    let node = FlatBinderObject::binder(0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff00);
    let handle = introduce(&manager, &owner, node, &holder);
    let call = delivered(&owner, &holder, &holder.place(handle, 3, &empty()));
    assert_eq!((call.target, call.cookie), (node.binder, node.cookie));
});

case!(completion_comes_with_the_reply, ["TXN-18"], pair, |t, (server, client)| {
    client.call(&server, 0, 0, &empty());
    server.reply(&empty());
    let outcome = client.finish_raw();
    let items = outcome.returns();
    assert_eq!(items[..2], [Return::Noop, Return::TransactionComplete]);
    assert!(matches!(items[2..], [Return::Reply(_)]), "{items:?}");
});

case!(completion_does_not_wake, ["TXN-18", "LOOP-10"], pair, |t, (server, client)| {
    client.send_call(0, 0, &empty());
    client.park();
    server.wait_call();
    assert!(client.actor.is_blocked());
    server.answer(&client, &empty());
});

case!(one_call_at_a_time_per_thread, ["TXN-10"], pair, |t, (server, client)| {
    client.send_call(0, 1, &empty());
    assert_eq!(client.refused(&client.place(0, 2, &empty())), Return::FailedReply);
    let errno = if t.upstream() { Errno::EINVAL } else { Errno::EPROTO };
    assert_eq!(client.extended_error(), failed(errno));
    // The first call is not disturbed.
    assert_eq!(server.wait_call().code, 1);
    assert_eq!(client.data(&server.answer(&client, &bytes(b"one"))), b"one");
});

case!(call_waits_until_it_is_read, ["TXN-21"], pair, |t, (server, client)| {
    client.start_blocking_call(0, 0, &bytes(b"patient"));
    assert_eq!(server.data(&server.wait_call()), b"patient");
    assert!(client.actor.is_blocked());
    server.answer(&client, &empty());
});

case!(scatter_gather_commands_without_objects, ["OBJ-8", "TXN-1"], pair, |t, (server, client)| {
    let data = client.place(0, 5, &bytes(b"question"));
    client.start(&stream(|c| c.transaction_sg(&BinderTransactionDataSg { data, buffers_size: 64 })));
    assert_eq!(server.data(&server.wait_call()), b"question");
    let data = server.place(0, 0, &bytes(b"answer"));
    server.start(&stream(|c| c.reply_sg(&BinderTransactionDataSg { data, buffers_size: 0 })));
    server.wait_for(Return::TransactionComplete);
    assert_eq!(client.data(&client.wait_reply()), b"answer");
    for buffers_size in [4, 7, 1 << 40, u64::MAX - 7] {
        let data = client.place(0, 5, &bytes(b"question"));
        client.start(&stream(|c| c.transaction_sg(&BinderTransactionDataSg { data, buffers_size })));
        assert_eq!(client.wait_refusal(), Return::FailedReply, "{buffers_size}");
    }
});

case!(unknown_handle, ["TXN-7", "TXN-19"], Stage::client, |t, client| {
    let errno = if t.upstream() { Errno::ENOENT } else { Errno::EINVAL };
    for handle in [1, NO_HANDLE, u32::MAX] {
        assert_eq!(client.failure(&client.place(handle, 0, &empty())), failed(errno));
    }
    assert!(client.passed().is_empty(), "no call has a completion");
});

case!(dead_owner, ["TXN-7", "NODE-12"], trio, |t, (manager, owner, holder)| {
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &holder);
    owner.kill();
    for _ in 0..2 {
        assert_eq!(holder.refused(&holder.place(handle, 0, &empty())), Return::DeadReply);
    }
});

case!(self_call_is_refused, ["TXN-9"], pair, |t, (manager, client)| {
    // A process never gets a handle on its own node; sent to itself it stays a node.
    let call = client.call(&manager, 0, 0, &object(FlatBinderObject::binder(0x10, 1)));
    let handle = manager.object(&call).handle();
    let back = client.object(&manager.answer(&client, &object(FlatBinderObject::strong_handle(handle))));
    assert_eq!((back.kind, back.binder, back.cookie), (ObjectType::BINDER, 0x10, 1));
    assert_eq!(client.refused(&client.place(1, 0, &empty())), Return::FailedReply);
});

case!(data_must_be_readable, ["TXN-1", "TXN-19"], pair, |t, (server, client)| {
    let mut data = client.place(0, 0, &bytes(&pattern(8192, 0)));
    data.buffer = BAD_ADDRESS;
    assert_eq!(client.failure(&data), failed(Errno::EFAULT));
    // Readable at first, and then not.
    data.buffer = client.arena.end() - 4096;
    assert_eq!(client.failure(&data), failed(Errno::EFAULT));
    // The space that was set aside is free again.
    client.round_trip(0, &server, &bytes(&pattern(SPACE, 0)), &empty());
    server.kill();
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
});

case!(delivery_resumes_where_a_signal_cut_it, ["TXN-21", "WR-7"], pair, |t, (server, client)| {
    server.park();
    server.actor.interrupt();
    client.start_call(0, 9, &bytes(b"late"));
    // Either the signal or the call came first; the call must not be lost.
    let outcome = server.finish_raw();
    let taken = outcome.returns().iter().find_map(call_of);
    assert_eq!(taken.unwrap_or_else(|| server.wait_call()).code, 9);
    server.answer(&client, &empty());
});

case!(hundreds_of_calls, ["TXN-29", "OBJ-12"], |t| {
    let (server, client) = (t.manager_with(4096), t.client_with(4096));
    for i in 0..150 {
        let size = i * 37 % 500;
        let (question, answer) = (pattern(size, i), pattern(500 - size, i + 1));
        assert_eq!(client.round_trip(0, &server, &bytes(&question), &bytes(&answer)), answer);
    }
});

case!(offsets_address_follows_the_data, ["TXN-29", "OBJ-3"], pair, |t, (server, client)| {
    for size in [0, 1, 7, 8, 9, 4095] {
        let mut parcel = bytes(&pattern(size, 0));
        parcel.object(&FlatBinderObject::binder(0x10, 0));
        let call = client.call(&server, 0, 0, &parcel);
        assert_eq!(call.offsets, call.buffer + call.data_size.next_multiple_of(8));
        assert_eq!(call.offsets_size, 8);
        assert_eq!(call.buffer % 8, 0);
        assert_eq!(server.object(&call).kind, ObjectType::HANDLE);
        finish(&server, &client, &call);
        client.settle_counts();
    }
});
