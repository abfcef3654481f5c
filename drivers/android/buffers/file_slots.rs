// SPDX-License-Identifier: GPL-2.0

//! Files on their way into another process, and the places in the data where their numbers will be.
//!
//! The sender passes the file itself: a [`FileSlot`] holds it from the time when it is translated.
//! Only the receiver can reserve a number for it, and does so at delivery, in three steps (contract
//! TXN-32, lesson C15):
//!
//! ```text
//!   reserve all numbers ──► write them into the data ──► tell the receiver ──► install all files
//!          │ fails                                              │ fails
//!          └────────────────► none is used ◄────────────────────┘
//! ```
//!
//! A device of Binder itself is the exception (lesson S11). If a call held it open, a process that
//! is sent its own device and ends without reading the call would never end: the call is queued for
//! the process, the process lives as long as its file is open, and the call holds the file. So a
//! call refers to the process behind the device instead, and has the device open no longer than
//! another reference does: a descriptor or a mapping, in any process, or another receiver that has
//! read of it. If all of those are gone when the call is read, it cannot be delivered, as if the
//! receiver had no number left.
//!
//! Where the numbers are written and which are to be closed again is recorded here and in the
//! buffer's descriptor, and never read from memory that the receiver maps (lesson R04).
//!
//! `P` is the type of an open file of a device of Binder: a process.

use crate::{
    ffi::trace, //
    kernel_ext::{deferred_close::DeferredClose, page_range::PageRange},
    pure::one_or_many::OneOrMany,
};
use kernel::{
    fs::{
        file::{flags, FileDescriptorReservation},
        File, //
    },
    prelude::*,
    sync::{aref::ARef, Arc}, //
};

/// A file, and the place of its number in the data.
pub(crate) struct FileSlot<P> {
    /// The offset of the number's four bytes from the start of the buffer.
    pub(crate) at: usize,
    pub(crate) file: PassedFile<P>,
    pub(crate) closer: Closer,
}

/// The files of a transaction.
pub(crate) type FileSlots<P> = OneOrMany<FileSlot<P>, 8>;

/// What is passed.
pub(crate) enum PassedFile<P> {
    /// A file, which is held.
    Other(ARef<File>),
    /// A device of this driver, by the process that it was opened as.
    Device(Arc<P>),
}

/// What closes a descriptor that was delivered (contract OBJ-11).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closer {
    /// The receiver, at any time.
    Receiver,
    /// The driver, when the receiver frees the buffer.
    Driver,
}

/// Numbers in the calling task's file descriptor table for all files of a buffer; released when
/// dropped.
pub(crate) struct ReservedNumbers {
    numbers: OneOrMany<FileDescriptorReservation>,
    /// The devices among the files, in order.
    devices: OneOrMany<ARef<File>>,
    /// The descriptors that are to be closed with the buffer, if any.
    to_close: Option<DeferredClose>,
}

impl ReservedNumbers {
    /// Reserves a number for each file of transaction `id`, whose buffer lies at `start` of the
    /// receiver's `pages`, in the table of the calling task, and writes the numbers into the data.
    /// `file_of` returns the file of a device that is open.
    ///
    /// `EMFILE` if the task may not have that many, `EBADF` if a device is closed.
    #[cold]
    pub(crate) fn reserve<P>(
        id: u32,
        slots: &[FileSlot<P>],
        pages: &PageRange,
        start: usize,
        file_of: impl Fn(&P) -> Option<ARef<File>>,
    ) -> Result<KBox<Self>> {
        let mut numbers = OneOrMany::with_capacity(slots.len())?;
        let mut devices = OneOrMany::None;
        for slot in slots {
            if let PassedFile::Device(device) = &slot.file {
                devices.push(file_of(device).ok_or(EBADF)?)?;
            }
            let number = FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC)?;
            trace::transaction_fd_recv(id, number.reserved_fd(), slot.at);
            numbers.push(number)?;
        }
        let pages = pages.open_pages()?;
        for (slot, number) in slots.iter().zip(numbers.as_slice()) {
            pages.write(start + slot.at, &number.reserved_fd().to_ne_bytes())?;
        }
        drop(pages);
        let to_close = Self::to_close(slots, numbers.as_slice())?;
        let reserved = Self {
            numbers,
            devices,
            to_close,
        };
        Ok(KBox::new(reserved, GFP_KERNEL)?)
    }

    /// Returns those of the numbers that the driver closes.
    fn to_close<P>(
        slots: &[FileSlot<P>],
        numbers: &[FileDescriptorReservation],
    ) -> Result<Option<DeferredClose>> {
        let is_closed = |slot: &FileSlot<P>| slot.closer == Closer::Driver;
        let count = slots.iter().filter(|slot| is_closed(slot)).count();
        if count == 0 {
            return Ok(None);
        }
        let mut closing = DeferredClose::with_capacity(count, GFP_KERNEL)?;
        for (slot, number) in slots.iter().zip(numbers) {
            if is_closed(slot) {
                closing.push(number.reserved_fd());
            }
        }
        Ok(Some(closing))
    }

    /// Installs the files under their numbers. Returns the descriptors that are to be closed with
    /// the buffer.
    pub(crate) fn install<P>(self: KBox<Self>, slots: FileSlots<P>) -> Option<DeferredClose> {
        let Self {
            numbers,
            devices,
            to_close,
        } = KBox::into_inner(self);
        let mut devices = devices.into_items();
        // There are as many numbers as slots, and as many devices as slots of devices, in the same
        // order.
        for (number, slot) in numbers.into_items().zip(slots.into_items()) {
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
