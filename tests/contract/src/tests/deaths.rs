// SPDX-License-Identifier: GPL-2.0
//! kill -9 at every stage of a call, on either side and in the middle.

use super::*;

case!(callee_before_it_reads, ["TXN-7", "REL-2", "TREL-1"], pair, |t, (server, client)| {
    client.start_blocking_call(0, 0, &bytes(b"unread"));
    server.kill_serving(&client);
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
});

case!(callee_while_it_serves, ["TREL-1", "REL-2"], pair, |t, (server, client)| {
    client.call(&server, 0, 0, &bytes(b"read"));
    server.kill_serving(&client);
});

case!(callee_after_it_has_replied, ["TXN-13", "TXN-14"], pair, |t, (server, client)| {
    client.send_call_to(&server, 0, 0, &empty());
    server.reply(&bytes(b"a legacy"));
    server.kill();
    client.consume(&client.wait_reply(), b"a legacy");
});

case!(callee_while_waiting_for_work, ["REL-2"], pair, |t, (server, client)| {
    client.round_trip(0, &server, &empty(), &empty());
    server.park();
    server.kill();
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
});

case!(callee_with_many_callers, ["REL-2", "TREL-1"], Stage::manager, |t, server| {
    let helper = server.looper();
    let callers: Vec<Port> = (0..8).map(|_| t.client()).collect();
    for caller in &callers {
        caller.start_blocking_call(0, 0, &bytes(b"all wait"));
    }
    // Two are being served, six are queued.
    server.wait_call();
    helper.wait_call();
    server.kill();
    for caller in &callers {
        assert_eq!(caller.wait_refusal(), Return::DeadReply);
    }
});

case!(caller_before_delivery, ["TREL-1", "TXN-5"], pair, |t, (server, client)| {
    client.start_blocking_call(0, 3, &bytes(b"orphan"));
    client.kill();
    let next = t.client();
    next.start_blocking_call(0, 4, &bytes(b"alive"));
    // A call outlives its caller; nobody reads the answer.
    let call = server.wait_call();
    assert_eq!((call.code, call.sender_pid, server.data(&call)), (3, 0, b"orphan".to_vec()));
    server.reply(&empty());
    assert_eq!(server.wait_call().code, 4);
    server.answer(&next, &empty());
});

case!(caller_while_served, ["TXN-13", "TXN-25"], pair, |t, (server, client)| {
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    let handle = server.object(&call).handle();
    client.kill();
    // The server's own position is unharmed: its reply has a completion, its handle is on a dead node.
    server.reply(&object(FlatBinderObject::strong_handle(handle)));
    assert_eq!(server.refused(&server.place(handle, 0, &empty())), Return::DeadReply);
    server.free(&call);
    assert_eq!(server.refused(&server.place(handle, 0, &empty())), Return::FailedReply);
    t.client().round_trip(0, &server, &empty(), &empty());
});

case!(caller_after_the_reply, ["REL-2", "OBJ-13"], pair, |t, (server, client)| {
    client.send_call_to(&server, 0, 0, &empty());
    server.reply(&bytes(&[1; 10_000]));
    client.kill();
    t.client().round_trip(0, &server, &empty(), &empty());
});

case!(caller_with_its_space_full, ["REL-2", "OBJ-13"], Stage::manager, |t, server| {
    for _ in 0..3 {
        let client = t.client_with(64 << 10);
        for _ in 0..8 {
            server.free(&client.call(&server, 0, 0, &empty()));
            server.answer(&client, &bytes(&[3; 8192]));
        }
        client.kill();
    }
});

/// Three processes in a chain: a calls b, b calls c, and c serves.
fn chain(t: &Stage) -> (Port, Port, Port) {
    let (c, a, b) = (t.manager(), t.client(), t.server());
    let on_b = introduce_counted(&c, &b, FlatBinderObject::binder(0xb0, 0), &a);
    a.call(&b, on_b, 1, &empty());
    b.call(&c, 0, 2, &empty());
    (a, b, c)
}

