// SPDX-License-Identifier: GPL-2.0

//! Whose turn it is to take pages of a range off the list, and how they are taken.
//!
//! Each range has a turn, one of the [`TURNS`] of its pool, which it shares with others if there
//! are more ranges than that. Who has a turn may be preempted for as long as others are busy, while
//! a page is removed from a page table. That holds up the end of the ranges with that turn, and
//! nobody else: reclaim passes over their pages.
//!
//! The turns are not in the ranges, because a range may be freed as soon as another thread gets its
//! turn, while `mutex_unlock` of the one that had it before still uses the mutex. A pool is used
//! longer: who has a turn has a reference to it, or is a call of its shrinker, for which the drop
//! of the pool waits.

use super::{pool::PagePool, slots::Record, PageRange};
use kernel::{
    bindings,
    ffi::c_void,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        lock::{mutex::MutexBackend, Guard},
        Mutex,
    },
};
use pin_init::pin_init_array_from_fn;

use core::{
    mem::ManuallyDrop,
    ptr::{null_mut, NonNull},
};

/// How many turns a pool has: much more than CPUs reclaim at a time. It divides 2^32, so that the
/// ranges of a pool get them evenly.
const TURNS: usize = 64;

/// The number of a turn of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TurnNumber(u32);

/// The turns of a pool.
#[pin_data]
pub(super) struct Turns {
    #[pin]
    turns: [Mutex<()>; TURNS],
    /// The number for the next range.
    next: Atomic<u32>,
}

impl Turns {
    /// Creates turns that nobody has.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            turns <- pin_init_array_from_fn(|_| new_mutex!((), "PagePool::turns")),
            next: Atomic::new(0),
        })
    }

    /// Returns the number of a turn for a new range.
    pub(super) fn draw(&self) -> TurnNumber {
        TurnNumber(self.next.fetch_add(1, ordering::Relaxed))
    }

    fn get(&self, number: TurnNumber) -> &Mutex<()> {
        &self.turns[number.0 as usize % TURNS]
    }
}

impl PagePool {
    /// Waits for the right to take records of the ranges with this turn off the list. Its holder
    /// waits for nothing.
    pub(super) fn wait_for_turn(&self, number: TurnNumber) -> Turn<'_> {
        Turn {
            pool: self,
            _guard: self.turns.get(number).lock(),
        }
    }

    /// Takes the first record off the list of a node and cgroup, and calls `with` with it while the
    /// turn of the record's range is held. If another thread has that turn, the record goes to the
    /// end of the list instead. Does not wait.
    pub(super) fn take_first<R>(
        &self,
        control: &bindings::shrink_control,
        with: impl FnOnce(Taken<'_>) -> R,
    ) -> First<R> {
        let mut step = Step {
            pool: self,
            first: First::Nothing,
        };
        let mut how_many = 1;
        // SAFETY: The list lives as long as the pool; node and cgroup are valid during the call of
        // the shrinker. The callback is called with a step of this pool, which nothing else uses
        // meanwhile.
        unsafe {
            bindings::list_lru_walk_one(
                self.list(),
                control.nid,
                control.memcg,
                Some(take),
                (&raw mut step).cast(),
                &mut how_many,
            )
        };
        match step.first {
            First::Nothing => First::Nothing,
            First::Busy(number) => First::Busy(number),
            First::Taken((record, turn)) => {
                // INVARIANT: The record was on the list, so in its slot, and is off it now. The
                // turn is that of its range.
                let taken = Taken {
                    record,
                    turn: &turn,
                };
                // The turn ends after this, and after the record was put back.
                First::Taken(with(taken))
            }
        }
    }
}

/// What there is at the beginning of a list.
pub(super) enum First<R> {
    /// The list is empty.
    Nothing,
    /// A record of a range whose turn another thread has: the turn with this number. It was put at
    /// the end.
    Busy(TurnNumber),
    /// A record that was taken off, and what became of it.
    Taken(R),
}

/// The right to take records off the list of a pool, those of the ranges that have this turn.
pub(super) struct Turn<'a> {
    pool: &'a PagePool,
    _guard: Guard<'a, (), MutexBackend>,
}

