// SPDX-License-Identifier: GPL-2.0
//! Threads of a process that have used the device, calls that no thread has taken, and messages that are not freed.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{pipe, read, write};

use crate::growth::scene::Scene;
use crate::growth::service::{self, OPERATIONS};
use crate::prelude::*;

/// Enough for what these threads do.
const STACK: usize = 32 << 10;

/// Wait for work in one pool, are called, and killed.
pub fn idle(scene: &mut Scene, count: u64) -> Result<()> {
    let server = scene.actor("server with many threads", move |turns, device| {
        let port = service::manage(device)?.port().clone();
        turns.pause()?;
        let waiting = Arc::new(AtomicU64::new(0));
        for _ in 0..count {
            let (port, waiting) = (port.clone(), waiting.clone());
            spawn(move || {
                let mut talker = Talker::on(port);
                talker.enter_looper()?;
                waiting.fetch_add(1, Ordering::Relaxed);
                service::serve(&mut talker, u64::MAX)
            })?;
        }
        while waiting.load(Ordering::Relaxed) < count {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })?;
    let client = service::client(scene, OPERATIONS)?;
    scene.turn("start", server)?;
    scene.read_logs()?;
    scene.turn_of("call", OPERATIONS, client)?;
    scene.kill("kill", server)
}

/// Threads that have used the device, and end without `BINDER_THREAD_EXIT`.
pub fn ended(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let client = service::actor(scene, "process of short threads", move |turns, talker| {
        turns.pause()?;
        one_after_other(talker.port(), count, |talker| talker.enter_looper())?;
        turns.pause()?;
        service::call(talker, OPERATIONS)
    })?;
    scene.turn("start and end", client)?;
    scene.turn_of("call", OPERATIONS, client)?;
    scene.kill("kill", client)
}

/// Threads that join the pool, leave it, and exit by `BINDER_THREAD_EXIT`.
pub fn leaving(scene: &mut Scene, count: u64) -> Result<()> {
    let client = service::actor(scene, "process of polite threads", move |turns, talker| {
        turns.pause()?;
        one_after_other(talker.port(), count, |talker| {
            talker.out.enter_looper().exit_looper();
            talker.flush()?;
            talker.port().device().thread_exit().context("BINDER_THREAD_EXIT")
        })
    })?;
    scene.turn("start and leave", client)?;
    scene.kill("kill", client)
}

/// Threads that live so long, each until the next starts.
fn one_after_other(port: &Arc<Port>, count: u64, life: fn(&mut Talker) -> Result<()>) -> Result<()> {
    for _ in 0..count {
        let port = port.clone();
        let thread = spawn(move || life(&mut Talker::on(port)))?;
        thread.join().map_err(|_| Error::failed("a short thread panicked"))?;
    }
    Ok(())
}

/// Starts a thread that ends the process if it fails.
pub fn spawn(body: impl FnOnce() -> Result<()> + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let life = || {
        if let Err(error) = body() {
            eprintln!("binder-bench: a thread of a growing process: {error}");
            std::process::exit(1);
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(life).context("a thread more")
}

/// A manager that takes `count` calls when it is resumed, and all others when it is resumed again.
fn server(scene: &mut Scene, count: u64) -> Result<Worker> {
    scene.actor("server", move |turns, device| {
        let mut talker = service::manage(device)?;
        turns.pause()?;
        service::serve(&mut talker, count)?;
        turns.pause()?;
        service::serve(&mut talker, u64::MAX)
    })
}

/// As many threads, each of which makes one call when it passes the gate. Only they run while they call: otherwise the
/// cost of one would depend on the scheduler's order.
fn callers(scene: &mut Scene, count: u64) -> Result<Worker> {
    scene.actor("process of many callers", move |turns, device| {
        let port = service::open(device)?.port().clone();
        let (gate, open) = pipe().context("pipe")?;
        let (gate, steps) = (Arc::new(gate), Arc::new(Steps::new(count)?));
        for _ in 0..count {
            let (port, gate, steps) = (port.clone(), gate.clone(), steps.clone());
            spawn(move || {
                let mut talker = Talker::on(port);
                talker.enter_looper()?;
                steps.done()?;
                read(&*gate, &mut [0]).context("waiting at a gate")?;
                talker.begin(&plain(0, service::ANSWER, TransactionFlags::empty()))?;
                steps.done()?;
                // A reply or the other side's death ends the call, as the quantity defines it.
                let _ = talker.next();
                steps.done()?;
                std::thread::park();
                Ok(())
            })?;
        }
        steps.wait()?;
        turns.pause()?;
        write(&open, &vec![0; count as usize]).context("opening a gate")?;
        steps.wait()?;
        turns.pause()?;
        steps.wait()
    })
}

/// Steps that all of so many threads take, and one more that waits until the last of them has taken it.
struct Steps {
    threads: u64,
    taken: AtomicU64,
    wait: OwnedFd,
    last: OwnedFd,
}

impl Steps {
    fn new(threads: u64) -> Result<Self> {
        let (wait, last) = pipe().context("pipe")?;
        Ok(Self { threads, taken: AtomicU64::new(0), wait, last })
    }

    #[allow(clippy::manual_is_multiple_of)] // It is newer than Debian 13's compiler.
    fn done(&self) -> Result<()> {
        if (self.taken.fetch_add(1, Ordering::Relaxed) + 1) % self.threads == 0 {
            write(&self.last, &[0]).context("a pipe between threads")?;
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        read(&self.wait, &mut [0]).context("a pipe between threads").map(drop)
    }
}

/// Calls that wait, then all answered.
pub fn answered(scene: &mut Scene, count: u64) -> Result<()> {
    let server = server(scene, count)?;
    let callers = callers(scene, count)?;
    scene.turn("call", callers)?;
    scene.read_logs()?;
    scene.phase("answer", |scene| {
        scene.run(server)?;
        scene.run(callers)
    })?;
    scene.kill("kill the callers", callers)
}

/// Calls that wait when their callers die, and then the server.
pub fn callers_die(scene: &mut Scene, count: u64) -> Result<()> {
    let server = server(scene, count)?;
    let callers = callers(scene, count)?;
    scene.turn("call", callers)?;
    scene.kill("kill the callers", callers)?;
    scene.kill("kill the server", server)
}

/// Calls that wait when the server dies.
pub fn server_dies(scene: &mut Scene, count: u64) -> Result<()> {
    let server = server(scene, count)?;
    let callers = callers(scene, count)?;
    scene.run(callers)?;
    scene.phase("kill the server", |scene| {
        scene.end(server)?;
        scene.run(callers)
    })
}

fn send(talker: &mut Talker, handle: u32, code: u32, flags: TransactionFlags) -> Result<()> {
    talker.send(&plain(handle, code, TransactionFlags::ONE_WAY | flags)).map(drop)
}

fn oneway_sender(scene: &mut Scene, count: u64) -> Result<Worker> {
    service::actor(scene, "sender", move |turns, talker| {
        turns.pause()?;
        (0..count).try_for_each(|_| send(talker, 0, 1, TransactionFlags::empty()))?;
        turns.pause()?;
        (0..OPERATIONS).try_for_each(|_| send(talker, 0, 1, TransactionFlags::empty()))
    })
}

/// Oneway calls of one node that wait for each other, then all taken.
pub fn oneway_taken(scene: &mut Scene, count: u64) -> Result<()> {
    let server = server(scene, count + OPERATIONS)?;
    let sender = oneway_sender(scene, count)?;
    scene.turn("send", sender)?;
    scene.turn_of("send some more", OPERATIONS, sender)?;
    scene.turn("take", server)?;
    scene.kill("kill the server", server)
}

/// The same when both die.
pub fn oneway_dying(scene: &mut Scene, count: u64) -> Result<()> {
    let server = server(scene, count)?;
    let sender = oneway_sender(scene, count)?;
    scene.run(sender)?;
    scene.kill("kill the sender", sender)?;
    scene.kill("kill the server", server)
}

/// Oneway calls of as many nodes, one of each.
pub fn oneway_of_nodes(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let sender = service::actor(scene, "sender", move |turns, talker| {
        let handles = service::take(talker, count)?;
        service::ask(talker, service::DEAFEN, &Parcel::new())?;
        turns.pause()?;
        handles.iter().try_for_each(|&handle| send(talker, handle, 1, TransactionFlags::empty()))
    })?;
    scene.turn("send", sender)?;
    scene.kill("kill the server", service)?;
    scene.kill("kill the sender", sender)
}

/// Oneway calls of a frozen process that may supersede each other and do not.
pub fn oneway_frozen(scene: &mut Scene, count: u64) -> Result<()> {
    let server = server(scene, count + OPERATIONS)?;
    let pid = scene.pid(server).as_raw() as u32;
    let sender = service::actor(scene, "sender", move |turns, talker| {
        talker.port().device().freeze(pid, true, 0).context("BINDER_FREEZE")?;
        turns.pause()?;
        (0..count).try_for_each(|_| send(talker, 0, 1, TransactionFlags::empty()))?;
        turns.pause()?;
        for code in 0..OPERATIONS {
            send(talker, 0, 100 + code as u32, TransactionFlags::UPDATE_TXN)?;
        }
        turns.pause()?;
        talker.port().device().freeze(pid, false, 0).context("BINDER_FREEZE")
    })?;
    scene.turn("send", sender)?;
    scene.turn_of("send what may supersede", OPERATIONS, sender)?;
    scene.turn("thaw", sender)?;
    scene.turn("take", server)
}

/// Messages that their receiver keeps.
pub fn kept(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let sender = service::actor(scene, "sender", move |turns, talker| {
        let nothing = Parcel::new();
        turns.pause()?;
        (0..count).try_for_each(|_| service::ask(talker, service::KEEP, &nothing))?;
        turns.pause()?;
        service::call(talker, OPERATIONS)?;
        turns.pause()?;
        service::ask(talker, service::FREE, &nothing)?;
        turns.pause()?;
        (0..count).try_for_each(|_| service::ask(talker, service::KEEP, &nothing))
    })?;
    scene.turn("send", sender)?;
    scene.turn_of("call", OPERATIONS, sender)?;
    scene.turns(sender, &["free", "send again"])?;
    scene.kill("kill the receiver", service)
}

/// Pages of answers that their receivers keep, so that reclaim can take none of them.
pub fn pages_kept(scene: &mut Scene, count: u64) -> Result<()> {
    /// In one answer, and in all answers to one receiver.
    const PAGES: u64 = 16;
    const MOST: u64 = 60 * PAGES;
    service::start(scene)?;
    let mut left = count;
    while left > 0 {
        let pages = left.min(MOST);
        left -= pages;
        service::actor(scene, "receiver", move |_, talker| {
            let mut wish = Parcel::new();
            wish.bytes(&(pages.min(PAGES) * 4096).to_ne_bytes());
            let wish = wish.to_handle(0, service::FILL, TransactionFlags::empty());
            (0..pages.div_ceil(PAGES)).try_for_each(|_| talker.call(&wish).map(drop))
        })?;
    }
    scene.phase_of("reclaim 64 KiB", OPERATIONS, |_| {
        for _ in 0..OPERATIONS {
            // It fails where less can be reclaimed.
            let _ = std::fs::write("/sys/fs/cgroup/memory.reclaim", "64K");
        }
        Ok(())
    })
}

/// Many commands of one write.
pub fn commands(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let writer = service::actor(scene, "writer", move |turns, talker| {
        let handle = service::take(talker, 1)?[0];
        turns.pause()?;
        for _ in 0..count {
            talker.out.acquire(handle).increfs(handle).decrefs(handle).release(handle);
        }
        talker.flush()?;
        turns.pause()?;
        let nothing = Parcel::new();
        for _ in 0..count {
            talker.out.transaction(&nothing.to_handle(0, service::ANSWER, TransactionFlags::ONE_WAY));
        }
        talker.flush()?;
        turns.pause()?;
        service::call(talker, 1)
    })?;
    scene.turns(writer, &["counts up and down", "oneway calls", "read and call"])?;
    scene.kill("kill the writer", writer)
}
