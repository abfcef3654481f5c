// SPDX-License-Identifier: GPL-2.0
//! Pages of buffers that are charged to who receives them: our driver's parameter `charge_buffers`.
//!
//! Without it they are nobody's, as with the other drivers (ALLOC-5).

use super::*;
use crate::cgroup::Cgroup;

/// The unit of the sizes of calls, for any size of a page.
const PIECE: usize = 4096;

/// The error of a cgroup's charge: each CPU charges in advance, or late, 64 pages at a time.
fn slack() -> u64 {
    150 * page() as u64
}

fn is_charging() -> bool {
    booted_with("charge_buffers=1")
}

fn needs_charging(t: &Stage) {
    t.needs("the module parameter charge_buffers=1", is_charging());
}

/// A cgroup with one process in it.
fn cgroup_of(t: &Stage, port: &Port) -> Cgroup {
    Cgroup::count_memory().expect("count memory");
    let cgroup = Cgroup::new(&format!("memory-{}", t.global_pid(port))).expect("a cgroup");
    cgroup.add(port.actor.pid()).expect("move into it");
    cgroup
}

fn charged(cgroup: &Cgroup) -> u64 {
    cgroup.read("memory.current").expect("what it has").trim().parse().expect("a number")
}

fn set_limit(cgroup: &Cgroup, limit: impl ToString) {
    cgroup.write("memory.max", &limit.to_string()).expect("set a limit");
}

/// A call whose data the receiver does not look at: it would have to pay for the copy.
fn send_unread(client: &Port, manager: &Port, data: &[u8]) {
    finish(manager, client, &client.call(manager, 0, 0, &bytes(data)));
}

case!(receiver_pays, ["ALLOC-5"], needs_charging, |t, ()| {
    let (manager, client) = (t.manager(), t.client());
    let (receiver, sender) = (cgroup_of(t, &manager), cgroup_of(t, &client));
    let before = (charged(&receiver), charged(&sender));
    // The sender pays only for the source, which the conductor writes.
    send_unread(&client, &manager, &pattern(240 * PIECE, 1));
    let after = (charged(&receiver), charged(&sender));
    assert!(after.0 >= before.0 + 240 * PIECE as u64, "{before:?} {after:?}");
    assert!(after.1 <= before.1 + slack(), "{before:?} {after:?}");
});

case!(limit_of_the_receiver_is_kept, ["ALLOC-5", "TXN-19"], needs_charging, |t, ()| {
    let (manager, client) = (t.manager_with(4 << 20), t.client());
    let cgroup = cgroup_of(t, &manager);
    client.round_trip(0, &manager, &bytes(b"something"), &empty());
    let limit = charged(&cgroup) + (1 << 20);
    set_limit(&cgroup, limit);
    let data = pattern(3 << 20, 1);
    assert_eq!(client.failure(&client.place(0, 0, &bytes(&data))), super::failed(Errno::ENOMEM));
    assert!(charged(&cgroup) <= limit);
    let events = cgroup.read("memory.events").expect("the events");
    assert!(events.contains("oom_kill 0"), "{events}");
    set_limit(&cgroup, "max");
    client.round_trip(0, &manager, &bytes(&data), &empty());
});

case!(reclaim_of_one_cgroup, ["ALLOC-5"], needs_charging, |t, ()| {
    let shrinker = Shrinker::needed(t);
    let (manager, client) = (t.manager(), t.client());
    let cgroup = cgroup_of(t, &manager);
    client.round_trip(0, &manager, &bytes(&pattern(200 * PIECE, 1)), &empty());
    let full = shrinker.pages();
    for _ in 0..8 {
        // Fails when there is less to reclaim.
        let _ = cgroup.write("memory.reclaim", "1M");
    }
    shrinker.expect_less(full, 180 * PIECE);
    client.round_trip(0, &manager, &bytes(&pattern(200 * PIECE, 2)), &empty());
});

// At the limit, a space takes new pages from its own idle ones, where there are no others.
case!(lesson_s17_a_space_gives_up_its_own_idle_pages, ["ALLOC-5", "TXN-19", "lesson S17"], |t| {
    needs_charging(t);
    let (manager, client, other) = (t.manager_with(4 << 20), t.client(), t.client());
    let cgroup = cgroup_of(t, &manager);
    // Of three calls that lie behind each other the middle one stays. The space of the first one is
    // idle then, and too small for the third.
    let first = client.call(&manager, 0, 0, &bytes(&pattern(350 * PIECE, 1)));
    other.start_call(0, 0, &bytes(b"in between"));
    let helper = manager.looper();
    let middle = helper.wait_call();
    assert!(middle.buffer > first.buffer);
    finish(&manager, &client, &first);
    let limit = charged(&cgroup) + (300 << 10);
    set_limit(&cgroup, limit);
    assert!(client.call(&manager, 0, 0, &bytes(&pattern(400 * PIECE, 2))).buffer > middle.buffer);
    assert!(charged(&cgroup) <= limit);
    set_limit(&cgroup, "max");
});

// A page may be available and its page table not: nobody in the receiver's cgroup is killed then.
case!(nobody_is_killed_for_a_page_table, ["ALLOC-5", "TXN-19"], needs_charging, |t, ()| {
    let (manager, client) = (t.manager_with(4 << 20), t.client());
    let cgroup = cgroup_of(t, &manager);
    let limit = charged(&cgroup);
    let call = client.place_oneway(0, 0, &bytes(b"something"));
    let was_sent = (0..200u64).any(|pages| {
        set_limit(&cgroup, limit + pages * 4096);
        let answer = client.completion(&call);
        assert!(matches!(answer, Return::TransactionComplete | Return::FailedReply), "{answer:?}");
        answer == Return::TransactionComplete
    });
    assert!(was_sent);
    let events = cgroup.read("memory.events").expect("the events");
    assert!(events.contains("oom_kill 0"), "{events}");
    set_limit(&cgroup, "max");
    manager.free(&manager.wait_call());
});

case!(nobody_pays_by_default, ["ALLOC-5"], |t| {
    if is_charging() {
        return;
    }
    let (space, sent) = (4 << 20, 240 * page());
    t.needs("a space for more than what a cgroup is charged for in advance", sent < space);
    let (manager, client) = (t.manager_with(space), t.client());
    let cgroup = cgroup_of(t, &manager);
    let before = charged(&cgroup);
    send_unread(&client, &manager, &pattern(sent, 1));
    assert!(charged(&cgroup) < before + slack(), "{before} {}", charged(&cgroup));
});
