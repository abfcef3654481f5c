// SPDX-License-Identifier: GPL-2.0
//! Calls that nobody has taken yet, and messages that nobody has given back.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use nix::unistd::{pipe, read, write};

use super::threads::spawn;
use crate::growth::scene::Scene;
use crate::growth::service::{self, Ask, OPERATIONS};
use crate::prelude::*;

/// A manager that takes calls only when it is told to, and then so many.
fn server(scene: &mut Scene, count: u64) -> Result<Worker> {
    scene.actor("server", move |turns, device| {
        let mut talker = service::manage(device)?;
        turns.pause()?;
        service::serve(&mut talker, count)?;
        turns.pause()?;
        service::serve(&mut talker, u64::MAX)
    })
}

/// As many threads, each of which makes one call when it is let through. Nobody but them runs while they call: what one takes would
/// depend on whom the scheduler lets run first.
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
                let call = Parcel::new().to_handle(0, Ask::Answer as u32, TransactionFlags::empty());
                talker.out.transaction(&call);
                talker.flush()?;
                steps.done()?;
                // The call ends as the quantity wants it to, by a reply or by the other side's death.
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
        steps.wait()?;
        turns.stop()
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
    let call = Parcel::new().to_handle(handle, code, TransactionFlags::ONE_WAY | flags);
    talker.send(&call).map(drop)
}

fn oneway_sender(scene: &mut Scene, count: u64) -> Result<Worker> {
    scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        turns.pause()?;
        (0..count).try_for_each(|_| send(&mut talker, 0, 1, TransactionFlags::empty()))?;
        turns.pause()?;
        (0..OPERATIONS).try_for_each(|_| send(&mut talker, 0, 1, TransactionFlags::empty()))?;
        turns.stop()
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
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        let handles = service::take(&mut talker, count)?;
        service::ask(&mut talker, Ask::Deafen, &Parcel::new())?;
        turns.pause()?;
        handles.iter().try_for_each(|&handle| send(&mut talker, handle, 1, TransactionFlags::empty()))?;
        turns.stop()
    })?;
    scene.turn("send", sender)?;
    scene.kill("kill the server", service)?;
    scene.kill("kill the sender", sender)
}

/// Oneway calls of a frozen process that may supersede each other and do not.
pub fn oneway_frozen(scene: &mut Scene, count: u64) -> Result<()> {
    let server = server(scene, count + OPERATIONS)?;
    let pid = scene.pid(server).as_raw() as u32;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        talker.port().device().freeze(pid, true, 0).context("BINDER_FREEZE")?;
        turns.pause()?;
        (0..count).try_for_each(|_| send(&mut talker, 0, 1, TransactionFlags::empty()))?;
        turns.pause()?;
        for code in 0..OPERATIONS {
            send(&mut talker, 0, 100 + code as u32, TransactionFlags::UPDATE_TXN)?;
        }
        turns.pause()?;
        talker.port().device().freeze(pid, false, 0).context("BINDER_FREEZE")?;
        turns.stop()
    })?;
    scene.turn("send", sender)?;
    scene.turn_of("send what may supersede", OPERATIONS, sender)?;
    scene.turn("thaw", sender)?;
    scene.turn("take", server)
}

/// Messages that their receiver keeps.
pub fn kept(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        let nothing = Parcel::new();
        turns.pause()?;
        (0..count).try_for_each(|_| service::ask(&mut talker, Ask::Keep, &nothing))?;
        turns.pause()?;
        service::call(&mut talker, OPERATIONS)?;
        turns.pause()?;
        service::ask(&mut talker, Ask::Free, &nothing)?;
        turns.pause()?;
        (0..count).try_for_each(|_| service::ask(&mut talker, Ask::Keep, &nothing))?;
        turns.stop()
    })?;
    scene.turn("send", sender)?;
    scene.turn_of("call", OPERATIONS, sender)?;
    scene.turns(sender, &["free", "send again"])?;
    scene.kill("kill the receiver", service)
}

/// Many commands of one write.
pub fn commands(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let writer = scene.actor("writer", move |turns: &mut Control, device| {
        let mut talker = service::open(device)?;
        let handle = service::take(&mut talker, 1)?[0];
        turns.pause()?;
        for _ in 0..count {
            talker.out.acquire(handle).increfs(handle).decrefs(handle).release(handle);
        }
        talker.flush()?;
        turns.pause()?;
        let nothing = Parcel::new();
        for _ in 0..count {
            talker.out.transaction(&nothing.to_handle(0, Ask::Answer as u32, TransactionFlags::ONE_WAY));
        }
        talker.flush()?;
        turns.pause()?;
        service::call(&mut talker, 1)?;
        turns.stop()
    })?;
    scene.turns(writer, &["counts up and down", "oneway calls", "read and call"])?;
    scene.kill("kill the writer", writer)
}
