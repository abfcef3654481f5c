// SPDX-License-Identifier: GPL-2.0
//! Notices that nobody reads.

use crate::growth::scene::Scene;
use crate::growth::service::{self, OPERATIONS};
use crate::prelude::*;

/// Death notices that wait, are asked for by poll, and die with their reader.
pub fn unread_deaths(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = scene.actor("watcher", move |turns, device| {
        let (mut talker, _) = watching_deaths(device, count)?;
        turns.pause()?;
        poll(&mut talker)?;
        turns.stop()
    })?;
    scene.kill("kill the owner", service)?;
    scene.turn_of("poll", OPERATIONS, watcher)?;
    scene.kill("kill the watcher", watcher)
}

/// Death notices that are withdrawn after the death, unread.
pub fn cancelled_deaths(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = scene.actor("watcher", move |turns, device| {
        let (mut talker, handles) = watching_deaths(device, count)?;
        turns.pause()?;
        service::each(&mut talker, &handles, |out, handle| out.clear_death(handle, handle.into()))?;
        turns.pause()?;
        poll(&mut talker)?;
        turns.pause()?;
        read(&mut talker, count, |item| {
            matches!(item, Return::ClearDeathNotificationDone(_) | Return::DeadBinder(_))
        })?;
        turns.stop()
    })?;
    scene.kill("kill the owner", service)?;
    cancelled(scene, watcher)
}

/// Death notices of handles that are closed, unread.
pub fn closed_handles(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let watcher = scene.actor("watcher", move |turns, device| {
        let (mut talker, handles) = watching_deaths(device, count)?;
        turns.pause()?;
        service::each(&mut talker, &handles, |out, handle| out.release(handle))?;
        turns.pause()?;
        talker.port().device().poll(Some(0)).context("poll")?;
        turns.stop()
    })?;
    scene.end(service)?;
    scene.turn("close", watcher)?;
    scene.turn_of("first poll", 1, watcher)?;
    scene.kill("kill the watcher", watcher)
}

/// Freeze notices that are withdrawn, unread.
pub fn cancelled_freezes(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let watcher = scene.actor("watcher", move |turns, device| {
        let mut talker = service::open(device)?;
        talker.out.enter_looper();
        let handles = service::take(&mut talker, count)?;
        turns.pause()?;
        service::each(&mut talker, &handles, |out, handle| out.request_freeze(handle, handle.into()))?;
        turns.pause()?;
        service::each(&mut talker, &handles, |out, handle| out.clear_freeze(handle, handle.into()))?;
        turns.pause()?;
        poll(&mut talker)?;
        turns.pause()?;
        read(&mut talker, count, |item| matches!(item, Return::ClearFreezeNotificationDone(_)))?;
        turns.stop()
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

fn watching_deaths(device: &std::path::Path, count: u64) -> Result<(Talker, Vec<u32>)> {
    let mut talker = service::open(device)?;
    talker.out.enter_looper();
    let handles = service::take(&mut talker, count)?;
    watch(&mut talker, &handles)?;
    Ok((talker, handles))
}

/// Asks to be told of the deaths of all these.
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
