// SPDX-License-Identifier: GPL-2.0

//! Reading and writing the pages of a range.
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
//! memory is ever made, and Rust code never reads or writes it: it is only passed to `memcpy`,
//! `memset` and the functions that copy from user space, for which the kernel's own memory model
//! holds. By that, racing copies leave some mixture of their bytes and have no other effect.

use super::{
    slots::{HeldPage, Record},
    PageRange, Space,
};
use crate::kernel_ext::closable::Open;
use kernel::{
    bindings,
    ffi::c_void,
    page::{BorrowedPage, PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    uaccess::UserPtr,
};

use core::marker::PhantomData;

extern "C" {
    fn kernel_ext_begin_nofault(from: *const c_void, len: usize) -> bool;
    fn kernel_ext_copy_nofault(to: *mut c_void, from: *const c_void, len: usize) -> usize;
    fn kernel_ext_end_nofault();
}

/// While this exists, the calling task does not wait for user memory that is not present.
///
/// # Invariants
///
/// The `len` bytes at `from` are in user space, as far as addresses tell, and page faults are
/// disabled for the calling task.
struct NoFaults {
    from: UserPtr,
    /// Keeps this type on its thread.
    _on_thread: PhantomData<*mut ()>,
}

impl NoFaults {
    /// Disables page faults. [`None`] if the `len` bytes at `from` cannot be user space.
    #[inline]
    fn begin(from: UserPtr, len: usize) -> Option<Self> {
        // SAFETY: The function takes any address. What it begins is ended when the result is
        // dropped.
        let has_begun = unsafe { kernel_ext_begin_nofault(from.as_const_ptr(), len) };
        // INVARIANT: The addresses were checked, and page faults are disabled.
        has_begun.then(|| Self {
            from,
            _on_thread: PhantomData,
        })
    }

    /// Copies the bytes `part.done..part.done + part.len` of the source. Returns whether all were
    /// present.
    ///
    /// # Safety
    ///
    /// The part must be one of as many bytes as the source has.
    #[inline]
    unsafe fn copy(&self, part: &Part<'_>) -> bool {
        let from = self.from.wrapping_byte_add(part.done).as_const_ptr();
        let left = part.with_pointer(|to| {
            // SAFETY: `to` is valid for writes of `part.len` bytes. By the type invariants and what
            // the caller promises, the source is an address of user space, and missing memory is
            // not waited for. That others read or write the same bytes at the same time is as good
            // for this function as it is for its source; see the module's documentation.
            unsafe { kernel_ext_copy_nofault(to, from, part.len) }
        });
        left == 0
    }
}

impl Drop for NoFaults {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Ends what `begin` began, on the same thread.
        unsafe { kernel_ext_end_nofault() };
    }
}

/// The part of an access that lies in one page.
struct Part<'a> {
    record: &'a Record,
    /// The offset in the page at which it begins.
    start: usize,
    /// How many bytes of the access are before it, in other pages.
    done: usize,
    /// At most what the page has from `start` on.
    len: usize,
}

impl Part<'_> {
    /// Calls `f` with a pointer that is valid for reads and writes of `self.len` bytes, on this
    /// thread and during the call.
    #[inline(always)]
    fn with_pointer<R>(&self, f: impl FnOnce(*mut c_void) -> R) -> R {
        // SAFETY: The page exists as long as the record is borrowed, and `start` lies in it, as all
        // code that makes parts ensures. `f` leaves no mappings of its own behind: none in this
        // file makes any.
        unsafe { with_pointer_into(self.record.page().as_ptr(), self.start, f) }
    }
}

/// Calls `f` with a pointer to offset `start` of a page.
///
/// # Safety
///
/// The page must be valid during the call, and `start` less than its size. `f` must not leave local
/// mappings of pages behind.
#[inline(always)]
unsafe fn with_pointer_into<R>(
    page: *mut bindings::page,
    start: usize,
    f: impl FnOnce(*mut c_void) -> R,
) -> R {
    // SAFETY: The page is valid.
    let mapped = unsafe { bindings::kmap_local_page(page) };
    // SAFETY: `start` is less than the size of the page that is mapped there.
    let result = f(unsafe { mapped.byte_add(start) });
    // SAFETY: `mapped` is from `kmap_local_page` on this thread, and is the last one made.
    unsafe { bindings::kunmap_local(mapped) };
    result
}

