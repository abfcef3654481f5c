// SPDX-License-Identifier: GPL-2.0

//! How pages that are not needed are removed.
//!
//! The shrinker takes one record after the other off the pool's list. A page that its range's
//! [`Owner`] calls idle is taken out of its slot and out of the process's page table, and is freed
//! at once, if no thread reads or writes the range at that moment; every other page goes to the end
//! of the list:
//!
//! ```text
//!   list ──► turn ──► populating ──► VMA ──► owner ──► no reader ──► unmapped ──► freed
//!    ▲         │          │           │        │            │
//!    └─────────┴──────────┴───────────┴────────┴────────────┘  not without waiting, or not idle
//! ```
//!
//! The [turn](super::turns) is that of the page's range. It is held until the page is unmapped: who
//! is preempted meanwhile holds up nobody who looks for pages of other ranges. A page of a range
//! whose turn another thread has is *busy*: whether it is idle is not known.
//!
//! Nothing is deferred: the memory is free when reclaim returns. If a page waited for a grace
//! period, the OOM killer would come first (lesson S21).
//!
//! # What is idle
//!
//! Reclaim counts rounds: when it asks for a page that it has already asked for in the current
//! round of the page's range, the next round of that range begins. By the number of the round an
//! owner can tell what was used since the last round, and since the one before, and has to write
//! nothing when a page is used.

use super::{
    pool::PagePool,
    slots::{OwnedRecord, Record},
    turns::{First, Taken, TurnNumber},
    vma_ops, Mapping, PageRange, Space,
};
use kernel::{
    bindings,
    ffi::c_ulong,
    mm::{virt::VmaRef, MmWithUser},
    page::{PAGE_SHIFT, PAGE_SIZE},
    sync::atomic::ordering,
};

use core::ops::Range;

extern "C" {
    fn kernel_ext_account_reclaimed(pages: c_ulong);
}

/// How many idle pages reclaim frees for an allocation that cannot proceed without memory, if as
/// many exist.
///
/// If its zone is still below the watermark after that, the kernel counts what more could be
/// reclaimed, which are pages of programs and files and none of these, and calls the OOM killer.
/// The zone may lack more than the 32 pages that direct reclaim asks for: the watermark is raised
/// by a whole block of pages at a time.
const ENOUGH: c_ulong = 2048;

/// Why pages are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Free pages are useful, but nothing depends on them: background reclaim, or a request through
    /// debugfs.
    Some,
    /// An allocation waits, and fails or calls the OOM killer if no pages are freed. A request that
    /// a cgroup give up memory (`memory.reclaim`) looks the same.
    Urgent,
}

/// Answers which bytes of a [`PageRange`] are in use.
///
/// A wrong answer of an owner can do no worse than lose data: if an owner calls bytes idle that are
/// [populated](PageRange::populate) and about to be used, that use fails with `EFAULT`.
pub trait Owner: Send + Sync {
    /// Calls `evict` if none of `bytes`, which are those of one page, is in use or is likely to be
    /// soon. No use of them may begin before `evict` returns, which it does with whether the page
    /// was taken: it is to be called with the lock held under which uses begin.
    ///
    /// `round` is another number when reclaim has asked for all pages of the range and begins anew.
    ///
    /// Must not wait for anything: this is called in any context in which memory is allocated.
    /// `evict` does not wait either, and may be called under a spinlock.
    fn evict_if_idle(&self, bytes: Range<usize>, round: u32, evict: &mut dyn FnMut() -> bool);

    /// Calls `unmap`, which removes page `index`, evicted before, from the process's page table. An
    /// owner may observe how long that takes.
    fn unmap(&self, index: usize, unmap: &mut dyn FnMut());
}

impl PagePool {
    /// Asks for as many pages as `control` says, and frees those that are idle. Returns how many
    /// these were; [`None`] if no page could be asked for.
    ///
    /// With [`Need::Urgent`], walks all pages until [`ENOUGH`] are free, and once more if fewer are
    /// free than were asked for: second chances are only for callers that can wait.
    ///
    /// Waits for nothing, except with [`Need::Urgent`] if it has freed nothing and met a busy page:
    /// then it waits once, for a thread that has the turn of one range and waits for nothing, and
    /// asks again.
    pub(super) fn reclaim(
        &self,
        control: &mut bindings::shrink_control,
        need: Need,
    ) -> Option<c_ulong> {
        let mut walk = self.walk(control, need);
        if let (Need::Urgent, 0, Some(turn)) = (need, walk.freed, walk.busy) {
            // If this gave up, it would report that nothing can be freed, and the OOM killer would
            // be called while another CPU frees one page after the other of the only range that has
            // idle ones.
            drop(self.wait_for_turn(turn));
            let again = self.walk(control, need);
            walk.asked += again.asked;
            walk.freed = again.freed;
        }
        control.nr_scanned = walk.asked;
        // SAFETY: Counts for the calling task, in any context.
        unsafe { kernel_ext_account_reclaimed(walk.freed) };
        // The shrinker's caller continues until it is told to stop, whatever is freed.
        (walk.asked != 0).then_some(walk.freed)
    }

