// SPDX-License-Identifier: GPL-2.0

//! Objects that point to blocks of the sender's memory. The block is copied into the buffer, and
//! the receiver reads the address of the copy.

use super::{unwritable, Translation};
use crate::{
    common::failure::{Failure, Reason},
    defs::{PointerObject, BINDER_BUFFER_FLAG_HAS_PARENT},
    process::Process,
    pure::pointer_area::Piece, //
};
use kernel::{
    prelude::*,
    uaccess::UserPtr, //
};

impl Translation<'_> {
    /// Reserves room for the block of the object that is entry `index` of the array of offsets, and
    /// writes the address of the room into the parent block, if the object has one. The block is
    /// copied later, when it is known which of its bytes are replaced by others.
    pub(super) fn pointer(
        &mut self,
        index: u64,
        object: PointerObject,
    ) -> Result<PointerObject, Failure> {
        let pages = PagesOf::new(self.route.receiver, self.buffer.offset());
        let copy = &mut pages.copier();
        let (source, length) = (object.buffer, object.length);
        let buffer = if object.flags & BINDER_BUFFER_FLAG_HAS_PARENT != 0 {
            let parent = (object.parent, object.parent_offset);
            let (at, gap) = self
                .pointers
                .add_child(index, source, length, parent, copy)
                .map_err(|error| Failure::new(Reason::BadPointer, error))?;
            let address = pages.address_of(at);
            let written = pages.write(gap.at, &address.to_ne_bytes());
            written.map_err(|error| unwritable(error))?;
            address
        } else {
            let at = self.pointers.add_root(index, source, length, copy);
            let at = at.map_err(|error| Failure::new(Reason::BadPointer, error))?;
            pages.address_of(at)
        };
        Ok(PointerObject { buffer, ..object })
    }

    /// Copies what remains to be copied, after the last object.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let pages = PagesOf::new(self.route.receiver, self.buffer.offset());
        let finished = self.pointers.finish(&mut pages.copier());
        finished.map_err(|error| Failure::new(Reason::BadPointer, error))
    }
}

/// The part of the receiver's space in which a buffer lies.
#[derive(Clone, Copy)]
pub(super) struct PagesOf<'a> {
    receiver: &'a Process,
    start: usize,
}

impl<'a> PagesOf<'a> {
    pub(super) fn new(receiver: &'a Process, start: usize) -> Self {
        Self { receiver, start }
    }

    /// Returns a function that copies from the calling process. It fails with `EINVAL` where the
    /// memory is unreadable (contract 10).
    pub(super) fn copier(self) -> impl FnMut(Piece) -> Result + 'a {
        move |piece| {
            let source = usize::try_from(piece.source).map_err(|_| EINVAL)?;
            let source = UserPtr::from_addr(source);
            let pages = &self.receiver.pages;
            pages
                .copy_from_user(self.start + piece.at, source, piece.length)
                .map_err(|_| EINVAL)
        }
    }

    /// Writes at offset `at` of the buffer.
    fn write(self, at: usize, bytes: &[u8]) -> Result {
        self.receiver.pages.write(self.start + at, bytes)
    }

    /// Returns the receiver's address of offset `at` of the buffer.
    fn address_of(self, at: usize) -> u64 {
        // A process that receives has mapped its space.
        let start = self.receiver.pages.address().unwrap_or(0);
        (start + self.start + at) as u64
    }
}
