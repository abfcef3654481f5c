// SPDX-License-Identifier: GPL-2.0

//! Files on their way into another process, and the places in the data that wait for their numbers.
//!
//! What the sender passes is the file itself: a [`FileSlot`] holds it from the moment it is
//! translated. Only the receiver can give it a number, and does so in the moment of delivery, in
//! three steps (contract TXN-32, lesson C15):
//!
//! ```text
//!   reserve all numbers ──► write them into the data ──► tell the receiver ──► install all files
//!          │ fails                                              │ fails
//!          └────────────────► none is used ◄────────────────────┘
//! ```
//!
//! Where the numbers go and which are to be closed again is remembered here and in the buffer's
//! descriptor, never read from memory that the receiver maps (lesson R04).

use crate::{allocation::Buffer, kernel_ext::deferred_close::DeferredClose, process::Process};
use kernel::{
    fs::{
        file::{flags, FileDescriptorReservation},
        File, //
    },
    prelude::*,
    sync::aref::ARef, //
};

/// A file, and where in the data its number belongs.
pub(crate) struct FileSlot {
    /// Where the four bytes of the number are, relative to the start of the buffer.
    pub(crate) at: usize,
    pub(crate) file: ARef<File>,
    pub(crate) closer: Closer,
}

/// Who closes a descriptor that was delivered (contract OBJ-11).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closer {
    /// The receiver, whenever it likes.
    Receiver,
    /// The driver, when the receiver frees the buffer.
    Driver,
}

/// Numbers in the calling task's table for all files of a buffer; given back when dropped.
pub(crate) struct ReservedNumbers {
    numbers: KVVec<FileDescriptorReservation>,
    /// Those that are to be closed again, if there are any.
    to_close: Option<DeferredClose>,
}

impl Buffer {
    /// Reserves a number for each file in the data, in the table of the calling task, which belongs
    /// to `receiver`, and writes the numbers into the data. `None` if there are no files.
    ///
    /// `EMFILE` when the task may not have that many.
    pub(crate) fn reserve_numbers(
        &self,
        receiver: &Process,
    ) -> Result<Option<KBox<ReservedNumbers>>> {
        match self.files() {
            [] => Ok(None),
            slots => reserve(slots, self.offset, receiver).map(Some),
        }
    }

    /// Gives the files their numbers. What is to be closed with the buffer is remembered in it.
    pub(crate) fn install_files(&mut self, reserved: KBox<ReservedNumbers>) {
        let reserved = KBox::into_inner(reserved);
        let slots = self.take_files(reserved.to_close);
        // As many numbers as slots, in the same order.
        for (number, slot) in reserved.numbers.into_iter().zip(slots) {
            number.fd_install(slot.file);
        }
    }
}

#[cold]
fn reserve(slots: &[FileSlot], start: usize, receiver: &Process) -> Result<KBox<ReservedNumbers>> {
    let mut numbers = KVVec::with_capacity(slots.len(), GFP_KERNEL)?;
    let is_closed = |slot: &&FileSlot| slot.closer == Closer::Driver;
    let mut to_close = match slots.iter().filter(is_closed).count() {
        0 => None,
        count => Some(DeferredClose::with_capacity(count, GFP_KERNEL)?),
    };
    for slot in slots {
        let reserved = FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC)?;
        let number = reserved.reserved_fd();
        receiver
            .pages
            .write(start + slot.at, &number.to_ne_bytes())?;
        if let (Closer::Driver, Some(closing)) = (slot.closer, &mut to_close) {
            closing.push(number);
        }
        numbers.push(reserved, GFP_KERNEL)?;
    }
    let reserved = ReservedNumbers { numbers, to_close };
    Ok(KBox::new(reserved, GFP_KERNEL)?)
}
