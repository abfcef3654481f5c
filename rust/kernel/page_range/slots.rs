// SPDX-License-Identifier: GPL-2.0

//! What a page is that is present, and the slot that holds it.
//!
//! ```text
//!   OwnedRecord ──fill──► UNMAPPED ──mapped──► present ──withdraw──► LEAVING ──take──► OwnedRecord
//!        │                   │                    ▲                     │                  │
//!        │                   │                    └──────restore────────┘                  │
//!        └────────────drop───┴──────────────────────space dropped──────────────────────────┴► end
//! ```
//!
//! The state of a page is in the low bits of its slot, so each step is one exchange. No step waits
//! for the thread that made the step before: a thread that finds an `UNMAPPED` page maps it itself.

use super::{turns::Taken, PagePool, PageRange};
use kernel::{
    alloc::AllocError,
    bindings,
    ffi::c_void,
    page::BorrowedPage,
    prelude::*,
    sync::atomic::{ordering, Atomic},
    types::Opaque,
};

use core::ptr::NonNull;

extern "C" {
    fn kernel_ext_get_page(page: *mut c_void);
}

/// The page is not known to be in the process's page table yet.
const UNMAPPED: usize = 1;
/// Reclaim removes the page.
const LEAVING: usize = 2;
/// The page is not on the pool's list, because it is in use.
const UNLISTED: usize = 4;
/// All of these bits.
const STATE: usize = UNMAPPED | LEAVING | UNLISTED;

/// A page that is present, and what reclaim has to know of it.
///
/// # Invariants
///
/// - The record owns a reference to `page`, which is of order 0.
/// - `links` is part of the pool's list, or points to itself.
/// - If `links` is part of the list, the record is in slot `index` of `range`, and `range` is not
///   dropped before the link is removed.
#[repr(C, align(8))] // The low bits of its address are free for `STATE`.
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

/// A reference to a page.
pub(super) struct HeldPage(NonNull<bindings::page>);

impl HeldPage {
    /// Takes a reference to the page of a record.
    pub(super) fn of(record: &Record) -> Self {
        // SAFETY: The record holds a reference, so the page is valid and another may be taken.
        unsafe { kernel_ext_get_page(record.page.as_ptr().cast()) };
        Self(record.page)
    }

    /// Returns the page, for as long as this reference is borrowed.
    pub(super) fn page(&self) -> BorrowedPage<'_> {
        // SAFETY: The page is of order 0, as that of each record, and `self` has a reference to it.
        unsafe { BorrowedPage::from_raw(self.0) }
    }
}

impl Drop for HeldPage {
    fn drop(&mut self) {
        // SAFETY: This drops the reference that `of` took.
        unsafe { bindings::__free_pages(self.0.as_ptr(), 0) };
    }
}

/// What a thread finds that needs the page of a slot.
pub(super) enum Found {
    /// No page.
    Nothing,
    /// A page that is to be mapped, unless another thread has just done that.
    Unmapped(HeldPage),
    /// A page that reclaim removes.
    Leaving,
    /// A page that can be used.
    Present,
}

/// The slot of one page: null, or a record and its state.
///
/// # Invariants
///
/// - A slot that is not null owns its record, which was an [`OwnedRecord`].
/// - A record that was in a slot is freed after a check, made while the slot was `LEAVING`, has
///   found that no thread has the slot's space open, or when the space is dropped.
/// - Only the holder of the range's turn sets and clears `LEAVING`, and owns the slot meanwhile.
/// - A record on the pool's list is in a slot that is not `UNLISTED`. One that is in such a slot
///   and on no list is about to be added by the thread that has made it listed, or is [`Taken`].
pub(super) struct Slot(Atomic<*mut Record>);

impl Slot {
    /// Creates a slot without a page.
    pub(super) fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Whether the slot has a page that is mapped, and that reclaim is not removing.
    #[inline]
    pub(super) fn is_filled(&self) -> bool {
        let slot = self.0.load(ordering::Relaxed);
        !slot.is_null() && slot.addr() & (UNMAPPED | LEAVING) == 0
    }

    /// Returns the record, if the slot [is filled](Self::is_filled).
    ///
    /// # Safety
    ///
    /// For as long as the record is borrowed, the slot's space must be open, or the record must not
    /// be taken out.
    #[inline]
    pub(super) unsafe fn record(&self) -> Option<&Record> {
        // ORDERING: Pairs with `fill`: who finds the record finds it, and its page, initialised.
        let slot = self.0.load(ordering::Acquire);
        if slot.addr() & (UNMAPPED | LEAVING) != 0 {
            return None;
        }
        // SAFETY: By the type invariants the record was valid when it was loaded. It is not freed
        // while the space is open, which it was before this, or is not taken out at all, as the
        // caller promises; nor is the slot dropped while it is borrowed.
        unsafe { pointer(slot).as_ref() }
    }

    /// Returns what the slot has.
    ///
    /// # Safety
    ///
    /// The slot's space must be open.
    pub(super) unsafe fn find(&self) -> Found {
        // ORDERING: Pairs with `fill`, as in `record`, and with `take_withdrawn`.
        let slot = self.0.load(ordering::Acquire);
        // SAFETY: As in `record`: the space is open.
        let Some(record) = (unsafe { pointer(slot).as_ref() }) else {
            return Found::Nothing;
        };
        match slot.addr() & (UNMAPPED | LEAVING) {
            0 => Found::Present,
            UNMAPPED => Found::Unmapped(HeldPage::of(record)),
            _ => Found::Leaving,
        }
    }

