// SPDX-License-Identifier: GPL-2.0

//! Objects in the data of a transaction that carry something with them: files, and the blocks that
//! pointers point to; and the one decoder for objects of all kinds.

use super::{
    double_word,
    objects::{type_of, FlatObject},
    put_double_word,
    put_word,
    word, //
};

/// A file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileObject {
    /// Passed on; the driver does not read it.
    pub(crate) flags: u32,
    /// The descriptor's number in the sender.
    pub(crate) fd: u32,
    /// Passed on.
    pub(crate) cookie: u64,
}

impl FileObject {
    pub(crate) const SIZE: usize = 24;
    /// The offset of the number in the object.
    pub(crate) const FD_AT: usize = 8;
    const TYPE: u32 = type_of([b'f', b'd', b'*']);

    fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            flags: word(bytes, 4),
            fd: word(bytes, Self::FD_AT),
            cookie: double_word(bytes, 16),
        }
    }
}

/// A block of memory: what a pointer points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointerObject {
    pub(crate) flags: u32,
    /// The address of the block.
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// The block that contains the pointer to this one, as an index into the array of offsets.
    pub(crate) parent: u64,
    /// The offset of the pointer in that block.
    pub(crate) parent_offset: u64,
}

impl PointerObject {
    pub(crate) const SIZE: usize = 40;
    const TYPE: u32 = type_of([b'p', b't', b'*']);
    const HAS_PARENT: u32 = 1;

    /// Whether a block with a pointer to this one exists.
    pub(crate) const fn has_parent(&self) -> bool {
        self.flags & Self::HAS_PARENT != 0
    }

    fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            flags: word(bytes, 4),
            address: double_word(bytes, 8),
            length: double_word(bytes, 16),
            parent: double_word(bytes, 24),
            parent_offset: double_word(bytes, 32),
        }
    }
}

/// An array of file descriptors in a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileArrayObject {
    /// Passed on; the driver does not read it.
    pub(crate) pad: u32,
    /// The number of descriptors, four bytes each.
    pub(crate) count: u64,
    /// The block that contains them, as an index into the array of offsets.
    pub(crate) parent: u64,
    /// The offset of the first one in that block.
    pub(crate) parent_offset: u64,
}

impl FileArrayObject {
    pub(crate) const SIZE: usize = 32;
    const TYPE: u32 = type_of([b'f', b'd', b'a']);

    fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            pad: word(bytes, 4),
            count: double_word(bytes, 8),
            parent: double_word(bytes, 16),
            parent_offset: double_word(bytes, 24),
        }
    }
}

/// An object of any kind.
#[derive(Clone, Copy)]
pub(crate) enum Object {
    Flat(FlatObject),
    File(FileObject),
    Pointer(PointerObject),
    FileArray(FileArrayObject),
}

impl Object {
    /// The size of the largest object.
    pub(crate) const MAX_SIZE: usize = PointerObject::SIZE;

    /// Decodes the object at the start of `bytes`. `None` for an unknown type, and for an object
    /// that is cut off.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match word(bytes.first_chunk::<4>()?, 0) {
            FileObject::TYPE => Some(Self::File(FileObject::decode(bytes.first_chunk()?))),
            PointerObject::TYPE => Some(Self::Pointer(PointerObject::decode(bytes.first_chunk()?))),
            FileArrayObject::TYPE => {
                let array = FileArrayObject::decode(bytes.first_chunk()?);
                Some(Self::FileArray(array))
            }
            _ => FlatObject::decode(bytes.first_chunk()?).map(Self::Flat),
        }
    }

    /// Returns the size of the object in the data, in bytes.
    pub(crate) const fn size(&self) -> usize {
        match self {
            Self::Flat(_) => FlatObject::SIZE,
            Self::File(_) => FileObject::SIZE,
            Self::Pointer(_) => PointerObject::SIZE,
            Self::FileArray(_) => FileArrayObject::SIZE,
        }
    }

    /// Encodes the object: the first [`Self::size`] bytes of the result.
    pub(crate) fn encode(&self) -> [u8; Self::MAX_SIZE] {
        let mut bytes = [0; Self::MAX_SIZE];
        match self {
            Self::Flat(flat) => bytes[..FlatObject::SIZE].copy_from_slice(&flat.encode()),
            Self::File(file) => {
                put_word(&mut bytes, 0, FileObject::TYPE);
                put_word(&mut bytes, 4, file.flags);
                put_word(&mut bytes, FileObject::FD_AT, file.fd);
                put_double_word(&mut bytes, 16, file.cookie);
            }
            Self::Pointer(pointer) => {
                put_word(&mut bytes, 0, PointerObject::TYPE);
                put_word(&mut bytes, 4, pointer.flags);
                put_double_word(&mut bytes, 8, pointer.address);
                put_double_word(&mut bytes, 16, pointer.length);
                put_double_word(&mut bytes, 24, pointer.parent);
                put_double_word(&mut bytes, 32, pointer.parent_offset);
            }
            Self::FileArray(array) => {
                put_word(&mut bytes, 0, FileArrayObject::TYPE);
                put_word(&mut bytes, 4, array.pad);
                put_double_word(&mut bytes, 8, array.count);
                put_double_word(&mut bytes, 16, array.parent);
                put_double_word(&mut bytes, 24, array.parent_offset);
            }
        }
        bytes
    }
}
