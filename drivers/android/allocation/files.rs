// SPDX-License-Identifier: GPL-2.0

//! Files on their way into another process, and the places in the data where their numbers will be.
//!
//! The sender passes the file itself: a [`FileSlot`] holds it from the time when it is translated.
//! Only the receiver can reserve a number for it, and does so at delivery, in three steps (contract
//! TXN-32, lesson C15):
//!
//! ```text
//!   reserve all numbers ──► write them into the data ──► write return code ──► install all files
//!          │ fails                                              │ fails
//!          └────────────────► none is used ◄────────────────────┘
//! ```
//!
//! A device of Binder itself is the exception (lesson S11). A process may be sent its own device
//! and exit without reading the call. If the call held the device open, the process would never
//! end. It lives as long as its file is open, and a call in its queue would hold the file. So a
//! call has the name of the process behind the device instead. The device stays open only as long
//! as another reference exists: a descriptor or a mapping in any process, or another receiver that
//! has read it. If all of those are gone when the call is read, the call cannot be delivered, as if
//! the receiver had no number left.
//!
//! The places of the numbers, and the numbers to be closed again, are recorded here and in the
//! buffer's descriptor. They are never read from memory that the receiver maps (lesson R04).

use super::{Buffer, BufferObjects};
use crate::{
    ffi::trace,
    names::ProcessName,
    process::Process,
    pure::one_or_many::OneOrMany, //
};
use kernel::{
    alloc::AllocError,
    fs::{
        file::{flags, FileDescriptorReservation},
        File, //
    },
    prelude::*,
    sync::{aref::ARef, Arc}, //
};

/// A file, and the place of its number in the data.
pub(crate) struct FileSlot {
    /// The offset of the number's four bytes from the start of the buffer.
    pub(crate) at: usize,
    pub(crate) file: PassedFile,
    /// True if the driver closes the descriptor when the receiver frees the buffer; false if the
    /// receiver closes it at any time (contract OBJ-11).
    pub(crate) is_closed_with_buffer: bool,
}

/// The passed object.
pub(crate) enum PassedFile {
    /// A file, which is held.
    Other(ARef<File>),
    /// A device of this driver, by the name of the process that it was opened as.
    Device(Arc<ProcessName>),
}

impl PassedFile {
    #[cold]
    pub(crate) fn of_device(process: Arc<Process>) -> Self {
        Self::Device(process.name.clone())
    }
}

/// Installs a device under its number: out of line, because few files are devices.
#[cold]
fn install_device(
    _: Arc<ProcessName>,
    number: FileDescriptorReservation,
    device: Option<ARef<File>>,
) {
    if let Some(device) = device {
        number.fd_install(device);
    }
}

/// Numbers in the calling task's file descriptor table for all files of a buffer; released when
/// dropped.
pub(crate) struct ReservedNumbers {
    numbers: OneOrMany<FileDescriptorReservation, 8>,
    /// The devices among the files, in order.
    devices: OneOrMany<ARef<File>>,
    /// The descriptors that are to be closed with the buffer, if any.
    to_close: Option<KVVec<u32>>,
}

impl Buffer {
    /// Records a file that the data names.
    pub(crate) fn hold_file(&mut self, slot: FileSlot) -> Result<(), AllocError> {
        self.named()?.files.push(slot)
    }
}

impl BufferObjects {
    /// Reserves a number for each file in the data of transaction `id`, in the file descriptor
    /// table of the calling task, which belongs to `receiver`. Writes the numbers into the data,
    /// which begins at offset `start` of the receiver's space. `None` if there are no files.
    ///
    /// `EMFILE` if the task may not have that many, `EBADF` if a device is closed.
    pub(crate) fn reserve_numbers(
        &self,
        id: u32,
        receiver: &Process,
        start: u32,
    ) -> Result<Option<KBox<ReservedNumbers>>> {
        match self.files.as_slice() {
            [] => Ok(None),
            slots => Self::reserve_numbers_of(slots, id, receiver, start).map(Some),
        }
    }

    #[cold]
    fn reserve_numbers_of(
        slots: &[FileSlot],
        id: u32,
        receiver: &Process,
        start: u32,
    ) -> Result<KBox<ReservedNumbers>> {
        let mut numbers = OneOrMany::None;
        let mut devices = OneOrMany::None;
        let mut to_close = None;
        for slot in slots {
            if let PassedFile::Device(device) = &slot.file {
                let device = device.process.get().ok_or(EBADF)?;
                devices.push(device.file.get().ok_or(EBADF)?)?;
            }
            let number = FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC)?;
            trace::transaction_fd_recv(id, number.reserved_fd(), slot.at);
            if slot.is_closed_with_buffer {
                let to_close = to_close.get_or_insert_with(KVVec::new);
                to_close.push(number.reserved_fd(), GFP_KERNEL)?;
            }
            numbers.push(number)?;
        }
        let pages = receiver.pages.open_pages()?;
        for (slot, number) in slots.iter().zip(numbers.as_slice()) {
            pages.write(
                start as usize + slot.at,
                &number.reserved_fd().to_ne_bytes(),
            )?;
        }
        drop(pages);
        let reserved = ReservedNumbers {
            numbers,
            devices,
            to_close,
        };
        Ok(KBox::new(reserved, GFP_KERNEL)?)
    }

    /// Installs the files under their numbers. The descriptors that are to be closed with the
    /// buffer are recorded.
    pub(crate) fn install_files(&mut self, reserved: KBox<ReservedNumbers>) {
        let ReservedNumbers {
            numbers,
            devices,
            to_close,
        } = KBox::into_inner(reserved);
        let mut devices = devices.into_items();
        let slots = core::mem::replace(&mut self.files, OneOrMany::None);
        // There are as many numbers as slots, and as many devices as slots of devices, in the same
        // order.
        for (number, slot) in numbers.into_items().zip(slots.into_items()) {
            match slot.file {
                PassedFile::Other(file) => number.fd_install(file),
                PassedFile::Device(name) => install_device(name, number, devices.next()),
            }
        }
        self.to_close = to_close;
    }
}
