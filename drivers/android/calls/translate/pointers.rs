// SPDX-License-Identifier: GPL-2.0

//! Objects that point to blocks of the sender's memory: the block goes along, and the receiver is
//! given the address of the copy.

use super::Translation;
use crate::{
    common::error::TransactionError,
    defs::PointerObject,
    process::Process,
    pure::pointer_area::{AreaError, Piece}, //
};
use kernel::{
    prelude::*,
    uaccess::UserPtr, //
};

impl Translation<'_> {
    /// Makes room for the block of the object that comes `index`-th, and points to it whatever is to
    /// point to it. It is copied once it is known which bytes of it are replaced by others.
    pub(super) fn pointer(
        &mut self,
        index: u64,
        object: PointerObject,
    ) -> Result<PointerObject, TransactionError> {
        let pages = PagesOf::new(self.route.receiver, self.buffer.offset());
        let copy = &mut pages.copier();
        let (source, length) = (object.address, object.length);
        let address = if object.has_parent() {
            let parent = (object.parent, object.parent_offset);
            let (at, gap) = self
                .pointers
                .add_child(index, source, length, parent, copy)?;
            let address = pages.address_of(at);
            pages.write(gap.at, &address.to_ne_bytes())?;
            address
        } else {
            let at = self.pointers.add_root(index, source, length, copy)?;
            pages.address_of(at)
        };
        Ok(PointerObject { address, ..object })
    }

    /// No more objects: copies what remains to be copied.
    pub(super) fn finish(self) -> Result<(), TransactionError> {
        let pages = PagesOf::new(self.route.receiver, self.buffer.offset());
        Ok(self.pointers.finish(&mut pages.copier())?)
    }
}

/// A buffer's part of the receiver's memory.
#[derive(Clone, Copy)]
pub(super) struct PagesOf<'a> {
    receiver: &'a Process,
    start: usize,
}

impl<'a> PagesOf<'a> {
    pub(super) fn new(receiver: &'a Process, start: usize) -> Self {
        Self { receiver, start }
    }

    /// What copies from the calling process. `EINVAL` where that has nothing (contract 10).
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

    fn write(self, at: usize, bytes: &[u8]) -> Result {
        self.receiver.pages.write(self.start + at, bytes)
    }

    /// Where the receiver finds what is `at` in the buffer.
    fn address_of(self, at: usize) -> u64 {
        // A process that receives has mapped its space.
        let start = self.receiver.pages.address().unwrap_or(0);
        (start + self.start + at) as u64
    }
}

impl From<AreaError<Error>> for TransactionError {
    fn from(error: AreaError<Error>) -> Self {
        Self::failed(match error {
            AreaError::DoesNotFit => EINVAL,
            AreaError::NoMemory => ENOMEM,
            AreaError::Copy(error) => error,
        })
    }
}
