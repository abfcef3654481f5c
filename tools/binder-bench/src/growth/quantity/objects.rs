// SPDX-License-Identifier: GPL-2.0
//! Objects of one call, and handles that a process holds.

use nix::poll::PollFlags;

use super::notices;
use crate::growth::scene::Scene;
use crate::growth::service::{self, Ask, OPERATIONS};
use crate::prelude::*;

/// Nodes that the service does not know, then the same once more, then given up.
pub fn of_one_call(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        let parcel = service::nodes(count, FlatBinderObject::binder);
        turns.pause()?;
        service::ask(&mut talker, Ask::Keep, &parcel)?;
        turns.pause()?;
        service::ask(&mut talker, Ask::Keep, &parcel)?;
        turns.pause()?;
        service::ask(&mut talker, Ask::Free, &Parcel::new())?;
        turns.pause()?;
        service::ask(&mut talker, Ask::Hold, &parcel)?;
        turns.pause()?;
        for _ in 0..OPERATIONS {
            talker.port().device().node_debug_info(count * 8).context("BINDER_GET_NODE_DEBUG_INFO")?;
        }
        turns.stop()
    })?;
    scene.turns(sender, &["send new nodes", "send them again", "free both messages", "send and hold"])?;
    scene.turn_of("ask for one's own", OPERATIONS, sender)?;
    scene.kill("kill the owner", sender)
}

/// Weak references to nodes of one's own and then strong ones, in one write.
pub fn weak_then_strong(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        service::ask(&mut talker, Ask::Deafen, &Parcel::new())?;
        let (weak, strong) = (
            service::nodes(count, FlatBinderObject::weak_binder),
            service::nodes(count, FlatBinderObject::binder),
        );
        for parcel in [&weak, &strong] {
            talker.out.transaction(&parcel.to_handle(0, Ask::Keep as u32, TransactionFlags::ONE_WAY));
        }
        turns.pause()?;
        talker.flush()?;
        turns.pause()?;
        // Two requests to hold each node, and the ends of two calls.
        talker.exchange()?;
        while talker.port().device().poll(Some(0)).context("poll")?.contains(PollFlags::POLLIN) {
            while talker.arrived()?.is_some() {}
            talker.exchange()?;
        }
        turns.stop()
    })?;
    scene.turns(sender, &["write", "read and confirm"])?;
    scene.kill("kill the owner", sender)
}

/// Handles taken, used, given on, closed in one write; and held by a process that is killed.
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
        service::each(&mut talker, &handles, |out, handle| out.acquire(handle).increfs(handle))?;
        turns.pause()?;
        service::each(&mut talker, &handles, |out, handle| out.release(handle).decrefs(handle))?;
        turns.pause()?;
        service::each(&mut talker, &handles, |out, handle| out.release(handle))?;
        turns.pause()?;
        service::take(&mut talker, count)?;
        turns.stop()
    })?;
    scene.turn("take", holder)?;
    scene.turn_of("send one home", OPERATIONS, holder)?;
    scene.turns(holder, &["count up", "count down", "close all", "take again"])?;
    scene.kill("kill the holder", holder)
}

/// Handles watched by the holder when their owner dies.
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
        service::each(&mut talker, &handles, |out, handle| out.release(handle))?;
        turns.stop()
    })?;
    scene.turn("watch", holder)?;
    scene.kill("kill the owner", service)?;
    scene.turns(holder, &["read and confirm", "close all"])?;
    scene.kill("kill the holder", holder)
}
