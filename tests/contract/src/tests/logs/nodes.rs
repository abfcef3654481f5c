// SPDX-License-Identifier: GPL-2.0
//! Nodes with their counts, and references to them.

use super::*;
use binder_logs::{Node, NodeCounts, Pointer};

const NODE: u64 = 0x1230;

fn made() -> FlatBinderObject {
    FlatBinderObject::binder(NODE, 0x4560)
}

/// A node's counts: local strong, local weak, internal strong, references.
fn counts(node: &Node) -> [i64; 4] {
    match node.counts {
        // This read holds a temporary count. So may, in C, an ioctl that has sent a call to the
        // node and woken its server.
        NodeCounts::Full { local_strong, local_weak, internal_strong, references, temporary } => {
            assert!((0..=2).contains(&temporary), "{node:?}");
            [local_strong, local_weak, internal_strong, references]
        }
        NodeCounts::Summed { .. } => panic!("{node:?}"),
    }
}

fn pids(t: &Stage, ports: &[&Port]) -> Vec<i32> {
    ports.iter().map(|port| t.global_pid(port) as i32).collect()
}

fn sorted(mut pids: Vec<i32>) -> Vec<i32> {
    pids.sort_unstable();
    pids
}

case!(node_of_the_manager, ["LOG-4", "NODE-15"], Logs::of, |t, logs| {
    let manager = t.manager();
    let node = only(logs.process(&manager).nodes);
    assert_eq!((node.ptr, node.cookie), (Pointer::Value(0), Pointer::Value(0)));
    assert_eq!((node.has_strong, node.has_weak, counts(&node)), (true, true, [1, 1, 0, 0]));
    assert_eq!((node.holders, node.work), (vec![], vec![]));
});

case!(node_that_is_held, ["LOG-4", "LOG-5", "NODE-15"], Logs::of, |t, logs| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, made(), &holder);
    let node = logs.node(&owner, NODE);
    assert_eq!((node.ptr, node.cookie), (Pointer::Value(NODE), Pointer::Value(0x4560)));
    assert_eq!((node.has_strong, node.has_weak, counts(&node)), (true, true, [0, 0, 1, 1]));
    assert_eq!(node.holders, pids(t, &[&holder]));
    let reference = logs.process(&holder).references.into_iter().find(|one| one.handle == i64::from(handle));
    let reference = reference.expect("the handle");
    assert_eq!((reference.node, reference.is_dead), (node.id, false));
    assert_eq!((reference.strong, reference.weak), (1, 0));
    holder.send(|c| c.release(handle));
    owner.expect_forgotten();
    assert_eq!(logs.process(&owner).nodes, []);
});

// On a kernel whose parameter `no_hash_pointers` turns the hash off, this alone hides them.
case!(lesson_t02_kernel_addresses_are_restricted, ["LOG-5"], logged_pair, |t, (logs, _manager, client)| {
    client.send(|c| c.acquire(0).request_death(0, 7));
    let is_hidden = || only(logs.process(&client).references).death.expect("a word").is_null();
    let restricted = Limit::at("/proc/sys/kernel/kptr_restrict".into(), 0);
    assert!(!is_hidden(), "it is hashed");
    restricted.change(1);
    crate::containers::as_user(1000, || {
        assert!(is_hidden(), "without CAP_SYSLOG");
    });
    restricted.change(2);
    assert!(is_hidden());
});

case!(node_that_is_held_weakly, ["LOG-4", "LOG-5"], Logs::of, |t, logs| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, made(), &holder);
    holder.send(|c| c.increfs(handle).release(handle));
    owner.hear_counts();
    let node = logs.node(&owner, NODE);
    assert_eq!((node.has_strong, node.has_weak, counts(&node)), (false, true, [0, 0, 0, 1]));
    let reference = logs.process(&holder).references.into_iter().find(|one| one.node == node.id);
    assert_eq!(reference.map(|reference| (reference.strong, reference.weak)), Some((0, 1)));
});

case!(node_in_a_call, ["LOG-4"], Logs::of, |t, logs| {
    let (manager, owner) = (t.manager(), t.server());
    let handle = give_in_a_call(&manager, &owner, made());
    owner.settle_counts();
    assert_eq!(counts(&logs.node(&owner, NODE)), [0, 0, 1, 1]);
    let call = manager.call(&owner, handle, 0, &empty());
    assert_eq!(counts(&logs.node(&owner, NODE)), [1, 0, 1, 1], "a buffer keeps the node that it is for");
    owner.reply(&empty());
    assert_eq!(counts(&logs.node(&owner, NODE)), [1, 0, 1, 1]);
    owner.free(&call);
    assert_eq!(counts(&logs.node(&owner, NODE)), [0, 0, 1, 1]);
    manager.wait_reply();
    // One of its own objects sent to itself is no reference.
    let call = manager.call(&owner, handle, 0, &object(FlatBinderObject::strong_handle(handle)));
    assert_eq!(counts(&logs.node(&owner, NODE)), [2, 0, 1, 1]);
    finish(&owner, &manager, &call);
    assert_eq!(counts(&logs.node(&owner, NODE)), [0, 0, 1, 1]);
});

