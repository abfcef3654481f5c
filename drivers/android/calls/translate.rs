// SPDX-License-Identifier: GPL-2.0

//! Copies the data of a transaction from one process to another, and translates each object in it
//! for the receiver.
//!
//! [`Writer`] writes the destination strictly from its start to its end, and so does
//! [`PointerArea`] with each copy of a block that a pointer points to. Therefore no place is
//! written, and no object is translated, twice (lesson R16). The sender's memory is read once as
//! well, so that the bytes that were checked are the bytes that are delivered.
//!
//! Each kind of object has its own module: [`nodes`], [`files`] and [`pointers`].

use crate::{
    allocation::Buffer,
    calls::sender::Sender,
    common::failure::{Failure, Reason},
    defs::{Object, TransactionRequest},
    kernel_ext::user::UserBytes,
    process::Process,
    pure::pointer_area::PointerArea, //
};
use kernel::{
    cred::Credential,
    prelude::*,
    sync::Arc,
    uaccess::{UserPtr, UserSlice}, //
};

mod files;
mod nodes;
mod pointers;

/// The offset of an object within the data is a multiple of this.
const OBJECT_ALIGNMENT: u64 = 4;

/// The two ends of a transaction, and what may be sent between them.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    /// The debug id of the call or reply.
    pub(crate) id: u32,
    pub(crate) sender: &'a Sender<'a>,
    pub(crate) receiver: &'a Arc<Process>,
    /// Whether the receiver takes file descriptors.
    pub(crate) accepts_files: bool,
}

/// Copies the data that `request` names from the calling process into `buffer`, which lies in the
/// space of the receiver. Sleeps; no lock may be held.
///
/// On an error, `buffer` holds the objects that were translated before, and no others (lesson C06).
#[inline(always)] // Most data has no objects.
pub(crate) fn copy_in(
    request: &TransactionRequest,
    route: Route<'_>,
    buffer: &mut Buffer,
) -> Result<(), Failure> {
    let data = usize::try_from(request.data).map_err(|_| unreadable(EFAULT))?;
    if buffer.layout.offsets_size() == 0 {
        check_buffers_size(request)?;
        let size = buffer.layout.data_size();
        if size != 0 {
            let data = UserPtr::from_addr(data);
            let pages = &route.receiver.pages;
            pages
                .copy_from_user(buffer.offset(), data, size)
                .map_err(|error| unreadable(error))?;
        }
        return Ok(());
    }
    copy_objects(request, data, route, buffer)
}

/// Fails if the size of the pointer area is no multiple of that of a pointer. Offsets are looked at
/// before that (contract 9.4).
#[inline(always)]
fn check_buffers_size(request: &TransactionRequest) -> Result<(), Failure> {
    if request.buffers_size % size_of::<u64>() as u64 != 0 {
        return Err(Failure::new(Reason::OddPointers, EINVAL));
    }
    Ok(())
}

/// The same for data with objects, which is at `data` in the calling process.
#[inline(never)]
fn copy_objects(
    request: &TransactionRequest,
    data: usize,
    route: Route<'_>,
    buffer: &mut Buffer,
) -> Result<(), Failure> {
    let offsets = Offsets::copy(request, route.receiver, buffer)?;
    check_buffers_size(request)?;
    let (start, end) = buffer.layout.pointers();
    let mut writer = Writer {
        receiver: route.receiver,
        start: buffer.offset(),
        done: 0,
        size: buffer.layout.data_size(),
        source: data,
    };
    let credential = route
        .receiver
        .credential()
        .map_err(|error| unwritable(error))?;
    let mut translation = Translation {
        route,
        receiver_credential: &credential,
        pointers: PointerArea::new(start, end),
        buffer,
    };
    for (index, offset) in (0..).zip(offsets.iter()) {
        copy_object(&mut writer, &mut translation, index, offset)
            .map_err(|error| error.of_object(index))?;
    }
    writer.copy_until(request.data_size)?;
    translation.finish()
}

/// Copies the object that is entry `index` of the array of offsets, and the data before it.
#[inline(always)]
fn copy_object(
    writer: &mut Writer<'_>,
    translation: &mut Translation<'_>,
    index: u64,
    offset: u64,
) -> Result<(), Failure> {
    writer.copy_until(offset)?;
    let object = writer
        .read_object()
        .map_err(|error| Failure::new(Reason::NoObject, error))?;
    let translated = translation.translate(index, writer.done, object)?;
    writer
        .write_object(&translated)
        .map_err(|error| unwritable(error))
}

/// Returns the transaction error of data that cannot be copied, which tells the line of the caller.
/// (By its name given to `map_err`, it would tell a line of its own: hence the closures.)
#[track_caller]
fn unreadable(error: Error) -> Failure {
    Failure::new(Reason::UnreadableData, error)
}

/// Returns the failure of a buffer whose pages are gone, likewise.
#[track_caller]
pub(crate) fn unwritable(error: Error) -> Failure {
    Failure::new(Reason::SpaceGone, error)
}

/// The offsets of a transaction's objects. For a few of them no memory is allocated.
enum Offsets {
    Few(UserBytes<FEW_OFFSETS>),
    Many(KVVec<u8>),
}

