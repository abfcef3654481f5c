// SPDX-License-Identifier: GPL-2.0
//! Objects of one call, handles that a process holds, blocks of memory with pointers from one into another, and files.

use std::fs::File;
use std::os::fd::AsRawFd;

use binder_sys::{
    BinderBufferObject, BinderFdArrayObject, BinderFdObject, BinderTransactionDataSg, ObjectType,
};
use nix::poll::PollFlags;

use super::notices;
use crate::growth::scene::Scene;
use crate::growth::service::{self, allow_files, OPERATIONS};
use crate::prelude::*;

/// Nodes that the service has no handle on, sent once and again, then released.
pub fn of_one_call(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let sender = service::actor(scene, "sender", move |turns, talker| {
        let parcel = service::nodes(count, FlatBinderObject::binder);
        turns.pause()?;
        service::ask(talker, service::KEEP, &parcel)?;
        turns.pause()?;
        service::ask(talker, service::KEEP, &parcel)?;
        turns.pause()?;
        service::ask(talker, service::FREE, &Parcel::new())?;
        turns.pause()?;
        service::ask(talker, service::HOLD, &parcel)?;
        turns.pause()?;
        for _ in 0..OPERATIONS {
            talker.port().device().node_debug_info(count * 8).context("BINDER_GET_NODE_DEBUG_INFO")?;
        }
        Ok(())
    })?;
    scene.turns(sender, &["send new nodes", "send them again", "free both messages", "send and hold"])?;
    scene.turn_of("ask for one's own", OPERATIONS, sender)?;
    scene.kill("kill the owner", sender)
}

