// SPDX-License-Identifier: GPL-2.0
//! Pages of buffers that are charged to who receives them: our driver's parameter `charge_buffers`.
//!
//! Without it they are nobody's, as with the other drivers (ALLOC-5).

use super::*;
use crate::shrinker::Shrinker;

/// The unit of the sizes of calls, for any size of a page.
const PIECE: usize = 4096;

/// The error of a cgroup's charge: each CPU charges in advance, or late, 64 pages at a time.
fn slack() -> u64 {
    150 * page() as u64
}

fn is_charging() -> bool {
    std::fs::read_to_string("/proc/cmdline").expect("the command line").contains("charge_buffers=1")
}

fn needs_charging(t: &Stage) {
    t.needs("the module parameter charge_buffers=1", is_charging());
}

/// A cgroup with one process in it.
struct Cgroup(PathBuf);

impl Cgroup {
    fn of(t: &Stage, port: &Port) -> Self {
        let root = PathBuf::from("/sys/fs/cgroup");
        std::fs::write(root.join("cgroup.subtree_control"), "+memory").expect("control memory");
        let path = root.join(format!("memory-{}", t.global_pid(port)));
        std::fs::create_dir_all(&path).expect("make a cgroup");
        std::fs::write(path.join("cgroup.procs"), port.actor.pid().to_string()).expect("move into it");
        Self(path)
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).expect(file)
    }

    fn charged(&self) -> u64 {
        self.read("memory.current").trim().parse().expect("a number")
    }
}

/// A call whose data the receiver does not look at: it would have to pay for the copy.
fn send_unread(client: &Port, manager: &Port, data: &[u8]) {
    finish(manager, client, &client.call(manager, 0, 0, &bytes(data)));
}

case!(receiver_pays, ["ALLOC-5"], needs_charging, |t, ()| {
    let (manager, client) = (t.manager(), t.client());
    let (receiver, sender) = (Cgroup::of(t, &manager), Cgroup::of(t, &client));
    let before = (receiver.charged(), sender.charged());
    // The sender pays only for the source, which the conductor writes.
    send_unread(&client, &manager, &pattern(240 * PIECE, 1));
    let after = (receiver.charged(), sender.charged());
    assert!(after.0 >= before.0 + 240 * PIECE as u64, "{before:?} {after:?}");
    assert!(after.1 <= before.1 + slack(), "{before:?} {after:?}");
});

case!(limit_of_the_receiver_is_kept, ["ALLOC-5", "TXN-19"], needs_charging, |t, ()| {
    let (manager, client) = (t.manager_with(4 << 20), t.client());
    let cgroup = Cgroup::of(t, &manager);
    client.round_trip(0, &manager, &bytes(b"something"), &empty());
    let limit = cgroup.charged() + (1 << 20);
    std::fs::write(cgroup.0.join("memory.max"), limit.to_string()).expect("set a limit");
    let data = pattern(3 << 20, 1);
    assert_eq!(client.failure(&client.place(0, 0, &bytes(&data))), super::failed(Errno::ENOMEM));
    assert!(cgroup.charged() <= limit);
    assert!(cgroup.read("memory.events").contains("oom_kill 0"), "{}", cgroup.read("memory.events"));
    std::fs::write(cgroup.0.join("memory.max"), "max").expect("take the limit away");
    client.round_trip(0, &manager, &bytes(&data), &empty());
});

case!(reclaim_of_one_cgroup, ["ALLOC-5"], needs_charging, |t, ()| {
    let shrinker = Shrinker::needed(t);
    let (manager, client) = (t.manager(), t.client());
    let cgroup = Cgroup::of(t, &manager);
    client.round_trip(0, &manager, &bytes(&pattern(200 * PIECE, 1)), &empty());
    let full = shrinker.pages();
    for _ in 0..8 {
        // Fails when there is less to reclaim.
        let _ = std::fs::write(cgroup.0.join("memory.reclaim"), "1M");
    }
    shrinker.expect_less(full, 180 * PIECE);
    client.round_trip(0, &manager, &bytes(&pattern(200 * PIECE, 2)), &empty());
});

// At the limit, a space takes new pages from its own idle ones, where there are no others.
case!(lesson_s17_a_space_gives_up_its_own_idle_pages, ["ALLOC-5", "TXN-19", "lesson S17"], |t| {
    needs_charging(t);
    let (manager, client, other) = (t.manager_with(4 << 20), t.client(), t.client());
    let cgroup = Cgroup::of(t, &manager);
    // Of three calls that lie behind each other the middle one stays. The space of the first one is
    // idle then, and too small for the third.
    let first = client.call(&manager, 0, 0, &bytes(&pattern(350 * PIECE, 1)));
    other.start_call(0, 0, &bytes(b"in between"));
    let helper = manager.looper();
    let middle = helper.wait_call();
    assert!(middle.buffer > first.buffer);
    finish(&manager, &client, &first);
    let limit = cgroup.charged() + (300 << 10);
    std::fs::write(cgroup.0.join("memory.max"), limit.to_string()).expect("set a limit");
    let third = client.call(&manager, 0, 0, &bytes(&pattern(400 * PIECE, 2)));
    assert!(third.buffer > middle.buffer);
    assert!(cgroup.charged() <= limit);
    std::fs::write(cgroup.0.join("memory.max"), "max").expect("take the limit away");
});

// A page may be available and its page table not: nobody in the receiver's cgroup is killed then.
case!(nobody_is_killed_for_a_page_table, ["ALLOC-5", "TXN-19"], needs_charging, |t, ()| {
    let (manager, client) = (t.manager_with(4 << 20), t.client());
    let cgroup = Cgroup::of(t, &manager);
    let limit = cgroup.charged();
    let call = client.place_oneway(0, 0, &bytes(b"something"));
    let was_sent = (0..200u64).any(|pages| {
        std::fs::write(cgroup.0.join("memory.max"), (limit + pages * 4096).to_string()).expect("set a limit");
        let answer = client.completion(&call);
        assert!(matches!(answer, Return::TransactionComplete | Return::FailedReply), "{answer:?}");
        answer == Return::TransactionComplete
    });
    assert!(was_sent);
    assert!(cgroup.read("memory.events").contains("oom_kill 0"), "{}", cgroup.read("memory.events"));
    std::fs::write(cgroup.0.join("memory.max"), "max").expect("take the limit away");
    manager.free(&manager.wait_call());
});

case!(nobody_pays_by_default, ["ALLOC-5"], |t| {
    if is_charging() {
        return;
    }
    let (space, sent) = (4 << 20, 240 * page());
    t.needs("a space for more than what a cgroup is charged for in advance", sent < space);
    let (manager, client) = (t.manager_with(space), t.client());
    let cgroup = Cgroup::of(t, &manager);
    let before = cgroup.charged();
    send_unread(&client, &manager, &pattern(sent, 1));
    assert!(cgroup.charged() < before + slack(), "{before} {}", cgroup.charged());
});
