// SPDX-License-Identifier: GPL-2.0
//! Blocks of memory that a call carries, and pointers from one into another.

use binder_sys::BinderBufferObject;
use binder_sys::BinderTransactionDataSg;
use binder_sys::ObjectType;
use binder_sys::Parcel;
use binder_sys::Return;
use binder_sys::TransactionFlags;

use crate::error::Result;
use crate::growth::scene::Scene;
use crate::growth::service;
use crate::growth::service::Ask;
use crate::talk::unexpected;

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
pub fn led() -> Parcel {
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
pub fn sent<K>(scene: &mut Scene, make: impl FnOnce() -> Result<(Parcel, u64, K)>) -> Result<()> {
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
    scene.turn("send", sender)?;
    scene.turn("free", sender)?;
    scene.kill("kill the receiver", service)
}