/// Nodes of the sender, sent weakly and then strongly, in one write.
pub fn weak_then_strong(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let sender = service::actor(scene, "sender", move |turns, talker| {
        service::ask(talker, service::DEAFEN, &Parcel::new())?;
        let (weak, strong) = (
            service::nodes(count, FlatBinderObject::weak_binder),
            service::nodes(count, FlatBinderObject::binder),
        );
        for parcel in [&weak, &strong] {
            talker.out.transaction(&parcel.to_handle(0, service::KEEP, TransactionFlags::ONE_WAY));
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
        Ok(())
    })?;
    scene.turns(sender, &["write", "read and confirm"])?;
    scene.kill("kill the owner", sender)
}

/// Handles taken, used, given on, closed in one write; and held by a process that is killed.
pub fn held(scene: &mut Scene, count: u64) -> Result<()> {
    service::start(scene)?;
    let holder = service::actor(scene, "holder", move |turns, talker| {
        turns.pause()?;
        let handles = service::take(talker, count)?;
        turns.pause()?;
        for round in 0..OPERATIONS {
            let handle = handles[(round * 31 % count) as usize];
            let mut parcel = Parcel::new();
            parcel.object(&FlatBinderObject::strong_handle(handle));
            service::ask(talker, service::ANSWER, &parcel)?;
        }
        turns.pause()?;
        service::each(talker, &handles, |out, handle| out.acquire(handle).increfs(handle))?;
        turns.pause()?;
        service::each(talker, &handles, |out, handle| out.release(handle).decrefs(handle))?;
        turns.pause()?;
        service::each(talker, &handles, |out, handle| out.release(handle))?;
        turns.pause()?;
        service::take(talker, count)
    })?;
    scene.turn("take", holder)?;
    scene.read_logs()?;
    scene.turn_of("send one home", OPERATIONS, holder)?;
    scene.turns(holder, &["count up", "count down", "close all", "take again"])?;
    scene.kill("kill the holder", holder)
}

/// Handles watched by the holder when their owner dies.
pub fn dying(scene: &mut Scene, count: u64) -> Result<()> {
    let service = service::start(scene)?;
    let holder = service::actor(scene, "holder", move |turns, talker| {
        // Upstream's driver notifies only loopers of deaths.
        talker.out.enter_looper();
        let handles = service::take(talker, count)?;
        turns.pause()?;
        notices::watch(talker, &handles)?;
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
        service::each(talker, &handles, |out, handle| out.release(handle))
    })?;
    scene.turn("watch", holder)?;
    scene.kill("kill the owner", service)?;
    scene.turns(holder, &["read and confirm", "close all"])?;
    scene.kill("kill the holder", holder)
}

/// Bytes of a block that others do not point from.
const BLOCK: u64 = 8;

/// One block with as many pointers, each to a block of its own.
pub fn side_by_side(scene: &mut Scene, count: u64) -> Result<()> {
    sent(scene, move || {
        let memory = vec![0; count as usize];
        let mut parcel = led();
        parcel.object(&block(&memory, count * BLOCK));
        for pointer in 0..count {
            let inner = block(&memory, BLOCK);
            let flags = BinderBufferObject::HAS_PARENT;
            parcel.object(&BinderBufferObject { flags, parent_offset: pointer * BLOCK, ..inner });
        }
        Ok((parcel, 2 * count * BLOCK, memory))
    })
}

/// Each block holds a pointer to the next.
pub fn in_a_chain(scene: &mut Scene, count: u64) -> Result<()> {
    sent(scene, move || {
        let memory = vec![0];
        let mut parcel = led();
        parcel.object(&block(&memory, BLOCK));
        for parent in 0..count {
            let flags = BinderBufferObject::HAS_PARENT;
            parcel.object(&BinderBufferObject { flags, parent, ..block(&memory, BLOCK) });
        }
        Ok((parcel, (count + 1) * BLOCK, memory))
    })
}

/// A parcel whose first object is not at its start, where the C driver would not see it as a parent.
fn led() -> Parcel {
    let mut parcel = Parcel::new();
    parcel.bytes(&[0; 8]);
    parcel
}

fn block(memory: &[u64], length: u64) -> BinderBufferObject {
    let buffer = memory.as_ptr() as u64;
    BinderBufferObject { kind: ObjectType::PTR, buffer, length, ..Default::default() }
}

/// Sends a parcel with so many bytes of blocks to a process that keeps it, frees it, and ends. The third value of
/// `make` stays alive while the parcel is sent.
fn sent<K>(scene: &mut Scene, make: impl FnOnce() -> Result<(Parcel, u64, K)>) -> Result<()> {
    let service = service::start(scene)?;
    let sender = service::actor(scene, "sender", move |turns, talker| {
        let (parcel, buffers_size, kept) = make()?;
        turns.pause()?;
        let data = parcel.to_handle(0, service::KEEP, TransactionFlags::ACCEPT_FDS);
        talker.out.transaction_sg(&BinderTransactionDataSg { data, buffers_size });
        let reply = awaited!(talker, Return::Reply(reply) => reply);
        talker.write(|out| out.free_buffer(reply.buffer))?;
        turns.pause()?;
        service::ask(talker, service::FREE, &Parcel::new())?;
        Ok(kept)
    })?;
    scene.turns(sender, &["send", "free"])?;
    scene.kill("kill the receiver", service)
}

/// Files, one after the other.
pub fn files(scene: &mut Scene, count: u64) -> Result<()> {
    allow_files()?;
    sent(scene, move || {
        let file = File::open("/proc/self/exe").context("a file")?;
        let mut parcel = Parcel::new();
        for _ in 0..count {
            let fd = file.as_raw_fd() as u64;
            parcel.object(&BinderFdObject { kind: ObjectType::FD, fd, ..Default::default() });
        }
        Ok((parcel, 0, file))
    })
}

/// Files in one array.
pub fn file_array(scene: &mut Scene, count: u64) -> Result<()> {
    allow_files()?;
    sent(scene, move || {
        let file = File::open("/proc/self/exe").context("a file")?;
        // Two descriptors, of 32 bits each, in a word.
        let memory = vec![file.as_raw_fd() as u64 * (1 + (1 << 32)); count.div_ceil(2) as usize];
        let (kind, buffer, length) = (ObjectType::PTR, memory.as_ptr() as u64, count * 4);
        let mut parcel = led();
        parcel.object(&BinderBufferObject { kind, buffer, length, ..Default::default() });
        parcel.object(&BinderFdArrayObject { kind: ObjectType::FDA, num_fds: count, ..Default::default() });
        Ok((parcel, length.next_multiple_of(8), (memory, file)))
    })
}
