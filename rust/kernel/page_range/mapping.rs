// SPDX-License-Identifier: GPL-2.0

//! How the pages that a driver needs appear in a range and in the process's page table, and how far
//! they are present without interruption. And the operations of the process's VMA, for which the
//! `kernel` crate has no types yet.
//!
//! The private data of a VMA is an `Arc<PageRange>`. Each VMA with these operations owns a
//! reference count, which is taken when the VMA is made or copied and dropped when it is closed.
//! Therefore comparing the pointer is enough to identify the range of a VMA: as long as a VMA with
//! this pointer exists, no other range can get the same address.

use super::{
    slots::{Found, HeldPage, Record, Slot},
    PageEvent, PageRange, Space, GONE,
};
use crate::kernel_ext::once::{load_acquire, read_once, write_once};
use core::ops::Range;
use kernel::{
    bindings,
    mm::{
        virt::{VmaNew, VmaRef},
        MmWithUser, MmWithUserAsync,
    },
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{aref::ARef, atomic::ordering, Arc, ArcBorrow},
};

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
        match usize::try_from(load_acquire(&self.frontier)) {
            Ok(present) if end <= present => Ok(()),
            _ => self.populate_slow(start, end),
        }
    }

    #[cold]
    pub(super) fn populate_slow(&self, start: usize, end: usize) -> Result {
        let Some((mm, mut pages)) = self.missing(start, end)? else {
            // Reclaim has lowered the frontier for a page which it could not take in the end.
            let frontier = usize::try_from(read_once(&self.frontier));
            if frontier.is_ok_and(|present| self.has_page(present >> PAGE_SHIFT)) {
                self.advance_frontier();
            }
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
    ) -> Result<Option<(ARef<MmWithUserAsync>, Range<usize>)>> {
        let space = self.space.open().ok_or(ESRCH)?;
        let slots = space.slots.as_ref().ok_or(ESRCH)?;
        if !self.is_mapped() {
            return Err(ESRCH);
        }
        let pages = start >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE);
        if start > end || end > slots.len() << PAGE_SHIFT {
            return Err(EFAULT);
        }
        if slots[pages.clone()].iter().all(Slot::is_filled) {
            return Ok(None);
        }
        // The last reference to an address space tears it down. Here that would be done by a task
        // that the dying process may be waiting for: a work queue does it instead.
        let mm = space.mm.mmget_not_zero().ok_or(ESRCH)?;
        Ok(Some((MmWithUser::into_mmput_async(mm), pages)))
    }

    /// Allocates and maps a page if it is missing. Waits for no thread that does the same: what
    /// that has begun, this one completes.
    fn add_page(&self, mm: &MmWithUser, index: usize) -> Result {
        if self.has_page(index) {
            return Ok(());
        }
        self.owner.observe(PageEvent::AllocStart, index);
        let mut new = None;
        loop {
            match self.place(index, new.take())? {
                Found::Present => break,
                Found::Nothing => new = Some(self.allocate(mm, index)?),
                Found::Unmapped(page) => self.map(mm, index, &page)?,
            }
        }
        self.owner.observe(PageEvent::AllocEnd, index);
        Ok(())
    }

    /// Puts the new record, if there is one, into slot `index`, unless another thread was faster.
    /// Returns what the slot has then.
    pub(super) fn place(&self, index: usize, new: Option<KBox<Record>>) -> Result<Found> {
        let place = |space: &Space, slots: &[Slot]| {
            if let Some(record) = new {
                let mut highest = read_once(&space.highest);
                while highest <= index {
                    let raised = space.highest.cmpxchg(highest, index + 1, ordering::Relaxed);
                    highest = raised.err().unwrap_or(index + 1);
                }
                if slots[index].fill(record).is_ok() {
                    self.unlisted.fetch_add(1, ordering::Relaxed);
                }
            }
            // SAFETY: The space is open.
            unsafe { slots[index].find() }
        };
        self.with_slots(place).ok_or(ESRCH)
    }

    /// Allocates a page and its record. With no lock held, and without the space open: where memory
    /// is short, reclaim may take idle pages of this very range (lesson S17).
    pub(super) fn allocate(&self, mm: &MmWithUser, index: usize) -> Result<KBox<Record>> {
        // Page tables are charged to the calling task: the OOM killer may be called for one.
        let new = || Record::new(&self.pool, self, index);
        let record = self.pool.charged(mm, new);
        Ok(record?)
    }

    /// Maps the page of a slot in the process, unless another thread has just done that.
    pub(super) fn map(&self, mm: &MmWithUser, index: usize, page: &HeldPage) -> Result {
        self.insert_page(mm, self.address_of(index), page)?;
        // SAFETY: The space is open.
        self.with_slots(|_, slots| unsafe { slots[index].has_mapped(page) })
            .ok_or(ESRCH)
    }

    /// Maps a page at `address` in the process.
    pub(super) fn insert_page(&self, mm: &MmWithUser, address: usize, page: &HeldPage) -> Result {
        // A VMA at the right address need not be the right one. The process may have unmapped the
        // mapping of this range and mapped something else, with other rights, in its place.
        let insert = |vma: &VmaRef| {
            if !shows(vma, self) || !self.is_mapped() {
                return Err(ESRCH);
            }
            insert_into(vma, address, page)
        };
        if let Some(vma) = mm.lock_vma_under_rcu(address) {
            return insert(&vma);
        }
        let lock = mm.mmap_read_lock();
        insert(lock.vma_lookup(address).ok_or(ESRCH)?)
    }

    /// Maps the page at `address`, which the process has accessed, if it is present, and was needed
    /// while reclaim was removing it, or was about to. Others are missing from the page table
    /// because the process has thrown them away, and stay away.
    ///
    /// The space is open during this call, so reclaim does not begin to remove the page. The call
    /// waits for memory only if the page table is missing.
    fn map_again(&self, vma: &VmaRef, address: usize) -> Result {
        // A mapping that was moved is not at the address that the range reports.
        if base(vma) != read_once(&self.base) {
            return Err(ESRCH);
        }
        let offset = address.checked_sub(self.address_of(0)).ok_or(EFAULT)?;
        let insert = |_: &Space, slots: &[Slot]| {
            let slot = slots.get(offset >> PAGE_SHIFT);
            let slot = slot.filter(|slot| slot.stays()).ok_or(EFAULT)?;
            // SAFETY: The space is open.
            let record = unsafe { slot.record() }.ok_or(EFAULT)?;
            insert_into(vma, address, &record.page)
        };
        self.with_slots(insert).ok_or(ESRCH)?
    }

    /// Moves the frontier to the first page that is not present.
    fn advance_frontier(&self) {
        // The lock is released before the space is: the end of the space may sleep.
        self.with_slots(|_, slots| {
            let _shrinking = self.shrinking.lock();
            let old = read_once(&self.frontier);
            // CAST: Not negative, which is checked here; sizes of mappings fit into an `isize`.
            let Ok(present) = usize::try_from(old) else {
                return;
            };
            let known = present >> PAGE_SHIFT;
            let more = slots[known..].iter().take_while(|slot| slot.is_filled());
            let new = ((known + more.count()) << PAGE_SHIFT) as isize;
            // ORDERING: Pairs with `populate`, also for slots that other threads have filled.
            // INVARIANT: The slots before `new` hold pages, which they keep at least as long as
            // `shrinking` is held. If the exchange fails, the mapping was removed after `old` was
            // read, and `GONE` stays.
            let _ = self.frontier.cmpxchg(old, new, ordering::Release);
        });
    }
}

