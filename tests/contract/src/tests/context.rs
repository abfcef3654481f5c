// SPDX-License-Identifier: GPL-2.0
//! The context manager: one per device, known to all as handle 0.

use super::*;

case!(no_manager, ["CTX-3"], Stage::client, |t, client| {
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
    let explained = client.extended_error() == dead(Errno::EINVAL);
    t.known_difference(Driver::Upstream, "BR_DEAD_REPLY leaves no extended error", explained);
});

case!(only_one, ["CTX-1", "IOCTL-SET_CONTEXT_MGR"], pair, |t, (manager, other)| {
    let again = |port: &Port| port.ioctl(BINDER_SET_CONTEXT_MGR, 0i32).err();
    assert_eq!(again(&other), Some(Errno::EBUSY));
    assert_eq!(again(&manager), Some(Errno::EBUSY));
    let node = FlatBinderObject::binder(1, 2);
    assert_eq!(other.ioctl(BINDER_SET_CONTEXT_MGR_EXT, node).err(), Some(Errno::EBUSY));
});

case!(same_user_may_take_over, ["CTX-1", "CTX-5"], Stage::client, |t, client| {
    for round in 0..3u8 {
        let manager = t.manager();
        client.round_trip(0, &manager, &bytes(&[round]), &bytes(&[round, round]));
        manager.kill();
    }
});

fn as_user(port: &Port, uid: u32) {
    port.actor.number(Op::SetUser { uid }).expect("change the user");
}

/// Waits until the manager's death has been noticed, and returns what another then gets.
fn take_over(port: &Port) -> Option<Errno> {
    port.set_context_manager().err()
}

case!(another_user_may_not, ["CTX-1"], |t| {
    t.manager().kill();
    let other = t.client();
    as_user(&other, 1000);
    assert_eq!(take_over(&other), Some(Errno::EPERM));
    as_user(&other, 0);
    assert_eq!(take_over(&other), None);
});

case!(users_are_compared_by_effective_id, ["CTX-1"], Stage::needs_new_devices, |t, ()| {
    let manager = t.client();
    as_user(&manager, 1000);
    manager.set_context_manager().expect("any user may be first");
    manager.kill();
    let root = t.client();
    assert_eq!(take_over(&root), Some(Errno::EPERM), "root is another user, too");
});

case!(lesson_r14_manager_cannot_call_itself, ["CTX-3"], Stage::manager, |t, manager| {
    assert_eq!(manager.failure(&manager.place(0, 0, &empty())), failed(Errno::EINVAL));
    let thread = manager.thread();
    assert_eq!(thread.refused(&thread.place(0, 0, &empty())), Return::FailedReply);
});

case!(manager_cannot_call_itself_through_another_file, ["CTX-3"], |t| {
    if t.upstream() {
        return; // Upstream compares files, not processes: the call would wait for its own thread.
    }
    let manager = t.manager();
    let other = t.client_by(manager.actor.clone());
    assert_eq!(other.failure(&other.place(0, 0, &empty())), failed(Errno::EINVAL));
});

case!(manager_cannot_hold_itself, ["CTX-4", "WR-3"], Stage::manager, |t, manager| {
    for build in [Commands::acquire as fn(&mut Commands, u32) -> &mut Commands, Commands::increfs] {
        let mut commands = Commands::new();
        build(&mut commands, 0);
        let outcome = manager.try_write(&commands);
        assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EINVAL, 0));
    }
});

case!(clients_can_hold_it, ["CTX-4", "CTX-2"], pair, |t, (manager, client)| {
    client.send(|c| c.increfs(0).acquire(0).acquire(0).release(0).release(0).decrefs(0));
    client.round_trip(0, &manager, &empty(), &empty());
    client.send(|c| c.acquire(0));
    client.round_trip(0, &manager, &empty(), &empty());
});

case!(its_node_is_never_counted_to_it, ["CTX-2"], pair, |t, (manager, client)| {
    client.send(|c| c.increfs(0).acquire(0));
    client.round_trip(0, &manager, &empty(), &empty());
    client.send(|c| c.release(0).decrefs(0));
    client.kill();
    let seen = manager.answer_counts();
    assert!(seen.iter().all(|item| matches!(item, Return::TransactionComplete)), "{seen:?}");
});