case!(node_that_its_owner_has_not_heard_of, ["LOG-4"], Logs::of, |t, logs| {
    let (manager, owner) = (t.manager(), t.server());
    owner.send(|c| c.transaction(&owner.place_oneway(0, 0, &object(made()))));
    let node = logs.node(&owner, NODE);
    assert_eq!((node.has_strong, node.has_weak, counts(&node)), (false, false, [0, 0, 1, 1]));
    let told = owner.read_once();
    let [Return::Increfs(announced), Return::Acquire(_), Return::TransactionComplete] = told[..] else {
        panic!("{told:?}")
    };
    let node = logs.node(&owner, NODE);
    assert_eq!(
        (node.has_strong, node.has_weak, counts(&node)),
        (true, true, [1, 1, 1, 1]),
        "until it has confirmed"
    );
    owner.send(|c| {
        c.increfs_done(announced.ptr, announced.cookie).acquire_done(announced.ptr, announced.cookie)
    });
    assert_eq!(counts(&logs.node(&owner, NODE)), [0, 0, 1, 1]);
    manager.wait_call();
});

case!(holders_are_named, ["LOG-4"], Logs::of, |t, logs| {
    let (manager, owner, one, other) = (t.manager(), t.server(), t.client(), t.client());
    // Among the holders of another node.
    for node in [made(), FlatBinderObject::binder(0x7000, 0)] {
        introduce(&manager, &owner, node, &one);
        introduce(&manager, &owner, node, &other);
    }
    let node = logs.node(&owner, NODE);
    assert_eq!(counts(&node)[2..], [2, 2]);
    assert_eq!(sorted(node.holders), sorted(pids(t, &[&one, &other])));
    one.kill();
    let left = until("one has gone", || {
        let holders = logs.node(&owner, NODE).holders;
        (holders.len() == 1).then_some(holders)
    });
    assert_eq!(left, pids(t, &[&other]));
    let _ = owner.answer_counts();
});

case!(handle_with_its_counts, ["LOG-5"], logged_pair, |t, (logs, manager, client)| {
    client.send(|c| c.acquire(0).acquire(0).increfs(0).increfs(0).increfs(0));
    let reference = only(logs.process(&client).references);
    assert_eq!((reference.handle, reference.node), (0, logs.node(&manager, 0).id));
    assert_eq!((reference.strong, reference.weak), (2, 3));
    assert!(reference.death.expect("a word").is_null());
    let node = logs.node(&manager, 0);
    assert_eq!((counts(&node), node.holders), ([1, 1, 1, 1], pids(t, &[&client])));
    let stats = logs.stats_of(&client).references.expect("a line");
    assert_eq!((stats.count, stats.strong, stats.weak), (1, 2, 3));
});

case!(dead_nodes, ["LOG-5", "LOG-8", "NODE-12"], Logs::of, |t, logs| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = introduce(&manager, &owner, made(), &holder);
    let alive = logs.node(&owner, NODE);
    let dead = || logs.state().dead_nodes.into_iter().find(|node| node.id == alive.id);
    assert_eq!(dead(), None);
    owner.kill();
    let node = until("it is dead", dead);
    assert_eq!((node.ptr, node.cookie), (alive.ptr, alive.cookie));
    assert_eq!((counts(&node), node.holders), ([0, 0, 1, 1], pids(t, &[&holder])));
    let reference = logs.process(&holder).references.into_iter().find(|one| one.handle == i64::from(handle));
    assert_eq!(reference.map(|one| (one.is_dead, one.node)), Some((true, alive.id)));
    holder.send(|c| c.release(handle));
    until("nobody holds it", || dead().is_none().then_some(()));
});

case!(numbers_are_of_one_counter, ["NODE-15", "LOG-3", "LOG-4", "LOG-5"], Logs::of, |t, logs| {
    let (manager, owner) = (t.manager(), t.server());
    owner.call(&manager, 0, 0, &object(made()));
    let (call, node) = (only(logs.thread(&owner).stack).transaction.id, logs.node(&owner, NODE).id);
    let reference = only(logs.process(&manager).references);
    assert_eq!(reference.node, node);
    let older = logs.node(&manager, 0).id;
    assert!(older < call && call < node && node < reference.id, "{older} {call} {node} {}", reference.id);
    manager.answer(&owner, &empty());
});
