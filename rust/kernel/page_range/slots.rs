// SPDX-License-Identifier: GPL-2.0

//! A present page, and the slot that holds it.
//!
//! ```text
//!             fill              mapped         set(UNUSABLE)           take_leaving
//!   Record ─────────► unmapped ────────► present ──────────────► leaving ──────────────► Record
//!     │                   │               ▲   │                     │                       │
//!     │                   │               └───┼──────── stay ───────┘                       │
//!     └────────dropped────┴───────────────────┴────────space dropped───────────────────────►┴ end
//! ```
//!
//! The state of a page is in the low bits of its slot, so each step is one exchange. No step waits
//! for the thread that made the step before. A thread that finds an unmapped page maps it itself. A
//! thread that needs a page that leaves makes it stay.

use super::{PagePool, PageRange};
use crate::kernel_ext::once::read_once;
use kernel::{
    alloc::AllocError,
    bindings,
    ffi::c_void,
    page::BorrowedPage,
    prelude::*,
    sync::atomic::{ordering, Atomic},
    types::Opaque,
};

use core::{
    mem::MaybeUninit,
    ptr::{null_mut, NonNull},
};

extern "C" {
    fn kernel_ext_get_page(page: *mut c_void);
}

/// The page cannot be used. With `UNLISTED` it is unmapped: not known to be in the process's page
/// table yet. Otherwise it is leaving: reclaim removes it, or may, because nobody has mapped it.
pub(super) const UNUSABLE: usize = 1;
/// The page was leaving, and stays. So it may be missing from the page table, now or later.
const STAYS: usize = 2;
/// The page is not on the pool's list, because it is in use.
pub(super) const UNLISTED: usize = 4;
/// All of these bits.
const STATE: usize = UNUSABLE | STAYS | UNLISTED;

/// A counted reference to a page.
///
/// # Invariants
///
/// The page is of order 0.
pub(super) struct HeldPage(NonNull<bindings::page>);

impl HeldPage {
    /// Allocates a page.
    fn alloc(flags: bindings::gfp_t) -> Result<Self, AllocError> {
        // SAFETY: There are no requirements on the flags.
        let page = unsafe { bindings::alloc_pages(flags, 0) };
        NonNull::new(page).map(Self).ok_or(AllocError)
    }

    /// Takes another reference.
    pub(super) fn share(&self) -> Self {
        // SAFETY: `self` holds a reference, so the page is valid and another may be taken.
        unsafe { kernel_ext_get_page(self.0.as_ptr().cast()) };
        Self(self.0)
    }

    /// Returns the page, for as long as this reference is borrowed.
    pub(super) fn page(&self) -> BorrowedPage<'_> {
        // SAFETY: The page is of order 0 by the type invariants, and `self` has a reference to it.
        unsafe { BorrowedPage::from_raw(self.0) }
    }
}

impl Drop for HeldPage {
    fn drop(&mut self) {
        // SAFETY: `self` owns a reference to the page, of order 0. The page tables of a process
        // hold references of their own.
        unsafe { bindings::__free_pages(self.0.as_ptr(), 0) };
    }
}

/// A page that is present, and the data that reclaim needs of it.
///
/// # Invariants
///
/// - `links` is part of the pool's list, or points to itself.
/// - If `links` is part of the list, the record is valid, and its range and the space of that are
///   not dropped before the link is removed.
#[repr(C, align(8))] // The low bits of its address are free for `STATE`.
pub(super) struct Record {
    /// The place in the pool's list. First, so that a pointer to it is one to the record.
    pub(super) links: Opaque<bindings::list_head>,
    pub(super) page: HeldPage,
    pub(super) range: NonNull<PageRange>,
    pub(super) index: u32,
    /// The [round](PageRange) in which reclaim last visited the page.
    pub(super) asked_in: Atomic<u32>,
}

impl Record {
    /// Allocates a zeroed page for slot `index` of `range`, and a record of it.
    ///
    /// May sleep, and may call reclaim.
    pub(super) fn new(
        pool: &PagePool,
        range: &PageRange,
        index: usize,
    ) -> Result<KBox<Self>, AllocError> {
        let flags = pool.flags();
        // SAFETY: Cache and list live as long as the pool. Because the list is passed, the list of
        // the cgroup that is charged exists when this succeeds.
        let memory =
            unsafe { bindings::kmem_cache_alloc_lru_noprof(pool.cache, pool.list.get(), flags) };
        let memory = NonNull::new(memory.cast::<MaybeUninit<Self>>()).ok_or(AllocError)?;
        // SAFETY: The memory is of the size and alignment of a record, and owned by this function.
        // Dropping the box calls `kfree`, which accepts objects of all slab caches.
        let memory = unsafe { KBox::from_raw(memory.as_ptr()) };
        let flags = flags | bindings::__GFP_HIGHMEM | bindings::__GFP_ZERO;
        // INVARIANT: `links` is made to point to itself below, before other code sees the record.
        let record = memory.write(Self {
            links: Opaque::uninit(),
            page: HeldPage::alloc(flags)?,
            range: NonNull::from(range),
            // CAST: Spaces are much smaller than 2^32 pages; see `register`.
            index: index as u32,
            asked_in: Atomic::new(read_once(&range.round)),
        });
        let links = record.links.get();
        let alone = bindings::list_head {
            next: links,
            prev: links,
        };
        // SAFETY: `links` is a field of the new record, which nothing else refers to.
        unsafe { links.write(alone) };
        Ok(record)
    }
}

