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
//! A device of Binder's own is the exception (lesson S11). If a call held it open, a process that is sent its own
//! device and ends without reading that would never end: the call would wait in the process, the
//! process would live as long as its file is open, and the call would hold the file. So a call knows
//! the process behind the device, and has it open no longer than somebody else has: a descriptor or a mapping, in
//! whatever process, or another receiver that has read of it. If all of those are gone when the call
//! is read, it cannot be delivered, as if the receiver had no number left.
//!
//! Where the numbers go and which are to be closed again is remembered here and in the buffer's
//! descriptor, never read from memory that the receiver maps (lesson R04).
//!
//! `P` is what a device of Binder's own is opened as: a process.

use crate::kernel_ext::{deferred_close::DeferredClose, page_range::PageRange};
use kernel::{
    fs::{
        file::{flags, FileDescriptorReservation},
        File, //
    },
    prelude::*,
    sync::{aref::ARef, Arc}, //
};

/// A file, and where in the data its number belongs.
pub(crate) struct FileSlot<P> {
    /// Where the four bytes of the number are, relative to the start of the buffer.
    pub(crate) at: usize,
    pub(crate) file: PassedFile<P>,
    pub(crate) closer: Closer,
}

/// What is passed.
pub(crate) enum PassedFile<P> {
    /// A file, which is held.
    Other(ARef<File>),
    /// A device of ours, by the process that it was opened as.
    Device(Arc<P>),
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
    /// The devices among the files, in order.
    devices: KVVec<ARef<File>>,
    /// Those that are to be closed again, if there are any.
    to_close: Option<DeferredClose>,
}

impl ReservedNumbers {
    /// Reserves a number for each file of a buffer that lies at `start` of the receiver's `pages`, in the
    /// table of the calling task, and writes the numbers into the data. `file_of` gives the file of a
    /// device that is open.
    ///
    /// `EMFILE` when the task may not have that many, `EBADF` when a device is closed.
    #[cold]
    pub(crate) fn reserve<P>(
        slots: &[FileSlot<P>],
        pages: &PageRange,
        start: usize,
        file_of: impl Fn(&P) -> Option<ARef<File>>,
    ) -> Result<KBox<Self>> {
        let mut numbers = KVVec::with_capacity(slots.len(), GFP_KERNEL)?;
        let mut devices = KVVec::new();
        let is_closed = |slot: &&FileSlot<P>| slot.closer == Closer::Driver;
        let mut to_close = match slots.iter().filter(is_closed).count() {
            0 => None,
            count => Some(DeferredClose::with_capacity(count, GFP_KERNEL)?),
        };
        for slot in slots {
            if let PassedFile::Device(device) = &slot.file {
                devices.push(file_of(device).ok_or(EBADF)?, GFP_KERNEL)?;
            }
            let number = FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC)?;
            if let (Closer::Driver, Some(closing)) = (slot.closer, &mut to_close) {
                closing.push(number.reserved_fd());
            }
            numbers.push(number, GFP_KERNEL)?;
        }
        let pages = pages.open_pages()?;
        for (slot, number) in slots.iter().zip(&numbers) {
            pages.write(start + slot.at, &number.reserved_fd().to_ne_bytes())?;
        }
        drop(pages);
        let reserved = Self {
            numbers,
            devices,
            to_close,
        };
        Ok(KBox::new(reserved, GFP_KERNEL)?)
    }

    /// Gives the files their numbers. Gives what is to be closed with the buffer.
    pub(crate) fn install<P>(self: KBox<Self>, slots: KVVec<FileSlot<P>>) -> Option<DeferredClose> {
        let Self {
            numbers,
            devices,
            to_close,
        } = KBox::into_inner(self);
        let mut devices = devices.into_iter();
        // As many numbers as slots, and as many devices as there are slots of such, in the same order.
        for (number, slot) in numbers.into_iter().zip(slots) {
            let file = match slot.file {
                PassedFile::Other(file) => Some(file),
                PassedFile::Device(_) => devices.next(),
            };
            if let Some(file) = file {
                number.fd_install(file);
            }
        }
        to_close
    }
}
