// SPDX-License-Identifier: GPL-2.0
//! Nodes: the notifications of an owner about the holders of its objects, and their order.

use super::*;

const NODE: FlatBinderObject = FlatBinderObject::binder(0x1230, 0x4560);
const ID: BinderPtrCookie = BinderPtrCookie { ptr: 0x1230, cookie: 0x4560 };

/// Sends an object to the manager, and has the call answered and its buffer kept. Returns the call,
/// the handle, and the owner's returns before the reply.
fn give(owner: &Port, manager: &Port, node: FlatBinderObject) -> (BinderTransactionData, u32, Vec<Return>) {
    let call = owner.call(manager, 0, 0, &object(node));
    let handle = manager.object(&call).handle();
    owner.free(&manager.answer(owner, &empty()));
    (call, handle, owner.passed())
}

case!(strong_object_is_announced, ["NODE-6", "NODE-7"], manager_and_server, |t, (manager, owner)| {
    let (_, _, seen) = give(&owner, &manager, NODE);
    let announced = [Return::Increfs(ID), Return::Acquire(ID), Return::TransactionComplete];
    assert_eq!(seen, announced, "before the completion of the call that sends it");
});

case!(weak_object_is_announced_weakly, ["NODE-6", "NODE-7"], manager_and_server, |t, (manager, owner)| {
    let call = owner.call(&manager, 0, 0, &object(FlatBinderObject::weak_binder(ID.ptr, ID.cookie)));
    assert_eq!(manager.object(&call).kind, ObjectType::WEAK_HANDLE);
    manager.answer(&owner, &empty());
    assert_eq!(owner.passed(), [Return::Increfs(ID), Return::TransactionComplete]);
    owner.send(|c| c.increfs_done(ID.ptr, ID.cookie));
    manager.free(&call);
    assert_eq!(owner.drain(), [Return::Decrefs(ID)]);
});

case!(announced_before_the_reply, ["NODE-7", "NODE-4"], manager_and_server, |t, (manager, owner)| {
    owner.send_call_to(&manager, 0, 0, &object(NODE));
    // The announcement by itself wakes nobody.
    owner.park();
    assert!(owner.actor.is_blocked());
    manager.answer(&owner, &empty());
    assert_eq!(owner.passed()[..2], [Return::Increfs(ID), Return::Acquire(ID)]);
});

case!(announced_once, ["NODE-6"], manager_and_server, |t, (manager, owner)| {
    let (_, handle, _) = give(&owner, &manager, NODE);
    for _ in 0..3 {
        let (_, again, seen) = give(&owner, &manager, NODE);
        assert_eq!(again, handle, "the same node has one handle");
        assert_eq!(seen, [Return::TransactionComplete]);
    }
});

case!(let_go_when_the_buffer_is_freed, ["NODE-6", "OBJ-11"], manager_and_server, |t, (manager, owner)| {
    let (call, _, _) = give(&owner, &manager, NODE);
    owner.confirm(ID);
    assert_eq!(owner.drain(), []);
    manager.free(&call);
    assert_eq!(owner.drain(), [Return::Release(ID), Return::Decrefs(ID)]);
    assert_eq!(owner.node_debug_info(0).ptr, 0);
});

case!(held_while_the_announcement_is_unanswered, ["NODE-6", "NODE-8"], |t| {
    let (manager, owner) = (t.manager(), t.server());
    let (call, _, _) = give(&owner, &manager, NODE);
    manager.free(&call);
    assert_eq!(owner.drain(), [], "the owner may still be taking its count");
    owner.confirm(ID);
    assert_eq!(owner.drain(), [Return::Release(ID), Return::Decrefs(ID)]);
});

case!(held_by_the_holders_count, ["NODE-5", "OBJ-11"], manager_and_server, |t, (manager, owner)| {
    let (call, handle, _) = give(&owner, &manager, NODE);
    owner.confirm(ID);
    manager.send(|c| c.acquire(handle).acquire(handle));
    manager.free(&call);
    manager.send(|c| c.release(handle));
    assert_eq!(owner.drain(), []);
    manager.send(|c| c.release(handle));
    assert_eq!(owner.drain(), [Return::Release(ID), Return::Decrefs(ID)]);
});

