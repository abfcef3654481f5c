// SPDX-License-Identifier: GPL-2.0

//! How pages that are not needed are removed.
//!
//! The shrinker visits the records of the pool's list one by one. A page that its range's [`Owner`]
//! calls idle is taken out of the process's page table and out of its slot, and freed at once. A
//! thread that reads or writes the range at that moment prevents this. A page that the owner calls
//! used leaves the list until that use ends. Every other page goes to the end of the list:
//!
//! ```text
//!   list ──► VMA ──► owner ──► slot marked ──► nobody ──► unmapped ──► not needed ──► freed
//!    ▲        │       │ │                         │                       │
//!    └────────┴───────┼─┴─────────────────────────┴───────────────────────┘
//!                     └──► off the list, until `release`: used
//! ```
//!
//! Until the page is unmapped, this is done under the lock of the list, with preemption disabled,
//! and locks are only tried. So no thread waits for one of reclaim that has lost its CPU.
//!
//! Unmapping can be preempted. During that time the slot is marked as leaving. The space is open,
//! so it is not dropped, and other reclaim skips its pages. A thread that needs the page clears the
//! mark and uses the page. Reclaim then may still take the page out of the page table, and puts it
//! back onto the list. The process gets it back by a [fault](super::mapping).
//!
//! Nothing is deferred: the memory is free when reclaim returns. If a page waited for a grace
//! period, the OOM killer would come first (lesson S21).
//!
//! # What is idle
//!
//! Reclaim counts rounds: when it visits a page for the second time in the current round of the
//! page's range, the next round of that range begins. An owner compares the number of the round to
//! find out which pages were used since the last round, and since the one before. So it need not
//! write anything when a page is used.

use super::{
    mapping::shows,
    pool::PagePool,
    slots::{Record, Slot, UNLISTED, UNUSABLE},
    PageRange, Space,
};
use crate::kernel_ext::once::{read_once, write_once};
use kernel::{
    bindings::{self, lru_status},
    ffi::{c_ulong, c_void},
    mm::{virt::VmaRef, MmWithUser},
    page::{PAGE_SHIFT, PAGE_SIZE},
    sync::atomic::ordering,
    time::{delay::fsleep, Delta},
};

use core::{ops::Range, ptr::NonNull};

extern "C" {
    fn kernel_ext_account_reclaimed(pages: c_ulong);
}

/// How many idle pages reclaim frees for an allocation that cannot proceed without memory, if as
/// many exist.
///
/// If its zone is still below the watermark after that, the kernel counts the reclaimable pages of
/// programs and files, but none of these, and calls the OOM killer. The zone may lack more than the
/// 32 pages that direct reclaim requests: the watermark is raised by a whole block of pages at a
/// time.
const ENOUGH: c_ulong = 2048;

/// How many pages in use a call that goes on for [`ENOUGH`] takes off the list, and how many of
/// spaces that are open it meets.
///
/// It bounds the time that processes with large buffers cost an allocation, and senders that lose
/// their CPU while they copy. The kernel calls reclaim again, in the end for all pages, before it
/// calls the OOM killer.
const UNFREED: c_ulong = 512;

/// The use of the bytes of a page at a moment.
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
/// driver, which this module must not depend on, and the books of the tests.
///
/// A wrong answer of an owner can only lose data. If an owner calls bytes idle that are
/// [populated](PageRange::populate) and about to be used, that use fails with `EFAULT`. If it does
/// not release pages, they stay until the range is closed.
pub trait Owner: Send + Sync {
    /// Calls `act` with the use of `bytes`, which are those of one page, with the lock held under
    /// which uses begin and end.
    ///
    /// `round` is another number when reclaim has visited all pages of the range and begins anew.
    ///
    /// Must not wait for anything: this is called under a spinlock, in any context in which memory
    /// is allocated. It may leave out the call of `act` for that. `act` does not wait either.
    fn ask(&self, bytes: Range<usize>, round: u32, act: &mut dyn FnMut(Use));