/// The size of the largest array of offsets for which no memory is allocated: eight entries.
const FEW_OFFSETS: usize = size_of::<[u64; 8]>();

impl Offsets {
    /// Reads the array from the sender once, keeps it for the driver, and writes it to the
    /// receiver's buffer. Fails with `EFAULT` when it is unreadable, and with `EINVAL` when its
    /// size is no multiple of an entry's.
    fn copy(
        request: &TransactionRequest,
        receiver: &Process,
        buffer: &Buffer,
    ) -> Result<Self, Failure> {
        let size = buffer.layout.offsets_size();
        let unreadable = |error| Failure::new(Reason::UnreadableOffsets, error);
        let source = usize::try_from(request.offsets).map_err(|_| unreadable(EFAULT))?;
        let source = UserPtr::from_addr(source);
        let offsets = if size <= FEW_OFFSETS {
            let mut bytes = UserBytes::new();
            bytes.read(source, size).map_err(unreadable)?;
            Self::Few(bytes)
        } else {
            let mut bytes = KVVec::new();
            UserSlice::new(source, size)
                .read_all(&mut bytes, GFP_KERNEL)
                .map_err(unreadable)?;
            Self::Many(bytes)
        };
        if size % size_of::<u64>() != 0 {
            return Err(Failure::new(Reason::OddOffsets, EINVAL));
        }
        let at = buffer.offset() + buffer.layout.offsets_at();
        let written = receiver.pages.write(at, offsets.as_bytes());
        written.map_err(|error| unwritable(error))?;
        Ok(offsets)
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Few(bytes) => bytes.as_slice(),
            Self::Many(bytes) => bytes,
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let entries = self.as_bytes().chunks_exact(size_of::<u64>());
        entries.filter_map(|entry| Some(u64::from_ne_bytes(entry.try_into().ok()?)))
    }
}

/// Writes the data of a transaction, from its start to its end.
struct Writer<'a> {
    receiver: &'a Process,
    /// Where the data starts in the receiver's space.
    start: usize,
    /// How many bytes of it are written.
    done: usize,
    /// How many bytes it has.
    size: usize,
    /// The address of the data in the calling process.
    source: usize,
}

impl Writer<'_> {
    /// Returns the address of the next byte in the calling process.
    fn next(&self) -> UserPtr {
        UserPtr::from_addr(self.source).wrapping_byte_add(self.done)
    }

    /// Copies the bytes before `offset` unchanged. Fails with `EFAULT` when `offset` is less than
    /// what is written already, or behind the data (contract 9.4).
    fn copy_until(&mut self, offset: u64) -> Result<(), Failure> {
        let out_of_order = || Failure::new(Reason::OffsetOutOfOrder, EFAULT);
        let offset = usize::try_from(offset).map_err(|_| out_of_order())?;
        if offset < self.done || offset > self.size {
            return Err(out_of_order());
        }
        let size = offset - self.done;
        if size != 0 {
            let at = self.start + self.done;
            self.receiver
                .pages
                .copy_from_user(at, self.next(), size)
                .map_err(|error| unreadable(error))?;
            self.done = offset;
        }
        Ok(())
    }

    /// Reads the next object, and leaves its bytes to be written by [`Self::write_object`]. Fails
    /// with `EINVAL` when they are no object: misaligned, unreadable, too short, or of no known
    /// type (contract 9.4).
    fn read_object(&mut self) -> Result<Object> {
        if self.done as u64 % OBJECT_ALIGNMENT != 0 {
            return Err(EINVAL);
        }
        let mut bytes = [0; Object::MAX_SIZE];
        let size = usize::min(self.size - self.done, bytes.len());
        UserSlice::new(self.next(), size)
            .reader()
            .read_slice(&mut bytes[..size])
            .map_err(|_| EINVAL)?;
        Object::read(&bytes[..size]).ok_or(EINVAL)
    }

    /// Writes the translation of the object that was read, which has the same size.
    fn write_object(&mut self, object: &Object) -> Result {
        let bytes = object.as_bytes();
        self.receiver.pages.write(self.start + self.done, bytes)?;
        self.done += bytes.len();
        Ok(())
    }
}

/// Translates objects for the receiver, one after the other.
struct Translation<'a> {
    route: Route<'a>,
    receiver_credential: &'a Credential,
    /// The buffer, which holds what the objects name.
    buffer: &'a mut Buffer,
    /// Where the blocks go that the objects point to.
    pointers: PointerArea,
}

impl Translation<'_> {
    /// Translates the object that is entry `index` of the array of offsets, and lies at offset `at`
    /// of the data. Its size does not change.
    fn translate(&mut self, index: u64, at: usize, object: Object) -> Result<Object, Failure> {
        Ok(match object {
            Object::Flat(flat) => Object::Flat(self.node(flat)?),
            Object::File(file) => Object::File(self.file(at, file)?),
            Object::Pointer(pointer) => Object::Pointer(self.pointer(index, pointer)?),
            Object::FileArray(array) => {
                self.file_array(&array)?;
                object
            }
        })
    }
}
