// SPDX-License-Identifier: GPL-2.0
//! Memory that processes share, as bytes or as words in cache lines.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::sys::mman::{mmap_anonymous, mremap, munmap, MRemapFlags, MapFlags, ProtFlags};

use crate::error::{Context, Result};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Memory, zero at first, shared with all processes that are forked from now on.
///
/// # Invariants
/// `start` is the start of a mapping of `length` bytes that can be read and written, and that lives as long as `self`.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: `word` gives atomics alone, and `start` a raw pointer, whose users account for what they do with it.
unsafe impl Send for Memory {}
// SAFETY: `word` gives atomics alone, and `start` a raw pointer, whose users account for what they do with it.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(length: usize) -> Result<Memory> {
        let length = NonZeroUsize::new(length).expect("a length above 0");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is demanded, so no existing memory is replaced.
        let start = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_SHARED) };
        // INVARIANT: it has just been mapped so, and no other code has its address.
        Ok(Memory { start: start.context("shared memory")?.cast(), length })
    }

    pub fn again(&self) -> Result<Memory> {
        let flags = MRemapFlags::MREMAP_MAYMOVE;
        // SAFETY: an old size of 0 leaves the old mapping as it is, and no address is demanded.
        let start = unsafe { mremap(self.start.cast(), 0, self.length.get(), flags, None) };
        // INVARIANT: the new mapping is of the same memory and length.
        Ok(Memory { start: start.context("shared memory, once more")?.cast(), length: self.length })
    }

    /// The first byte. It is as aligned as a page is.
    #[inline(always)]
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// One of the words of a line. Memory of which words are used must not be written by way of `start`.
    #[inline(always)]
    pub fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        assert!(line < self.length.get() / LINE && word < LINE / size_of::<AtomicU64>());
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: the word lies in the mapping, by the assertion, and is aligned as that is. The mapping lives as long as `self`,
        // and what is used as words is used as atomics alone.
        unsafe { AtomicU64::from_ptr(words.add(line * (LINE / size_of::<AtomicU64>()) + word)) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: by the invariant this is a mapping of ours, and nothing that was borrowed from it outlives `self`.
        let _ = unsafe { munmap(self.start.cast(), self.length.get()) };
    }
}
