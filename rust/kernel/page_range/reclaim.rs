// SPDX-License-Identifier: GPL-2.0

//! How pages go that nobody needs.
//!
//! The shrinker takes one record after the other off the pool's list. A page that its range's
//! [`Owner`] calls idle is taken out of its slot, out of the process's page table, and is freed at once,
//! if nobody is reading or writing the range at that moment; every other page goes to the end of the list:
//!
//! ```text
//!   list ──► turn ──► populating ──► VMA ──► owner ──► nobody reads ──► unmapped ──► freed
//!    ▲                    │           │        │            │
//!    └────────────────────┴───────────┴────────┴────────────┘  not to be had without waiting, or not idle
//! ```
//!
//! Nothing is put off: who asks for memory finds it when reclaim returns. A page that waited for a grace
//! period would be found by the OOM killer first (lesson S21).
//!
//! # What is idle
//!
//! Reclaim goes round: when it asks for a page that it has asked for in the current round of the
//! page's range already, that range's next round begins. The number of the round is what an owner
//! needs to tell what was used since the last round, and the one before, without having to write
//! anything down when a page is used.

use super::{
    pool::{PagePool, Taken},
    slots::{OwnedRecord, Record},
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

/// How many idle pages an allocation is given that cannot go on without memory, if there are so many.
///
/// If its zone is still below the watermark after that, the kernel counts what more could be reclaimed,
/// which are pages of programs and files and none of ours, and the OOM killer comes. What is lacking may
/// be more than the 32 pages that direct reclaim is content with: the watermark is raised by a whole block
/// of pages at a time.
const ENOUGH: c_ulong = 2048;

/// Why pages are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Some would be welcome, in the background or because somebody asks through debugfs.
    Some,
    /// An allocation waits, and fails or brings the OOM killer if there are none. Somebody who makes a cgroup
    /// give up memory (`memory.reclaim`) looks the same.
    Urgent,
}

/// Who knows which bytes of a [`PageRange`] are in use.
///
/// Whatever an owner says, nothing worse can come of it than that data is lost: with an owner that
/// calls bytes idle that somebody has [populated](PageRange::populate) and is going to use, that use
/// fails with `EFAULT`.
pub trait Owner: Send + Sync {
    /// Calls `evict` if none of `bytes`, which are those of one page, is in use, or is likely to be
    /// soon. Nobody may begin to use them before `evict` returns: it is to be called with the lock
    /// held under which that is decided.
    ///
    /// `round` is another number when reclaim has asked for all pages of the range and begins anew.
    ///
    /// Must not wait for anything: this is called while memory is being allocated, anywhere. `evict`
    /// does not wait either, and may be called under a spinlock.
    fn evict_if_idle(&self, bytes: Range<usize>, round: u32, evict: &mut dyn FnMut());
}

impl PagePool {
    /// Asks for as many pages as `control` says, and gives back those that are idle. Says how many
    /// these were; [`None`] if there is none to ask for.
    ///
    /// If somebody cannot go on without memory, goes round all pages until there are [`ENOUGH`], and
    /// once more if there are fewer than were asked for: second chances are for those who can wait.
    ///
    /// Waits for its turn alone.
    pub(super) fn reclaim(
        &self,
        control: &mut bindings::shrink_control,
        need: Need,
    ) -> Option<c_ulong> {
        // Pages that are not idle go to the end of the list. Each is asked for once a round.
        let listed = self.count(control);
        let budget = control.nr_to_scan.min(listed);
        let wanted = match need {
            Need::Some => 0,
            Need::Urgent => ENOUGH,
        };
        let (mut asked, mut freed, mut rounds) = (0, 0, 1);
        loop {
            // The turn is over after each page, so that a range that is dropped does not have to wait
            // for more than that.
            // Whoever has it waits for nothing, and has it for one page, or for taking the pages of a space
            // off the list. To give up would be to say that there is nothing to be had, and to bring the
            // OOM killer, while another CPU finds one page after the other.
            let mut turn = self.turn();
            if asked == listed && freed < budget {
                rounds = 2;
            }
            // If nothing was idle in two rounds, nothing will be in a third.
            let is_hopeful = asked < rounds * listed && turn.in_vain() < 2 * listed;
            if asked >= budget && !(freed < wanted && is_hopeful) {
                break;
            }
            let Some(record) = turn.take_first(control) else {
                break;
            };
            asked += 1;
            let evicted = record.range().evict(record);
            turn.has_found(evicted.is_some());
            drop(turn);
            freed += c_ulong::from(evicted.is_some());
        }
        control.nr_scanned = asked;
        // SAFETY: Counts for the calling task, in any context.
        unsafe { kernel_ext_account_reclaimed(freed) };
        // The shrinker's caller goes on for as long as it is not told to stop, whatever comes of it.
        (asked != 0).then_some(freed)
    }
}

