// SPDX-License-Identifier: GPL-2.0

//! How pages that are not needed are removed.
//!
//! The shrinker takes one record after the other off the pool's list. A page that its range's
//! [`Owner`] calls idle is taken out of the process's page table and out of its slot, and is freed
//! at once, if no thread reads or writes the range at that moment. A page that the owner calls used
//! stays off the list until that use ends. Every other page goes to the end of the list:
//!
//! ```text
//!   list ──► turn ──► owner ──► no reader ──► VMA ──► unmapped ──► freed
//!    ▲         │       │ │          │          │
//!    └─────────┴───────┼─┴──────────┴──────────┘  not without waiting, or used lately
//!                      └──► off the list, until `release`: used
//! ```
//!
//! The [turn](super::turns) is that of the page's range. It is held until the page is unmapped. A
//! task that is preempted while it holds a turn delays no search for pages of other ranges. A page
//! of a range whose turn another thread has is *busy*, idle or not. From the owner's answer on, the
//! page's slot is marked as leaving: a thread that needs the page then waits for the turn.
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
    slots::{OwnedRecord, Record, Slot},
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

/// How many pages in use a call that goes on for [`ENOUGH`] takes off the list.
///
/// It bounds the time that processes with large buffers cost an allocation. The kernel calls
/// reclaim again, in the end for all pages, before it calls the OOM killer.
const USED: c_ulong = 512;

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

/// What the bytes of a page are at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Some are in use. When that ends, the owner [releases](PageRange::release) the page.
    Used,
    /// None is, but some were lately and are likely to be soon.
    UsedLately,
    /// None is, nor is likely to be soon.
    Idle,
}

/// Answers which bytes of a [`PageRange`] are in use, and observes its pages: the buffers of the
/// driver, and the books of the tests.
///
/// A wrong answer of an owner can do no worse than lose data: if an owner calls bytes idle that are
/// [populated](PageRange::populate) and about to be used, that use fails with `EFAULT`. If it does
/// not release pages, they stay until the range is closed.
pub trait Owner: Send + Sync {
    /// Calls `act` with the use of `bytes`, which are those of one page, with the lock held under
    /// which uses begin and end.
    ///
    /// `round` is another number when reclaim has asked for all pages of the range and begins anew.
    ///
    /// Must not wait for anything: this is called in any context in which memory is allocated. It
    /// may leave out the call of `act` for that. `act` does not wait either, and may be called
    /// under a spinlock.
    fn ask(&self, bytes: Range<usize>, round: u32, act: &mut dyn FnMut(Use));

    /// Something happens to page `index`, for tracing.
    fn observe(&self, event: PageEvent, index: usize);
}

/// What happens to a page.
#[derive(Clone, Copy)]
pub enum PageEvent {
    /// It is missing, and is going to be allocated.
    AllocStart,
    /// It is mapped.
    AllocEnd,
    /// It is being freed.
    Free,
    /// It is being removed from the process's page table.
    UnmapStart,
    /// It is out of the page table.
    UnmapEnd,
}

