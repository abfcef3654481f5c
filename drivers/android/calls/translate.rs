// SPDX-License-Identifier: GPL-2.0

//! Copies the data of a transaction from one process to another, and translates each object in it
//! for the receiver.
//!
//! [`Writer`] writes the destination strictly from its start to its end, and so does
//! [`PointerArea`] with each copy of a block that a pointer points to. Therefore no place is
//! written, and no object is translated, twice (lesson R16). The sender's memory is read once as
//! well, so that the bytes that were checked are the bytes that are delivered.
//!
//! - Only the owner of a node names it by pointer and cookie; every other process names it by a
//!   handle of its own.
//! - The numbers of files in the receiver are not known before delivery. Until then their places in
//!   the data stay zero or unwritten, and a [`FileSlot`] holds each place together with its file.
//! - The block that a pointer points to is copied into the buffer, and the receiver reads the
//!   address of the copy.

use crate::{
    allocation::{
        aligned,
        files::{FileSlot, PassedFile},
        Buffer,
        HeldObject, //
    },
    calls::Sender,
    common::failure::{Failure, Reason},
    defs::{
        FileArrayObject,
        FileObject,
        FlatObject,
        Named,
        NodeName,
        Object,
        PointerObject,
        TransactionRequest,
        BINDER_BUFFER_FLAG_HAS_PARENT, //
    },
    ffi::trace,
    kernel_ext::user::UserBytes,
    process::Process,
    pure::{
        node_counts::Strength,
        pointer_area::{Piece, PointerArea},
        priority_rules::NodeFlags, //
    }, //
};
use kernel::{
    prelude::*,
    security,
    sync::Arc,
    uaccess::{UserPtr, UserSlice}, //
};

/// The size of a descriptor's number in the data.
const FD_SIZE: u64 = size_of::<u32>() as u64;

/// The offset of an object within the data is a multiple of this.
const OBJECT_ALIGNMENT: u64 = 4;

/// The two ends of a transaction, and what may be sent between them.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    /// The debug id of the call or reply.
    pub(crate) id: u32,
    pub(crate) sender: &'a Sender<'a>,
    pub(crate) receiver: &'a Arc<Process>,
    /// True if the receiver takes file descriptors.
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
    if buffer.layout.offsets_size != 0 {
        return copy_objects(request, data, route, buffer);
    }
    if request.buffers_size % size_of::<u64>() as u64 != 0 {
        return Err(Failure::new(Reason::OddPointers, EINVAL));
    }
    let size = buffer.layout.data_size as usize;
    if size != 0 {
        let data = UserPtr::from_addr(data);
        let pages = &route.receiver.pages;
        pages
            .copy_from_user(buffer.offset as usize, data, size)
            .map_err(|error| unreadable(error))?;
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
    let mut offsets = Offsets::Few(UserBytes::new());
    offsets.copy(request, route.receiver, buffer)?;
    // The offsets are looked at before the size of the pointer area (contract 9.4).
    if request.buffers_size % size_of::<u64>() as u64 != 0 {
        return Err(Failure::new(Reason::OddPointers, EINVAL));
    }
    let layout = buffer.layout;
    let mut writer = Writer {
        receiver: route.receiver,
        start: buffer.offset as usize,
        done: 0,
        size: layout.data_size as usize,
        source: data,
    };
    let mut translation = Translation {
        route,
        pointers: PointerArea::new(layout.pointers_at() as usize, layout.context_at as usize),
        buffer,
    };
    for (index, offset) in (0..).zip(offsets.iter()) {
        copy_object(&mut writer, &mut translation, index, offset)
            .map_err(|error| error.of_object(index))?;
    }
    writer.copy_until(request.data_size)?;
    // The rest of the blocks, which remains to be copied.
    let mut copy = copier(route.receiver, translation.buffer.offset);
    let finished = translation.pointers.finish(&mut copy);
    finished.map_err(|error| Failure::new(Reason::BadPointer, error))
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
    // Its size does not change.
    let translated = match object {
        Object::Flat(flat) => Object::Flat(translation.node(flat)?),
        Object::File(file) => Object::File(translation.file(writer.done, file)?),
        Object::Pointer(pointer) => Object::Pointer(translation.pointer(index, pointer)?),
        Object::FileArray(array) => {
            translation.file_array(&array)?;
            object
        }
    };
    writer
        .write_object(&translated)
        .map_err(|error| unwritable(error))
}

/// Returns the transaction error of data that cannot be copied, with the line of the caller.
/// (Passed to `map_err` by its name, it would have a line of its own: hence the closures.)
#[track_caller]
fn unreadable(error: Error) -> Failure {
    Failure::new(Reason::UnreadableData, error)
}