    /// Something happens to page `index`, for tracing. May be called under a spinlock.
    fn observe(&self, event: PageEvent, index: usize);
}

/// What happens to a page.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    /// Visits as many pages as `control` requests, and frees those that are idle. Returns how many
    /// it has freed; [`None`] if it could visit no page.
    ///
    /// `is_urgent` if an allocation waits, and fails or calls the OOM killer if no pages are freed.
    /// A request that a cgroup give up memory (`memory.reclaim`) looks the same. Otherwise free
    /// pages are useful, but nothing depends on them: background reclaim, or a request through
    /// debugfs.
    ///
    /// If urgent, walks all pages until [`ENOUGH`] are free or [`UNFREED`] cannot be. Walks them
    /// once more if fewer are free than `control` requests: second chances are only for callers
    /// that can wait.
    ///
    /// Waits for nothing, except if urgent for a millisecond if it has freed nothing and met a page
    /// of a space that was open.
    pub(super) fn reclaim(
        &self,
        control: &mut bindings::shrink_control,
        is_urgent: bool,
    ) -> Option<c_ulong> {
        let mut walk = self.walk(control, is_urgent);
        if is_urgent && walk.freed == 0 && walk.busy != 0 {
            // If this gave up, it would report that nothing can be freed. The OOM killer would be
            // called while another CPU frees the pages of the only range that has idle ones.
            fsleep(Delta::from_millis(1));
            let again = self.walk(control, is_urgent);
            walk.asked += again.asked;
            walk.freed = again.freed;
        }
        control.nr_scanned = walk.asked;
        // SAFETY: Counts for the calling task, in any context.
        unsafe { kernel_ext_account_reclaimed(walk.freed) };
        // The shrinker's caller continues until this returns [`None`], whatever is freed.
        (walk.asked != 0).then_some(walk.freed)
    }

    /// Visits pages, as [`reclaim`](Self::reclaim) does, without waiting.
    fn walk(&self, control: &bindings::shrink_control, is_urgent: bool) -> Walk {
        // Pages that are not idle go to the end of the list. Each is visited once a round.
        let listed = self.count(control);
        let budget = control.nr_to_scan.min(listed);
        let wanted = if is_urgent { ENOUGH } else { 0 };
        let mut walk = Walk::default();
        let mut end_of_round = listed;
        let mut is_second = false;
        loop {
            if walk.asked == end_of_round && walk.freed < budget && !is_second {
                is_second = true;
                end_of_round += walk.kept + walk.busy;
            }
            // A page that was not idle in two rounds will not be in a third. The count is that of
            // all lists.
            let is_hopeful = walk.asked < end_of_round
                && walk.used.max(walk.busy) < UNFREED
                && read_once(&self.fruitless) < 2 * listed;
            if walk.asked >= budget && !(walk.freed < wanted && is_hopeful) {
                return walk;
            }
            let mut asked: Option<Asked> = None;
            let (result, mut how_many) = ((&raw mut asked).cast(), 1);
            // SAFETY: The list lives as long as the pool; node and cgroup are valid during the call
            // of the shrinker. Nothing else uses the result during this call.
            unsafe {
                let (list, node, cgroup) = (self.list.get(), control.nid, control.memcg);
                bindings::list_lru_walk_one(list, node, cgroup, Some(ask), result, &mut how_many)
            };
            match asked {
                None => return walk,
                Some(Asked::Kept) => {
                    self.fruitless.fetch_add(1, ordering::Relaxed);
                    walk.kept += 1;
                }
                // The page is idle, so the visit was not fruitless.
                Some(Asked::Busy) => walk.busy += 1,
                Some(Asked::Used) => walk.used += 1,
                Some(Asked::Freed) => {
                    write_once(&self.fruitless, 0);
                    walk.freed += 1;
                }
            }
            walk.asked += 1;
        }
    }
}

/// The results of a walk.
#[derive(Default)]
struct Walk {
    asked: c_ulong,
    freed: c_ulong,
    kept: c_ulong,
    busy: c_ulong,
    /// How many were in use, and are off the list now.
    used: c_ulong,
}

