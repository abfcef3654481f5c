// SPDX-License-Identifier: GPL-2.0
//! The space that incoming transactions land in: who may map it, how, and what its end means.

use super::*;

const READ: ProtFlags = ProtFlags::PROT_READ;

case!(writable_is_refused, ["MMAP-2"], Stage::opened, |t, port| {
    let write = READ | ProtFlags::PROT_WRITE;
    assert_eq!(port.map_with(page(), write, MapFlags::MAP_PRIVATE), Err(Errno::EPERM));
    assert_eq!(port.map_with(page(), write, MapFlags::MAP_SHARED), Err(Errno::EPERM));
});

case!(cannot_become_writable, ["MMAP-2"], Stage::client, |t, port| {
    let (address, length) = port.space.expect("a space");
    let protection = (READ | ProtFlags::PROT_WRITE).bits();
    assert_eq!(port.actor.number(Op::Protect { address, length, protection }), Err(Errno::EACCES));
});

case!(other_kinds_are_fine, ["MMAP-2"], |t| {
    for protection in [ProtFlags::PROT_NONE, READ] {
        for flags in
            [MapFlags::MAP_PRIVATE, MapFlags::MAP_SHARED, MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE]
        {
            t.opened().map_with(2 * page(), protection, flags).expect("map");
        }
    }
});

// A device belongs to its process, not to the process's memory.
case!(process_with_the_same_memory_cannot, ["MMAP-1"], |t| {
    let mut port = t.opened();
    let (protection, flags) = (READ.bits(), MapFlags::MAP_PRIVATE.bits());
    let map = Op::Map { slot: port.slot, length: page(), protection, flags, offset: 0 };
    assert_eq!(port.actor.number(Op::InTwin { op: Box::new(map) }), Err(Errno::EINVAL));
    port.map(page()).expect("the opener can");
});

case!(only_once, ["MMAP-3"], |t| {
    let mut port = t.client();
    assert_eq!(port.map(page()), Err(Errno::EBUSY));
});

case!(not_again_after_unmap, ["MMAP-3", "MMAP-7"], |t| {
    let mut port = t.client();
    port.unmap();
    assert_eq!(port.map(page()), Err(Errno::EBUSY));
});

case!(failed_attempt_may_be_repeated, ["MMAP-3", "MMAP-2"], |t| {
    let (manager, mut client) = (t.manager(), t.opened());
    let write = READ | ProtFlags::PROT_WRITE;
    assert_eq!(client.map_with(page(), write, MapFlags::MAP_PRIVATE), Err(Errno::EPERM));
    client.map(page()).expect("the second attempt");
    client.round_trip(0, &manager, &empty(), &bytes(b"lands"));
});

case!(untouched_pages_are_not_there, ["MMAP-5"], Stage::client, |t, port| {
    let (address, _) = port.space.expect("a space");
    port.actor.start(Op::Touch { address });
    assert_eq!(port.actor.wait_dead(), Some(Signal::SIGBUS));
});

case!(at_most_four_megabytes, ["MMAP-4", "ALLOC-2"], |t| {
    let (manager, client) = (t.manager_with(6 << 20), t.client());
    let question = pattern(4 << 20, 1);
    let data = client.place(0, 0, &bytes(&question));
    let call = client.call_with(&manager, &data);
    assert_eq!(manager.data(&call), question);
    finish(&manager, &client, &call);
    assert_eq!(
        client.failure(&client.place(0, 0, &bytes(&pattern((4 << 20) + 8, 1)))),
        failed(Errno::ENOSPC)
    );
});

case!(one_page_is_enough, ["MMAP-4", "ALLOC-2"], |t| {
    let (manager, client) = (t.manager_with(page()), t.client_with(page()));
    let (question, answer) = (pattern(page(), 1), pattern(page(), 2));
    assert_eq!(client.round_trip(0, &manager, &bytes(&question), &bytes(&answer)), answer);
    assert_eq!(client.failure(&client.place(0, 0, &bytes(&pattern(page() + 1, 3)))), failed(Errno::ENOSPC));
});

case!(pages_start_zeroed, ["MMAP-5"], pair, |t, (manager, client)| {
    let call = client.call(&manager, 0, 0, &bytes(b"x"));
    let rest = manager.memory(call.buffer + 8, page() - 8 - call.buffer as usize % page());
    assert!(rest.iter().all(|byte| *byte == 0), "the rest of a new page");
    finish(&manager, &client, &call);
});

case!(never_mapped_target, ["MMAP-7", "TXN-7"], |t| {
    let (manager, client) = (t.opened(), t.client());
    manager.set_context_manager().expect("manage");
    assert_eq!(client.refused(&client.place(0, 0, &empty())), Return::DeadReply);
    let explained = client.extended_error() == dead(Errno::ESRCH);
    t.known_difference(Driver::Upstream, "BR_DEAD_REPLY leaves no extended error", explained);
});

