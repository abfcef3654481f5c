// SPDX-License-Identifier: GPL-2.0

//! Writing to the pages of a range. An access fails with `EFAULT` if its pages are not
//! [populated](PageRange::populate), or do not exist any more.
//!
//! All accesses are made while the range's space is open. Opening it does not wait: reclaim skips a
//! range whose space is open. No access sleeps while it is open. Only a copy from user memory that
//! is not present has to wait; it is made while the space is not open, with a reference to the
//! page.
//!
//! # Races
//!
//! The process that has the range mapped reads the same memory at any time, and nothing here keeps
//! two threads of the kernel from using the same offsets at once. Therefore no reference to page
//! memory is ever made, and Rust code never reads or writes it. It is only passed to `memcpy`,
//! `memset` and the functions that copy from user space, for which the kernel's own memory model
//! holds. By that, racing copies leave some mixture of their bytes and have no other effect.

use super::{slots::HeldPage, PageRange, Space};
use crate::kernel_ext::closable::Open;
use kernel::{
    bindings,
    ffi::c_void,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    uaccess::UserPtr,
};

extern "C" {
    fn kernel_ext_begin_nofault(from: *const c_void, len: usize) -> bool;
    fn kernel_ext_copy_nofault(to: *mut c_void, from: *const c_void, len: usize) -> usize;
    fn kernel_ext_end_nofault();
}

/// The part of an access that lies in one page.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The offset in the page at which it begins.
    start: usize,
    /// How many bytes of the access are before it, in other pages.
    done: usize,
    /// At most what the page has from `start` on.
    len: usize,
}

impl Part {
    /// A whole page.
    pub(super) const PAGE: Self = Self {
        start: 0,
        done: 0,
        len: PAGE_SIZE,
    };

    /// Calls `f` with a pointer into `page` that is valid for reads and writes of `self.len` bytes,
    /// on this thread and during the call.
    #[inline(always)]
    fn with_pointer<R>(&self, page: &HeldPage, f: impl FnOnce(*mut c_void) -> R) -> R {
        // SAFETY: The page is valid as long as it is borrowed.
        let mapped = unsafe { bindings::kmap_local_page(page.page().as_ptr()) };
        // SAFETY: `start` is less than the size of the page that is mapped there, as all code that
        // makes parts ensures.
        let result = f(unsafe { mapped.byte_add(self.start) });
        // SAFETY: `mapped` is from `kmap_local_page` on this thread, and is the last one made: no
        // `f` in this file makes any.
        unsafe { bindings::kunmap_local(mapped) };
        result
    }

    /// Zeroes the part.
    #[inline]
    pub(super) fn zero(&self, page: &HeldPage) {
        // SAFETY: `to` is valid for writes of `len` bytes.
        self.with_pointer(page, |to| unsafe { bindings::memset(to, 0, self.len) });
    }
}

impl PageRange {
    /// Copies `len` bytes from the current process's memory at `from` to the offset `offset`. May
    /// sleep.
    ///
    /// Fails with `EFAULT` also if the source cannot be read. Part of the data may have been copied
    /// then.
    #[inline]
    pub fn copy_from_user(&self, offset: usize, from: UserPtr, len: usize) -> Result {
        let mut done = 0;
        loop {
            let from = from.wrapping_byte_add(done);
            let pages = self.open_pages()?;
            // SAFETY: The function takes any address. `kernel_ext_end_nofault` follows below, on
            // this thread, which does not sleep in between.
            if !unsafe { kernel_ext_begin_nofault(from.as_const_ptr(), len - done) } {
                return Err(EFAULT);
            }
            // Copies until a page of the source is missing.
            let mut missed = None;
            let result = pages.for_each_part(offset + done, len - done, |page, part| {
                let from = from.wrapping_byte_add(part.done).as_const_ptr();
                let left = part.with_pointer(page, |to| {
                    // SAFETY: `to` is valid for writes of `part.len` bytes, which are inside one
                    // page, and as many at `from` are part of what was checked to be in user space.
                    // Page faults are disabled, so missing memory is not waited for. That others
                    // read or write the same bytes at the same time is as good for this function
                    // as it is for its source; see the module's documentation.
                    unsafe { kernel_ext_copy_nofault(to, from, part.len) }
                });
                if left != 0 {
                    missed = Some((page.share(), *part));
                }
                left == 0
            });
            // SAFETY: Ends what was begun above.
            unsafe { kernel_ext_end_nofault() };
            drop(pages);
            result?;
            let Some((page, part)) = missed else {
                return Ok(());
            };
            self.copy_missed(&page, part, from.wrapping_byte_add(part.done))?;
            done += part.done + part.len;
        }
    }

