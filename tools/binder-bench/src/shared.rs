// SPDX-License-Identifier: GPL-2.0
//! A page that processes share, as words in cache lines.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::sys::mman::mmap_anonymous;
use nix::sys::mman::mremap;
use nix::sys::mman::munmap;
use nix::sys::mman::MRemapFlags;
use nix::sys::mman::MapFlags;
use nix::sys::mman::ProtFlags;

use crate::error::Context;
use crate::error::Result;

const LENGTH: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Bytes of a cache line.
const LINE: usize = 64;

/// The page, zero at first, shared with all processes that are forked from now on.
///
/// # Invariants
/// `start` is the start of a mapping of `LENGTH` bytes that can be read and written. What lies in it is used as atomics
/// alone.
#[derive(Debug)]
pub struct Page {
    start: NonNull<c_void>,
}

// SAFETY: by the invariant all that threads do to what `start` points to is atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// A new one.
    pub fn new() -> Result<Page> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is demanded, so no existing memory is replaced.
        let start = unsafe { mmap_anonymous(None, LENGTH, protection, MapFlags::MAP_SHARED) };
        // INVARIANT: it has just been mapped so, and nobody else knows of it.
        Ok(Page { start: start.context("shared memory")? })
    }

    /// The same memory at another address.
    pub fn again(&self) -> Result<Page> {
        // SAFETY: an old size of 0 leaves the old mapping as it is, and no address is demanded.
        let start = unsafe { mremap(self.start, 0, LENGTH.get(), MRemapFlags::MREMAP_MAYMOVE, None) };
        // INVARIANT: the new mapping is of the same memory, which is used by way of `Page` alone.
        Ok(Page { start: start.context("shared memory, once more")? })
    }

    /// One of the words of a line.
    #[inline(always)]
    pub fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        assert!(line < LENGTH.get() / LINE && word < LINE / size_of::<AtomicU64>());
        let words = self.start.as_ptr().cast::<u64>();
        // SAFETY: the word lies in the mapping, by the assertion, and is aligned as that is. The mapping lives as long as `self`,
        // and what lies in it is used as atomics alone, by the invariant.
        unsafe { AtomicU64::from_ptr(words.add(line * (LINE / size_of::<AtomicU64>()) + word)) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: by the invariant this is a mapping of ours, and no word of it is borrowed any more.
        let _ = unsafe { munmap(self.start, LENGTH.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_mappings_are_of_the_same_memory() {
        let page = Page::new().unwrap();
        let again = page.again().unwrap();
        again.word(63, 7).store(5, Ordering::Relaxed);
        assert_ne!(page.start, again.start);
        assert_eq!(page.word(63, 7).load(Ordering::Relaxed), 5);
        assert_eq!(page.word(63, 6).load(Ordering::Relaxed), 0);
        drop(page);
        assert_eq!(again.word(63, 7).load(Ordering::Relaxed), 5);
    }
}