/// Calls a manager whose space is gone.
fn expect_unreachable(t: &Stage, client: &Port) {
    let answer = client.refused(&client.place(0, 0, &bytes(&pattern(100, 0))));
    let as_c = answer == Return::DeadReply && client.extended_error() == dead(Errno::ESRCH);
    t.known_difference(Driver::Upstream, "unmapping is not noticed", as_c);
}

case!(lesson_r20_unmapped_target, ["MMAP-7"], pair, |t, (manager, client)| {
    // The pages that a call needs are there; they must not be used any more.
    client.round_trip(0, &manager, &bytes(b"mapped"), &empty());
    manager.unmap();
    expect_unreachable(t, &client);
});

case!(partly_unmapped_target, ["MMAP-7"], pair, |t, (manager, client)| {
    let (address, length) = manager.space.expect("a space");
    manager
        .actor
        .number(Op::Unmap { address: address + length as u64 - page() as u64, length: page() })
        .expect("unmap");
    if t.upstream() {
        return;
    }
    expect_unreachable(t, &client);
});

case!(delivered_buffers_can_be_freed_after_unmap, ["MMAP-7", "OBJ-12"], pair, |t, (manager, client)| {
    let call = client.call(&manager, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    manager.unmap();
    finish(&manager, &client, &call);
    // The buffer held the only count on the object.
    client.settle_counts();
    let gone = |items: &[Return]| items.iter().any(|item| matches!(item, Return::Decrefs(_)));
    let mut items = client.answer_counts();
    items.extend(client.answer_counts());
    assert!(gone(&items) || client.node_debug_info(0).ptr == 0, "{items:?}");
});

case!(lesson_r03_new_mapping_at_the_old_address_gets_nothing, ["MMAP-7"], pair, |t, (manager, client)| {
    client.round_trip(0, &manager, &bytes(b"secret"), &empty());
    let (address, length) = manager.space.expect("a space");
    manager.unmap();
    // Nothing else is mapped in between, so the kernel gives the same place to an equal mapping.
    let path = "/dev/zero".to_string();
    let slot = manager.actor.number(Op::Open { path, flags: libc::O_RDWR }).expect("open") as usize;
    let (protection, flags) = ((READ | ProtFlags::PROT_WRITE).bits(), MapFlags::MAP_PRIVATE.bits());
    let new = manager.actor.number(Op::Map { slot, length, protection, flags, offset: 0 }).expect("map");
    assert_eq!(new, address, "the place was taken by something else");
    client.start_call(0, 0, &bytes(b"intruder"));
    let refused = !client.actor.is_blocked();
    t.known_difference(Driver::Upstream, "the call goes to pages that nobody can see", refused);
    assert_eq!(manager.memory(address, 64), [0; 64], "the new mapping has its own pages");
});

case!(lesson_r03_mapping_over_ours_gets_nothing, ["MMAP-7"], pair, |t, (manager, client)| {
    client.round_trip(0, &manager, &bytes(b"secret"), &empty());
    let (address, length) = manager.space.expect("a space");
    manager.actor.number(Op::Cover { address, length }).expect("map something else there");
    client.start_call(0, 0, &bytes(b"intruder"));
    let refused = !client.actor.is_blocked();
    t.known_difference(Driver::Upstream, "the call goes to pages that nobody can see", refused);
    assert_eq!(manager.memory(address, 64), [0; 64], "the new mapping has its own pages");
});

case!(moved_target, ["MMAP-7"], pair, |t, (manager, client)| {
    let call = client.call(&manager, 0, 0, &bytes(b"delivered"));
    let (address, length) = manager.space.expect("a space");
    let moved = manager.actor.number(Op::Move { address, length }).expect("move the space");
    assert_ne!(moved, address);
    assert_eq!(manager.memory(moved + (call.buffer - address), 9), b"delivered", "moved with the space");
    finish(&manager, &client, &call);
    if t.upstream() {
        return;
    }
    expect_unreachable(t, &client);
});

// Advice about a part of the mapping splits it into several.
case!(mapping_in_parts, ["MMAP-7"], pair, |t, (manager, client)| {
    let (address, _) = manager.space.expect("a space");
    let (part, advice) = (address + page() as u64, libc::MADV_RANDOM);
    manager.actor.number(Op::Advise { address: part, length: page(), advice }).expect("advise on a page");
    let data = pattern(4 * page(), 1);
    assert_eq!(client.round_trip(0, &manager, &bytes(&data), &bytes(b"all of it")), b"all of it");
});

// A process may throw its view of a page away; it gets no other by that, and harms nobody.
case!(pages_thrown_away_stay_away, ["MMAP-5"], pair, |t, (manager, client)| {
    client.round_trip(0, &manager, &bytes(b"seen"), &empty());
    let (address, length) = manager.space.expect("a space");
    let advice = libc::MADV_DONTNEED;
    manager.actor.number(Op::Advise { address, length, advice }).expect("throw pages away");
    let call = client.call(&manager, 0, 0, &bytes(b"not seen"));
    manager.actor.start(Op::Touch { address: call.buffer });
    assert_eq!(manager.actor.wait_dead(), Some(Signal::SIGBUS));
    assert_eq!(client.wait_refusal(), Return::DeadReply);
});
