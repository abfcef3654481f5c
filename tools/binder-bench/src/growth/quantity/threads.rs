// SPDX-License-Identifier: GPL-2.0
//! Threads of a process that the driver knows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

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
        turns.stop()
    })?;
    let client = service::client(scene, OPERATIONS)?;
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
        one_after_other(&port, count, |talker| talker.enter_looper())?;
        turns.pause()?;
        service::call(&mut talker, OPERATIONS)?;
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
        one_after_other(&port, count, |talker| {
            talker.out.enter_looper().exit_looper();
            talker.flush()?;
            talker.port().device().thread_exit().context("BINDER_THREAD_EXIT")
        })?;
        turns.stop()
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
