// SPDX-License-Identifier: GPL-2.0

//! What a present page is, and the place where it is found.
//!
//! ```text
//!   OwnedRecord ──fill──► in a slot ──clear──► OwnedRecord ──drop──► freed
//!        │                    │
//!        └───────drop─────────┴───────slot dropped─────────────────► freed
//! ```

use super::{pool::Taken, PagePool, PageRange};
use kernel::{
    alloc::AllocError,
    bindings,
    page::BorrowedPage,
    prelude::*,
    sync::atomic::{ordering, Atomic},
    types::Opaque,
};

use core::ptr::NonNull;

/// A page that is present, and what reclaim has to know of it.
///
/// # Invariants
///
/// - The record owns a reference to `page`, which is of order 0.
/// - `links` is part of the pool's list, or points to itself.
/// - If `links` is part of the list, the record is in slot `index` of `range`, and `range` is not
///   dropped before the link is removed.
#[repr(C)]
pub(super) struct Record {
    /// First, so that a pointer to it is a pointer to the record.
    links: Opaque<bindings::list_head>,
    page: NonNull<bindings::page>,
    pub(super) range: NonNull<PageRange>,
    pub(super) index: u32,
    /// The [round](PageRange) in which reclaim last asked for the page. Guarded by the pool's turn.
    pub(super) asked_in: Atomic<u32>,
}

impl Record {
    /// What `list_lru` knows the record by.
    pub(super) fn links(&self) -> *mut bindings::list_head {
        self.links.get()
    }

    /// The record that a link belongs to.
    pub(super) fn from_links(links: NonNull<bindings::list_head>) -> NonNull<Self> {
        links.cast()
    }

    /// The page, for as long as the record is borrowed.
    pub(super) fn page(&self) -> BorrowedPage<'_> {
        // SAFETY: By the type invariants the page is of order 0, and exists as long as the record.
        unsafe { BorrowedPage::from_raw(self.page) }
    }
}

/// A record that nobody else knows of. It is freed when dropped.
pub(super) struct OwnedRecord(NonNull<Record>);

impl OwnedRecord {
    /// Allocates a zeroed page for place `index` of `range`, and a record of it.
    ///
    /// May sleep, and may call reclaim.
    pub(super) fn new(
        pool: &PagePool,
        range: &PageRange,
        index: usize,
    ) -> Result<Self, AllocError> {
        let record = pool.alloc_record()?;
        let flags = pool.flags() | bindings::__GFP_HIGHMEM | bindings::__GFP_ZERO;
        // SAFETY: There are no requirements on the flags.
        let page = NonNull::new(unsafe { bindings::alloc_pages(flags, 0) });
        let Some(page) = page else {
            // SAFETY: The memory is from `alloc_record`, and nobody else knows of it.
            unsafe { bindings::kfree(record.as_ptr().cast()) };
            return Err(AllocError);
        };
        // INVARIANT: The new reference to a new page of order 0 is the record's; `links` is made to
        // point to itself below, and nobody sees the record before that.
        let value = Record {
            links: Opaque::uninit(),
            page,
            range: NonNull::from(range),
            // CAST: Spaces are much smaller than 2^32 pages; see `register`.
            index: index as u32,
            asked_in: Atomic::new(range.round.load(ordering::Relaxed)),
        };
        // SAFETY: The memory is of the size and alignment of a record, and ours.
        unsafe { record.write(value) };
        // SAFETY: It has just been written.
        let links = unsafe { record.as_ref() }.links();
        let alone = bindings::list_head {
            next: links,
            prev: links,
        };
        // SAFETY: `links` is a field of the new record, which nobody else knows of.
        unsafe { links.write(alone) };
        Ok(Self(record))
    }

    /// The page.
    pub(super) fn page(&self) -> BorrowedPage<'_> {
        // SAFETY: The record is ours, so it is valid while `self` is borrowed.
        unsafe { self.0.as_ref() }.page()
    }
}

impl Drop for OwnedRecord {
    fn drop(&mut self) {
        // SAFETY: Nobody else knows of the record, so nobody will use it any more.
        unsafe { free(self.0) };
    }
}

