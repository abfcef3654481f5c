// SPDX-License-Identifier: GPL-2.0
//! Threads of a process that the driver knows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use binder_sys::Parcel;

use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::growth::scene::Scene;
use crate::growth::service;
use crate::growth::service::Ask;
use crate::registry;
use crate::talk::Port;
use crate::talk::Talker;
use crate::talk::LARGEST_SPACE;
use binder_sys::TransactionFlags;

/// Calls of a phase that does not depend on how many threads there are.
const OPERATIONS: u64 = 16;

/// Enough for what these threads do.
const STACK: usize = 32 << 10;

/// Wait for work in one pool, are called, and killed.
pub fn idle(scene: &mut Scene, count: u64) -> Result<()> {
    let server = scene.actor("server with many threads", move |turns, device| {
        let port = Arc::new(Port::open(device, LARGEST_SPACE)?);
        registry::become_manager(&Talker::on(port.clone()))?;
        turns.pause()?;
        let waiting = Arc::new(AtomicU64::new(0));
        for _ in 0..count {
            let (port, waiting) = (port.clone(), waiting.clone());
            spawn(move || {
                let mut talker = Talker::on(port);
                talker.out.enter_looper();
                talker.flush()?;
                waiting.fetch_add(1, Ordering::Relaxed);
                answer_all(&mut talker)
            })?;
        }
        while waiting.load(Ordering::Relaxed) < count {
            std::thread::sleep(Duration::from_millis(1));
        }
        turns.stop()
    })?;
    let client = scene.actor("client", |turns, device| {
        let mut talker = service::open(device)?;
        turns.pause()?;
        for _ in 0..OPERATIONS {
            service::ask(&mut talker, Ask::Answer, &Parcel::new())?;
        }
        turns.stop()
    })?;
    scene.turn("start", server)?;
    scene.turn_of("call", OPERATIONS, client)?;
    scene.kill("kill", server)
}

/// Spoke to the driver and ended without a word to it.
pub fn ended(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let client = scene.actor("process of short threads", move |turns, device| {
        let port = Arc::new(Port::open(device, LARGEST_SPACE)?);
        let mut talker = Talker::on(port.clone());
        turns.pause()?;
        for _ in 0..count {
            let port = port.clone();
            let thread = spawn(move || {
                let mut talker = Talker::on(port);
                talker.out.enter_looper();
                talker.flush()
            })?;
            thread.join().map_err(|_| Error::Protocol("a short thread panicked".into()))?;
        }
        turns.pause()?;
        for _ in 0..OPERATIONS {
            service::ask(&mut talker, Ask::Answer, &Parcel::new())?;
        }
        turns.stop()
    })?;
    scene.turn("start and end", client)?;
    scene.turn_of("call", OPERATIONS, client)?;
    scene.kill("kill", client)
}

/// Known to the driver, and say that they go.
pub fn leaving(scene: &mut Scene, count: u64) -> Result<()> {
    let client = scene.actor("process of polite threads", move |turns, device| {
        let port = Arc::new(Port::open(device, LARGEST_SPACE)?);
        turns.pause()?;
        for _ in 0..count {
            let port = port.clone();
            let thread = spawn(move || {
                let mut talker = Talker::on(port);
                talker.out.enter_looper().exit_looper();
                talker.flush()?;
                talker.port().device().thread_exit().context("BINDER_THREAD_EXIT")
            })?;
            thread.join().map_err(|_| Error::Protocol("a short thread panicked".into()))?;
        }
        turns.stop()
    })?;
    scene.turn("start and leave", client)?;
    scene.kill("kill", client)
}

fn answer_all(talker: &mut Talker) -> Result<()> {
    loop {
        let call = talker.next_call()?;
        talker.out.free_buffer(call.buffer).reply(&Parcel::new().to_caller(TransactionFlags::empty()));
        talker.flush()?;
    }
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