impl PageRange {
    /// Takes the page of `record` away, if it is idle and that needs no waiting. Otherwise the record is
    /// back on the list.
    fn evict(&self, record: Taken<'_>) -> Option<OwnedRecord> {
        let _populating = self.populating.try_lock()?;
        // SAFETY: With the pool's turn, which the caller has, the record was taken off the list, so it is
        // in its slot. Before a space is dropped it waits for the turn and then for its records to be on
        // the list; and it is not `Unpin`.
        let space: &Space = unsafe { self.space.get_unchecked() };
        let mapping = space.mapping.as_ref()?;
        let Some(mm) = space.mm.mmget_not_zero() else {
            // What page tables there still are have references of their own.
            return self.withdraw_if_idle(mapping, record);
        };
        // This must not be where the address space is torn down; see `populate_slow`.
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

    /// Takes an idle page away from a process that may see it through `vma`. The caller holds
    /// `populating`.
    fn evict_from(
        &self,
        vma: &VmaRef,
        mapping: &Mapping,
        record: Taken<'_>,
    ) -> Option<OwnedRecord> {
        let address = mapping.address_of(record.record().index as usize);
        let evicted = self.withdraw_if_idle(mapping, record)?;
        // Another mapping at this address is none of our business. Ours is gone then, and the page is
        // out of the page table with it; or it was moved, and keeps a reference of its own.
        if vma_ops::shows(vma, self) {
            vma.zap_vma_range(address, PAGE_SIZE);
        }
        Some(evicted)
    }

    /// Takes the page of `record` out of its slot, if the owner says that it is idle. From then on who
    /// populates the page waits for `populating`, which the caller holds, and so finds it out of the
    /// page table, too.
    fn withdraw_if_idle(&self, mapping: &Mapping, record: Taken<'_>) -> Option<OwnedRecord> {
        let index = record.record().index as usize;
        let round = self.round_of(record.record());
        let start = index << PAGE_SHIFT;
        let mut record = Some(record);
        let mut evicted = None;
        let mut evict = || {
            if let Some(record) = record.take() {
                self.lower_frontier(start);
                // SAFETY: The slot is one of this range's space, and slots are filled under `populating`,
                // which the caller holds.
                evicted = unsafe { mapping.slots[index].clear(record, || self.space.is_open()) };
            }
        };
        self.owner
            .evict_if_idle(start..start + PAGE_SIZE, round, &mut evict);
        evicted
    }

    /// Says no more than that the pages before `end` are present. The caller holds `populating`.
    fn lower_frontier(&self, end: usize) {
        // CAST: Sizes of mappings fit into an `isize`.
        let end = end as isize;
        let old = self.frontier.load(ordering::Relaxed);
        if old > end {
            // INVARIANT: Less is said than before. If the exchange fails, the mapping went
            // meanwhile, and `GONE` stays.
            let _ = self.frontier.cmpxchg(old, end, ordering::Relaxed);
        }
    }

    /// The round in which reclaim asks for a page of this range now. The caller has the pool's turn.
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