/// What a thread finds that needs the page of a slot.
pub(super) enum Found {
    /// No page.
    Nothing,
    /// A page that is to be mapped, unless another thread has just done that.
    Unmapped(HeldPage),
    /// A page that can be used.
    Present,
}

/// The slot of one page: null, or a record and its state.
///
/// # Invariants
///
/// - A slot that is not null owns its record.
/// - A record that was in a slot is freed after a check, made while the page was leaving, has found
///   that no thread has the slot's space open, or when the space is dropped.
/// - Only the thread of reclaim that has taken the record off the list, or holds the list's lock
///   while the record is on it, takes a record whose page is leaving; or the drop of the space,
///   after which the slot is null.
/// - A record on the pool's list is in a slot that is not `UNLISTED`. One that is in such a slot
///   and on no list is about to be added by the thread that has made it listed, or by one of
///   reclaim.
pub(super) struct Slot(Atomic<*mut Record>);

impl Slot {
    /// Creates a slot without a page.
    pub(super) fn new() -> Self {
        Self(Atomic::new(null_mut()))
    }

    /// Returns whether the slot has a page that is mapped, and that reclaim is not removing.
    #[inline]
    pub(super) fn is_filled(&self) -> bool {
        let slot = read_once(&self.0);
        !slot.is_null() && slot.addr() & UNUSABLE == 0
    }

    /// Returns the record, if the slot [is filled](Self::is_filled).
    ///
    /// # Safety
    ///
    /// The slot's space must be open for as long as the record is borrowed.
    #[inline]
    pub(super) unsafe fn record(&self) -> Option<&Record> {
        // ORDERING: Pairs with `fill`: who finds the record finds it, and its page, initialised.
        let slot = self.0.load(ordering::Acquire);
        if slot.addr() & UNUSABLE != 0 {
            return None;
        }
        // SAFETY: By the type invariants the record was valid when it was loaded. The space was
        // open before this, and neither the record is freed nor the slot dropped while it is open.
        unsafe { pointer(slot).as_ref() }
    }

    /// Returns whether the page may be missing from the page table though it can be used.
    pub(super) fn stays(&self) -> bool {
        read_once(&self.0).addr() & STAYS != 0
    }

    /// Returns what the slot has, for a thread that needs the page. If reclaim is removing the
    /// page, the page stays: what reclaim still does is to take it out of the page table, once.
    ///
    /// # Safety
    ///
    /// The slot's space must be open.
    pub(super) unsafe fn find(&self) -> Found {
        loop {
            // ORDERING: Pairs with `fill`, as in `record`, and with `take_leaving`.
            let slot = self.0.load(ordering::Acquire);
            if pointer(slot).is_null() {
                return Found::Nothing;
            }
            match slot.addr() & (UNUSABLE | UNLISTED) {
                state if state & UNUSABLE == 0 => return Found::Present,
                UNUSABLE => self.stay(),
                _ => {
                    // SAFETY: The page is not leaving. So a removal that has begun since finds that
                    // the space is open, as it was before this.
                    let record = unsafe { &*pointer(slot) };
                    return Found::Unmapped(record.page.share());
                }
            }
        }
    }

    /// Puts a record into the slot, unmapped and `UNLISTED`. If the slot has a record already,
    /// returns this one.
    pub(super) fn fill(&self, record: KBox<Record>) -> Result<(), KBox<Record>> {
        let record = KBox::into_raw(record);
        let new = record.map_addr(|address| address | UNUSABLE | UNLISTED);
        // ORDERING: Pairs with `record` and `find`.
        // INVARIANT: The slot owns the record from here on.
        match self.0.cmpxchg(null_mut(), new, ordering::Release) {
            Ok(_) => Ok(()),
            // SAFETY: The pointer is from `into_raw` above, and the slot does not own it.
            Err(_) => Err(unsafe { KBox::from_raw(record) }),
        }
    }

