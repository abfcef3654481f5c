// SPDX-License-Identifier: GPL-2.0
//! Many who want to hear of one node or of one process.

use std::path::Path;

use crate::growth::scene::Scene;
use crate::growth::service::{self, allow_files};
use crate::prelude::*;

/// What each of many processes maps.
const SPACE: usize = 8192;

/// As many processes as Binder knows them, all of one task; each holds the manager's node.
fn holders(device: &Path, count: u64) -> Result<Vec<Talker>> {
    allow_files()?;
    let mut holders = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let mut talker = Talker::open(device, SPACE)?;
        talker.out.enter_looper().acquire(0);
        talker.flush()?;
        holders.push(talker);
    }
    Ok(holders)
}

fn each(holders: &mut [Talker], act: impl FnMut(&mut Talker) -> Result<()>) -> Result<()> {
    holders.iter_mut().try_for_each(act)
}

/// References on one node, whose owner dies before them.
pub fn references(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let holder = scene.actor("holders", move |turns, device| {
        turns.pause()?;
        let _holders = holders(device, count)?;
        turns.stop()
    })?;
    scene.turn("open and hold", holder)?;
    scene.kill("kill the owner", service)?;
    scene.kill("kill the holders", holder)
}

/// Requests to be told of the death of one node.
pub fn deaths(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = scene.actor("watchers of one node", move |turns, device| {
        let mut holders = holders(device, count)?;
        turns.pause()?;
        each(&mut holders, |talker| {
            talker.out.request_death(0, 1);
            talker.flush()
        })?;
        turns.pause()?;
        each(&mut holders, |talker| {
            talker.out.clear_death(0, 1);
            talker.next().map(drop)
        })?;
        turns.pause()?;
        each(&mut holders, |talker| {
            talker.out.request_death(0, 2);
            talker.flush()
        })?;
        turns.pause()?;
        each(&mut holders, |talker| {
            if let Return::DeadBinder(cookie) = talker.next()? {
                talker.out.dead_binder_done(cookie);
            }
            talker.flush()
        })?;
        turns.stop()
    })?;
    scene.turns(watcher, &["watch", "withdraw", "watch again"])?;
    scene.kill("kill the owner", service)?;
    scene.turn("read and confirm", watcher)?;
    scene.kill("kill the watchers", watcher)
}

/// Requests to be told when the owner of one node freezes.
pub fn freezes(scene: &mut Scene, count: u64) -> Result<()> {
    frozen(scene, move |device| {
        let mut holders = holders(device, count)?;
        each(&mut holders, |talker| {
            talker.out.request_freeze(0, 1);
            talker.flush()
        })?;
        Ok(holders)
    })
}

/// Requests of one process about as many nodes of another.
pub fn freezes_of_one(scene: &mut Scene, count: u64) -> Result<()> {
    frozen(scene, move |device| {
        let mut talker = service::open(device)?;
        talker.out.enter_looper();
        let handles = service::take(&mut talker, count)?;
        service::each(&mut talker, &handles, |out, handle| out.request_freeze(handle, handle.into()))?;
        Ok(vec![talker])
    })
}

fn frozen(scene: &mut Scene, make: impl FnOnce(&Path) -> Result<Vec<Talker>> + 'static) -> Result<()> {
    let service = service::start(scene)?;
    let pid = scene.pid(service).as_raw() as u32;
    let watcher = scene.actor("watchers of freezing", move |turns, device| {
        turns.pause()?;
        let mut watchers = make(device)?;
        turns.pause()?;
        hear_all(&mut watchers)?;
        turns.pause()?;
        hear_all(&mut watchers)?;
        turns.stop()
    })?;
    let freezer = scene.actor("freezer", move |turns, device| {
        let talker = service::open(device)?;
        for enable in [true, false] {
            turns.pause()?;
            talker.port().device().freeze(pid, enable, 0).context("BINDER_FREEZE")?;
        }
        turns.stop()
    })?;
    scene.turns(watcher, &["ask", "hear of now"])?;
    scene.turn("freeze", freezer)?;
    scene.turn("hear of that", watcher)?;
    scene.turn("thaw", freezer)?;
    scene.kill("kill the watchers", watcher)
}

/// Reads and confirms all notices that are there.
fn hear_all(watchers: &mut [Talker]) -> Result<()> {
    each(watchers, |talker| {
        while !talker.port().device().poll(Some(0)).context("poll")?.is_empty() {
            talker.exchange()?;
            while let Some(item) = talker.arrived()? {
                if let Return::FrozenBinder(state) = item {
                    talker.out.freeze_done(state.cookie);
                }
            }
        }
        talker.flush()
    })
}