/// Returns the failure of a buffer whose pages are gone, with the line of the caller.
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
    /// size is no multiple of an entry's. (It reads in place: returned, the array would be copied.)
    #[inline]
    fn copy(
        &mut self,
        request: &TransactionRequest,
        receiver: &Process,
        buffer: &Buffer,
    ) -> Result<(), Failure> {
        let size = buffer.layout.offsets_size as usize;
        let unreadable = |error| Failure::new(Reason::UnreadableOffsets, error);
        let source = usize::try_from(request.offsets).map_err(|_| unreadable(EFAULT))?;
        let source = UserPtr::from_addr(source);
        match self {
            Self::Few(bytes) if size <= FEW_OFFSETS => bytes.read(source, size),
            _ => {
                let mut bytes = KVVec::new();
                let read = UserSlice::new(source, size).read_all(&mut bytes, GFP_KERNEL);
                *self = Self::Many(bytes);
                read
            }
        }
        .map_err(unreadable)?;
        if size % size_of::<u64>() != 0 {
            return Err(Failure::new(Reason::OddOffsets, EINVAL));
        }
        let at = buffer.offset + aligned::<usize>(buffer.layout.data_size);
        let written = receiver.pages.write(at as usize, self.as_bytes());
        written.map_err(|error| unwritable(error))
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
    /// The start of the data in the receiver's space.
    start: usize,
    /// The number of bytes of the data that are written.
    done: usize,
    /// The size of the data in bytes.
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
        let mut bytes = UserBytes::<{ Object::MAX_SIZE }>::new();
        let size = usize::min(self.size - self.done, Object::MAX_SIZE);
        bytes.read(self.next(), size).map_err(|_| EINVAL)?;
        Object::read(bytes.as_slice()).ok_or(EINVAL)
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
    /// The buffer, which holds what the objects name.
    buffer: &'a mut Buffer,
    /// The area of the blocks that the objects point to.
    pointers: PointerArea,
}

