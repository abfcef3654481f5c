// SPDX-License-Identifier: GPL-2.0
//! The contents of a transaction: bytes, and the places where objects lie among them.

use crate::structs::*;
use zerocopy::{Immutable, IntoBytes};

/// Data and offsets of one transaction or reply.
///
/// The objects of [`Parcel::to_handle`] and [`Parcel::to_caller`] point into the parcel, which must therefore stay
/// alive and unchanged until the driver has read it.
#[derive(Clone, Debug, Default)]
pub struct Parcel {
    /// The bytes, objects included.
    pub data: Vec<u8>,
    /// The offsets of the objects.
    pub offsets: Vec<u64>,
}

impl Parcel {
    /// An empty parcel.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.data.extend_from_slice(bytes);
        self
    }

    /// Appends an object at the next multiple of four and notes its offset.
    pub fn object(&mut self, object: &(impl IntoBytes + Immutable)) -> &mut Self {
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self.offsets.push(self.data.len() as u64);
        self.bytes(object.as_bytes())
    }

    /// A call of the node behind a handle.
    pub fn to_handle(&self, handle: u32, code: u32, flags: TransactionFlags) -> BinderTransactionData {
        BinderTransactionData {
            target: handle.into(),
            code,
            flags: flags.bits(),
            data_size: self.data.len() as u64,
            offsets_size: (self.offsets.len() * 8) as u64,
            buffer: self.data.as_ptr() as u64,
            offsets: self.offsets.as_ptr() as u64,
            ..Default::default()
        }
    }

    /// An answer to the call being served.
    pub fn to_caller(&self, flags: TransactionFlags) -> BinderTransactionData {
        self.to_handle(0, 0, flags)
    }
}