/// A [`Part`] that was to be copied and whose source was not present. Holds a reference to its
/// page.
struct MissedPart {
    page: HeldPage,
    start: usize,
    done: usize,
    len: usize,
}

impl MissedPart {
    #[cold]
    fn new(part: &Part<'_>) -> Self {
        Self {
            page: HeldPage::of(part.record),
            start: part.start,
            done: part.done,
            len: part.len,
        }
    }

    /// Copies the part. May sleep without bound: user space may decide when the source becomes
    /// present.
    fn copy_from_user(&self, from: UserPtr) -> Result {
        let copy = |to: *mut c_void| {
            // SAFETY: `to` is valid for writes of `len` bytes, which are inside one page, so there
            // is nothing for the checks to find that `_` leaves out. The source may be any address
            // at all.
            unsafe { bindings::_copy_from_user(to, from.as_const_ptr(), self.len) }
        };
        // SAFETY: `self` holds a reference to the page, and `start` lies in it. Copying makes no
        // mappings.
        let left = unsafe { with_pointer_into(self.page.page().as_ptr(), self.start, copy) };
        if left == 0 {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }

    /// Zeroes the part.
    fn zero(&self) {
        // SAFETY: `to` is valid for writes of `len` bytes, which are inside one page.
        let zero = |to: *mut c_void| unsafe { bindings::memset(to, 0, self.len) };
        // SAFETY: `self` holds a reference to the page, and `start` lies in it. `memset` makes no
        // mappings.
        unsafe { with_pointer_into(self.page.page().as_ptr(), self.start, zero) };
    }
}

/// Zeroes a page.
pub(super) fn zero_page(page: &BorrowedPage<'_>) {
    // SAFETY: `to` is valid for writes of a page.
    let zero = |to: *mut c_void| unsafe { bindings::memset(to, 0, PAGE_SIZE) };
    // SAFETY: The page is valid as long as it is borrowed, and 0 lies in it. `memset` makes no
    // mappings.
    unsafe { with_pointer_into(page.as_ptr(), 0, zero) };
}

impl PageRange {
    /// Copies `len` bytes from the current process's memory at `from` to the offset `offset`. May
    /// sleep.
    ///
    /// Errors: `EFAULT` if the source cannot be read, or if the pages of the target are not
    /// [populated](Self::populate). Part of the data may have been copied in that case.
    #[inline]
    pub fn copy_from_user(&self, offset: usize, from: UserPtr, len: usize) -> Result {
        let mut done = 0;
        loop {
            let from = from.wrapping_byte_add(done);
            let Some(missed) = self.copy_resident(offset + done, from, len - done)? else {
                return Ok(());
            };
            self.copy_missed(&missed, from.wrapping_byte_add(missed.done))?;
            done += missed.done + missed.len;
        }
    }

    /// Copies a part whose source was missing. `EFAULT` also if the range is closed meanwhile: then
    /// all others have freed the page, and could not zero what is copied now.
    #[cold]
    fn copy_missed(&self, missed: &MissedPart, from: UserPtr) -> Result {
        let copied = missed.copy_from_user(from);
        if self.space.open().is_none() {
            missed.zero();
            return Err(EFAULT);
        }
        copied
    }

    /// Copies until a page of the source is missing. Returns the part where one is. Does not sleep.
    #[inline]
    fn copy_resident(
        &self,
        offset: usize,
        from: UserPtr,
        len: usize,
    ) -> Result<Option<MissedPart>> {
        let no_faults = NoFaults::begin(from, len).ok_or(EFAULT)?;
        self.open_pages()?.with_parts(offset, len, |part| {
            // SAFETY: The parts are of `len` bytes, as the source is.
            let is_copied = unsafe { no_faults.copy(part) };
            (!is_copied).then(|| MissedPart::new(part))
        })
    }