case!(middle_of_a_chain, ["TXN-26", "TREL-1"], chain, |t, (a, b, c)| {
    b.kill();
    // C notifies the start of the chain when its end replies, our driver at once.
    if t.driver == Driver::Rust {
        assert_eq!(a.wait_refusal(), Return::DeadReply);
        c.reply(&bytes(b"to nobody"));
    } else {
        a.actor.expect_blocked();
        c.reply(&bytes(b"to nobody"));
        assert_eq!(a.wait_refusal(), Return::DeadReply);
    }
    a.round_trip(0, &c, &bytes(b"they still"), &bytes(b"know each other"));
});

case!(end_of_a_chain, ["TREL-1"], chain, |t, (a, b, c)| {
    c.kill_serving(&b);
    assert!(a.actor.is_blocked());
    assert_eq!(a.data(&b.answer(&a, &bytes(b"sorry"))), b"sorry");
});

case!(start_of_a_chain, ["TXN-13", "TXN-26"], chain, |t, (a, b, c)| {
    a.kill();
    assert!(b.actor.is_blocked());
    assert_eq!(b.data(&c.answer(&b, &bytes(b"done"))), b"done");
    b.reply(&bytes(b"to nobody"));
    b.round_trip(0, &c, &empty(), &empty());
});

case!(partner_of_a_call_back, ["TREL-1", "TXN-11"], |t| {
    for inner_is_delivered in [false, true] {
        let (manager, a, b, on_b, on_a) = couple(t);
        a.send_call_to(&b, on_b, 1, &empty());
        b.start_blocking_call(on_a, 2, &empty());
        if inner_is_delivered {
            a.wait_call();
        }
        a.kill_serving(&b);
        b.reply(&empty());
        b.round_trip(0, &manager, &empty(), &empty());
        manager.kill();
    }
});

// A process serves a call back from the process that it calls, which dies. It reads of the death
// after its own reply.
case!(who_called_back, ["TREL-1", "TXN-11", "TXN-26"], |t| {
    for is_delivered in [false, true] {
        let (manager, a, b, on_b, on_a) = couple(t);
        a.send_call_to(&b, on_b, 1, &empty());
        b.start_blocking_call(on_a, 2, &empty());
        if is_delivered {
            a.wait_call();
            b.kill();
        } else {
            b.kill();
            a.wait_call();
        }
        a.reply(&bytes(b"to nobody"));
        assert_eq!(a.wait_refusal(), Return::DeadReply);
        a.round_trip(0, &manager, &empty(), &empty());
        manager.kill();
    }
});

/// A circle: a calls b, b calls c, and c calls a, whose waiting thread serves that.
fn circle(t: &Stage) -> (Port, Port, Port) {
    let (c, a, b) = (t.manager(), t.client(), t.server());
    let on_b = introduce_counted(&c, &b, FlatBinderObject::binder(0xb0, 0), &a);
    let on_a = give_in_a_call(&c, &a, FlatBinderObject::binder(0xa0, 0));
    a.call(&b, on_b, 1, &empty());
    b.call(&c, 0, 2, &empty());
    assert_eq!(c.call(&a, on_a, 3, &empty()).code, 3);
    (a, b, c)
}

case!(first_partner_in_a_circle, ["TREL-1", "TXN-11", "TXN-26"], circle, |t, (a, b, c)| {
    b.kill();
    assert_eq!(c.data(&a.answer(&c, &bytes(b"back"))), b"back");
    c.reply(&bytes(b"to nobody"));
    assert_eq!(a.wait_refusal(), Return::DeadReply);
    a.round_trip(0, &c, &empty(), &empty());
});

case!(second_partner_in_a_circle, ["TREL-1", "TXN-11", "TXN-26"], circle, |t, (a, b, c)| {
    c.kill();
    // In C, b waits until a has replied to the dead c. With our driver, b may reply before a does.
    let is_told_at_once = t.driver == Driver::Rust;
    if !is_told_at_once {
        a.reply(&bytes(b"to nobody"));
    }
    assert_eq!(b.wait_refusal(), Return::DeadReply);
    b.reply(&bytes(b"sorry"));
    if is_told_at_once {
        a.reply(&bytes(b"to nobody"));
    }
    assert_eq!(a.data(&a.wait_reply()), b"sorry");
});