    /// Records that a page, which was unmapped, is in the process's page table.
    ///
    /// # Safety
    ///
    /// The slot's space must be open.
    pub(super) unsafe fn has_mapped(&self, page: &HeldPage) {
        let _ = self.change(|slot| {
            // SAFETY: As in `find`, where the page is not leaving.
            let is_it = slot.addr() & (UNUSABLE | UNLISTED) == UNUSABLE | UNLISTED
                && unsafe { (*pointer(slot)).page.0 == page.0 };
            is_it.then(|| slot.map_addr(|address| address & !UNUSABLE))
        });
    }

    /// Makes an `UNLISTED` page one that is on the pool's list. The caller adds the record that
    /// this returns. [`None`] if the page is absent or not `UNLISTED`. A page that is still
    /// unmapped is leaving after this.
    pub(super) fn list(&self) -> Option<NonNull<Record>> {
        // INVARIANT: The caller is about to add the record.
        let slot = self.change(|slot| {
            let is_unlisted = slot.addr() & UNLISTED != 0;
            is_unlisted.then(|| slot.map_addr(|address| address & !UNLISTED))
        });
        NonNull::new(pointer(slot?))
    }

    /// Sets a bit of the state of a page that is on the list, if the slot has this record. Returns
    /// whether it has. The caller is reclaim.
    ///
    /// - [`UNLISTED`] because the page is in use: the caller takes the record off the list.
    /// - [`UNUSABLE`] begins its removal: the caller checks next, in full order, that no thread has
    ///   the space open. A thread that opens the space later finds that the page leaves.
    pub(super) fn set(&self, record: &Record, bit: usize) -> bool {
        // INVARIANT: The caller takes the record off the list if it is `UNLISTED` now.
        let is_it = |slot| core::ptr::eq(pointer(slot), record);
        let set = |slot: *mut Record| slot.map_addr(|address| address | bit);
        self.change(|slot| is_it(slot).then(|| set(slot))).is_some()
    }

    /// Makes a page stay that is leaving.
    pub(super) fn stay(&self) {
        // ORDERING: Pairs with `record`, as in `fill`.
        let _ = self.change(|slot| {
            is_leaving(slot).then(|| slot.map_addr(|address| address & !UNUSABLE | STAYS))
        });
    }

    /// Takes the record out of this slot, whose removal this thread has begun, and whose page is
    /// out of the page table; unless a thread has needed the page since. No thread had the space
    /// open when the removal had begun.
    pub(super) fn take_leaving(&self, record: NonNull<Record>) -> Option<KBox<Record>> {
        // INVARIANT: No thread that opens the space after the removal has begun uses the record,
        // unless it has made the page stay, and none had it open then. So nothing else refers to
        // the record.
        // ORDERING: Pairs with `find`: who finds no page finds none in the page table either.
        let is_it = |slot| pointer(slot) == record.as_ptr() && is_leaving(slot);
        let taken = self.change(|slot| is_it(slot).then_some(null_mut()));
        // SAFETY: The slot owned the record, which was allocated as a box, and the slot is null
        // now.
        taken.map(|slot| unsafe { KBox::from_raw(pointer(slot)) })
    }

    /// Takes the record out of this slot, if it has one, to end its space. A slot does not free its
    /// record itself, so that only slots that were filled have to be looked at.
    ///
    /// # Safety
    ///
    /// The slot's space must be being dropped.
    pub(super) unsafe fn take(&self) -> Option<KBox<Record>> {
        // An exchange, since reclaim may take the record of a page at the same time that is not
        // mapped any more.
        // ORDERING: Pairs with `fill`.
        // INVARIANT: The slot owns nothing any more; the result owns the record.
        let record = pointer(self.0.xchg(null_mut(), ordering::Acquire));
        // SAFETY: The slot owned the record, which was allocated as a box.
        (!record.is_null()).then(|| unsafe { KBox::from_raw(record) })
    }

    /// Changes the state of the page by `change`, unless that returns [`None`]. Returns what the
    /// slot was before.
    fn change(&self, change: impl Fn(*mut Record) -> Option<*mut Record>) -> Option<*mut Record> {
        // ORDERING: Pairs with `fill`.
        let mut old = self.0.load(ordering::Acquire);
        loop {
            // ORDERING: The exchange continues what `fill` has released, and pairs with `record`
            // where the page stays.
            match self.0.cmpxchg(old, change(old)?, ordering::Release) {
                Ok(_) => return Some(old),
                Err(now) => old = now,
            }
        }
    }
}

/// Returns whether the page of a slot is leaving.
fn is_leaving(slot: *mut Record) -> bool {
    slot.addr() & (UNUSABLE | UNLISTED) == UNUSABLE
}

/// Returns the record of a slot, without its state.
fn pointer(slot: *mut Record) -> *mut Record {
    slot.map_addr(|address| address & !STATE)
}
