// SPDX-License-Identifier: GPL-2.0
//! The memory that the kernel keeps of ended processes, while others hold what they may hold.
//!
//! Bounds are far above the memory that is kept and far below earlier leaks: a page for each ended
//! process is less than any of its parts that must go. `make retention` prints exact figures.

use super::*;
use crate::gauge;
use std::sync::Arc;

/// A process offers a node to the holder, is called with so many bytes, and is killed before it answers.
fn live_and_die(t: &Stage, manager: &Port, holder: &Port, parcel: &Parcel) {
    let owner = t.client_with(4 << 20);
    owner.enter_looper();
    let handle = introduce(manager, &owner, FlatBinderObject::binder(16, 16), holder);
    holder.call(&owner, handle, 0, parcel);
    owner.kill_serving(holder);
}

/// The memory that each of so many deaths leaves while somebody holds a node of each.
fn left_by_each_death(t: &Stage, deaths: i64, limit: i64, parcel: &Parcel) -> i64 {
    let (manager, holder) = (t.manager(), t.server());
    for _ in 0..3 {
        live_and_die(t, &manager, &holder, parcel);
    }
    let before = gauge::bytes();
    for _ in 0..deaths {
        live_and_die(t, &manager, &holder, parcel);
    }
    gauge::settle(before, deaths * limit) / deaths
}

case!(lesson_s08_what_the_dead_received_goes, ["REL-2", "NODE-12", "lesson S08"], |t| {
    t.needs_no_kasan();
    let limit = 128 << 10;
    let left = left_by_each_death(t, 8, limit, &bytes(&pattern(3 << 20, 1)));
    assert!(left <= limit, "{left} bytes of each");
});

case!(lesson_s08_the_dead_keep_little, ["REL-2", "NODE-12", "lesson S08"], |t| {
    t.needs_no_kasan();
    let limit = 8 << 10;
    let left = left_by_each_death(t, 100, limit, &bytes(b"little"));
    assert!(left <= limit, "{left} bytes of each");
});

// The node lives on, and keeps no list of requests that went with their handles.
case!(death_requests_of_handles_that_went_keep_nothing, ["NODE-10", "DN-1"], |t| {
    const REQUESTS: u64 = 20_000;
    const LIMIT: i64 = 1 << 20;
    t.needs_no_kasan();
    let (_manager, holder) = (t.manager(), t.client());
    let request = |from: u64, to: u64| {
        let mut commands = Commands::new();
        for cookie in from..to {
            commands.acquire(0).request_death(0, cookie).release(0);
        }
        holder.write(&commands);
    };
    request(0, 500);
    let before = gauge::bytes();
    for from in (0..REQUESTS).step_by(500) {
        request(from, from + 500);
    }
    let kept = gauge::settle(before, LIMIT);
    assert!(kept <= LIMIT, "{kept} bytes of {REQUESTS} requests");
});

/// The deed of a process with another one before it dies.
type Deed = fn(&Port, &Port);

/// Objects by which others may keep the record of a process that dies, or of its thread: a handle
/// on its node; its calls, served, unread or oneway; its device, which it has sent.
const KEEPERS: [(&str, Deed); 6] = [
    ("a node", |manager, dying| _ = give_in_a_call(manager, dying, FlatBinderObject::binder(16, 16))),
    ("a served call", |server, dying| {
        dying.start_blocking_call(0, 0, &empty());
        server.wait_call();
    }),
    ("a watched node", |_, dying| {
        dying.send(|c| c.acquire(0).request_death(0, 1).request_freeze(0, 2));
    }),
    ("an unread oneway call", |_, dying| dying.tell(0, 0, &empty())),
    ("an unread call", |_, dying| dying.start_blocking_call(0, 0, &empty())),
    ("nothing", |_, _| ()),
];

/// One process after the other dies in a namespace of its own, of which there may be so many: each
/// namespace goes with its process, and no reference keeps it.
fn short_lives(
    t: &Stage,
    path: &'static str,
    limit: u32,
    flags: CloneFlags,
    start: fn(&Actor) -> Option<Actor>,
) {
    kernel_namespaces::need(flags);
    t.needs("CONFIG_USER_NS", Path::new(path).exists());
    let _limit = Limit::at(path.into(), limit);
    let manager = t.manager();
    let mut served = Vec::new();
    let mut before = "nothing";
    for (what, leave) in KEEPERS {
        let maker = Actor::new();
        let deadline = Instant::now() + patience();
        // A namespace goes a little later than its processes.
        while let Err(errno) = maker.number(Op::Unshare { flags: flags.bits() }) {
            assert_eq!(errno, Errno::ENOSPC);
            assert!(Instant::now() < deadline, "{before} keeps a namespace");
            std::thread::sleep(Duration::from_millis(10));
        }
        let inner = start(&maker);
        let dying = t.client_by(Rc::new(inner.unwrap_or(maker)));
        served.push(if what == "a served call" { manager.looper() } else { manager.thread() });
        leave(served.last().filter(|_| what == "a served call").unwrap_or(&manager), &dying);
        dying.kill();
        before = what;
    }
}