case!(plain_node_is_zero, ["CTX-2", "TXN-29"], pair, |t, (manager, client)| {
    let call = client.call(&manager, 0, 0, &empty());
    assert_eq!((call.target, call.cookie), (0, 0));
    manager.answer(&client, &empty());
});

case!(extended_node_is_delivered, ["CTX-1", "IOCTL-SET_CONTEXT_MGR_EXT", "TXN-29"], |t| {
    let (manager, client) = (t.client(), t.client());
    let node = FlatBinderObject { kind: 0x1234, flags: 0x7f, binder: 0xabc0, cookie: 0xdef0 };
    manager.set_context_manager_ext(node).expect("the type is not looked at");
    manager.enter_looper();
    let call = client.call(&manager, 0, 0, &empty());
    assert_eq!((call.target, call.cookie), (0xabc0, 0xdef0));
    manager.answer(&client, &empty());
    let info = manager.node_debug_info(0);
    assert_eq!((info.ptr, info.cookie), (0xabc0, 0xdef0));
    assert_eq!((info.has_strong_ref, info.has_weak_ref), (1, 1));
});

/// A manager whose pointer it has sent before, with cookie 5. It has read of that node's counts,
/// and has not answered: so the node stays without a holder.
pub(super) fn manager_with_a_known_node(t: &Stage) -> Port {
    let (old, next) = (t.manager(), t.client());
    let call = next.call(&old, 0, 0, &object(FlatBinderObject::binder(0, 5)));
    next.free(&old.answer(&next, &empty()));
    old.free(&call);
    old.kill();
    next.set_context_manager().expect("the cookie of the object does not matter");
    next
}

// The known node becomes the manager's, with its own cookie.
case!(node_that_is_known_becomes_it, ["CTX-1", "NODE-1"], manager_with_a_known_node, |t, next| {
    next.enter_looper();
    let client = t.client();
    let call = client.call(&next, 0, 0, &empty());
    assert_eq!((call.target, call.cookie), (0, 5));
    next.answer(&client, &empty());
});

case!(extended_fault, ["IOCTL-SET_CONTEXT_MGR_EXT"], |t| {
    let result = t.client().ioctl_fault(BINDER_SET_CONTEXT_MGR_EXT);
    let wanted = if t.upstream() { Errno::EFAULT } else { Errno::EINVAL };
    assert_eq!(result, Err(wanted));
});

case!(death_frees_the_place, ["CTX-5"], pair, |t, (manager, client)| {
    manager.kill();
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
    client.round_trip(0, &t.manager(), &bytes(b"a"), &bytes(b"b"));
});

case!(old_handle_zero_stays_with_the_dead, ["CTX-5", "NODE-3"], pair, |t, (manager, client)| {
    client.send(|c| c.acquire(0));
    manager.kill();
    let next = t.manager();
    // Calls of handle 0 go to the present manager.
    client.round_trip(0, &next, &bytes(b"to the"), &bytes(b"new one"));
    // A count on it takes the next free handle, since the old one is occupied.
    client.send(|c| c.acquire(0));
    client.round_trip(1, &next, &bytes(b"by its"), &bytes(b"own handle"));
    // Once given back, it is free for the new manager.
    client.send(|c| c.release(1));
    let gone = client.refused(&client.place(1, 0, &empty()));
    t.known_difference(Driver::Upstream, "handle 1 is still there", gone == Return::FailedReply);
});

case!(devices_have_managers_of_their_own, ["BFS-14", "CTX-1"], pair, |t, (manager, client)| {
    let open = || t.client_at(&t.device("hwbinder"), Rc::new(Actor::new()));
    let (other_manager, other_client) = (open(), open());
    assert_eq!(other_client.refused(&other_client.place(0, 0, &empty())), Return::DeadReply);
    other_manager.set_context_manager().expect("a device of its own");
    other_manager.enter_looper();
    client.round_trip(0, &manager, &bytes(b"first"), &empty());
    other_client.round_trip(0, &other_manager, &bytes(b"second"), &empty());
});
