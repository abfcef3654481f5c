// SPDX-License-Identifier: GPL-2.0

//! The memory of a queue from which a server reads its requests.

use super::{abi::Descriptor, inline::*};
use core::ptr::NonNull;
use kernel::{error::to_result, mm::virt::VmaNew, page::PAGE_SIZE, prelude::*};

/// Descriptors of a queue's requests. The driver only writes them.
///
/// # Invariants
///
/// `memory` has `depth` descriptors, of `each` bytes, in `size` bytes, and this value owns it.
pub(crate) struct Descriptors {
    memory: NonNull<u8>,
    size: usize,
    depth: u16,
    each: u16,
}

// SAFETY: Any thread may write the memory.
unsafe impl Send for Descriptors {}
// SAFETY: It is written as that of user space, where no value is invalid.
unsafe impl Sync for Descriptors {}

/// Returns the bytes of so many descriptors, in whole pages.
pub(crate) fn size_of_descriptors(depth: u16, each: u16) -> usize {
    // At most a MiB.
    (usize::from(depth) * usize::from(each)).next_multiple_of(PAGE_SIZE)
}

impl Descriptors {
    /// Makes descriptors of so many bytes, at least those of a [`Descriptor`]. `ENOMEM`.
    pub(crate) fn new(depth: u16, each: u16) -> Result<Self> {
        assert!(depth > 0 && usize::from(each) >= size_of::<Descriptor>() && each % 8 == 0);
        let size = size_of_descriptors(depth, each);
        // SAFETY: The size is not 0.
        let memory = unsafe { ublk_rust_memory(size) };
        // INVARIANT: It is new.
        Ok(Self {
            memory: NonNull::new(memory.cast()).ok_or(ENOMEM)?,
            size,
            depth,
            each,
        })
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

    /// Maps them, for reading. `EINVAL` for another size.
    pub(super) fn map(&self, vma: &VmaNew) -> Result {
        if vma.end() - vma.start() != self.size {
            return Err(EINVAL);
        }
        vma.try_clear_maywrite()?;
        // SAFETY: The memory stays while it is mapped: the mapping has the file, which has the
        // device.
        to_result(unsafe { remap_vmalloc_range(vma.as_ptr(), self.memory.as_ptr().cast(), 0) })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant. Nobody uses it any more.
        unsafe { vfree(self.memory.as_ptr().cast()) };
    }
}
