// SPDX-License-Identifier: GPL-2.0
//! Blocks of memory that a call carries, pointers from one into another, and files.

use std::fs::File;
use std::os::fd::AsRawFd;

use binder_sys::{
    BinderBufferObject, BinderFdArrayObject, BinderFdObject, BinderTransactionDataSg, ObjectType,
};

use crate::growth::scene::Scene;
use crate::growth::service::{self, allow_files, Ask};
use crate::prelude::*;

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

/// Sends a parcel with so many bytes of blocks to someone who keeps it, frees it, and dies. What else `make` gives must be there
/// while it is sent.
fn sent<K>(scene: &mut Scene, make: impl FnOnce() -> Result<(Parcel, u64, K)>) -> Result<()> {
    let service = service::start(scene)?;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        let (parcel, buffers_size, _kept) = make()?;
        turns.pause()?;
        let data = parcel.to_handle(0, Ask::Keep as u32, TransactionFlags::ACCEPT_FDS);
        talker.out.transaction_sg(&BinderTransactionDataSg { data, buffers_size });
        match talker.next()? {
            Return::Reply(reply) => talker.out.free_buffer(reply.buffer),
            other => return Err(unexpected(&other)),
        };
        talker.flush()?;
        turns.pause()?;
        service::ask(&mut talker, Ask::Free, &Parcel::new())?;
        turns.stop()
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
