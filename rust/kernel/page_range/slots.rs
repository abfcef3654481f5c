// SPDX-License-Identifier: GPL-2.0

//! What a present page is, and the slot that holds it.
//!
//! ```text
//!   OwnedRecord ──fill──► in a slot ──clear──► OwnedRecord ──drop──► freed
//!        │                    │
//!        └───────drop─────────┴───────space dropped────────────────► freed
//! ```

use super::{turns::Taken, PagePool, PageRange};
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
    /// The [round](PageRange) in which reclaim last asked for the page. Protected by the range's
    /// turn.
    pub(super) asked_in: Atomic<u32>,
}

impl Record {
    /// Returns the link by which `list_lru` knows the record.
    pub(super) fn links(&self) -> *mut bindings::list_head {
        self.links.get()
    }

    /// Returns the record that a link belongs to.
    pub(super) fn from_links(links: NonNull<bindings::list_head>) -> NonNull<Self> {
        links.cast()
    }

    /// Returns the page, for as long as the record is borrowed.
    pub(super) fn page(&self) -> BorrowedPage<'_> {
        // SAFETY: By the type invariants the page is of order 0, and exists as long as the record.
        unsafe { BorrowedPage::from_raw(self.page) }
    }
}

/// A record without other references to it. It is freed when dropped.
pub(super) struct OwnedRecord(NonNull<Record>);

impl OwnedRecord {
    /// Allocates a zeroed page for slot `index` of `range`, and a record of it.
    ///
    /// May sleep, and may call reclaim. Fails if there is no memory.
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
            // SAFETY: The memory is from `alloc_record`, and nothing else refers to it.
            unsafe { bindings::kfree(record.as_ptr().cast()) };
            return Err(AllocError);
        };
        // INVARIANT: The new reference to a new page of order 0 is the record's; `links` is made to
        // point to itself below, and no other code sees the record before that.
        let value = Record {
            links: Opaque::uninit(),
            page,
            range: NonNull::from(range),
            // CAST: Spaces are much smaller than 2^32 pages; see `register`.
            index: index as u32,
            asked_in: Atomic::new(range.round.load(ordering::Relaxed)),
        };
        // SAFETY: The memory is of the size and alignment of a record, and owned by this function.
        unsafe { record.write(value) };
        // SAFETY: The record has just been written.
        let links = unsafe { record.as_ref() }.links();
        let alone = bindings::list_head {
            next: links,
            prev: links,
        };
        // SAFETY: `links` is a field of the new record, which nothing else refers to.
        unsafe { links.write(alone) };
        Ok(Self(record))
    }

    /// Returns the page.
    pub(super) fn page(&self) -> BorrowedPage<'_> {
        // SAFETY: `self` owns the record, so it is valid while `self` is borrowed.
        unsafe { self.0.as_ref() }.page()
    }
}

impl Drop for OwnedRecord {
    fn drop(&mut self) {
        // SAFETY: Nothing else refers to the record, so it is not used any more.
        unsafe { free(self.0) };
    }
}

/// Frees a record and its reference to its page.
///
/// # Safety
///
/// The record must be valid, and must not be used any more. It must not be part of a list.
unsafe fn free(record: NonNull<Record>) {
    // SAFETY: The record is valid.
    let page = unsafe { record.as_ref() }.page;
    // SAFETY: By the type invariants the record owns a reference to this page, of order 0, and this
    // is the only place that drops it. The page tables of a process hold references of their own.
    unsafe { bindings::__free_pages(page.as_ptr(), 0) };
    // SAFETY: Records come from a cache of slab objects, all of which `kfree` accepts. This one is
    // not used any more.
    unsafe { bindings::kfree(record.as_ptr().cast()) };
}

/// The slot of one page: null, or a record.
///
/// # Invariants
///
/// - A slot that is not null owns its record, which was an [`OwnedRecord`].
/// - A record that was in a slot is freed after a check, made when the slot no longer held the
///   record, has found that no thread has the slot's space open, or when the space is dropped.
pub(super) struct Slot(Atomic<*mut Record>);

