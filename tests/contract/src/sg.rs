// SPDX-License-Identifier: GPL-2.0
//! Parcels with files and with pointers in them.

use crate::arena::Arena;
use crate::port::Port;
use binder_sys::*;
use nix::errno::Errno;
use zerocopy::{Immutable, IntoBytes};

/// The bytes before the first object: no block may be described at offset 0 (lesson C18).
pub const LEAD: &[u8; 8] = b"in front";

/// A parcel whose blocks lie in the arena.
#[derive(Clone)]
pub struct SgParcel {
    /// The data and where the objects are in it.
    pub parcel: Parcel,
    /// The room that the blocks need in the receiver.
    pub room: u64,
}

impl SgParcel {
    /// Nothing but the lead.
    pub fn new() -> Self {
        let mut parcel = Parcel::new();
        parcel.bytes(LEAD);
        Self { parcel, room: 0 }
    }

    /// The lead and a block; with the index of the block.
    pub fn of(arena: &Arena, bytes: &[u8]) -> (Self, u64) {
        let mut parcel = Self::new();
        let index = parcel.block(arena, bytes);
        (parcel, index)
    }

    /// Appends an object of any kind; returns its index.
    pub fn object(&mut self, object: &(impl IntoBytes + Immutable)) -> u64 {
        self.parcel.object(object);
        self.parcel.offsets.len() as u64 - 1
    }

    /// Appends a descriptor.
    pub fn fd(&mut self, fd: i32) -> u64 {
        self.object(&file_object(fd))
    }

    /// Appends a block.
    pub fn block(&mut self, arena: &Arena, bytes: &[u8]) -> u64 {
        let address = arena.place(bytes);
        self.block_at(address, bytes.len() as u64)
    }

    /// Appends a block of which only the place is known.
    pub fn block_at(&mut self, address: u64, length: u64) -> u64 {
        self.room += length.next_multiple_of(8);
        self.object(&pointer_object(address, length))
    }

    /// Appends a block to which a pointer in another block points.
    pub fn child(&mut self, arena: &Arena, bytes: &[u8], parent: u64, parent_offset: u64) -> u64 {
        let address = arena.place(bytes);
        self.room += (bytes.len() as u64).next_multiple_of(8);
        self.object(&BinderBufferObject {
            flags: BinderBufferObject::HAS_PARENT,
            parent,
            parent_offset,
            ..pointer_object(address, bytes.len() as u64)
        })
    }

    /// Appends an array of descriptors inside of a block.
    pub fn array(&mut self, parent: u64, parent_offset: u64, num_fds: u64) -> u64 {
        self.object(&BinderFdArrayObject { kind: ObjectType::FDA, pad: 0, num_fds, parent, parent_offset })
    }

    /// A transaction of it, from anyone.
    pub fn to(&self, port: &Port, handle: u32, flags: TransactionFlags) -> BinderTransactionDataSg {
        let data = port.place_flagged(handle, 0, &self.parcel, flags);
        BinderTransactionDataSg { data, buffers_size: self.room }
    }

    /// A synchronous call of the context manager.
    pub fn call(&self, port: &Port) -> BinderTransactionDataSg {
        self.to(port, 0, TransactionFlags::empty())
    }
}

/// A descriptor as an object.
pub fn file_object(fd: i32) -> BinderFdObject {
    BinderFdObject { kind: ObjectType::FD, pad_flags: 0, fd: fd as u32 as u64, cookie: 0 }
}

/// A block as an object.
pub fn pointer_object(buffer: u64, length: u64) -> BinderBufferObject {
    BinderBufferObject { kind: ObjectType::PTR, buffer, length, ..Default::default() }
}

/// The bytes of an array of descriptors.
pub fn array_bytes(fds: &[i32]) -> Vec<u8> {
    fds.iter().flat_map(|fd| fd.to_ne_bytes()).collect()
}

impl Port {
    /// The object of any kind at this place in a transaction.
    pub fn any_object<T: zerocopy::FromBytes>(&self, call: &BinderTransactionData, index: u64) -> T {
        let offset: u64 = self.read_object(call.offsets + 8 * index);
        self.read_object(call.buffer + offset)
    }

    /// The number that a descriptor has got here.
    pub fn received_fd(&self, call: &BinderTransactionData, index: u64) -> i32 {
        self.any_object::<BinderFdObject>(call, index).fd as u32 as i32
    }

    /// The bytes of a block that has come.
    pub fn received_block(&self, call: &BinderTransactionData, index: u64) -> Vec<u8> {
        let block: BinderBufferObject = self.any_object(call, index);
        self.memory(block.buffer, block.length as usize)
    }

    /// The numbers of an array that has come.
    pub fn received_array(&self, call: &BinderTransactionData, index: u64) -> Vec<i32> {
        let array: BinderFdArrayObject = self.any_object(call, index);
        let block: BinderBufferObject = self.any_object(call, array.parent);
        let bytes = self.memory(block.buffer + array.parent_offset, 4 * array.num_fds as usize);
        bytes.chunks_exact(4).map(|fd| i32::from_ne_bytes(fd.try_into().expect("four bytes"))).collect()
    }
}

/// Sends a parcel to the manager, which is refused; returns the errno.
#[track_caller]
pub fn refused(client: &Port, parcel: &SgParcel) -> i32 {
    let (code, errno) = client.refused_sg(&parcel.call(client));
    assert_eq!(code, codes::BR_FAILED_REPLY);
    errno
}

/// The errno in the driver's extended error when it finds the data wrong.
pub const EINVAL: i32 = -(Errno::EINVAL as i32);
