// SPDX-License-Identifier: GPL-2.0
//! Blocks of memory that a call carries, and pointers from one into another.

use binder_sys::BinderBufferObject;
use binder_sys::BinderTransactionDataSg;
use binder_sys::ObjectType;
use binder_sys::Parcel;
use binder_sys::TransactionFlags;

use crate::error::Result;
use crate::growth::scene::Scene;
use crate::growth::service;
use crate::growth::service::Ask;
use crate::talk::unexpected;
use crate::talk::Talker;
use binder_sys::Return;

/// Bytes of a block that others do not point from.
const BLOCK: u64 = 8;

/// One block with as many pointers, each to a block of its own.
pub fn side_by_side(scene: &mut Scene, count: u64) -> Result<()> {
    sent(scene, move |memory| {
        let mut parcel = led();
        parcel.object(&block(memory, count * BLOCK));
        for pointer in 0..count {
            let inner = block(memory, BLOCK);
            let flags = BinderBufferObject::HAS_PARENT;
            parcel.object(&BinderBufferObject { flags, parent_offset: pointer * BLOCK, ..inner });
        }
        (parcel, 2 * count * BLOCK)
    })
}

/// Each block holds a pointer to the next.
pub fn in_a_chain(scene: &mut Scene, count: u64) -> Result<()> {
    sent(scene, move |memory| {
        let mut parcel = led();
        parcel.object(&block(memory, BLOCK));
        for parent in 0..count {
            let flags = BinderBufferObject::HAS_PARENT;
            parcel.object(&BinderBufferObject { flags, parent, ..block(memory, BLOCK) });
        }
        (parcel, (count + 1) * BLOCK)
    })
}

/// A parcel whose first object is not at its start, where the C driver would not see it as a parent.
pub fn led() -> Parcel {
    let mut parcel = Parcel::new();
    parcel.bytes(&[0; 8]);
    parcel
}

fn block(memory: u64, length: u64) -> BinderBufferObject {
    BinderBufferObject { kind: ObjectType::PTR, buffer: memory, length, ..Default::default() }
}

fn sent(scene: &mut Scene, make: impl FnOnce(u64) -> (Parcel, u64) + 'static) -> Result<()> {
    let service = service::start(scene)?;
    let sender = scene.actor("sender", move |turns, device| {
        let mut talker = service::open(device)?;
        let memory = vec![0u64; 1 << 16];
        let (parcel, area) = make(memory.as_ptr() as u64);
        turns.pause()?;
        let data = parcel.to_handle(0, Ask::Keep as u32, TransactionFlags::empty());
        call_with_blocks(&mut talker, &BinderTransactionDataSg { data, buffers_size: area })?;
        turns.pause()?;
        service::ask(&mut talker, Ask::Free, &Parcel::new())?;
        turns.stop()
    })?;
    scene.turn("send", sender)?;
    scene.turn("free", sender)?;
    scene.kill("kill the receiver", service)
}

/// A call that carries blocks, or could.
pub fn call_with_blocks(talker: &mut Talker, call: &BinderTransactionDataSg) -> Result<()> {
    talker.out.transaction_sg(call);
    match talker.next()? {
        Return::Reply(reply) => {
            talker.out.free_buffer(reply.buffer);
            talker.flush()
        }
        other => Err(unexpected(&other)),
    }
}