impl Slot {
    /// Creates a slot without a page.
    pub(super) fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Whether the slot has a page.
    #[inline]
    pub(super) fn is_filled(&self) -> bool {
        !self.0.load(ordering::Relaxed).is_null()
    }

    /// Returns the record, if the slot has one.
    ///
    /// # Safety
    ///
    /// For as long as the record is borrowed, the slot's space must be open, or the record must not
    /// be taken out.
    #[inline]
    pub(super) unsafe fn record(&self) -> Option<&Record> {
        // ORDERING: Pairs with `fill`: who finds the record finds it, and its page, initialised.
        let record = self.0.load(ordering::Acquire);
        // SAFETY: By the type invariants the record was valid when it was loaded. It is not freed
        // while the space is open, which it was before this, or is not taken out at all, as the
        // caller promises; nor is the slot dropped while it is borrowed.
        unsafe { record.as_ref() }
    }

    /// Puts a record into the slot and onto the list of `pool`. Fails with `EEXIST` if the slot has
    /// a record already.
    ///
    /// # Safety
    ///
    /// The slot must be that of the range and index that the record was made for, and `pool` that
    /// of the range.
    pub(super) unsafe fn fill(&self, record: OwnedRecord, pool: &PagePool) -> Result {
        let empty = core::ptr::null_mut();
        let new = record.0.as_ptr();
        // ORDERING: Pairs with `record`.
        // INVARIANT: The slot owns the record from here on.
        let filled = self.0.cmpxchg(empty, new, ordering::Release);
        filled.map_err(|_| EEXIST)?;
        let record = core::mem::ManuallyDrop::new(record).0;
        // SAFETY: A record leaves its slot only after it was on the list, where this one is not
        // yet, or with its space, of which this slot, which is borrowed, is a part. It is in the
        // slot that it names, as the caller promises.
        unsafe { pool.add(record) };
        Ok(())
    }

    /// Takes a record out of this slot that was taken off the list, if it is in this slot and no
    /// thread has the slot's space open, which `is_open` has to return with full ordering.
    /// Otherwise the record stays in the slot and is put back onto the list.
    ///
    /// # Safety
    ///
    /// `is_open` must be about the space of this slot. The caller must hold the lock that keeps
    /// other threads from filling the slot.
    pub(super) unsafe fn clear(
        &self,
        record: Taken<'_>,
        is_open: impl FnOnce() -> bool,
    ) -> Option<OwnedRecord> {
        let old = record.as_ptr();
        // ORDERING: Before `is_open`, whose full order this relies on: a thread that opens the
        // space later finds the slot empty.
        let cleared = self
            .0
            .cmpxchg(old, core::ptr::null_mut(), ordering::Relaxed);
        cleared.ok()?;
        if is_open() {
            // Another thread may have found the record.
            // ORDERING: Pairs with `record`, as in `fill`.
            // INVARIANT: The slot is still empty, as the caller ensures, and owns the record again.
            self.0.store(old, ordering::Release);
            return None;
        }
        // A thread that opens the space from here on finds the slot empty, so nothing else refers
        // to the record.
        Some(OwnedRecord(record.keep()))
    }

    /// Takes the record out of this slot, if it has one, to end its space. A slot does not free its
    /// record itself, so that only slots that were filled have to be looked at.
    ///
    /// # Safety
    ///
    /// No other thread may use the slot, and the record must be on no list.
    pub(super) unsafe fn take(&self) -> Option<OwnedRecord> {
        let record = NonNull::new(self.0.load(ordering::Acquire))?;
        // INVARIANT: The slot owns nothing any more; the result owns the record.
        self.0.store(core::ptr::null_mut(), ordering::Relaxed);
        Some(OwnedRecord(record))
    }
}