/// Frees a record and gives up its page.
///
/// # Safety
///
/// The record must be valid, and nobody may use it any more. It must not be part of a list.
unsafe fn free(record: NonNull<Record>) {
    // SAFETY: The record is valid.
    let page = unsafe { record.as_ref() }.page;
    // SAFETY: By the type invariants the record owns a reference to this page, of order 0, and it is
    // given up only here. What a process has mapped holds references of its own.
    unsafe { bindings::__free_pages(page.as_ptr(), 0) };
    // SAFETY: Records come from a cache of slab objects, all of which `kfree` takes. Nobody uses this
    // one any more.
    unsafe { bindings::kfree(record.as_ptr().cast()) };
}

/// The place of one page: null, or a record.
///
/// # Invariants
///
/// - A slot that is not null owns its record, which was an [`OwnedRecord`].
/// - A record that was in a slot is freed when somebody has seen, after it was no longer there, that
///   nobody has the slot's space open, or when the slot is dropped.
pub(super) struct Slot(Atomic<*mut Record>);

impl Slot {
    /// A place without a page.
    pub(super) fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Whether there is a page.
    #[inline]
    pub(super) fn is_filled(&self) -> bool {
        !self.0.load(ordering::Relaxed).is_null()
    }

    /// The record, if there is one.
    ///
    /// # Safety
    ///
    /// The slot's space must be open for as long as the record is borrowed, or the record not be taken
    /// out as long.
    #[inline]
    pub(super) unsafe fn record(&self) -> Option<&Record> {
        let record = self.0.load(ordering::Acquire);
        // SAFETY: By the type invariants the record was valid when it was loaded. It is not freed while
        // the space is open, which it was before this, or not taken out at all, as the caller says; nor
        // is the slot dropped while it is borrowed.
        unsafe { record.as_ref() }
    }

    /// Puts a record into the slot and onto the list of `pool`. Fails with `EEXIST` if there is one
    /// already.
    ///
    /// # Safety
    ///
    /// The slot must be that of the range and index that the record was made for, and `pool` that of
    /// the range.
    pub(super) unsafe fn fill(&self, record: OwnedRecord, pool: &PagePool) -> Result {
        let empty = core::ptr::null_mut();
        let new = record.0.as_ptr();
        // INVARIANT: The slot owns the record from here on.
        let filled = self.0.cmpxchg(empty, new, ordering::Release);
        filled.map_err(|_| EEXIST)?;
        let record = core::mem::ManuallyDrop::new(record).0;
        // SAFETY: A record leaves its slot only after it was on the list, where this one is not yet, or
        // with its range, which is borrowed. It is in the slot that it names, as the caller says.
        unsafe { pool.add(record) };
        Ok(())
    }

    /// Takes a record out that was taken off the list, if it is in this slot and nobody has the slot's
    /// space open, which `is_open` has to tell with full ordering. Otherwise it is in the slot still, and
    /// back on the list.
    ///
    /// # Safety
    ///
    /// `is_open` must be about the space of this slot. The caller must hold what keeps others from
    /// filling the slot.
    pub(super) unsafe fn clear(
        &self,
        record: Taken<'_>,
        is_open: impl FnOnce() -> bool,
    ) -> Option<OwnedRecord> {
        let old = record.as_ptr();
        let cleared = self.0.cmpxchg(old, core::ptr::null_mut(), ordering::Full);
        cleared.ok()?;
        if is_open() {
            // Somebody may have found it. INVARIANT: The slot is still empty, as the caller sees to, and
            // owns the record again.
            self.0.store(old, ordering::Release);
            return None;
        }
        // Who opens the space from here on finds the slot empty, so the record is nobody else's.
        Some(OwnedRecord(record.keep()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(record) = NonNull::new(*self.0.get_mut()) {
            // SAFETY: The slot owns the record, and `&mut self` says that nobody reads through the
            // slot any more. It is part of no list: slots with records are dropped with their range
            // only, which takes the records off the list before.
            unsafe { free(record) };
        }
    }
}
