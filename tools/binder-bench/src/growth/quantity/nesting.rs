// SPDX-License-Identifier: GPL-2.0
//! Calls inside calls, to and fro between two processes.
//!
//! The outer process makes the odd calls, the inner one the even calls.

use crate::growth::scene::Scene;
use crate::growth::service::{self, OPERATIONS};
use crate::prelude::*;

/// Nested, used at full depth, and undone by replies.
pub fn undone(scene: &mut Scene, depth: u64) -> Result<()> {
    let (outer, inner) = nest(scene, depth)?;
    scene.read_logs()?;
    scene.phase("reply to all", |scene| {
        scene.go(inner)?;
        scene.await_pause(outer)?;
        scene.await_pause(inner)
    })?;
    scene.kill("kill one of two", outer)
}

/// Nested, used at full depth, and ended by the death of one and then the other.
pub fn killed(scene: &mut Scene, depth: u64) -> Result<()> {
    let (outer, inner) = nest(scene, depth)?;
    scene.kill("kill the outer", outer)?;
    scene.kill("kill the inner", inner)
}

/// The same, the inner one first.
pub fn killed_inside(scene: &mut Scene, depth: u64) -> Result<()> {
    let (outer, inner) = nest(scene, depth)?;
    scene.kill("kill the inner", inner)?;
    scene.kill("kill the outer", outer)
}

fn nest(scene: &mut Scene, depth: u64) -> Result<(Worker, Worker)> {
    let rounds = depth / 2;
    let inner = scene.actor("inner process", move |turns, device| {
        let mut side = Side { talker: service::manage(device)?, other: 0 };
        turns.ready()?;
        let third = side.befriend()?;
        side.talker.reply(&Parcel::new());
        side.other = side.befriend()?;
        for _ in 0..rounds {
            side.call()?;
            side.take()?;
        }
        side.talker.flush()?;
        turns.pause()?;
        for _ in 0..OPERATIONS {
            let reply = side.talker.call(&plain(third, service::ANSWER, TransactionFlags::empty()))?;
            side.talker.out.free_buffer(reply.buffer);
        }
        side.talker.flush()?;
        turns.pause()?;
        side.reply()?;
        for _ in 0..rounds {
            side.hear()?;
            side.reply()?;
        }
        Ok(side)
    })?;
    scene.actor("third process", |turns, device| -> Result<()> {
        let mut side = Side { talker: service::open(device)?, other: 0 };
        side.talker.out.enter_looper();
        side.introduce()?;
        side.hear()?;
        turns.ready()?;
        loop {
            side.take()?;
            side.reply()?;
        }
    })?;
    let outer = scene.actor("outer process", move |turns, device| {
        let mut side = Side { talker: service::open(device)?, other: 0 };
        turns.pause()?;
        side.introduce()?;
        for _ in 0..rounds {
            side.take()?;
            side.call()?;
        }
        for _ in 0..rounds {
            side.hear()?;
            side.reply()?;
        }
        side.hear()?;
        Ok(side)
    })?;
    scene.phase("nest", |scene| {
        scene.go(outer)?;
        scene.await_pause(inner)
    })?;
    scene.turn_of("call a third process", OPERATIONS, inner)?;
    Ok((outer, inner))
}

struct Side {
    talker: Talker,
    other: u32,
}

impl Side {
    /// Calls the manager with a node of ours, on which it calls back.
    fn introduce(&mut self) -> Result<()> {
        let mut parcel = Parcel::new();
        parcel.object(&FlatBinderObject::binder(16, 1));
        self.talker.begin(&parcel.to_handle(0, 1, TransactionFlags::empty()))
    }

    /// Takes such a call and holds the node.
    fn befriend(&mut self) -> Result<u32> {
        let call = self.talker.next_call()?;
        let handle = self.talker.hold(&call, 0)?;
        self.talker.out.free_buffer(call.buffer);
        Ok(handle)
    }

    fn call(&mut self) -> Result<()> {
        self.talker.begin(&plain(self.other, 1, TransactionFlags::empty()))
    }

    fn take(&mut self) -> Result<BinderTransactionData> {
        let call = self.talker.next_call()?;
        self.talker.out.free_buffer(call.buffer);
        Ok(call)
    }

    fn reply(&mut self) -> Result<()> {
        self.talker.reply(&Parcel::new()).flush()
    }

    fn hear(&mut self) -> Result<()> {
        let reply = awaited!(self.talker, Return::Reply(reply) => reply);
        self.talker.out.free_buffer(reply.buffer);
        Ok(())
    }
}
