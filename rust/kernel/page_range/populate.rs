// SPDX-License-Identifier: GPL-2.0

//! How pages appear in a range, and how far they do without interruption.

use super::{
    slots::{Found, HeldPage, OwnedRecord, Slot},
    vma_ops, Mapping, PageEvent, PageRange,
};
use core::ops::Range;
use kernel::{
    mm::{virt::VmaRef, MmWithUser, MmWithUserAsync},
    page::PAGE_SHIFT,
    prelude::*,
    sync::{aref::ARef, atomic::ordering},
};

/// An address space in which pages can be mapped.
type Reached = ARef<MmWithUserAsync>;

impl PageRange {
    /// Makes sure that the process finds pages at the offsets `start..end`.
    ///
    /// Usually this takes one load; otherwise it sleeps to allocate memory and takes the locks of
    /// the process's address space.
    ///
    /// Errors:
    /// - `ESRCH` if no mapping exists (any more), or the process has died.
    /// - `EFAULT` if the mapping is smaller than `end`.
    /// - `ENOMEM`.
    #[inline]
    pub fn populate(&self, start: usize, end: usize) -> Result {
        // ORDERING: Pairs with `advance_frontier`: the slots before the frontier are seen to be
        // filled. That reclaim has not lowered it since the range was reserved, the owner's lock
        // ensures.
        match usize::try_from(self.frontier.load(ordering::Acquire)) {
            Ok(present) if end <= present => Ok(()),
            _ => self.populate_slow(start, end),
        }
    }

    #[cold]
    pub(super) fn populate_slow(&self, start: usize, end: usize) -> Result {
        let Some((mm, mut pages)) = self.missing(start, end)? else {
            self.restore_frontier();
            return Ok(());
        };
        let result = pages.try_for_each(|index| self.add_page(&mm, index));
        self.advance_frontier();
        result
    }

    /// Returns which pages have to be present for `start..end`, and in which address space;
    /// [`None`] if none of them is missing.
    pub(super) fn missing(
        &self,
        start: usize,
        end: usize,
    ) -> Result<Option<(Reached, Range<usize>)>> {
        let space = self.space.open().ok_or(ESRCH)?;
        let mapping = space.mapping.as_ref().ok_or(ESRCH)?;
        if !self.is_mapped() {
            return Err(ESRCH);
        }
        let pages = mapping.pages_of(start, end)?;
        if mapping.slots[pages.clone()].iter().all(Slot::is_filled) {
            return Ok(None);
        }
        // The last reference to an address space tears it down. Here that would be done by a task
        // that the dying process may be waiting for: a work queue does it instead.
        let mm = space.mm.mmget_not_zero().ok_or(ESRCH)?;
        Ok(Some((MmWithUser::into_mmput_async(mm), pages)))
    }

    /// Allocates and maps a page if it is missing.
    fn add_page(&self, mm: &MmWithUser, index: usize) -> Result {
        if self.has_page(index) {
            return Ok(());
        }
        self.owner.observe(PageEvent::AllocStart, index);
        self.add_missing_page(mm, index)?;
        self.owner.observe(PageEvent::AllocEnd, index);
        Ok(())
    }

    /// Makes a page present. Waits for no thread that does the same: what that has begun, this one
    /// completes.
    fn add_missing_page(&self, mm: &MmWithUser, index: usize) -> Result {
        let mut new = None;
        loop {
            match self.place(index, new.take())? {
                Found::Present => return Ok(()),
                Found::Nothing => new = Some(self.allocate(mm, index)?),
                Found::Unmapped(page) => self.map(mm, index, &page)?,
                // Its holder waits for nothing.
                Found::Leaving => drop(self.pool.wait_for_turn(self.turn)),
            }
        }
    }

