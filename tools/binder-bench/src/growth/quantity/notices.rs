// SPDX-License-Identifier: GPL-2.0
//! Many notifications of one node or of one process, and notifications that are not read.

use std::path::Path;

use binder_sys::Commands;

use crate::growth::scene::Scene;
use crate::growth::service::{self, allow_files, OPERATIONS};
use crate::prelude::*;

/// The space that each of many processes maps.
const SPACE: usize = 8192;

/// As many binder processes, all of one task; each holds the manager's node.
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

/// Has each of them write a command.
fn write(holders: &mut [Talker], command: fn(&mut Commands) -> &mut Commands) -> Result<()> {
    each(holders, |talker| talker.write(command))
}

/// References on one node, whose owner dies before them.
pub fn references(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let holder = scene.actor("holders", move |turns, device| {
        turns.pause()?;
        holders(device, count)
    })?;
    scene.turn("open and hold", holder)?;
    scene.kill("kill the owner", service)?;
    scene.kill("kill the holders", holder)
}

/// Requests for notification of the death of one node.
pub fn deaths(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = scene.actor("watchers of one node", move |turns, device| {
        let mut holders = holders(device, count)?;
        turns.pause()?;
        write(&mut holders, |out| out.request_death(0, 1))?;
        turns.pause()?;
        each(&mut holders, |talker| {
            talker.out.clear_death(0, 1);
            talker.next().map(drop)
        })?;
        turns.pause()?;
        write(&mut holders, |out| out.request_death(0, 2))?;
        turns.pause()?;
        each(&mut holders, |talker| {
            if let Return::DeadBinder(cookie) = talker.next()? {
                talker.out.dead_binder_done(cookie);
            }
            talker.flush()
        })?;
        Ok(holders)
    })?;
    scene.turns(watcher, &["watch", "withdraw", "watch again"])?;
    scene.kill("kill the owner", service)?;
    scene.turn("read and confirm", watcher)?;
    scene.kill("kill the watchers", watcher)
}

/// Requests for notification when the owner of one node freezes.
pub fn freezes(scene: &mut Scene, count: u64) -> Result<()> {
    frozen(scene, move |device| {
        let mut holders = holders(device, count)?;
        write(&mut holders, |out| out.request_freeze(0, 1))?;
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
        Ok(watchers)
    })?;
    let freezer = service::actor(scene, "freezer", move |turns, talker| {
        for enable in [true, false] {
            turns.pause()?;
            talker.port().device().freeze(pid, enable, 0).context("BINDER_FREEZE")?;
        }
        Ok(())
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

/// Death notifications that wait, are found by poll, and end with their reader.
pub fn unread_deaths(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = service::actor(scene, "watcher", move |turns, talker| {
        watching_deaths(talker, count)?;
        turns.pause()?;
        poll(talker)
    })?;
    scene.kill("kill the owner", service)?;
    scene.turn_of("poll", OPERATIONS, watcher)?;
    scene.kill("kill the watcher", watcher)
}

/// Death notices that are withdrawn after the death, unread.
pub fn cancelled_deaths(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = service::actor(scene, "watcher", move |turns, talker| {
        let handles = watching_deaths(talker, count)?;
        turns.pause()?;
        service::each(talker, &handles, |out, handle| out.clear_death(handle, handle.into()))?;
        turns.pause()?;
        poll(talker)?;
        turns.pause()?;
        read(talker, count, |item| {
            matches!(item, Return::ClearDeathNotificationDone(_) | Return::DeadBinder(_))
        })
    })?;
    scene.kill("kill the owner", service)?;
    cancelled(scene, watcher)
}

/// Death notices of handles that are closed, unread.
pub fn closed_handles(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = service::actor(scene, "watcher", move |turns, talker| {
        let handles = watching_deaths(talker, count)?;
        turns.pause()?;
        service::each(talker, &handles, |out, handle| out.release(handle))?;
        turns.pause()?;
        talker.port().device().poll(Some(0)).context("poll")
    })?;
    scene.end(service)?;
    scene.turn("close", watcher)?;
    scene.turn_of("first poll", 1, watcher)?;
    scene.kill("kill the watcher", watcher)
}

/// Freeze notices that are withdrawn, unread.
pub fn cancelled_freezes(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let watcher = service::actor(scene, "watcher", move |turns, talker| {
        talker.out.enter_looper();
        let handles = service::take(talker, count)?;
        turns.pause()?;
        service::each(talker, &handles, |out, handle| out.request_freeze(handle, handle.into()))?;
        turns.pause()?;
        service::each(talker, &handles, |out, handle| out.clear_freeze(handle, handle.into()))?;
        turns.pause()?;
        poll(talker)?;
        turns.pause()?;
        read(talker, count, |item| matches!(item, Return::ClearFreezeNotificationDone(_)))
    })?;
    scene.turn("ask", watcher)?;
    cancelled(scene, watcher)
}

fn cancelled(scene: &mut Scene, watcher: Worker) -> Result<()> {
    scene.turn("cancel", watcher)?;
    scene.turn_of("poll", OPERATIONS, watcher)?;
    scene.turn("read", watcher)?;
    scene.kill("kill the watcher", watcher)
}

fn watching_deaths(talker: &mut Talker, count: u64) -> Result<Vec<u32>> {
    talker.out.enter_looper();
    let handles = service::take(talker, count)?;
    watch(talker, &handles)?;
    Ok(handles)
}

/// Requests notification of the deaths of all these.
pub fn watch(talker: &mut Talker, handles: &[u32]) -> Result<()> {
    service::each(talker, handles, |out, handle| out.request_death(handle, handle.into()))
}

fn poll(talker: &mut Talker) -> Result<()> {
    (0..OPERATIONS).try_for_each(|_| talker.port().device().poll(Some(0)).map(drop).context("poll"))
}

/// Reads until so many notices of a kind have come.
fn read(talker: &mut Talker, count: u64, wanted: impl Fn(&Return) -> bool) -> Result<()> {
    let mut told = 0;
    while told < count {
        told += u64::from(wanted(&talker.next()?));
    }
    Ok(())
}
