// SPDX-License-Identifier: GPL-2.0
//! Objects of one call.

use binder_sys::Parcel;
use binder_sys::TransactionFlags;
use nix::poll::PollFlags;

use super::limits::OPERATIONS;
use crate::error::Context;
use crate::error::Result;
use crate::growth::scene::Scene;
use crate::growth::service;
use crate::growth::service::Ask;

/// Nodes that the service does not know, then the same once more, then given up.
pub fn of_one_call(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        let parcel = service::nodes(0, count);
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
    scene.turn("send new nodes", sender)?;
    scene.turn("send them again", sender)?;
    scene.turn("free both messages", sender)?;
    scene.turn("send and hold", sender)?;
    scene.turn_of("ask for one's own", OPERATIONS, sender)?;
    scene.kill("kill the owner", sender)
}

/// Weak references to nodes of one's own and then strong ones, in one write.
pub fn weak_then_strong(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        service::ask(&mut talker, Ask::Deafen, &Parcel::new())?;
        let (weak, strong) = (service::weak_nodes(0, count), service::nodes(0, count));
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
    scene.turn("write", sender)?;
    scene.turn("read and confirm", sender)?;
    scene.kill("kill the owner", sender)
}