    /// Puts the new record, if there is one, into slot `index`, unless another thread was faster.
    /// Returns what the slot has then.
    pub(super) fn place(&self, index: usize, new: Option<OwnedRecord>) -> Result<Found> {
        let place = |mapping: &Mapping| {
            if let Some(Ok(())) = new.map(|record| mapping.fill(index, record)) {
                self.unlisted.fetch_add(1, ordering::Relaxed);
            }
            // SAFETY: The space is open.
            unsafe { mapping.slots[index].find() }
        };
        self.with_mapping(place).ok_or(ESRCH)
    }

    /// Allocates a page and its record. With no lock held, and without the space open: where memory
    /// is short, reclaim may take idle pages of this very range (lesson S17).
    pub(super) fn allocate(&self, mm: &MmWithUser, index: usize) -> Result<OwnedRecord> {
        // Page tables are charged to the calling task: the OOM killer may be called for one.
        let _charge = self.pool.charge(mm);
        Ok(OwnedRecord::new(&self.pool, self, index)?)
    }

    /// Maps the page of a slot in the process, unless another thread has just done that.
    pub(super) fn map(&self, mm: &MmWithUser, index: usize, page: &HeldPage) -> Result {
        let address = self.address.load(ordering::Relaxed) + (index << PAGE_SHIFT);
        self.insert_page(mm, address, page)?;
        // SAFETY: The space is open.
        self.with_mapping(|mapping| unsafe { mapping.slots[index].has_mapped(page) })
            .ok_or(ESRCH)
    }

    /// Maps a page at `address` in the process.
    pub(super) fn insert_page(&self, mm: &MmWithUser, address: usize, page: &HeldPage) -> Result {
        if let Some(vma) = mm.lock_vma_under_rcu(address) {
            return self.insert_page_locked(&vma, address, page);
        }
        let lock = mm.mmap_read_lock();
        let vma = lock.vma_lookup(address).ok_or(ESRCH)?;
        self.insert_page_locked(vma, address, page)
    }

    fn insert_page_locked(&self, vma: &VmaRef, address: usize, page: &HeldPage) -> Result {
        // A VMA at the right address need not be the right one: the process may have unmapped the
        // mapping of this range and mapped something else, with other rights, in its place.
        if !vma_ops::shows(vma, self) || !self.is_mapped() {
            return Err(ESRCH);
        }
        let vma = vma.as_mixedmap_vma().ok_or(ESRCH)?;
        match vma.vm_insert_page(address, &page.page()) {
            // Another thread has mapped the same page: a slot is empty only after the page that it
            // had is out of the page table.
            Ok(()) | Err(EBUSY) => Ok(()),
            Err(_) => Err(ENOMEM),
        }
    }

    /// Raises the frontier that reclaim has lowered for a page which it could not take in the end.
    fn restore_frontier(&self) {
        let frontier = usize::try_from(self.frontier.load(ordering::Relaxed));
        if frontier.is_ok_and(|present| self.has_page(present >> PAGE_SHIFT)) {
            self.advance_frontier();
        }
    }

    /// Moves the frontier to the first page that is not present.
    fn advance_frontier(&self) {
        // The lock is released before the space is: the end of the space may sleep.
        self.with_mapping(|mapping| self.advance_frontier_in(mapping));
    }

    fn advance_frontier_in(&self, mapping: &Mapping) {
        let _shrinking = self.shrinking.lock();
        let old = self.frontier.load(ordering::Relaxed);
        // CAST: Not negative, which is checked here; sizes of mappings fit into an `isize`.
        let Ok(present) = usize::try_from(old) else {
            return;
        };
        let known = present >> PAGE_SHIFT;
        let more = mapping.slots[known..]
            .iter()
            .take_while(|slot| slot.is_filled())
            .count();
        let new = ((known + more) << PAGE_SHIFT) as isize;
        // ORDERING: Pairs with `populate`, also for slots that other threads have filled.
        // INVARIANT: The slots before `new` hold pages, which they keep at least as long as
        // `shrinking` is held. If the exchange fails, the mapping was removed after `old` was read,
        // and `GONE` stays.
        let _ = self.frontier.cmpxchg(old, new, ordering::Release);
    }
}
