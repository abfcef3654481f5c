// SPDX-License-Identifier: GPL-2.0

//! Data on its way from one process to another: copied once, and each object in it turned from the
//! sender's terms into the receiver's.
//!
//! The destination is written strictly from its start to its end by [`Writer`], and so is each copy
//! of what a pointer points to, by [`PointerArea`]. So no place can be written, and no object
//! translated, twice (lesson R16). The sender's memory is read once as well: what has been judged is
//! what is delivered.
//!
//! Kinds of objects have rooms of their own: [`nodes`], [`files`] and [`pointers`].

use crate::{
    allocation::Buffer,
    calls::sender::Sender,
    common::error::TransactionError,
    defs::{Object, TransactionRequest},
    kernel_ext::stack_bytes::StackBytes,
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

/// Objects start at multiples of this within the data.
const OBJECT_ALIGNMENT: u64 = 4;

/// Who sends something to whom, and what may be sent.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    pub(crate) sender: &'a Sender<'a>,
    pub(crate) receiver: &'a Arc<Process>,
    /// Whether the receiver takes file descriptors.
    pub(crate) accepts_files: bool,
}

/// Copies what `request` names from the calling process into `buffer`, which lies in the receiver.
///
/// What was translated until an error is held by `buffer`, and nothing else is (lesson C06).
pub(crate) fn copy_in(
    request: &TransactionRequest,
    route: Route<'_>,
    buffer: &mut Buffer,
) -> Result<(), TransactionError> {
    let data = usize::try_from(request.data).map_err(|_| EFAULT)?;
    if request.buffers_size % size_of::<u64>() as u64 != 0 {
        return Err(TransactionError::failed(EINVAL));
    }
    if buffer.layout.offsets_size() == 0 {
        let size = buffer.layout.data_size();
        if size != 0 {
            let data = UserPtr::from_addr(data);
            let pages = &route.receiver.pages;
            pages.copy_from_user(buffer.offset(), data, size)?;
        }
        return Ok(());
    }
    let offsets = Offsets::copy(request, route.receiver, buffer)?;
    let (start, end) = buffer.layout.pointers();
    let mut writer = Writer {
        receiver: route.receiver,
        start: buffer.offset(),
        done: 0,
        size: buffer.layout.data_size(),
        source: data,
    };
    let credential = route.receiver.credential()?;
    let mut translation = Translation {
        route,
        receiver_credential: &credential,
        pointers: PointerArea::new(start, end),
        buffer,
    };
    for (index, offset) in (0..).zip(offsets.iter()) {
        writer.copy_until(offset)?;
        let object = writer.read_object()?;
        let translated = translation.translate(index, writer.done, object)?;
        writer.write_object(&translated)?;
    }
    writer.copy_until(request.data_size)?;
    translation.finish()
}

/// The offsets of a transaction's objects. A few of them take no memory.
enum Offsets {
    OneOrMany(StackBytes<FEW_OFFSETS>),
    Many(KVVec<u8>),
}

/// The size of as many offsets as take no memory: eight.
const FEW_OFFSETS: usize = size_of::<[u64; 8]>();

impl Offsets {
    /// Reads the array, once, for the driver and for the receiver.
    fn copy(
        request: &TransactionRequest,
        receiver: &Process,
        buffer: &Buffer,
    ) -> Result<Self, TransactionError> {
        let size = buffer.layout.offsets_size();
        let source = usize::try_from(request.offsets).map_err(|_| EFAULT)?;
        let source = UserPtr::from_addr(source);
        let offsets = if size <= FEW_OFFSETS {
            let mut bytes = StackBytes::new();
            bytes.read_user(source, size)?;
            Self::OneOrMany(bytes)
        } else {
            let mut bytes = KVVec::new();
            UserSlice::new(source, size).read_all(&mut bytes, GFP_KERNEL)?;
            Self::Many(bytes)
        };
        if size % size_of::<u64>() != 0 {
            return Err(TransactionError::failed(EINVAL));
        }
        let at = buffer.offset() + buffer.layout.offsets_at();
        receiver.pages.write(at, offsets.as_bytes())?;
        Ok(offsets)
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::OneOrMany(bytes) => bytes.as_slice(),
            Self::Many(bytes) => bytes,
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let entries = self.as_bytes().chunks_exact(size_of::<u64>());
        entries.filter_map(|entry| Some(u64::from_ne_bytes(entry.try_into().ok()?)))
    }
}

/// Writes the data of a transaction from its start to its end.
struct Writer<'a> {
    receiver: &'a Process,
    /// Where the data starts in the receiver's space.
    start: usize,
    /// How much of it is written.
    done: usize,
    size: usize,
    /// Where the data lies in the calling process.
    source: usize,
}

impl Writer<'_> {
    /// Where the sender has what comes next.
    fn next(&self) -> UserPtr {
        UserPtr::from_addr(self.source).wrapping_byte_add(self.done)
    }

    /// Copies the bytes before `offset` as they are. `EFAULT` when that lies behind (contract 9.4).
    fn copy_until(&mut self, offset: u64) -> Result<(), TransactionError> {
        let offset = usize::try_from(offset).map_err(|_| EFAULT)?;
        if offset < self.done || offset > self.size {
            return Err(TransactionError::failed(EFAULT));
        }
        let size = offset - self.done;
        if size != 0 {
            let at = self.start + self.done;
            self.receiver.pages.copy_from_user(at, self.next(), size)?;
            self.done = offset;
        }
        Ok(())
    }

    /// Reads the object that comes next. The bytes are not written: their translation will be.
    /// `EINVAL` when there is none, wherever that shows (contract 9.4).
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
        Object::decode(&bytes[..size]).ok_or(EINVAL)
    }

    /// Writes the translation of the object that was read, which is of the same size.
    fn write_object(&mut self, object: &Object) -> Result {
        let bytes = &object.encode()[..object.size()];
        self.receiver.pages.write(self.start + self.done, bytes)?;
        self.done += bytes.len();
        Ok(())
    }
}

/// Turns objects into the receiver's terms, one after the other.
struct Translation<'a> {
    route: Route<'a>,
    receiver_credential: &'a Credential,
    /// Takes hold of what the objects name.
    buffer: &'a mut Buffer,
    /// Takes what they point to.
    pointers: PointerArea,
}

impl Translation<'_> {
    /// Translates the object that comes `index`-th in the array of offsets, and lies `at` in the
    /// data. It keeps its size.
    fn translate(
        &mut self,
        index: u64,
        at: usize,
        object: Object,
    ) -> Result<Object, TransactionError> {
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
