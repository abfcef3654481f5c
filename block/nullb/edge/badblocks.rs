// SPDX-License-Identifier: GPL-2.0

//! The kernel's list of bad sectors.

use super::inline::*;
use core::{ops::Range, ptr::NonNull};
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{Atomic, Relaxed}, //
};

/// Ranges of sectors whose accesses fail.
///
/// # Invariants
///
/// `list` is initialised, and this value owns it. Its functions take its lock.
pub(crate) struct BadBlocks {
    list: NonNull<bindings::badblocks>,
    /// False as long as the list has never had a range: most lists are empty, and a check of it
    /// costs an access more than this.
    has_any: Atomic<bool>,
}

// SAFETY: All functions of the list may be called by any thread.
unsafe impl Send for BadBlocks {}
// SAFETY: They take the list's lock.
unsafe impl Sync for BadBlocks {}

impl BadBlocks {
    /// Makes an empty list. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: May be called here.
        let list = unsafe { nullb_badblocks_new() };
        // INVARIANT: It is new.
        Ok(Self {
            list: NonNull::new(list).ok_or(ENOMEM)?,
            has_any: Atomic::new(false),
        })
    }

    /// Returns the first part of these sectors that is bad.
    #[inline]
    pub(crate) fn first_in(&self, sectors: Range<u64>) -> Option<Range<u64>> {
        self.has_any.load(Relaxed).then_some(())?;
        let (mut first, mut found) = (0, 0);
        // SAFETY: By the type's invariant. The places for results are there.
        let state = unsafe {
            badblocks_check(
                self.list.as_ptr(),
                sectors.start,
                sectors.end - sectors.start,
                &mut first,
                &mut found,
            )
        };
        (state != 0).then_some(first..first + found)
    }

    /// Marks sectors as bad. `ENOSPC` if the list is full.
    pub(crate) fn add(&self, sectors: Range<u64>) -> Result {
        self.has_any.store(true, Relaxed);
        let count = sectors.end - sectors.start;
        // SAFETY: By the type's invariant.
        let done = unsafe { badblocks_set(self.list.as_ptr(), sectors.start, count, 1) };
        done.then_some(()).ok_or(ENOSPC)
    }

    /// Marks sectors as good. `ENOSPC` if that splits a range, and the list is full.
    pub(crate) fn remove(&self, sectors: Range<u64>) -> Result {
        let count = sectors.end - sectors.start;
        // SAFETY: By the type's invariant.
        let done = unsafe { badblocks_clear(self.list.as_ptr(), sectors.start, count) };
        done.then_some(()).ok_or(ENOSPC)
    }

    /// Writes the list, a line for each range. Returns the length of the text.
    pub(crate) fn show(&self, page: &mut [u8; PAGE_SIZE]) -> usize {
        // SAFETY: By the type's invariant. The page is as large as the function expects.
        let length = unsafe { badblocks_show(self.list.as_ptr(), page.as_mut_ptr().cast(), 0) };
        length.unsigned_abs()
    }
}

impl Drop for BadBlocks {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant. Nobody uses it any more.
        unsafe { nullb_badblocks_free(self.list.as_ptr()) };
    }
}