/// The result of one visit.
enum Asked {
    /// It is not idle, or cannot be removed without waiting, and is on the list again.
    Kept,
    /// It is idle, but a thread had its space open, and it is on the list again.
    Busy,
    /// It is in use, and off the list.
    Used,
    /// It was idle, and is free.
    Freed,
}

/// The first record of a list.
///
/// # Invariants
///
/// The record is on `list`, whose lock this thread holds. So by the record's invariants it is
/// valid, and its range and the space of that are not dropped before the lock is released, unless
/// this thread takes the record out of its slot: the drop takes it, and then removes the link. It
/// may have begun; but as neither is `Unpin`, the exclusive reference of the drop is not assumed to
/// be the only one.
struct First {
    record: NonNull<Record>,
    list: *mut bindings::list_lru_one,
}

impl First {
    fn record(&self) -> &Record {
        // SAFETY: The record is valid by the type invariants.
        unsafe { self.record.as_ref() }
    }

    /// Takes the record off the list, whose lock is still held. The caller returns this to
    /// `list_lru_walk_one`.
    fn isolate(self) {
        // SAFETY: By the type invariants the lock is held, and the record is on the list.
        unsafe { bindings::list_lru_isolate(self.list, self.record().links.get()) };
    }
}

/// The result of one visit, for the walk and for `list_lru_walk_one`.
type Outcome = (Asked, lru_status);

const KEPT: Outcome = (Asked::Kept, lru_status::LRU_ROTATE);
const BUSY: Outcome = (Asked::Busy, lru_status::LRU_ROTATE);

/// Visits the first page of a list.
///
/// # Safety
///
/// To be called by `list_lru_walk_one`, for the list of a pool, with a pointer to an
/// `Option<Asked>` that nothing else uses during this call.
unsafe extern "C" fn ask(
    link: *mut bindings::list_head,
    list: *mut bindings::list_lru_one,
    result: *mut c_void,
) -> lru_status {
    // INVARIANT: The kernel holds the lock of the list, and by the invariants of the pool, the link
    // is that of a record.
    let first = First {
        // SAFETY: The link is on a list, so it is not null.
        record: unsafe { NonNull::new_unchecked(link) }.cast(),
        list,
    };
    // SAFETY: The range exists by the type invariants of `First`.
    let range = unsafe { first.record().range.as_ref() };
    let (asked, status) = range.ask_for(first);
    // SAFETY: Promised by the caller.
    unsafe { *result.cast::<Option<Asked>>() = Some(asked) };
    status
}

impl PageRange {
    /// Visits a page of this range, and removes it if it is idle and the removal needs no waiting.
    /// The range may not exist any more after this.
    fn ask_for(&self, first: First) -> Outcome {
        // SAFETY: By the invariants of `First` the drop of the space, which takes the record out of
        // its slot, waits after that for the lock of the list. Until then it changes slots alone,
        // which are atomic.
        let space: &Space = unsafe { self.space.get_unchecked() };
        let index = first.record().index as usize;
        let Some(slot) = space.slots.as_ref().and_then(|slots| slots.get(index)) else {
            return KEPT;
        };
        let Some(mm) = space.mm.mmget_not_zero() else {
            // Page tables that still exist hold references of their own.
            return self.remove(first, slot, None);
        };
        // The address space must not be torn down here; see `missing`.
        let mm = MmWithUser::into_mmput_async(mm);
        let address = self.address_of(index);
        if let Some(vma) = mm.lock_vma_under_rcu(address) {
            return self.remove(first, slot, Some(&vma));
        }
        let Some(lock) = mm.mmap_read_trylock() else {
            return KEPT;
        };
        self.remove(first, slot, lock.vma_lookup(address))
    }