impl Turn<'_> {
    /// Takes a record off the list for good, if it is on it.
    ///
    /// # Safety
    ///
    /// The record must be on the list or on none, and of a range that has this turn.
    pub(super) unsafe fn remove(&self, record: &Record) {
        let (list, links) = (self.pool.list(), record.links());
        // SAFETY: Promised by the caller. `add` has chosen the list in the same way.
        unsafe {
            match self.pool.node_of(record) {
                Some(node) => bindings::list_lru_del(list, links, node, null_mut()),
                None => bindings::list_lru_del_obj(list, links),
            }
        };
    }
}

/// A record that was taken off the list. When dropped, it is put back at the end.
///
/// # Invariants
///
/// - `turn` is that of the record's range, and of its pool.
/// - The record is valid, on no list, and in the slot that it names. No other thread takes it out
///   of there, and its range is not dropped: for that it would have to be on the list, or another
///   thread would have to hold the turn.
pub(super) struct Taken<'a> {
    record: NonNull<Record>,
    turn: &'a Turn<'a>,
}

impl<'a> Taken<'a> {
    /// Returns the record.
    pub(super) fn record(&self) -> &Record {
        // SAFETY: The record is valid by the type invariants.
        unsafe { self.record.as_ref() }
    }

    /// Returns the range that the page belongs to; it exists until the turn is over.
    pub(super) fn range(&self) -> &'a PageRange {
        // SAFETY: By the type invariants the range is not dropped before the turn is over, which 'a
        // does not outlive. If its end has begun, and its space waits for the turn, then there is
        // an exclusive reference to it, which is not used meanwhile; as `PageRange` is pinned for
        // good (it is not `Unpin`), such a reference is not assumed to be the only one.
        unsafe { self.record().range.as_ref() }
    }

    /// Returns the address of the record.
    pub(super) fn as_ptr(&self) -> *mut Record {
        self.record.as_ptr()
    }

    /// Returns the record without putting it back. It was taken out of its slot.
    pub(super) fn keep(self) -> NonNull<Record> {
        ManuallyDrop::new(self).record
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the record is on no list, and in its slot, that of a range
        // of this pool.
        unsafe { self.turn.pool.add(self.record) };
    }
}

/// What [`PagePool::take_first`] and the callback of `list_lru_walk_one` tell each other.
struct Step<'a> {
    pool: &'a PagePool,
    /// If a record is taken, it was on the list and is off it, and the turn is that of its range.
    first: First<(NonNull<Record>, Turn<'a>)>,
}

/// Takes one record off a list with the turn of its range, or puts it at the end of the list if
/// another thread has that turn.
///
/// # Safety
///
/// To be called by `list_lru_walk_one` for the list of a pool, with a pointer to a [`Step`] of that
/// pool that nothing else uses meanwhile.
unsafe extern "C" fn take(
    link: *mut bindings::list_head,
    list: *mut bindings::list_lru_one,
    step: *mut c_void,
) -> bindings::lru_status {
    // SAFETY: Promised by the caller.
    let step = unsafe { &mut *step.cast::<Step<'_>>() };
    // SAFETY: The link is on a list, so it is not null.
    let record = Record::from_links(unsafe { NonNull::new_unchecked(link) });
    // SAFETY: By the invariants of the pool the link is that of a record in a slot, which is valid;
    // and by those of the record its range is not dropped before the link is removed, for which
    // another thread would need the lock of the list, which is held. The turn of a range does not
    // change. No reference to the range is made, whose end may have begun.
    let number = unsafe { (*record.as_ref().range.as_ptr()).turn };
    let Some(guard) = step.pool.turns.get(number).try_lock() else {
        step.first = First::Busy(number);
        return bindings::lru_status::LRU_ROTATE;
    };
    // INVARIANT: This thread has the turn of the record's range, and passes it on with the record.
    // SAFETY: The link is on this list, whose lock is held.
    unsafe { bindings::list_lru_isolate(list, link) };
    let turn = Turn {
        pool: step.pool,
        _guard: guard,
    };
    step.first = First::Taken((record, turn));
    bindings::lru_status::LRU_REMOVED
}
