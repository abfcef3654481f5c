// SPDX-License-Identifier: GPL-2.0

//! Data on its way from one process to another: copied once, and each object in it turned from the
//! sender's terms into the receiver's.
//!
//! The destination is written strictly from its start to its end by [`Writer`], so that no place in
//! it can be written, and no object translated, twice (lesson R16). The sender's memory is read once
//! as well: what has been judged is what is delivered.

use crate::{
    allocation::{Buffer, Held},
    defs::{FlatObject, NodeFlags, Strength, TransactionRequest},
    error::Refusal,
    process::Process,
    thread::Thread, //
};
use kernel::{
    prelude::*,
    security,
    sync::Arc,
    uaccess::{UserPtr, UserSlice}, //
};

/// Objects start at multiples of this within the data.
const OBJECT_ALIGNMENT: u64 = 4;

/// Copies what `request` names from the calling process into `buffer`, which lies in `receiver`.
///
/// What was translated until an error is held by `buffer`, and nothing else is (lesson C06).
pub(crate) fn copy_in(
    request: &TransactionRequest,
    sender: &Arc<Thread>,
    receiver: &Arc<Process>,
    buffer: &mut Buffer,
) -> Result<(), Refusal> {
    let data = usize::try_from(request.data).map_err(|_| EFAULT)?;
    if request.buffers_size % size_of::<u64>() as u64 != 0 {
        return Err(Refusal::failed(EINVAL));
    }
    if buffer.layout.offsets_size == 0 {
        let size = buffer.layout.data_size;
        if size != 0 {
            let data = UserPtr::from_addr(data);
            receiver.pages.copy_from_user(buffer.offset, data, size)?;
        }
        return Ok(());
    }
    let offsets = copy_offsets(request, receiver, buffer)?;
    let mut writer = Writer {
        receiver,
        start: buffer.offset,
        done: 0,
        size: buffer.layout.data_size,
        source: data,
    };
    for offset in offsets {
        writer.copy_until(offset)?;
        let object = writer.read_object()?;
        buffer.expect_held()?;
        let (translated, held) = translate(object, sender, receiver)?;
        buffer.hold(held);
        writer.write_object(&translated.encode())?;
    }
    writer.copy_until(request.data_size)
}

/// Reads the array of offsets, once, for the driver and for the receiver.
fn copy_offsets(
    request: &TransactionRequest,
    receiver: &Process,
    buffer: &Buffer,
) -> Result<KVVec<u64>, Refusal> {
    let size = buffer.layout.offsets_size;
    let mut bytes = KVVec::new();
    let offsets = usize::try_from(request.offsets).map_err(|_| EFAULT)?;
    UserSlice::new(UserPtr::from_addr(offsets), size).read_all(&mut bytes, GFP_KERNEL)?;
    if size % size_of::<u64>() != 0 {
        return Err(Refusal::failed(EINVAL));
    }
    receiver
        .pages
        .write(buffer.offset + buffer.layout.offsets_at, &bytes)?;
    let mut offsets = KVVec::with_capacity(size / size_of::<u64>(), GFP_KERNEL)?;
    for entry in bytes.chunks_exact(size_of::<u64>()) {
        let entry = entry.try_into().map_err(|_| EINVAL)?;
        offsets.push(u64::from_ne_bytes(entry), GFP_KERNEL)?;
    }
    Ok(offsets)
}

/// Writes the data of a transaction from its start to its end.
struct Writer<'a> {
    receiver: &'a Process,
    /// Where the data starts in the receiver's space.
    start: usize,
    /// How much of it is written.
    done: usize,
    size: usize,
    /// Where the data lies in the calling process.
    source: usize,
}

impl Writer<'_> {
    /// Where the sender has what comes next.
    fn next(&self) -> UserPtr {
        UserPtr::from_addr(self.source).wrapping_byte_add(self.done)
    }

    /// Copies the bytes before `offset` as they are. `EFAULT` when that lies behind (contract 9.4).
    fn copy_until(&mut self, offset: u64) -> Result<(), Refusal> {
        let offset = usize::try_from(offset).map_err(|_| EFAULT)?;
        if offset < self.done || offset > self.size {
            return Err(Refusal::failed(EFAULT));
        }
        let size = offset - self.done;
        if size != 0 {
            let at = self.start + self.done;
            self.receiver.pages.copy_from_user(at, self.next(), size)?;
            self.done = offset;
        }
        Ok(())
    }

    /// Reads the object that comes next. The bytes are not written: their translation will be.
    fn read_object(&mut self) -> Result<FlatObject, Refusal> {
        let remaining = self.size - self.done;
        if self.done as u64 % OBJECT_ALIGNMENT != 0 || remaining < FlatObject::SIZE {
            return Err(Refusal::failed(EINVAL));
        }
        let mut bytes = [0; FlatObject::SIZE];
        UserSlice::new(self.next(), bytes.len())
            .reader()
            .read_slice(&mut bytes)?;
        FlatObject::decode(&bytes).ok_or(Refusal::failed(EINVAL))
    }

    /// Writes the translation of the object that was read.
    fn write_object(&mut self, bytes: &[u8; FlatObject::SIZE]) -> Result<(), Refusal> {
        self.receiver.pages.write(self.start + self.done, bytes)?;
        self.done += FlatObject::SIZE;
        Ok(())
    }
}

/// Turns an object into the receiver's terms, and holds for him what it names.
fn translate(
    object: FlatObject,
    sender: &Arc<Thread>,
    receiver: &Arc<Process>,
) -> Result<(FlatObject, Held), Refusal> {
    let from = &sender.process;
    match object {
        FlatObject::Binder {
            strength,
            flags,
            name,
        } => {
            let node = from.pin_node(name, NodeFlags::new(flags))?;
            let handle = may_transfer(from, receiver)
                .and_then(|()| receiver.hold_node(&node, strength, Some(sender)));
            node.unpin();
            Ok(as_handle(handle.map_err(refusal)?, strength, flags))
        }
        FlatObject::Handle {
            strength,
            flags,
            handle,
        } => {
            let node = from.node_of_handle(handle, strength).ok_or(EINVAL)?;
            may_transfer(from, receiver)?;
            if Arc::ptr_eq(&node.owner, receiver) {
                node.add_local(strength).map_err(|_| EINVAL)?;
                let name = node.name;
                let binder = FlatObject::Binder {
                    strength,
                    flags,
                    name,
                };
                return Ok((binder, Held::Node(node, strength)));
            }
            let handle = receiver.hold_node(&node, strength, None);
            Ok(as_handle(handle.map_err(refusal)?, strength, flags))
        }
    }
}

/// A handle of the receiver, as object and as what is held for him.
fn as_handle(handle: u32, strength: Strength, flags: u32) -> (FlatObject, Held) {
    let object = FlatObject::Handle {
        strength,
        flags,
        handle,
    };
    (object, Held::Handle(handle, strength))
}

/// Asks the security modules; any refusal of theirs is `EPERM` to the sender (contract 10).
fn may_transfer(from: &Process, to: &Process) -> Result {
    security::binder_transfer_binder(&from.credential, &to.credential).map_err(|_| EPERM)
}

/// Why a receiver cannot be given a handle.
fn refusal(error: Error) -> Refusal {
    if error == ESRCH {
        Refusal::DIED
    } else {
        Refusal::failed(error)
    }
}
