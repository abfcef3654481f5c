// SPDX-License-Identifier: GPL-2.0

//! The memory of a queue in which a server reads what requests want.

use super::{
    abi::{Descriptor, MOST_DEPTH},
    inline::*,
};
use core::{mem::offset_of, ptr::NonNull};
use kernel::{bindings, error::to_result, mm::virt::VmaNew, page::page_align, prelude::*};

/// Descriptors of a queue's requests. The driver only writes them.
///
/// # Invariants
///
/// `memory` has `depth` descriptors, of `each` bytes, and this value owns it.
pub(crate) struct Descriptors {
    memory: NonNull<u8>,
    depth: u16,
    each: u16,
}

// SAFETY: Any thread may write the memory.
unsafe impl Send for Descriptors {}
// SAFETY: It is written as that of user space, where no value is invalid.
unsafe impl Sync for Descriptors {}

impl Descriptors {
    /// Makes descriptors of so many bytes, at least those of a [`Descriptor`]. `ENOMEM`.
    pub(crate) fn new(depth: u16, each: u16) -> Result<Self> {
        assert!(usize::from(each) >= size_of::<Descriptor>() && each % 8 == 0);
        let size = usize::from(depth) * usize::from(each);
        // SAFETY: The size is not 0.
        let memory = unsafe { ublk_rust_memory(page_align(size).ok_or(ENOMEM)?) };
        // INVARIANT: It is new.
        Ok(Self {
            memory: NonNull::new(memory.cast()).ok_or(ENOMEM)?,
            depth,
            each,
        })
    }

    /// Returns the bytes between what servers map of two queues.
    pub(crate) fn most_size(each: u16) -> usize {
        let size = usize::from(MOST_DEPTH) * usize::from(each);
        page_align(size).unwrap_or(size)
    }

    /// Returns the bytes that a server maps.
    fn size(&self) -> usize {
        let size = usize::from(self.depth) * usize::from(self.each);
        page_align(size).unwrap_or(size)
    }

    #[inline(always)]
    fn at(&self, tag: u16) -> *mut Descriptor {
        assert!(tag < self.depth);
        let offset = usize::from(tag) * usize::from(self.each);
        // SAFETY: By the type's invariant.
        unsafe { self.memory.as_ptr().add(offset).cast() }
    }

    #[inline(always)]
    pub(crate) fn set(&self, tag: u16, descriptor: &Descriptor) {
        let place = self.at(tag);
        // SAFETY: The place is that of a descriptor.
        unsafe {
            (&raw mut (*place).operation).write_volatile(descriptor.operation);
            (&raw mut (*place).sectors).write_volatile(descriptor.sectors);
            (&raw mut (*place).sector).write_volatile(descriptor.sector);
            (&raw mut (*place).address).write_volatile(descriptor.address);
        }
    }

    /// Writes what has changed when a server has passed a buffer.
    pub(crate) fn set_buffer(&self, tag: u16, address: u64, sectors: u32) {
        let place = self.at(tag);
        // SAFETY: As above.
        unsafe {
            (&raw mut (*place).sectors).write_volatile(sectors);
            (&raw mut (*place).address).write_volatile(address);
        }
    }

    /// Maps them for reading. `EPERM` for writing, `EINVAL` for another size.
    pub(super) fn map(&self, vma: &VmaNew) -> Result {
        if vma.end() - vma.start() != self.size() {
            return Err(EINVAL);
        }
        let vma = vma.as_ptr();
        // SAFETY: The memory stays while it is mapped: the mapping has the file, which has the
        // device.
        to_result(unsafe { ublk_rust_map(vma, self.memory.as_ptr().cast()) })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant. Nobody uses it any more.
        unsafe { vfree(self.memory.as_ptr().cast()) };
    }
}

const _: () = assert!(offset_of!(Descriptor, address) == 16 && bindings::PAGE_SHIFT >= 12);