case!(weak_turns_strong, ["NODE-6", "NODE-11"], manager_and_server, |t, (manager, owner)| {
    let (_, handle, seen) = give(&owner, &manager, FlatBinderObject::weak_binder(ID.ptr, ID.cookie));
    assert_eq!(seen[0], Return::Increfs(ID));
    owner.send(|c| c.increfs_done(ID.ptr, ID.cookie));
    // Only the owner can make it strong, by sending it so.
    let (_, again, seen) = give(&owner, &manager, NODE);
    assert_eq!(again, handle);
    assert_eq!(seen, [Return::Acquire(ID), Return::TransactionComplete]);
});

/// The owner gives the manager a node, which is held weakly then; its handle.
#[track_caller]
fn weakened(manager: &Port, owner: &Port) -> u32 {
    let (call, handle, _) = give(owner, manager, NODE);
    owner.confirm(ID);
    manager.send(|c| c.increfs(handle));
    manager.free(&call);
    assert_eq!(owner.drain(), [Return::Release(ID)]);
    handle
}

case!(strong_turns_weak, ["NODE-6", "NODE-9"], manager_and_server, |t, (manager, owner)| {
    let handle = weakened(&manager, &owner);
    manager.send(|c| c.decrefs(handle));
    assert_eq!(owner.drain(), [Return::Decrefs(ID)]);
});

case!(comes_back_after_release, ["NODE-6", "NODE-5"], manager_and_server, |t, (manager, owner)| {
    weakened(&manager, &owner);
    let (_, _, seen) = give(&owner, &manager, NODE);
    assert_eq!(seen, [Return::Acquire(ID), Return::TransactionComplete], "strong anew, weak all along");
});

case!(another_cookie_is_refused, ["NODE-1"], manager_and_server, |t, (manager, owner)| {
    give(&owner, &manager, NODE);
    let other = FlatBinderObject { cookie: 0x4561, ..NODE };
    assert_eq!(owner.failure(&owner.place(0, 0, &object(other))), failed(Errno::EINVAL));
    let (_, _, seen) = give(&owner, &manager, NODE);
    assert_eq!(seen, [Return::TransactionComplete]);
});

case!(cookie_can_change_with_a_new_life, ["NODE-1"], manager_and_server, |t, (manager, owner)| {
    let (call, _, _) = give(&owner, &manager, NODE);
    owner.confirm(ID);
    manager.free(&call);
    assert_eq!(owner.drain(), [Return::Release(ID), Return::Decrefs(ID)]);
    let new = BinderPtrCookie { ptr: ID.ptr, cookie: 0x789 };
    let (_, _, seen) = give(&owner, &manager, FlatBinderObject::binder(new.ptr, new.cookie));
    assert_eq!(seen[..2], [Return::Increfs(new), Return::Acquire(new)]);
});

case!(two_holders, ["NODE-5", "NODE-2"], trio, |t, (manager, owner, holder)| {
    let (call, _, _) = give(&owner, &manager, NODE);
    owner.confirm(ID);
    let handle = introduce(&manager, &owner, NODE, &holder);
    owner.ignore_passed();
    manager.free(&call);
    assert_eq!(owner.drain(), [], "the second still holds it");
    holder.send(|c| c.release(handle));
    assert_eq!(owner.drain(), [Return::Release(ID), Return::Decrefs(ID)]);
});

case!(holders_death_lets_go, ["NODE-10", "REL-2"], trio, |t, (manager, owner, holder)| {
    introduce(&manager, &owner, NODE, &holder);
    owner.ignore_passed();
    owner.confirm(ID);
    holder.start_read();
    holder.kill();
    owner.wait_for(Return::Decrefs(ID));
    assert_eq!(owner.passed(), [Return::Release(ID)]);
});

case!(answers_that_fit_nothing_are_ignored, ["NODE-8"], manager_and_server, |t, (manager, owner)| {
    let (call, _, _) = give(&owner, &manager, NODE);
    owner.send(|c| {
        c.increfs_done(ID.ptr, ID.cookie + 1)
            .acquire_done(ID.ptr, 0)
            .increfs_done(ID.ptr + 8, ID.cookie)
            .acquire_done(0, 0)
    });
    manager.free(&call);
    assert_eq!(owner.drain(), [], "the true answers are still missing");
    owner.confirm(ID);
    assert_eq!(owner.drain(), [Return::Release(ID), Return::Decrefs(ID)]);
});