/// Maps a page at `address` of a mapping of the range in one of whose slots it is.
fn insert_into(vma: &VmaRef, address: usize, page: &HeldPage) -> Result {
    let vma = vma.as_mixedmap_vma().ok_or(ESRCH)?;
    match vma.vm_insert_page(address, &page.page()) {
        // Another thread has mapped the same page: a slot is empty only after the page that it had
        // is out of the page table.
        Ok(()) | Err(EBUSY) => Ok(()),
        Err(_) => Err(ENOMEM),
    }
}

/// A table of operations. With `CONFIG_USERFAULTFD` it contains a pointer.
#[repr(transparent)]
pub(super) struct Operations(bindings::vm_operations_struct);

// SAFETY: The tables are never written, their functions may be called from any thread, and the
// pointer is null.
unsafe impl Sync for Operations {}

/// The operations by which a VMA of a page range is recognised.
pub(super) static OPERATIONS: Operations = Operations(bindings::vm_operations_struct {
    open: Some(open),
    close: Some(close),
    fault: Some(fault),
    ..pin_init::zeroed()
});

/// Makes `vma` a mapping of `range`.
pub(super) fn install(vma: &VmaNew, range: Arc<PageRange>) {
    let vma = vma.as_ptr();
    // SAFETY: The VMA is being set up and not visible to other threads, by the invariants of
    // `VmaNew`.
    // INVARIANT: The private data owns the reference count of `range`.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(range).cast_mut().cast();
        (*vma).vm_ops = &OPERATIONS.0;
    }
}