    /// Copies a part whose source was missing. May sleep without bound: user space may decide when
    /// the source becomes present. `EFAULT` also if the range is closed during the copy: its space
    /// may have zeroed and dropped the page before these bytes were written, so this zeroes them.
    #[cold]
    fn copy_missed(&self, page: &HeldPage, part: Part, from: UserPtr) -> Result {
        let copy = |to: *mut c_void| {
            // SAFETY: `to` is valid for writes of `len` bytes, which are inside one page, so there
            // is nothing for the checks to find that `_` leaves out. The source may be any address
            // at all.
            unsafe { bindings::_copy_from_user(to, from.as_const_ptr(), part.len) }
        };
        let left = part.with_pointer(page, copy);
        if self.space.open().is_none() {
            part.zero(page);
            return Err(EFAULT);
        }
        match left {
            0 => Ok(()),
            _ => Err(EFAULT),
        }
    }

    /// Copies `bytes` to the offset `offset`.
    #[inline(always)]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result {
        self.open_pages()?.write(offset, bytes)
    }

    /// Writes zeroes to the offsets `offset..offset + len`.
    pub fn zero(&self, offset: usize, len: usize) -> Result {
        self.open_pages()?.for_each_part(offset, len, |page, part| {
            part.zero(page);
            true
        })
    }

    /// Opens the pages for several accesses. As long as the result exists, reclaim skips them, and
    /// the caller must not sleep.
    #[inline]
    pub fn open_pages(&self) -> Result<OpenPages<'_>> {
        self.space.open().map(OpenPages).ok_or(EFAULT)
    }
}

/// The pages of a range, open for several accesses.
pub struct OpenPages<'a>(Open<'a, Space>);

impl OpenPages<'_> {
    /// Copies `bytes` to the offset `offset`.
    #[inline(always)]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result {
        self.for_each_part(offset, bytes.len(), |page, part| {
            part.with_pointer(page, |to| {
                // SAFETY: `to` is valid for writes of `part.len` bytes. `bytes` has `part.done`
                // bytes before those and as many of them: the parts add up to its length. Page
                // memory and `bytes` do not overlap: there are no references to page memory.
                unsafe {
                    let from = bytes.as_ptr().add(part.done);
                    bindings::memcpy(to, from.cast(), part.len);
                }
            });
            true
        })
    }

    /// Calls `f` for the part of `offset..offset + len` in each page, in order, as long as it
    /// returns `true`. It must not sleep.
    #[inline(always)]
    fn for_each_part(
        &self,
        offset: usize,
        len: usize,
        mut f: impl FnMut(&HeldPage, &Part) -> bool,
    ) -> Result {
        let slots = self.0.slots.as_ref().ok_or(EFAULT)?;
        if len == 0 {
            return Ok(());
        }
        let end = offset.checked_add(len).ok_or(EFAULT)?;
        let pages = offset >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE);
        let mut start = offset & (PAGE_SIZE - 1);
        let mut done = 0;
        for slot in slots.get(pages).ok_or(EFAULT)? {
            // SAFETY: The space of the slot is open for longer than the record is borrowed.
            let record = unsafe { slot.record() }.ok_or(EFAULT)?;
            let part = Part {
                start,
                done,
                len: usize::min(len - done, PAGE_SIZE - start),
            };
            if !f(&record.page, &part) {
                break;
            }
            done += part.len;
            start = 0;
        }
        Ok(())
    }
}