    /// Asks for pages, as [`reclaim`](Self::reclaim) does, without waiting.
    fn walk(&self, control: &bindings::shrink_control, need: Need) -> Walk {
        // Pages that are not idle go to the end of the list. Each is asked for once a round.
        let listed = self.count(control);
        let budget = control.nr_to_scan.min(listed);
        let wanted = match need {
            Need::Some => 0,
            Need::Urgent => ENOUGH,
        };
        let mut walk = Walk::default();
        let mut rounds = 1;
        loop {
            if walk.asked == listed && walk.freed < budget {
                rounds = 2;
            }
            // If nothing of this list was idle in two rounds, nothing is in a third.
            let is_hopeful = walk.asked < rounds * listed && self.in_vain(control) < 2 * listed;
            if walk.asked >= budget && !(walk.freed < wanted && is_hopeful) {
                break;
            }
            // A turn is released after each page, so that the drop of a range does not have to wait
            // for more than that.
            match self.take_first(control, |record| record.range().evict(record)) {
                First::Nothing => break,
                // The page may be idle, so it was not asked in vain.
                First::Busy(turn) => walk.busy = Some(turn),
                First::Taken(evicted) => {
                    self.has_found(control, evicted.is_some());
                    walk.freed += c_ulong::from(evicted.is_some());
                }
            }
            walk.asked += 1;
        }
        walk
    }
}

/// What came of asking for pages.
#[derive(Default)]
struct Walk {
    /// How many pages were asked for, those that were busy included.
    asked: c_ulong,
    freed: c_ulong,
    /// The turn that another thread had when a page of its range was asked for last.
    busy: Option<TurnNumber>,
}

impl PageRange {
    /// Removes the page of `record`, if it is idle and that needs no waiting. Otherwise the record
    /// is put back onto the list.
    fn evict(&self, record: Taken<'_>) -> Option<OwnedRecord> {
        let _populating = self.populating.try_lock()?;
        // SAFETY: With the range's turn, which the caller holds, the record was taken off the list,
        // so it is in its slot. The drop of a space waits first for the turn, which is that of its
        // range, and by that for its records to be on the list; and the space is not `Unpin`.
        let space: &Space = unsafe { self.space.get_unchecked() };
        let mapping = space.mapping.as_ref()?;
        let Some(mm) = space.mm.mmget_not_zero() else {
            // Page tables that still exist hold references of their own.
            return self.withdraw_if_idle(mapping, record);
        };
        // The address space must not be torn down here; see `missing`.
        let mm = MmWithUser::into_mmput_async(mm);
        let address = mapping.address_of(record.record().index as usize);
        if let Some(vma) = mm.lock_vma_under_rcu(address) {
            return self.evict_from(&vma, mapping, record);
        }
        let lock = mm.mmap_read_trylock()?;
        match lock.vma_lookup(address) {
            Some(vma) => self.evict_from(vma, mapping, record),
            None => self.withdraw_if_idle(mapping, record),
        }
    }

    /// Removes an idle page from a process that may have it mapped through `vma`. The caller holds
    /// `populating`.
    fn evict_from(
        &self,
        vma: &VmaRef,
        mapping: &Mapping,
        record: Taken<'_>,
    ) -> Option<OwnedRecord> {
        let index = record.record().index as usize;
        let address = mapping.address_of(index);
        let evicted = self.withdraw_if_idle(mapping, record)?;
        // Another mapping at this address must not change. The mapping of this range is gone in
        // that case, and the page is out of the page table with it; or it was moved, and holds a
        // reference of its own.
        if vma_ops::shows(vma, self) {
            self.owner
                .unmap(index, &mut || vma.zap_vma_range(address, PAGE_SIZE));
        }
        Some(evicted)
    }

    /// Takes the page of `record` out of its slot, if the owner calls it idle. A thread that
    /// populates the page after that waits for `populating`, which the caller holds, and therefore
    /// finds the page removed from the page table, too.
    fn withdraw_if_idle(&self, mapping: &Mapping, record: Taken<'_>) -> Option<OwnedRecord> {
        let index = record.record().index as usize;
        let round = self.round_of(record.record());
        let start = index << PAGE_SHIFT;
        let mut record = Some(record);
        let mut evicted = None;
        let mut evict = || {
            if let Some(record) = record.take() {
                self.lower_frontier(start);
                // SAFETY: The slot is one of this range's space, and slots are filled under
                // `populating`, which the caller holds.
                evicted = unsafe { mapping.slots[index].clear(record, || self.space.is_open()) };
            }
            evicted.is_some()
        };
        self.owner
            .evict_if_idle(start..start + PAGE_SIZE, round, &mut evict);
        evicted
    }

    /// Limits the frontier to the pages before `end`. The caller holds `populating`.
    fn lower_frontier(&self, end: usize) {
        // CAST: Sizes of mappings fit into an `isize`.
        let end = end as isize;
        let old = self.frontier.load(ordering::Relaxed);
        if old > end {
            // ORDERING: The owner's lock is held, under which uses begin. The exchange continues
            // what `advance_frontier` has released. INVARIANT: The frontier claims less than
            // before. If the exchange fails, the mapping was removed meanwhile, and `GONE` stays.
            let _ = self.frontier.cmpxchg(old, end, ordering::Relaxed);
        }
    }

    /// Returns the round in which reclaim asks for a page of this range now. The caller holds the
    /// range's turn.
    fn round_of(&self, record: &Record) -> u32 {
        let mut round = self.round.load(ordering::Relaxed);
        if record.asked_in.load(ordering::Relaxed) == round {
            round = round.wrapping_add(1);
            self.round.store(round, ordering::Relaxed);
        }
        record.asked_in.store(round, ordering::Relaxed);
        round
    }
}