    /// Copies `bytes` to the offset `offset`.
    ///
    /// Errors: `EFAULT` if the pages are not [populated](Self::populate).
    #[inline(always)]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result {
        self.open_pages()?.write(offset, bytes)
    }

    /// Copies into `bytes` from the offset `offset`.
    ///
    /// The bytes may be anything that was ever written there: in this respect the result is like
    /// data from user space.
    ///
    /// Errors: `EFAULT` if the pages are not [populated](Self::populate).
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result {
        let len = bytes.len();
        self.open_pages()?.for_each_part(offset, len, |part| {
            part.with_pointer(|from| {
                // SAFETY: As in `write`, in the other direction. All bit patterns are valid for
                // bytes.
                unsafe {
                    let to = bytes.as_mut_ptr().add(part.done);
                    bindings::memcpy(to.cast(), from, part.len);
                }
            });
        })
    }

    /// Writes zeroes to the offsets `offset..offset + len`.
    ///
    /// Errors: `EFAULT` if the pages are not [populated](Self::populate).
    pub fn zero(&self, offset: usize, len: usize) -> Result {
        self.open_pages()?.for_each_part(offset, len, |part| {
            part.with_pointer(|to| {
                // SAFETY: `to` is valid for writes of `part.len` bytes.
                unsafe { bindings::memset(to, 0, part.len) };
            });
        })
    }

    /// Opens the pages for several accesses. As long as the result exists, reclaim skips them: the
    /// caller must not sleep meanwhile.
    ///
    /// Errors: `EFAULT` if no pages exist any more.
    #[inline]
    pub fn open_pages(&self) -> Result<OpenPages<'_>> {
        self.space.open().map(OpenPages).ok_or(EFAULT)
    }
}

/// The pages of a range, open for several accesses.
pub struct OpenPages<'a>(Open<'a, Space>);

impl OpenPages<'_> {
    /// Copies `bytes` to the offset `offset`.
    ///
    /// Errors: `EFAULT` if the pages are not [populated](PageRange::populate).
    #[inline(always)]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result {
        self.for_each_part(offset, bytes.len(), |part| {
            part.with_pointer(|to| {
                // SAFETY: `to` is valid for writes of `part.len` bytes. `bytes` has `part.done`
                // bytes before those and as many of them: the parts add up to its length. Page
                // memory and `bytes` do not overlap: there are no references to page memory.
                unsafe {
                    let from = bytes.as_ptr().add(part.done);
                    bindings::memcpy(to, from.cast(), part.len);
                }
            });
        })
    }

    /// Calls `f` for the part of `offset..offset + len` in each page. It must not sleep.
    #[inline(always)]
    fn for_each_part(&self, offset: usize, len: usize, mut f: impl FnMut(&Part<'_>)) -> Result {
        let done = self.with_parts(offset, len, |part| -> Option<()> {
            f(part);
            None
        });
        done.map(drop)
    }

    /// Calls `f` for the part of `offset..offset + len` in each page, in order, until it returns a
    /// value. It must not sleep.
    #[inline(always)]
    fn with_parts<R>(
        &self,
        offset: usize,
        len: usize,
        mut f: impl FnMut(&Part<'_>) -> Option<R>,
    ) -> Result<Option<R>> {
        let mapping = self.0.mapping.as_ref().ok_or(EFAULT)?;
        if len == 0 {
            return Ok(None);
        }
        let end = offset.checked_add(len).ok_or(EFAULT)?;
        let pages = offset >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE);
        let mut start = offset & (PAGE_SIZE - 1);
        let mut done = 0;
        for slot in mapping.slots.get(pages).ok_or(EFAULT)? {
            // SAFETY: The space of the slot is open for longer than `part` exists.
            let record = unsafe { slot.record() };
            let part = Part {
                record: record.ok_or(EFAULT)?,
                start,
                done,
                len: usize::min(len - done, PAGE_SIZE - start),
            };
            if let Some(result) = f(&part) {
                return Ok(Some(result));
            }
            done += part.len;
            start = 0;
        }
        Ok(None)
    }
}
