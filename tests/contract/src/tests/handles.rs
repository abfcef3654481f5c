// SPDX-License-Identifier: GPL-2.0
//! Handles: their numbers, and what becomes of objects on their way between processes.

use super::*;

/// Sends a node to the manager, who keeps a count; returns its handle there.
fn register(owner: &Port, manager: &Port, ptr: u64) -> u32 {
    let handle = give_in_a_call(manager, owner, FlatBinderObject::binder(ptr, 0));
    owner.settle_counts();
    handle
}

case!(start_at_one, ["NODE-3"], manager_and_server, |t, (manager, owner)| {
    for expected in 1..=5 {
        assert_eq!(register(&owner, &manager, 0x1000 + u64::from(expected)), expected);
    }
});

case!(lowest_free_one_is_taken, ["NODE-3"], manager_and_server, |t, (manager, owner)| {
    let parcel = parcel_of((1..=70).map(|i| FlatBinderObject::binder(0x1000 + i * 16, 0)));
    let call = owner.call(&manager, 0, 0, &parcel);
    assert_eq!(manager.object_at(&call, 69).handle(), 70);
    manager.send(|c| (1..=70).fold(c, |c, handle| c.acquire(handle)));
    finish(&manager, &owner, &call);
    owner.settle_counts();
    for free in [64, 3, 70, 17] {
        manager.send(|c| c.release(free));
    }
    assert_eq!(owner.answer_counts().len(), 8, "each is released and let go");
    let taken: Vec<u32> = (0..5).map(|i| register(&owner, &manager, 0x9000 + i * 16)).collect();
    assert_eq!(taken, [3, 17, 64, 70, 71]);
});

case!(zero_is_the_managers, ["NODE-3", "CTX-4"], two_clients, |t, (manager, owner, client)| {
    // Handle 0 is never given to another node, though nobody holds the manager's yet.
    assert_eq!(introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &client), 1);
    client.send(|c| c.acquire(0));
    assert_eq!(introduce(&manager, &owner, FlatBinderObject::binder(0x20, 0), &client), 2);
});

case!(come_home_as_nodes, ["OBJ-1", "NODE-2"], manager_and_server, |t, (manager, owner)| {
    let node = FlatBinderObject::binder(0xabc0, 0xdef0);
    let call = owner.call(&manager, 0, 0, &object(node));
    let handle = manager.object(&call).handle();
    let reply = manager.answer(&owner, &object(FlatBinderObject::strong_handle(handle)));
    let back = owner.object(&reply);
    assert_eq!((back.kind, back.binder, back.cookie), (ObjectType::BINDER, 0xabc0, 0xdef0));
    owner.settle_counts();
    // The reply's buffer holds the node by itself.
    manager.free(&call);
    assert_eq!(owner.drain(), []);
    owner.free(&reply);
    assert_eq!(owner.drain().len(), 2, "now it is let go");
});

case!(come_home_weakly, ["OBJ-1"], manager_and_server, |t, (manager, owner)| {
    owner.start_call(0, 0, &object(FlatBinderObject::weak_binder(0xabc0, 0xdef0)));
    let handle = manager.object(&manager.wait_call()).handle();
    let back = owner.object(&manager.answer(&owner, &object(FlatBinderObject::weak_handle(handle))));
    assert_eq!((back.kind, back.binder, back.cookie), (ObjectType::WEAK_BINDER, 0xabc0, 0xdef0));
});

case!(passed_on_to_a_third, ["NODE-2", "OBJ-11"], trio, |t, (manager, owner, holder)| {
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &holder);
    // The manager, who passed it on, keeps nothing: the owner's node lives by the holder's count.
    assert_eq!(owner.drain(), []);
    holder.round_trip(handle, &owner, &empty(), &empty());
    holder.send(|c| c.release(handle));
    assert_eq!(owner.drain().len(), 2);
});

case!(passed_on_weakly, ["OBJ-1", "OBJ-11"], trio, |t, (manager, owner, holder)| {
    let at_manager = register(&owner, &manager, 0x10);
    holder.call(&manager, 0, 0, &empty());
    let reply = manager.answer(&holder, &object(FlatBinderObject::weak_handle(at_manager)));
    let received = holder.object(&reply);
    assert_eq!(received.kind, ObjectType::WEAK_HANDLE);
    assert_eq!(holder.refused(&holder.place(received.handle(), 0, &empty())), Return::FailedReply);
    manager.send(|c| c.release(at_manager));
    assert!(matches!(owner.drain()[..], [Return::Release(_)]));
    holder.free(&reply);
    assert!(matches!(owner.drain()[..], [Return::Decrefs(_)]));
});

