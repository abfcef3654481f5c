// SPDX-License-Identifier: GPL-2.0

//! The space of a range: what it has of the process, and what ends with it.

use super::{access, slots::OwnedRecord, turns::TurnNumber, PagePool, PageRange, Slot};
use core::{marker::PhantomPinned, ops::Range};
use kernel::{
    mm::Mm,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic},
        Arc, SetOnce,
    },
};

/// The part of a range that belongs to a living process.
///
/// # Invariants
///
/// - `turn` does not change, and is that of the space's range, too.
/// - Before it changes anything, its drop waits for that turn.
/// - Its drop frees the records in its slots.
pub(super) struct Space {
    /// The address space of the process. Pinned as a structure (`mmgrab`), not as a living address
    /// space (`mmget`): this must not keep the memory of a dead process.
    pub(super) mm: ARef<Mm>,
    /// The pages, after the process has made its mapping.
    pub(super) mapping: SetOnce<Mapping>,
    /// How many times secrets were begun and not ended. The end of the last access, which ends the
    /// space, comes after all changes of it.
    secrets: Atomic<u32>,
    turn: TurnNumber,
    pool: Arc<PagePool>,
    /// Reclaim may hold a reference while the drop waits.
    _pin: PhantomPinned,
}

impl Space {
    /// Creates the part of a range for the process of `mm`, without a mapping. `turn` is that of
    /// the range.
    pub(super) fn new(mm: &Mm, pool: Arc<PagePool>, turn: TurnNumber) -> Self {
        // INVARIANT: The caller makes the range, with this turn.
        Self {
            mm: ARef::from(mm),
            mapping: SetOnce::new(),
            secrets: Atomic::new(0),
            turn,
            pool,
            _pin: PhantomPinned,
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.as_ref() else {
            return;
        };
        // All other slots have never held a page.
        let used = &mapping.slots[..mapping.highest.load(ordering::Relaxed)];
        // With the turn held, no other thread has a record of this range that it took off the list.
        let turn = self.pool.wait_for_turn(self.turn);
        for slot in used {
            // SAFETY: No other thread takes records of this range out any more: it would have to
            // take a record off the list for that, for which this thread has the turn.
            if let Some(record) = unsafe { slot.any_record() } {
                // SAFETY: The record is on the list or on none, as nothing uses the space any more,
                // and of the range whose turn this is.
                unsafe { turn.remove(record) };
            }
        }
        drop(turn);
        let has_secrets = self.secrets.load(ordering::Relaxed) > 0;
        for slot in used {
            // SAFETY: As above; nothing uses the space any more; no record of it is on the list.
            let record = unsafe { slot.take() };
            if let (true, Some(record)) = (has_secrets, &record) {
                access::zero_page(&record.page());
            }
            drop(record);
        }
    }
}

/// The pages of a mapping.
pub(super) struct Mapping {
    /// The start of the mapping, in the process's address space.
    pub(super) address: usize,
    pub(super) slots: KVVec<Slot>,
    /// One more than the highest index of a slot that was ever filled. Raised before that.
    pub(super) highest: Atomic<usize>,
}

impl Mapping {
    /// Creates a mapping of `pages` pages, all of them absent. Fails with `ENOMEM`.
    pub(super) fn new(address: usize, pages: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(pages, GFP_KERNEL)?;
        for _ in 0..pages {
            slots.push(Slot::new(), GFP_KERNEL)?;
        }
        Ok(Self {
            address,
            slots,
            highest: Atomic::new(0),
        })
    }

    /// Puts a record into slot `index`. If that has a record already, returns this one.
    pub(super) fn fill(&self, index: usize, record: OwnedRecord) -> Result<(), OwnedRecord> {
        let mut highest = self.highest.load(ordering::Relaxed);
        while highest <= index {
            match (self.highest).cmpxchg(highest, index + 1, ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => highest = now,
            }
        }
        self.slots[index].fill(record)
    }

    pub(super) fn size(&self) -> usize {
        self.slots.len() << PAGE_SHIFT
    }

    /// Returns the indices of the pages that have a byte in `start..end`. `EFAULT` if the mapping
    /// does not cover all of them.
    pub(super) fn pages_of(&self, start: usize, end: usize) -> Result<Range<usize>> {
        if start > end || end > self.size() {
            return Err(EFAULT);
        }
        Ok(start >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE))
    }

    /// Returns the address of the page at `index`.
    pub(super) fn address_of(&self, index: usize) -> usize {
        self.address + (index << PAGE_SHIFT)
    }
}

impl PageRange {
    /// Begins the time in which the range may hold a secret: data that shall not be left in free
    /// memory. Whoever writes them zeroes them before [`end_secret`](Self::end_secret); if the
    /// range is [closed](Self::close) before that, it zeroes all of its pages.
    #[cold]
    pub fn begin_secret(&self) {
        if let Some(space) = self.space.open() {
            space.secrets.fetch_add(1, ordering::Relaxed);
        }
    }

    /// Ends what [`begin_secret`](Self::begin_secret) has begun, with the same range.
    #[cold]
    pub fn end_secret(&self) {
        if let Some(space) = self.space.open() {
            space.secrets.fetch_sub(1, ordering::Relaxed);
        }
    }
}