case!(the_dead_keep_no_credentials, ["REL-2", "NODE-12", "lesson S08"], |t| {
    short_lives(t, "/proc/sys/user/max_user_namespaces", 1, CloneFlags::CLONE_NEWUSER, |_| None);
});

// The test is in a namespace itself.
case!(the_dead_keep_no_pid_namespace, ["REL-2", "NODE-12", "TREL-1", "lesson T07"], |t| {
    let fork: fn(&Actor) -> Option<Actor> = |maker| Some(maker.fork());
    short_lives(t, "/proc/sys/user/max_pid_namespaces", 2, CloneFlags::CLONE_NEWPID, fork);
});

// Each sends a oneway call that nobody reads, and closes its device. KASAN keeps freed memory.
case!(oneway_calls_keep_no_sender, ["REL-2", "TXN-22", "lesson T08"], |t| {
    let calls = i64::from(t.tries(1000));
    let limit = if t.has_kasan() { 7 << 10 } else { 512 };
    let (_deaf, opener) = (t.manager(), Rc::new(Actor::new()));
    let send_and_end = || {
        let sender = t.open_by(opener.clone());
        sender.tell(0, 0, &empty());
        sender.close();
    };
    (0..50).for_each(|_| send_and_end());
    // Once slabs have given back what earlier tests left.
    let before = gauge::settle(0, i64::MAX);
    (0..calls).for_each(|_| send_and_end());
    let left = gauge::settle(before, calls * limit) / calls;
    assert!(left <= limit, "{left} bytes of each");
});

case!(lesson_s09_threads_that_exit_keep_little, ["TREL-1", "lesson S09"], |t| {
    const THREADS: i64 = 1500;
    t.needs_no_kasan();
    let size =
        std::fs::read_to_string("/sys/kernel/slab/task_struct/object_size").expect("the size of a task");
    let limit = size.trim().parse::<i64>().expect("a number") * 3 / 4;
    let path = t.device("binder");
    child::run(|| {
        let device = Arc::new(Device::open(&path).expect("open the device"));
        let exit_without_a_word = || {
            let device = device.clone();
            let thread = std::thread::spawn(move || {
                device.write_all(stream(|c| c.enter_looper()).as_bytes()).expect("enter the pool");
            });
            thread.join().expect("a thread");
        };
        (0..100).for_each(|_| exit_without_a_word());
        let before = gauge::bytes();
        (0..THREADS).for_each(|_| exit_without_a_word());
        let left = gauge::settle(before, THREADS * limit) / THREADS;
        assert!(left <= limit, "{left} bytes of each, {limit} allowed");
    });
});

// Memory must be free when the shrinker returns, not after a grace period.
case!(lesson_s21_what_reclaim_takes_is_free_at_once, ["ALLOC-5", "lesson S21"], |t| {
    let shrinker = Shrinker::needed(t);
    let (manager, client) = (t.manager_with(4 << 20), t.client());
    for _ in 0..3 {
        manager.free(&client.call(&manager, 0, 0, &bytes(&pattern(3 << 20, 1))));
        let (pages, before) = (shrinker.pages(), gauge::bytes());
        shrinker.squeeze();
        let freed = before - gauge::bytes();
        let taken = (pages - shrinker.pages()) as i64 * page() as i64;
        assert!(taken >= 3 << 20, "{taken} bytes were taken");
        assert!(freed >= taken / 2, "{freed} of {taken} bytes are free");
        client.free(&manager.answer(&client, &bytes(b"done")));
    }
});

// Living processes receive more, one after the other, than the guest has memory: each is idle when
// the next one is called.
case!(lesson_s21_idle_processes_make_room_for_others, ["ALLOC-5", "lesson S21"], |t| {
    const SIZE: usize = 3_900_000;
    t.needs_no_kasan();
    let kills = || {
        let counters = std::fs::read_to_string("/proc/vmstat").expect("/proc/vmstat");
        counters.lines().find(|line| line.starts_with("oom_kill ")).map(str::to_string)
    };
    let info = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let total = info.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("MemTotal");
    t.needs("a guest of less than a gigabyte", total < 1 << 20);
    let processes = (total << 10) / SIZE * 9 / 8;
    let (manager, client, before) = (t.manager(), t.client(), kills());
    let mut call = client.place(0, 0, &bytes(&pattern(SIZE, 1)));
    let mut owners = Vec::new();
    for _ in 0..processes {
        let owner = t.client_with(4 << 20);
        owner.enter_looper();
        let handle = introduce(&manager, &owner, FlatBinderObject::binder(16, 16), &client);
        call.target = u64::from(handle);
        finish(&owner, &client, &client.call_with(&owner, &call));
        owners.push(owner);
    }
    assert_eq!(kills(), before, "the OOM killer came");
});