impl PagePool {
    /// Asks for as many pages as `control` says, and frees those that are idle. Returns how many
    /// these were; [`None`] if no page could be asked for.
    ///
    /// With [`Need::Urgent`], walks all pages until [`ENOUGH`] are free or [`USED`] were in use,
    /// and once more if fewer are free than were asked for: second chances are only for callers
    /// that can wait.
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
        let fruitless = self.fruitless(control);
        let mut walk = Walk::default();
        let mut left_of_round = listed;
        let mut is_second = false;
        loop {
            if left_of_round == 0 && walk.freed < budget && !is_second {
                is_second = true;
                left_of_round = walk.put_back;
            }
            // If nothing of this list was idle in two rounds, nothing is in a third.
            let is_hopeful = left_of_round != 0
                && walk.used < USED
                && fruitless.load(ordering::Relaxed) < 2 * listed;
            if walk.asked >= budget && !(walk.freed < wanted && is_hopeful) {
                break;
            }
            // A turn is released after each page, so that the drop of a range does not have to wait
            // for more than that.
            match self.take_first(control, |record| record.range().evict(record)) {
                First::Nothing => break,
                // The page may be idle, so asking for it was not fruitless.
                First::Busy(turn) => {
                    walk.busy = Some(turn);
                    walk.put_back += 1;
                }
                First::Taken(Asked::PutBack) => {
                    fruitless.fetch_add(1, ordering::Relaxed);
                    walk.put_back += 1;
                }
                // It is not on the list any more.
                First::Taken(Asked::Used) => walk.used += 1,
                First::Taken(Asked::Evicted(_record)) => {
                    fruitless.store(0, ordering::Relaxed);
                    walk.freed += 1;
                }
            }
            walk.asked += 1;
            left_of_round = left_of_round.saturating_sub(1);
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
    /// How many were put back onto the list.
    put_back: c_ulong,
    /// How many were in use, and are off the list now.
    used: c_ulong,
    /// The turn that another thread had when a page of its range was asked for last.
    busy: Option<TurnNumber>,
}

/// What came of asking for a page.
enum Asked {
    /// It is on the list again.
    PutBack,
    /// It is in use, and off the list.
    Used,
    /// It is out of its slot.
    Evicted(OwnedRecord),
}

impl PageRange {
    /// Removes the page of `record`, if it is idle and that needs no waiting.
    fn evict(&self, record: Taken<'_>) -> Asked {
        // SAFETY: With the range's turn, which the caller holds, the record was taken off the list,
        // so it is in its slot. The drop of a space waits first for the turn, which is that of its
        // range, and by that for its records not to be taken; and the space is not `Unpin`.
        let space: &Space = unsafe { self.space.get_unchecked() };
        let Some(mapping) = space.mapping.as_ref() else {
            return Asked::PutBack;
        };
        let slot = &mapping.slots[record.record().index as usize];
        match self.withdraw_if_idle(slot, &record) {
            Some(Use::Idle) if self.unmap(space, mapping, record.record()) => {
                Asked::Evicted(slot.take_withdrawn(record))
            }
            Some(Use::Idle) => {
                slot.restore();
                Asked::PutBack
            }
            Some(Use::Used) => {
                record.keep();
                Asked::Used
            }
            Some(Use::UsedLately) | None => Asked::PutBack,
        }
    }

    /// Asks the owner for the page of `record`, begins to remove it if it is idle, and makes it
    /// unlisted if it is used. Returns the answer; [`None`] if nothing was changed because the
    /// owner would have had to wait, or because a thread has the space open.
    ///
    /// A thread that populates the page after that waits for the turn, which the caller has, and
    /// therefore finds the page removed from the page table, too.
    fn withdraw_if_idle(&self, slot: &Slot, record: &Taken<'_>) -> Option<Use> {
        let round = self.round_of(record.record());
        let start = (record.record().index as usize) << PAGE_SHIFT;
        let mut answer = None;
        let mut act = |found: Use| {
            let is_done = match found {
                Use::Idle => {
                    let _shrinking = self.shrinking.lock();
                    self.lower_frontier(start);
                    slot.withdraw(record, || self.space.is_open())
                }
                Use::UsedLately => false,
                Use::Used => {
                    self.unlisted.fetch_add(1, ordering::Relaxed);
                    slot.unlist(record);
                    true
                }
            };
            answer = is_done.then_some(found);
        };
        self.owner.ask(start..start + PAGE_SIZE, round, &mut act);
        answer
    }

    /// Takes the page of `record` out of the page table of the process, if it is in one. `false` if
    /// that needs waiting.
    fn unmap(&self, space: &Space, mapping: &Mapping, record: &Record) -> bool {
        let index = record.index as usize;
        let address = mapping.address_of(index);
        let Some(mm) = space.mm.mmget_not_zero() else {
            // Page tables that still exist hold references of their own.
            self.unmap_from(None, index, address);
            return true;
        };
        // The address space must not be torn down here; see `missing`.
        let mm = MmWithUser::into_mmput_async(mm);
        if let Some(vma) = mm.lock_vma_under_rcu(address) {
            self.unmap_from(Some(&vma), index, address);
            return true;
        }
        let Some(lock) = mm.mmap_read_trylock() else {
            return false;
        };
        self.unmap_from(lock.vma_lookup(address), index, address);
        true
    }

    /// Takes page `index` out of the page table if `vma`, which is at its address, shows it.
    fn unmap_from(&self, vma: Option<&VmaRef>, index: usize, address: usize) {
        // Another mapping at this address must not change. The mapping of this range is gone in
        // that case, and the page is out of the page table with it; or it was moved, and holds a
        // reference of its own.
        self.owner.observe(PageEvent::Free, index);
        if let Some(vma) = vma.filter(|vma| vma_ops::shows(vma, self)) {
            self.owner.observe(PageEvent::UnmapStart, index);
            vma.zap_vma_range(address, PAGE_SIZE);
            self.owner.observe(PageEvent::UnmapEnd, index);
        }
    }

    /// Limits the frontier to the pages before `end`. The caller holds `shrinking`.
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
