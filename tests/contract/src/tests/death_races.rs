// SPDX-License-Identifier: GPL-2.0
//! Death links that are requested, cleared and confirmed while the node's owner dies, by two
//! threads of each holder at once.
//!
//! Each request has a cookie, and each holder records the returns about it. The order of events is
//! left to chance; the tests check the rules for any order (contract DN-1 to DN-6). A death is
//! returned at most once. A clear is confirmed exactly once, and never before a death that was
//! returned. A holder that has neither cleared the link nor given up its handle gets the death.

use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The number of devices that each holder opens: each is a holder of its own to the driver.
const OPENS: usize = 6;

/// The number of processes that hold.
const HOLDERS: u64 = 3;

/// The time limit of each step on a slow machine.
const LIMIT: Duration = Duration::from_secs(15);

/// The returns about one request.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// The handle was given up, and the driver has taken note of that.
    dropped: bool,
    cleared: bool,
    dead: bool,
    done: bool,
    clear_done: bool,
}

/// A device, and its book by the cookies of the requests.
struct Holder {
    device: Device,
    book: Mutex<BTreeMap<u64, Record>>,
}

impl Holder {
    fn open(path: &Path) -> Self {
        let device = Device::open(path).expect("open the device");
        device.set_nonblocking(true).expect("switch to non-blocking");
        Self { device, book: Mutex::default() }
    }

    fn book(&self) -> MutexGuard<'_, BTreeMap<u64, Record>> {
        self.book.lock().expect("no panic")
    }

    fn send(&self, build: impl FnOnce(&mut Commands) -> &mut Commands) {
        self.device.write_all(stream(build).as_bytes()).expect("write commands");
    }

    fn request(&self, cookie: u64) {
        self.book().insert(cookie, Record::default());
        self.send(|c| c.request_death(0, cookie));
    }

    fn clear(&self, cookie: u64) {
        self.book().get_mut(&cookie).expect("a request").cleared = true;
        self.send(|c| c.clear_death(0, cookie));
    }

    /// Gives up the handle, and with it the request.
    fn give_up(&self, cookie: Option<u64>) {
        self.send(|c| c.decrefs(0));
        if let Some(cookie) = cookie {
            self.book().get_mut(&cookie).expect("a request").dropped = true;
        }
    }

    /// Reads once, notes what comes, and confirms deaths.
    fn read(&self) {
        let before = self.book().clone();
        let mut buffer = [0; 512];
        let read = match self.device.write_read(&[], &mut buffer) {
            Ok(io) => io.read_consumed as usize,
            Err(Errno::EAGAIN) => 0,
            Err(errno) => panic!("read: {errno}"),
        };
        for item in Returns::new(&buffer[..read]) {
            match item.expect("whole items") {
                Return::DeadBinder(cookie) => self.told_dead(cookie, &before),
                Return::ClearDeathNotificationDone(cookie) => self.told_clear_done(cookie),
                Return::Noop => (),
                other => panic!("{other:?}"),
            }
        }
    }

    fn told_dead(&self, cookie: u64, before: &BTreeMap<u64, Record>) {
        let was_dropped = before.get(&cookie).is_some_and(|record| record.dropped);
        assert!(!was_dropped, "{cookie:#x}: returned after the handle was gone");
        let mut book = self.book();
        let record = book.get_mut(&cookie).expect("a request");
        assert!(!record.dead, "{cookie:#x}: returned twice");
        assert!(!record.clear_done, "{cookie:#x}: returned after the clear was confirmed");
        record.dead = true;
        record.done = true;
        drop(book);
        self.send(|c| c.dead_binder_done(cookie));
    }

    fn told_clear_done(&self, cookie: u64) {
        let mut book = self.book();
        let record = book.get_mut(&cookie).expect("a request");
        assert!(record.cleared, "{cookie:#x}: not requested");
        assert!(!record.clear_done, "{cookie:#x}: confirmed twice");
        assert!(record.done || !record.dead, "{cookie:#x}: confirmed before DONE");
        record.clear_done = true;
    }

    /// The first request that lacks a return, now that the owner is dead; `None` if none does.
    fn missing(&self) -> Option<(u64, Record)> {
        let book = self.book();
        let open = book.iter().find(|(_, record)| match record {
            Record { cleared: true, clear_done, .. } => !clear_done,
            Record { dropped: true, .. } => false,
            Record { dead, .. } => !dead,
        });
        open.map(|(cookie, record)| (*cookie, *record))
    }
}

/// The change that a holder makes while the owner dies. The request with cookie 1 is there.
fn change(holder: &Holder, way: u64) {
    match way % 6 {
        0 => holder.clear(1),
        1 => holder.give_up(Some(1)),
        2 => {
            for cookie in 1..5 {
                holder.clear(cookie);
                holder.request(cookie + 1);
            }
        }
        3 => (),
        4 => {
            holder.clear(1);
            holder.give_up(None);
        }
        _ => {
            holder.clear(1);
            holder.request(2);
            holder.give_up(Some(2));
        }
    }
}

/// Reads all devices in turn until there is nothing missing.
fn read_all(holders: &[Holder]) {
    let deadline = Instant::now() + LIMIT;
    loop {
        holders.iter().for_each(Holder::read);
        let missing = holders.iter().find_map(Holder::missing);
        let Some(missing) = missing else { break };
        assert!(Instant::now() < deadline, "not returned: {missing:x?}");
        std::thread::yield_now();
    }
}