case!(unknown_one_in_a_call, ["OBJ-1", "TXN-19"], pair, |t, (_manager, client)| {
    let errno = if t.upstream() { Errno::ENOENT } else { Errno::EINVAL };
    for wrong in [
        FlatBinderObject::strong_handle(NO_HANDLE),
        FlatBinderObject::weak_handle(NO_HANDLE),
        FlatBinderObject::strong_handle(0),
        FlatBinderObject::strong_handle(u32::MAX),
    ] {
        assert_eq!(client.failure(&client.place(0, 0, &object(wrong))), super::failed(errno), "{wrong:x?}");
    }
});

case!(flags_are_kept, ["OBJ-1"], pair, |t, (manager, client)| {
    let flags = ObjectFlags::from_bits_retain(0x7f | 0x100);
    client.start_call(0, 0, &object(FlatBinderObject::binder(0x10, 0).with_flags(flags)));
    assert_eq!(manager.object(&manager.wait_call()).flags, flags.bits());
    manager.answer(&client, &empty());
});

case!(same_node_by_two_ways, ["NODE-2"], trio, |t, (manager, owner, holder)| {
    let node = FlatBinderObject::binder(0x10, 0x20);
    let first = introduce(&manager, &owner, node, &holder);
    assert_eq!(first, introduce(&manager, &owner, node, &holder));
    // It was counted twice.
    owner.settle_counts();
    holder.send(|c| c.release(first));
    assert_eq!(owner.drain(), []);
    holder.send(|c| c.release(first));
    assert_eq!(owner.drain().len(), 2);
});

case!(each_process_has_its_own, ["NODE-2"], |t| {
    let (manager, owner, a, b) = (t.manager(), t.server(), t.client(), t.client());
    introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &a);
    let on_a = introduce(&manager, &owner, FlatBinderObject::binder(0x20, 0), &a);
    let on_b = introduce(&manager, &owner, FlatBinderObject::binder(0x20, 0), &b);
    assert_eq!((on_a, on_b), (2, 1));
    owner.settle_counts();
    for (port, handle) in [(&a, on_a), (&b, on_b)] {
        assert_eq!(port.call(&owner, handle, 0, &empty()).target, 0x20);
        owner.answer(port, &empty());
    }
});

case!(buffer_holds_those_in_it, ["OBJ-11"], manager_and_server, |t, (manager, owner)| {
    let call = owner.call(&manager, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    let handle = manager.object(&call).handle();
    manager.answer(&owner, &empty());
    owner.settle_counts();
    // The manager takes no count of its own, and gives none back.
    manager.round_trip(handle, &owner, &empty(), &empty());
    manager.free(&call);
    assert_eq!(manager.refused(&manager.place(handle, 0, &empty())), Return::FailedReply);
});

case!(lesson_c20_thousands, ["NODE-3", "NODE-14"], manager_and_server, |t, (manager, owner)| {
    let mut calls = Vec::new();
    for batch in 0..3u64 {
        let parcel =
            parcel_of((0..500).map(|i| FlatBinderObject::binder(0x10_0000 + (batch * 500 + i) * 16, 0)));
        let call = owner.call(&manager, 0, 0, &parcel);
        assert_eq!(manager.object_at(&call, 499).handle() as u64, (batch + 1) * 500);
        manager.answer(&owner, &empty());
        calls.push(call);
    }
    // The second batch goes, and its numbers are reused, lowest first.
    manager.free(&calls[1]);
    owner.start_call(0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    assert_eq!(manager.object(&manager.wait_call()).handle(), 501);
    manager.answer(&owner, &empty());
});

case!(holder_of_the_manager_sends_it, ["CTX-4", "NODE-3"], trio, |t, (manager, owner, client)| {
    let on_owner = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0), &client);
    client.send(|c| c.acquire(0));
    let call = client.call(&owner, on_owner, 0, &object(FlatBinderObject::strong_handle(0)));
    let received = owner.object(&call);
    assert_eq!(received.kind, ObjectType::HANDLE);
    let zero = received.handle() == 0;
    t.known_difference(Driver::Upstream, "a manager sent as an object gets another handle than 0", zero);
    owner.answer(&client, &empty());
});