    /// Removes a page if it is idle. `vma` is what is mapped at its address.
    fn remove(&self, first: First, slot: &Slot, vma: Option<&VmaRef>) -> Outcome {
        match self.mark_if_idle(first.record(), slot) {
            Some(Use::Idle) => (),
            Some(Use::Used) => {
                first.isolate();
                return (Asked::Used, lru_status::LRU_REMOVED);
            }
            Some(Use::UsedLately) => return KEPT,
            None if self.space.is_used() => return BUSY,
            None => return KEPT,
        }
        let index = first.record().index as usize;
        // Another mapping at this address must not change. The mapping of this range is gone in
        // that case, and the page is out of the page table with it; or it was moved, and holds a
        // reference of its own.
        let Some(vma) = vma.filter(|vma| shows(vma, self)) else {
            if self.space.is_used() {
                slot.stay();
                return BUSY;
            }
            // The space may be closed and dropped from here on. Its drop waits for the lock of the
            // list once it has taken this record; if this takes it, range and slot may be gone.
            self.owner.observe(PageEvent::Free, index);
            let Some(_freed) = slot.take_leaving(first.record) else {
                slot.stay();
                return BUSY;
            };
            first.isolate();
            return (Asked::Freed, lru_status::LRU_REMOVED);
        };
        let Some(space) = self.space.open_if_unused() else {
            slot.stay();
            return BUSY;
        };
        // From here on the range exists because `vma`, which is locked, has a reference to it; and
        // the slot and the record, because the space is open.
        let (record, list) = (first.record, first.list);
        first.isolate();
        // SAFETY: By the invariants of `First` this thread holds the lock.
        unsafe { bindings::spin_unlock(&raw mut (*list).lock) };
        // In C's order. If the page stays, who keeps it makes the events of an allocation.
        self.owner.observe(PageEvent::Free, index);
        self.owner.observe(PageEvent::UnmapStart, index);
        vma.zap_vma_range(self.address_of(index), PAGE_SIZE);
        self.owner.observe(PageEvent::UnmapEnd, index);
        let asked = match slot.take_leaving(record) {
            Some(_freed) => Asked::Freed,
            None => {
                // SAFETY: The record is off the list, and a thread has made it stay in its slot, so
                // it is valid as long as the space is open.
                unsafe { self.pool.add(record.as_ref()) };
                Asked::Busy
            }
        };
        // If the space was closed during the removal, it ends here.
        drop(space);
        (asked, lru_status::LRU_REMOVED_RETRY)
    }

    /// Gets the use of the page of `record` from the owner. Marks the page as leaving if it is
    /// idle, and makes it unlisted if it is used. Returns the answer; [`None`] if the owner would
    /// have had to wait, if the slot does not have the record any more, or if the page is idle and
    /// the space in use.
    fn mark_if_idle(&self, record: &Record, slot: &Slot) -> Option<Use> {
        let mut round = read_once(&self.round);
        if read_once(&record.asked_in) == round {
            let next = round.wrapping_add(1);
            // It fails if the pages of another list have begun the round.
            let _ = self.round.cmpxchg(round, next, ordering::Relaxed);
            round = next;
        }
        write_once(&record.asked_in, round);
        let start = (record.index as usize) << PAGE_SHIFT;
        let mut answer = None;
        let mut act = |found: Use| {
            let is_done = match found {
                // It would only be made to stay.
                Use::Idle if self.space.is_used() => false,
                Use::Idle => {
                    let _shrinking = self.shrinking.lock();
                    let old = read_once(&self.frontier);
                    // CAST: Sizes of mappings fit into an `isize`.
                    let end = old.min(start as isize);
                    // ORDERING: The owner's lock is held, under which uses begin. The exchange
                    // continues what `advance_frontier` has released. INVARIANT: The frontier
                    // claims no more than before. If the exchange fails, the mapping was removed
                    // after `old` was read, and `GONE` stays.
                    let _ = self.frontier.cmpxchg(old, end, ordering::Relaxed);
                    slot.set(record, UNUSABLE)
                }
                Use::UsedLately => true,
                Use::Used => {
                    self.unlisted.fetch_add(1, ordering::Relaxed);
                    slot.set(record, UNLISTED)
                }
            };
            answer = is_done.then_some(found);
        };
        self.owner.ask(start..start + PAGE_SIZE, round, &mut act);
        answer
    }
}
