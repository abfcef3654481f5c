// SPDX-License-Identifier: GPL-2.0
//! Handles that a process holds.

use binder_sys::FlatBinderObject;
use binder_sys::Parcel;
use binder_sys::Return;

use super::limits::OPERATIONS;
use super::notices;
use crate::error::Result;
use crate::growth::scene::Scene;
use crate::growth::service;
use crate::growth::service::Ask;

/// Taken, used, given on, closed in one write; and held by a process that is killed.
pub fn held(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let holder = scene.actor("holder", move |turns, device| {
        let mut talker = service::open(device)?;
        turns.pause()?;
        let handles = service::take(&mut talker, count)?;
        turns.pause()?;
        for round in 0..OPERATIONS {
            let handle = handles[(round * 31 % count) as usize];
            let mut parcel = Parcel::new();
            parcel.object(&FlatBinderObject::strong_handle(handle));
            service::ask(&mut talker, Ask::Answer, &parcel)?;
        }
        turns.pause()?;
        for &handle in &handles {
            talker.out.acquire(handle).increfs(handle);
        }
        talker.flush()?;
        turns.pause()?;
        for &handle in &handles {
            talker.out.release(handle).decrefs(handle);
        }
        talker.flush()?;
        turns.pause()?;
        for &handle in &handles {
            talker.out.release(handle);
        }
        talker.flush()?;
        turns.pause()?;
        service::take(&mut talker, count)?;
        turns.stop()
    })?;
    scene.turn("take", holder)?;
    scene.turn_of("send one home", OPERATIONS, holder)?;
    scene.turn("count up", holder)?;
    scene.turn("count down", holder)?;
    scene.turn("close all", holder)?;
    scene.turn("take again", holder)?;
    scene.kill("kill the holder", holder)
}

/// Watched by the holder when their owner dies.
pub fn dying(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let holder = scene.actor("holder", move |turns, device| {
        let mut talker = service::open(device)?;
        // Upstream's driver tells nobody else of deaths.
        talker.out.enter_looper();
        let handles = service::take(&mut talker, count)?;
        turns.pause()?;
        notices::watch(&mut talker, &handles)?;
        turns.pause()?;
        let mut told = 0;
        while told < count {
            if let Return::DeadBinder(cookie) = talker.next()? {
                talker.out.dead_binder_done(cookie);
                told += 1;
            }
        }
        talker.flush()?;
        turns.pause()?;
        for &handle in &handles {
            talker.out.release(handle);
        }
        talker.flush()?;
        turns.stop()
    })?;
    scene.turn("watch", holder)?;
    scene.kill("kill the owner", service)?;
    scene.turn("read and confirm", holder)?;
    scene.turn("close all", holder)?;
    scene.kill("kill the holder", holder)
}
