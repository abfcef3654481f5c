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

use crate::{
    allocation::Buffer,
    entry::ffi,
    kernel_ext::deferred_close::DeferredClose,
    process::Process, //
};
use kernel::{
    fs::{
        file::{flags, FileDescriptorReservation},
        File, //
    },
    prelude::*,
    sync::{aref::ARef, Arc}, //
};

/// A file, and where in the data its number belongs.
pub(crate) struct FileSlot {
    /// Where the four bytes of the number are, relative to the start of the buffer.
    pub(crate) at: usize,
    pub(crate) file: PassedFile,
    pub(crate) closer: Closer,
}

/// What is passed.
pub(crate) enum PassedFile {
    /// A file, which is held.
    Other(ARef<File>),
    /// A device of ours, by the process that it was opened as.
    Device(Arc<Process>),
}

impl PassedFile {
    /// Passes a file.
    pub(crate) fn new(file: ARef<File>) -> Self {
        match ffi::process_behind(&file) {
            Some(process) => Self::Device(process),
            None => Self::Other(file),
        }
    }

    /// Holds a device open. `EBADF` if it is closed.
    fn hold_device(&self) -> Result<Option<ARef<File>>> {
        match self {
            Self::Other(_) => Ok(None),
            Self::Device(process) => process.file.get().ok_or(EBADF).map(Some),
        }
    }
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
            slots => reserve(slots, self.offset(), receiver).map(Some),
        }
    }

    /// Gives the files their numbers. What is to be closed with the buffer is remembered in it.
    pub(crate) fn install_files(&mut self, reserved: KBox<ReservedNumbers>) {
        let ReservedNumbers {
            numbers,
            devices,
            to_close,
        } = KBox::into_inner(reserved);
        let mut devices = devices.into_iter();
        // As many numbers as slots, and as many devices as there are slots of such, in the same order.
        for (number, slot) in numbers.into_iter().zip(self.take_files(to_close)) {
            let file = match slot.file {
                PassedFile::Other(file) => Some(file),
                PassedFile::Device(_) => devices.next(),
            };
            if let Some(file) = file {
                number.fd_install(file);
            }
        }
    }
}

#[cold]
fn reserve(slots: &[FileSlot], start: usize, receiver: &Process) -> Result<KBox<ReservedNumbers>> {
    let mut numbers = KVVec::with_capacity(slots.len(), GFP_KERNEL)?;
    let mut devices = KVVec::new();
    let is_closed = |slot: &&FileSlot| slot.closer == Closer::Driver;
    let mut to_close = match slots.iter().filter(is_closed).count() {
        0 => None,
        count => Some(DeferredClose::with_capacity(count, GFP_KERNEL)?),
    };
    for slot in slots {
        if let Some(device) = slot.file.hold_device()? {
            devices.push(device, GFP_KERNEL)?;
        }
        let number = FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC)?;
        if let (Closer::Driver, Some(closing)) = (slot.closer, &mut to_close) {
            closing.push(number.reserved_fd());
        }
        numbers.push(number, GFP_KERNEL)?;
    }
    let pages = receiver.pages.open_pages()?;
    for (slot, number) in slots.iter().zip(&numbers) {
        pages.write(start + slot.at, &number.reserved_fd().to_ne_bytes())?;
    }
    drop(pages);
    let reserved = ReservedNumbers {
        numbers,
        devices,
        to_close,
    };
    Ok(KBox::new(reserved, GFP_KERNEL)?)
}