// Found by random programs.
case!(wrong_answers_place_a_release, ["NODE-7", "NODE-8"], manager_and_server, |t, (manager, owner)| {
    let (call, _, _) = give(&owner, &manager, NODE);
    manager.free(&call);
    owner.send(|c| c.increfs_done(ID.ptr, ID.cookie));
    assert_eq!(owner.drain(), [], "the strong answer is missing");
    owner.send(|c| c.acquire_done(ID.ptr, ID.cookie + 1));
    owner.send(|c| c.acquire(0).request_freeze(0, 0).acquire_done(ID.ptr, ID.cookie));
    let told = owner.drain();
    assert!(
        matches!(told[..], [Return::Release(ID), Return::Decrefs(ID), Return::FrozenBinder(_)]),
        "{told:?}"
    );
});

case!(answers_cannot_be_given_twice, ["NODE-8"], manager_and_server, |t, (manager, owner)| {
    let (call, _, _) = give(&owner, &manager, NODE);
    owner.confirm(ID);
    owner.confirm(ID);
    owner.confirm(ID);
    assert_eq!(owner.drain(), [], "the holder's count is not the owner's to give");
    manager.round_trip(manager.object(&call).handle(), &owner, &empty(), &empty());
    manager.free(&call);
    assert_eq!(owner.drain(), [Return::Release(ID), Return::Decrefs(ID)]);
});

case!(debug_info_tells_what_the_owner_was_told, ["IOCTL-GET_NODE_DEBUG_INFO", "NODE-4"], |t| {
    let (manager, owner) = (t.manager(), t.server());
    let told = |strong, weak| BinderNodeDebugInfo {
        ptr: ID.ptr,
        cookie: ID.cookie,
        has_strong_ref: strong,
        has_weak_ref: weak,
    };
    owner.send_call(0, 0, &object(NODE));
    assert_eq!(owner.node_debug_info(0), told(0, 0), "nothing has been read yet");
    let call = manager.wait_call();
    let handle = manager.object(&call).handle();
    manager.send(|c| c.increfs(handle));
    manager.answer(&owner, &empty());
    assert_eq!(owner.node_debug_info(0), told(1, 1));
    owner.confirm(ID);
    manager.free(&call);
    assert_eq!(owner.drain(), [Return::Release(ID)]);
    assert_eq!(owner.node_debug_info(0), told(0, 1));
});

case!(call_in_progress_holds_the_node, ["TXN-8"], trio, |t, (manager, owner, holder)| {
    let handle = introduce(&manager, &owner, NODE, &holder);
    owner.ignore_passed();
    owner.confirm(ID);
    holder.send(|c| c.transaction(&holder.place(handle, 0, &empty())).release(handle));
    let call = owner.wait_call();
    assert!(!owner.passed().iter().any(|i| matches!(i, Return::Release(_))), "the call needs the object");
    owner.reply(&empty());
    owner.free(&call);
    let mut seen = owner.passed();
    seen.extend(owner.drain());
    assert_eq!(seen, [Return::Release(ID), Return::Decrefs(ID)]);
    holder.wait_reply();
});

case!(undelivered_object_goes_with_its_target, ["REL-2", "OBJ-13"], |t| {
    let (manager, owner) = (t.manager(), t.server());
    owner.start_blocking_call(0, 0, &object(NODE));
    manager.kill_serving(&owner);
    // The announcement may have been read already or not; in the end the node is gone.
    owner.expect_forgotten();
});

case!(hundreds_of_nodes_come_and_go, ["NODE-14", "NODE-6"], manager_and_server, |t, (manager, owner)| {
    for round in 0..2u64 {
        let parcel = parcel_of((0..300).map(|i| FlatBinderObject::binder(0x10_0000 + i * 16, round)));
        let call = owner.call(&manager, 0, 0, &parcel);
        manager.answer(&owner, &empty());
        let announced = owner.answer_counts();
        assert_eq!(announced.iter().filter(|i| matches!(i, Return::Acquire(_))).count(), 300);
        manager.free(&call);
        let let_go = owner.answer_counts();
        let releases = let_go.iter().filter(|i| matches!(i, Return::Release(_))).count();
        let decrefs = let_go.iter().filter(|i| matches!(i, Return::Decrefs(_))).count();
        t.known_difference(Driver::Upstream, "not all are let go", (releases, decrefs) == (300, 300));
    }
});