    /// Puts a record into the slot, `UNMAPPED` and `UNLISTED`. If the slot has a record already,
    /// returns this one.
    pub(super) fn fill(&self, record: OwnedRecord) -> Result<(), OwnedRecord> {
        let empty = core::ptr::null_mut();
        let new = tagged(record.0.as_ptr(), UNMAPPED | UNLISTED);
        // ORDERING: Pairs with `record` and `find`.
        // INVARIANT: The slot owns the record from here on.
        match self.0.cmpxchg(empty, new, ordering::Release) {
            Ok(_) => {
                core::mem::forget(record);
                Ok(())
            }
            Err(_) => Err(record),
        }
    }

    /// Records that a page, which was `UNMAPPED`, is in the process's page table.
    ///
    /// # Safety
    ///
    /// The slot's space must be open.
    pub(super) unsafe fn has_mapped(&self, page: &HeldPage) {
        let _ = self.change(|slot| {
            // SAFETY: As in `record`: the space is open.
            let record = unsafe { pointer(slot).as_ref() }?;
            let is_it = record.page == page.0 && slot.addr() & LEAVING == 0;
            is_it.then(|| slot.map_addr(|address| address & !UNMAPPED))
        });
    }

    /// Makes an `UNLISTED` page one that is on the pool's list. The caller adds the record that
    /// this returns. [`None`] if the page is absent or not `UNLISTED`.
    pub(super) fn list(&self) -> Option<NonNull<Record>> {
        // INVARIANT: The caller is about to add the record.
        let slot = self.change(|slot| {
            let is_unlisted = slot.addr() & UNLISTED != 0;
            is_unlisted.then(|| slot.map_addr(|address| address & !UNLISTED))
        });
        NonNull::new(pointer(slot?))
    }

    /// Makes a page that was taken off the list `UNLISTED`, because it is in use. The caller
    /// [keeps](Taken::keep) the record off the list.
    pub(super) fn unlist(&self, record: &Taken<'_>) {
        // INVARIANT: The record is on no list.
        let _ = self.change(|slot| {
            let is_it = pointer(slot) == record.as_ptr();
            is_it.then(|| tagged(slot, UNLISTED))
        });
    }

    /// Begins the removal of a page that was taken off the list. Returns whether it may go on: not
    /// if a thread has the slot's space open, which `is_open` has to return with full ordering.
    pub(super) fn withdraw(&self, record: &Taken<'_>, is_open: impl FnOnce() -> bool) -> bool {
        // INVARIANT: A `Taken` has the range's turn.
        // ORDERING: The exchange is before `is_open`, whose full order this relies on: a thread
        // that opens the space later finds that the page leaves.
        let withdrawn = self.change(|slot| {
            let is_it = pointer(slot) == record.as_ptr();
            is_it.then(|| tagged(slot, LEAVING))
        });
        if withdrawn.is_none() {
            return false;
        }
        if is_open() {
            self.restore();
            return false;
        }
        true
    }

    /// Ends a removal that has begun: the page stays.
    pub(super) fn restore(&self) {
        // Another thread may have found the record before.
        // ORDERING: Pairs with `record`, as in `fill`.
        let _ = self.change(|slot| Some(slot.map_addr(|address| address & !LEAVING)));
    }

    /// Takes the record out of this slot, whose removal has begun and whose page is out of the page
    /// table.
    pub(super) fn take_withdrawn(&self, record: Taken<'_>) -> OwnedRecord {
        // INVARIANT: No thread that opens the space after the removal has begun uses the record,
        // and none had it open then. So nothing else refers to it.
        // ORDERING: Pairs with `find`: who finds no page finds none in the page table either.
        self.0.store(core::ptr::null_mut(), ordering::Release);
        OwnedRecord(record.keep())
    }

    /// Takes the record out of this slot, if it has one, to end its space. A slot does not free its
    /// record itself, so that only slots that were filled have to be looked at.
    ///
    /// # Safety
    ///
    /// No other thread may use the slot, and the record must be on no list.
    pub(super) unsafe fn take(&self) -> Option<OwnedRecord> {
        let record = NonNull::new(pointer(self.0.load(ordering::Acquire)))?;
        // INVARIANT: The slot owns nothing any more; the result owns the record.
        self.0.store(core::ptr::null_mut(), ordering::Relaxed);
        Some(OwnedRecord(record))
    }

    /// Returns the record of the slot, whatever its state.
    ///
    /// # Safety
    ///
    /// As for [`record`](Self::record).
    pub(super) unsafe fn any_record(&self) -> Option<&Record> {
        // SAFETY: As in `record`.
        unsafe { pointer(self.0.load(ordering::Acquire)).as_ref() }
    }

    /// Changes the state of the page by `change`, unless that returns [`None`]. Returns what the
    /// slot was before.
    fn change(&self, change: impl Fn(*mut Record) -> Option<*mut Record>) -> Option<*mut Record> {
        // ORDERING: Pairs with `fill`.
        let mut old = self.0.load(ordering::Acquire);
        loop {
            // ORDERING: The exchange continues what `fill` has released, and pairs with `record`
            // where it restores the page.
            match self.0.cmpxchg(old, change(old)?, ordering::Release) {
                Ok(_) => return Some(old),
                Err(now) => old = now,
            }
        }
    }
}

/// Returns the record of a slot, without its state.
fn pointer(slot: *mut Record) -> *mut Record {
    slot.map_addr(|address| address & !STATE)
}

/// Returns a slot with these bits set.
fn tagged(slot: *mut Record, state: usize) -> *mut Record {
    slot.map_addr(|address| address | state)
}