// An unread reply that had to wait goes with the thread that it waits for.
case!(everyone_in_a_circle, ["TREL-1", "TXN-11"], circle, |t, (a, b, c)| {
    c.kill();
    b.kill();
    a.kill();
    let (manager, client) = (t.manager(), t.client());
    client.round_trip(0, &manager, &empty(), &empty());
});

case!(both_at_once, ["REL-2", "TREL-1"], |t| {
    for _ in 0..10 {
        let (server, client) = (t.manager(), t.client());
        client.call(&server, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
        for port in [&server, &client] {
            kill(Pid::from_raw(port.actor.pid()), Signal::SIGKILL).expect("kill");
        }
        server.actor.wait_dead();
        client.actor.wait_dead();
    }
    let (server, client) = (t.manager(), t.client());
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_c12_threads_in_every_state, ["REL-2", "TREL-1"], |t| {
    let (manager, victim, peer, on_peer, on_victim) = couple(t);
    let (waiting, calling, serving) = (victim.looper(), victim.thread(), victim.looper());
    let (second, third) = (peer.thread(), peer.looper());
    // One serves, one calls, one waits, and one call is queued.
    peer.call(&serving, on_victim, 1, &empty());
    calling.call(&third, on_peer, 2, &empty());
    second.start_blocking_call(on_victim, 3, &empty());
    victim.wait_call();
    waiting.park();
    victim.kill_serving(&peer);
    assert_eq!(second.wait_refusal(), Return::DeadReply);
    third.reply(&empty());
    peer.round_trip(0, &manager, &empty(), &empty());
});

case!(holder_with_everything, ["REL-2", "NODE-10"], trio, |t, (manager, owner, holder)| {
    for ptr in 1..=5 {
        introduce(&manager, &owner, FlatBinderObject::binder(ptr * 16, 0), &holder);
    }
    owner.settle_counts();
    holder.send(|c| c.increfs(1).acquire(2).acquire(2).increfs(3));
    // It has also sent nodes of its own, and dies during a call.
    let call = holder.call(&owner, 3, 0, &object(FlatBinderObject::binder(0xf0, 0)));
    holder.kill();
    owner.reply(&empty());
    owner.free(&call);
    owner.expect_forgotten();
});

case!(owner_with_handles_everywhere, ["NODE-12", "REL-2"], manager_and_server, |t, (manager, owner)| {
    let holders: Vec<(Port, u32)> = (0..5)
        .map(|i| {
            let holder = t.client();
            let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x100 + i % 2, 0), &holder);
            (holder, handle)
        })
        .collect();
    owner.kill();
    for (holder, handle) in &holders {
        assert_eq!(holder.refused(&holder.place(*handle, 0, &empty())), Return::DeadReply);
        holder.send(|c| c.release(*handle));
        assert_eq!(holder.refused(&holder.place(*handle, 0, &empty())), Return::FailedReply);
    }
    // A dead node's handle can still be passed on.
    let (first, second) = (t.server(), t.client());
    let on_first = introduce(&manager, &first, FlatBinderObject::binder(0x900, 0), &second);
    first.kill();
    let call = second.call(&manager, 0, 0, &object(FlatBinderObject::strong_handle(on_first)));
    let handle = manager.object(&call).handle();
    assert_eq!(manager.refused(&manager.place(handle, 0, &empty())), Return::DeadReply);
    manager.answer(&second, &empty());
});

case!(object_in_an_unread_reply, ["OBJ-13", "REL-2"], pair, |t, (server, client)| {
    client.send_call_to(&server, 0, 0, &empty());
    server.reply(&object(FlatBinderObject::binder(0x10, 0x20)));
    client.kill();
    server.expect_forgotten();
});

case!(ten_managers, ["CTX-5", "REL-2"], Stage::client, |t, client| {
    for i in 0..10u8 {
        let manager = t.manager();
        client.round_trip(0, &manager, &bytes(&[i]), &bytes(&[i]));
        client.call(&manager, 0, 0, &empty());
        manager.kill_serving(&client);
    }
});