impl Translation<'_> {
    /// Translates an object for the receiver. The buffer holds what it names.
    fn node(&mut self, object: FlatObject) -> Result<FlatObject, Failure> {
        self.buffer.expect_held()?;
        let held = match object.named() {
            Named::Node(name) => self.node_of_sender(object, name)?,
            Named::Handle(handle) => self.handle_of_sender(handle, object.strength())?,
        };
        let translated = object.naming(match &held {
            HeldObject::Node(node, _) => Named::Node(node.name),
            HeldObject::Handle(handle, _) => Named::Handle(*handle),
        });
        self.buffer.hold(held);
        Ok(translated)
    }

    /// Translates a node of the sender into a handle of the receiver. Returns it with the count
    /// that was taken for it, which the buffer is to hold.
    fn node_of_sender(&self, object: FlatObject, name: NodeName) -> Result<HeldObject, Failure> {
        let (id, receiver) = (self.route.id, self.route.receiver);
        let from = self.route.sender.thread;
        let node = from
            .process
            .pin_node(name, NodeFlags::new(object.flags()))
            .map_err(|error| Failure::new(Reason::BadNode, error))?;
        let strength = object.strength();
        let handle = self
            .may_transfer_node()
            .and_then(|()| receiver.hold_node(&node, strength, Some(from)));
        node.unpin();
        let to = handle.map_err(error_of_handle)?;
        trace::transaction_node_to_ref(|| {
            let to_ref = receiver.debug_id_of_handle(to);
            (id, node.debug_id, name.ptr, to_ref, to)
        });
        Ok(HeldObject::Handle(to, strength))
    }

    /// Translates a handle of the sender into one of the receiver, or into the node if that is the
    /// receiver's.
    fn handle_of_sender(&self, handle: u32, strength: Strength) -> Result<HeldObject, Failure> {
        let (id, receiver) = (self.route.id, self.route.receiver);
        let from = &self.route.sender.thread.process;
        let node = from
            .node_of_handle(handle, strength)
            .ok_or_else(|| Failure::new(Reason::BadHandle, EINVAL))?;
        self.may_transfer_node().map_err(error_of_handle)?;
        if node.owner().is(receiver) {
            node.add_local(strength)
                .map_err(|_| Failure::new(Reason::BadHandle, EINVAL))?;
            trace::transaction_ref_to_node(|| {
                let from = from.debug_id_of_handle(handle);
                (id, from, handle, node.debug_id, node.name.ptr)
            });
            return Ok(HeldObject::Node(node, strength));
        }
        let to = receiver
            .hold_node(&node, strength, None)
            .map_err(error_of_handle)?;
        trace::transaction_ref_to_ref(|| {
            let from = from.debug_id_of_handle(handle);
            let to_ref = receiver.debug_id_of_handle(to);
            (id, node.debug_id, from, handle, to_ref, to)
        });
        Ok(HeldObject::Handle(to, strength))
    }

    /// Calls the security modules. The sender gets `EPERM` for any error that they return (contract
    /// 10).
    fn may_transfer_node(&self) -> Result {
        let from = self.route.sender.credential;
        let to = &self.route.receiver.credential;
        security::binder_transfer_binder(from, to).map_err(|_| EPERM)
    }

    /// Takes a reference to the file of an object that lies at offset `at` of the data. Fails with
    /// `EPERM` when the file may not be passed, and with `EBADF` when the sender has no such
    /// descriptor.
    fn file(&mut self, at: usize, object: FileObject) -> Result<FileObject, Failure> {
        let file = self.passed_file(object.fd())?;
        let at = at + FileObject::FD_AT;
        self.buffer.hold_file(FileSlot {
            at,
            file,
            is_closed_with_buffer: false,
        })?;
        trace::transaction_fd_send(self.route.id, object.fd(), at);
        Ok(object.without_number())
    }

    /// Takes references to the files of an array, which lies in a block of an earlier pointer
    /// object. An empty array is allowed even if the receiver does not accept files.
    fn file_array(&mut self, array: &FileArrayObject) -> Result<(), Failure> {
        let bad_array = || Failure::new(Reason::BadArray, EINVAL);
        let size = array.num_fds.checked_mul(FD_SIZE).ok_or_else(bad_array)?;
        let mut copy = copier(self.route.receiver, self.buffer.offset);
        let gap = self
            .pointers
            .claim(array.parent, array.parent_offset, size, &mut copy)
            .map_err(|error| Failure::new(Reason::BadArray, error))?;
        if array.num_fds == 0 {
            return Ok(());
        }
        if gap.source % FD_SIZE != 0 {
            return Err(bad_array());
        }
        let source = UserPtr::from_addr(usize::try_from(gap.source).map_err(|_| bad_array())?);
        // CAST: a gap lies within the buffer.
        let mut numbers = UserSlice::new(source, size as usize).reader();
        for index in 0..array.num_fds as usize {
            let fd = numbers.read().map_err(|_| bad_array())?;
            let file = self.passed_file(fd)?;
            let at = gap.at + index * FD_SIZE as usize;
            self.buffer.hold_file(FileSlot {
                at,
                file,
                is_closed_with_buffer: true,
            })?;
            trace::transaction_fd_send(self.route.id, fd, at);
        }
        Ok(())
    }

    /// Returns the file of a descriptor of the sender. Fails with `EPERM` when the receiver does
    /// not accept files or the security modules deny it.
    #[inline]
    fn passed_file(&self, fd: u32) -> Result<PassedFile, Failure> {
        if !self.route.accepts_files {
            return Err(Failure::new(Reason::FilesNotTaken, EPERM));
        }
        let descriptors = self.route.sender.descriptors;
        let file = descriptors
            .file(fd)
            .map_err(|error| Failure::new(Reason::NoFile, error))?;
        let from = self.route.sender.credential;
        let to = &self.route.receiver.credential;
        security::binder_transfer_file(from, to, &file)
            .map_err(|_| Failure::new(Reason::FileDenied, EPERM))?;
        Ok(match descriptors.opened_as(&file) {
            Some(process) => PassedFile::of_device(process),
            None => PassedFile::Other(file),
        })
    }

    /// Reserves room for the block of the object that is entry `index` of the array of offsets.
    /// Writes the address of the room into the parent block, if the object has one. The block is
    /// copied later, when it is known which of its bytes are replaced by others.
    fn pointer(&mut self, index: u64, object: PointerObject) -> Result<PointerObject, Failure> {
        let (pages, start) = (&self.route.receiver.pages, self.buffer.offset as usize);
        // A process that receives has mapped its space.
        let first = (pages.address().unwrap_or(0) + start) as u64;
        let copy = &mut copier(self.route.receiver, self.buffer.offset);
        let has_parent = object.flags & BINDER_BUFFER_FLAG_HAS_PARENT != 0;
        let parent = has_parent.then_some((object.parent, object.parent_offset));
        let (at, gap) = self
            .pointers
            .add(index, object.buffer, object.length, parent, copy)
            .map_err(|error| Failure::new(Reason::BadPointer, error))?;
        let buffer = first + at as u64;
        if let Some(gap) = gap {
            let written = pages.write(start + gap.at, &buffer.to_ne_bytes());
            written.map_err(|error| unwritable(error))?;
        }
        Ok(PointerObject { buffer, ..object })
    }
}

/// Returns the transaction error for a handle that could not be added to the receiver.
fn error_of_handle(error: Error) -> Failure {
    match error {
        ESRCH => Failure::without_errno(Reason::ReceiverEnded),
        EPERM => Failure::new(Reason::NodeDenied, error),
        _ => Failure::new(Reason::BadNode, error),
    }
}

/// Returns a function that copies from the calling process into the buffer that begins at offset
/// `start` of the receiver's space. It fails with `EINVAL` where the memory is unreadable (contract
/// 10).
fn copier(receiver: &Process, start: u32) -> impl FnMut(Piece) -> Result + '_ {
    move |piece| {
        let source = usize::try_from(piece.source).map_err(|_| EINVAL)?;
        let source = UserPtr::from_addr(source);
        let pages = &receiver.pages;
        pages
            .copy_from_user(start as usize + piece.at, source, piece.length)
            .map_err(|_| EINVAL)
    }
}