/// One holder process: links are there before `armed` is raised, and change once `go` is.
fn hold(path: &Path, seed: u64, armed: &AtomicU64, go: &AtomicU64) {
    let holders: Vec<Holder> = (0..OPENS).map(|_| Holder::open(path)).collect();
    for holder in &holders {
        holder.send(|c| c.increfs(0));
        holder.request(1);
    }
    armed.fetch_add(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Every second holder has a thread in the pool, so that it reads the clears itself.
            if seed % 2 == 0 {
                holders.iter().for_each(|holder| holder.send(|c| c.enter_looper()));
            }
            while go.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            for (i, holder) in holders.iter().enumerate() {
                change(holder, seed + i as u64);
                holder.read();
            }
            read_all(&holders);
        });
        while go.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        read_all(&holders);
    });
    // Nothing may be left over.
    holders.iter().for_each(Holder::read);
    holders.iter().for_each(Holder::read);
}

/// A process that is the context manager until it is killed.
fn start_owner(path: &Path) -> Pid {
    child::ready(|ready| {
        let device = Device::open(path).expect("open the device");
        manage(&device);
        ready();
        loop {
            nix::unistd::pause();
        }
    })
}

fn wait_until(what: &str, counter: &AtomicU64, wanted: u64) {
    let deadline = Instant::now() + LIMIT;
    while counter.load(Ordering::SeqCst) < wanted {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

case!(lesson_r01_links_change_while_their_node_dies, ["DN-2", "DN-3", "DN-5", "NODE-10"], |t| {
    let path = t.device("binder");
    let arena = crate::arena::Arena::new();
    for round in 0..12 {
        let owner = start_owner(&path);
        let (armed, go) = (arena.counter(), arena.counter());
        let holders: Vec<Pid> =
            (0..HOLDERS).map(|i| child::spawn(|| hold(&path, round * 7 + i, armed, go))).collect();
        wait_until("not all have their links", armed, HOLDERS);
        if round % 2 == 0 {
            go.store(1, Ordering::SeqCst);
        }
        end(owner);
        go.store(1, Ordering::SeqCst);
        all_well(holders);
    }
});

// Threads of a process have one handle between them, and do not synchronize: links come and go at
// once.
case!(lesson_r01_links_of_one_handle_come_and_go, ["DN-1", "DN-3", "DN-4", "NODE-10"], |t| {
    let path = t.device("binder");
    let arena = crate::arena::Arena::new();
    let confirmed = arena.counter();
    let mut owner = start_owner(&path);
    for _ in 0..4 {
        let holders: Vec<Pid> = (0..2).map(|_| child::spawn(|| quarrel(&path, confirmed))).collect();
        end(owner);
        owner = start_owner(&path);
        all_well(holders);
    }
    end(owner);
    assert!(confirmed.load(Ordering::SeqCst) > 0, "of thousands that were withdrawn none was confirmed");
});

fn quarrel(path: &Path, confirmed: &AtomicU64) {
    let device = Device::open(path).expect("open the device");
    device.set_nonblocking(true).expect("switch to non-blocking");
    let (cleared, told) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (device, cleared, told) = (&device, &cleared, &told);
            scope.spawn(move || {
                let mut buffer = [0; 512];
                for turn in 0..200u64 {
                    let mut commands = Commands::new();
                    match (turn + thread) % 4 {
                        0 => commands.increfs(0).request_death(0, 1),
                        1 => commands.clear_death(0, 1),
                        2 => commands.request_death(0, 1).dead_binder_done(1),
                        _ => commands.decrefs(0).decrefs(0),
                    };
                    if (turn + thread) % 4 == 1 {
                        cleared.fetch_add(1, Ordering::SeqCst);
                    }
                    if thread == 2 && turn == 100 {
                        commands.enter_looper();
                    }
                    let io = match device.write_read(commands.as_bytes(), &mut buffer) {
                        Ok(io) => io,
                        Err(Errno::EAGAIN) => continue,
                        Err(errno) => panic!("{errno}"),
                    };
                    for item in Returns::new(&buffer[..io.read_consumed as usize]) {
                        match item.expect("whole items") {
                            Return::ClearDeathNotificationDone(1) => {
                                told.fetch_add(1, Ordering::SeqCst);
                            }
                            Return::DeadBinder(1) | Return::Noop => (),
                            other => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
    });
    confirmed.fetch_add(told.load(Ordering::SeqCst), Ordering::SeqCst);
    assert!(told.load(Ordering::SeqCst) <= cleared.load(Ordering::SeqCst), "more confirmed than requested");
}

case!(lesson_c05_holders_and_owner_die_together, ["REL-2", "DN-2"], |t| {
    let path = t.device("binder");
    let arena = crate::arena::Arena::new();
    for round in 0..12 {
        let owner = start_owner(&path);
        let (armed, go) = (arena.counter(), arena.counter());
        let holders: Vec<Pid> =
            (0..HOLDERS).map(|i| child::spawn(|| hold(&path, round + i, armed, go))).collect();
        wait_until("not all have their links", armed, HOLDERS);
        go.store(1, Ordering::SeqCst);
        // All at once, the owner first, last or in between.
        let mut all = holders;
        all.insert((round % (HOLDERS + 1)) as usize, owner);
        for pid in &all {
            kill(*pid, Signal::SIGKILL).expect("kill");
        }
        for pid in all {
            waitpid(pid, None).expect("wait");
        }
    }
    // The next processes find everything in order.
    let (manager, client) = (t.manager(), t.client());
    client.send(|c| c.acquire(0).request_death(0, 7));
    manager.kill();
    client.wait_for(Return::DeadBinder(7));
});