/// Returns whether `vma` is a mapping of `range`.
pub(super) fn shows(vma: &VmaRef, range: &PageRange) -> bool {
    let vma = vma.as_ptr();
    // SAFETY: By the invariants of `VmaRef` the VMA is locked for reading. Neither field changes as
    // long as any thread can hold that lock: they are written before the VMA can be found by other
    // threads, and when it is closed, which is after it can no longer be found.
    let (ops, data) = unsafe { ((*vma).vm_ops, (*vma).vm_private_data) };
    core::ptr::eq(ops, &OPERATIONS.0) && core::ptr::eq(data.cast(), range)
}

/// Returns the address of the beginning of the file, if the VMA covered it.
pub(super) fn base(vma: &VmaRef) -> usize {
    // SAFETY: By the invariants of `VmaRef` the VMA is locked for reading or stronger.
    let file_page = unsafe { (*vma.as_ptr()).vm_pgoff };
    vma.start().wrapping_sub(file_page << PAGE_SHIFT)
}

/// Called when a VMA was made from one with these operations: as a part of it when it was split, or
/// at another address.
///
/// A part changes nothing as long as it stays. A mapping that was moved is no longer at the address
/// that the range reports, so it counts as gone, even if an empty VMA stays at the old address.
///
/// # Safety
///
/// Only to be called by the kernel, as the `open` operation of a VMA with [`OPERATIONS`].
unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The VMA has a copy of the private data of another with these operations, which owns a
    // reference count and is not closed before this returns.
    let range = unsafe { ArcBorrow::from_raw((*vma).vm_private_data.cast::<PageRange>()) };
    // SAFETY: The VMA is valid, and the mmap lock is held for writing.
    let vma = unsafe { VmaRef::from_raw(vma) };
    if base(vma) != read_once(&range.base) {
        write_once(&range.frontier, GONE);
    }
    // INVARIANT: The private data of the new VMA owns a reference count of its own.
    let _ = Arc::into_raw(Arc::from(range));
}

/// Called when a part of the mapping was removed. From then on the mapping counts as gone, because
/// not all of it can be used any more.
///
/// # Safety
///
/// Only to be called by the kernel, as the `close` operation of a VMA with [`OPERATIONS`].
unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The private data of a VMA with these operations owns a reference count. The VMA is
    // closed only once, and its private data is not read after that: the VMA cannot be found any
    // more.
    let range = unsafe { Arc::from_raw((*vma).vm_private_data.cast::<PageRange>()) };
    write_once(&range.frontier, GONE);
}

/// Called when the process accesses a page that is not in its page table.
///
/// # Safety
///
/// Only to be called by the kernel, as the `fault` operation of a VMA with [`OPERATIONS`].
unsafe extern "C" fn fault(fault: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: The fault is valid, and its VMA locked for reading, until this returns. The private
    // data owns a reference count.
    let (vma, range, address) = unsafe {
        let place = &(*fault).__bindgen_anon_1;
        let range = &*(*place.vma).vm_private_data.cast::<PageRange>();
        (VmaRef::from_raw(place.vma), range, place.address)
    };
    match range.map_again(vma, address) {
        Ok(()) => bindings::vm_fault_reason_VM_FAULT_NOPAGE,
        Err(ENOMEM) => bindings::vm_fault_reason_VM_FAULT_OOM,
        Err(_) => bindings::vm_fault_reason_VM_FAULT_SIGBUS,
    }
}
