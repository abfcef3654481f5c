// SPDX-License-Identifier: GPL-2.0

//! The ranges of a receiver's space that are in use.
//!
//! A receiver maps one space, and each transaction that is sent to it has a range of that space
//! from the time the sender reserves it until the receiver frees it:
//!
//! ```text
//!            reserve              deliver                take               release
//!   free ──────────────► Reserved ────────► Delivered(T) ────► Freeing ──────────────► free
//!     ▲                     │
//!     └───────── abort ─────┘
//! ```
//!
//! - *Reserved*: a sender is filling the range. No other thread may touch it.
//! - *Delivered*: the receiver knows the address and may free the range at any time. The payload
//!   `T` is what has to be undone then.
//! - *Freeing*: one thread has taken the payload and is undoing it. A second attempt to free the
//!   same range finds nothing to take, however closely the two race.
//!
//! # Locking and memory
//!
//! The allocator takes no lock and allocates no memory: the caller holds a spinlock around each
//! call. [`RangeAllocator::reserve`] fails with [`ReserveError::NeedSpare`] if it needs
//! descriptors; the caller releases its lock, calls [`Spare::fill`] to allocate, and tries again.
//! Memory that becomes unused when a range is freed is returned as a [`Leftover`], to be dropped
//! without the lock.
//!
//! # Two backends, in three places
//!
//! The ranges are kept in an [`mod@array`], which needs no descriptors. The first one is part of
//! the allocator and so small that a process in which little goes on at once pays for little. When
//! more than `FIRST` ranges are in use for the first time, [`books`] are allocated, in which they
//! stay from then on: a larger array, and, while more than `FEW` are in use and until few are left,
//! a [`tree`]. All of them return the smallest gap that is large enough, and the lowest of several
//! such, so the offsets do not depend on where the ranges are.

#[path = "range_alloc/accounts.rs"]
mod accounts;
#[path = "range_alloc/array.rs"]
mod array;
#[path = "range_alloc/books.rs"]
mod books;
#[path = "range_alloc/label.rs"]
mod label;
#[path = "range_alloc/reach.rs"]
mod reach;
#[path = "range_alloc/spare.rs"]
mod spare;
#[path = "range_alloc/state.rs"]
mod state;
#[path = "range_alloc/tree.rs"]
mod tree;

use accounts::Holding;
use array::Array;
use books::Books;
pub(crate) use label::Label;
use reach::Reach;
pub(crate) use spare::{Leftover, Spare};
use state::Phase;
pub(crate) use state::State;
use tree::Tree;

use kernel::prelude::*;

/// Offsets and sizes of ranges are multiples of this: the kernel's pointer size.
const GRANULE: u32 = size_of::<usize>() as u32;

/// A sender that has more oneway ranges than this, and reserves another one when space is low, is a
/// spam suspect.
const SPAM_RANGES: usize = 50;

/// How many ranges an allocator has room for itself, unless the user of the type sets another
/// number.
///
/// A process that serves one call at a time, or makes some, has no more. An entry takes some 50
/// bytes; this many keep an allocator at 256 bytes, beyond which the kernel would allocate 512.
pub(crate) const FIRST: usize = 4;

/// How many ranges are kept without descriptors, likewise.
///
/// A pool of threads that serves synchronous calls keeps about one range per thread in use, and the
/// usual limit of such a pool is 15. Oneway calls arrive in bursts of some dozens, and the tree
/// needs two allocations for each of them. This many keep the books just below 2 KiB, beyond which
/// the kernel would allocate 4 KiB for them.
pub(crate) const FEW: usize = 35;

/// Whether a thread waits for the reply, and therefore which budget the range counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The sender waits for a reply. Such calls may use the whole space.
    Sync,
    /// No thread waits. All oneway calls together may use half of the space.
    Oneway {
        /// The sending process, by which oneway ranges are counted.
        sender: i32,
        /// How much of that half all calls of this sender may use, in percent; 0 for all of it.
        quota: u8,
    },
}

/// A range that was just reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Where it begins, relative to the start of the space.
    pub(crate) offset: usize,
    /// Its size: the requested size, rounded up.
    pub(crate) size: usize,
    /// The receiver is low on oneway space and this sender holds much of it.
    ///
    /// Reported once, then not again until enough space is free.
    pub(crate) oneway_spam_suspect: bool,
}

/// Why no range was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReserveError {
    /// No gap is large enough, or the oneway budget or the sender's part of it is exhausted.
    NoSpace,
    /// The caller has to release its lock, fill its [`Spare`], and try again.
    NeedSpare,
}

/// The error of a call for an offset at which no range begins that is in the required state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongState;

/// A request to a backend: the size, and the process that is charged if the call is oneway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    size: u32,
    oneway_sender: Option<i32>,
    label: Label,
}

/// A range in use, as shown by [`RangeAllocator::ranges`].
#[derive(Debug)]
pub(crate) struct Range<'a, T> {
    /// Where it begins, relative to the start of the space.
    pub(crate) offset: usize,
    /// Its size.
    pub(crate) size: usize,
    /// The sending process, for a oneway call.
    pub(crate) oneway_sender: Option<i32>,
    /// What it was reserved for.
    pub(crate) label: Label,
    /// Its state.
    pub(crate) state: &'a State<T>,
}

/// The ranges of one space.
///
/// Guarded by the lock of the caller; lives as long as the receiving process.
///
/// # Invariants
///
/// - The ranges in use do not overlap and lie within `0..size`.
/// - If `books` exist, they have all ranges and `first` is empty; otherwise `first` has all ranges.
/// - `oneway_free` is the oneway budget less the sizes of all oneway ranges in use.
#[repr(C)] // What each call changes lies in the first cache line, but for a slot.
pub(crate) struct RangeAllocator<
    T,
    const FIRST_RANGES: usize = FIRST,
    const FEW_RANGES: usize = FEW,
> {
    books: Option<KBox<Books<T, FEW_RANGES>>>,
    size: u32,
    oneway_free: u32,
    reach: Reach,
    /// A spam suspect was reported, and space has been low ever since.
    spam_reported: bool,
    first: Array<T, FIRST_RANGES>,
}

impl<T, const FIRST_RANGES: usize, const FEW_RANGES: usize>
    RangeAllocator<T, FIRST_RANGES, FEW_RANGES>
{
    /// How many bytes are allocated when more than `FIRST_RANGES` are in use for the first time.
    pub(crate) const SIZE_OF_BOOKS: usize = size_of::<Books<T, FEW_RANGES>>();

    /// Returns an allocator for a space of `size` bytes, none in use. With a size of 0, none is
    /// mapped yet.
    ///
    /// Only the first 4 GiB of a larger space are used.
    pub(crate) const fn new(size: usize) -> Self {
        let size = usable(size);
        Self {
            first: Array::new(),
            books: None,
            size,
            oneway_free: size / 2,
            spam_reported: false,
            reach: Reach::NOWHERE,
        }
    }

    /// Sets the size of a space when it is mapped. Fails if a range is in use.
    ///
    /// The same as assigning a new allocator, without moving one.
    pub(crate) fn set_space(&mut self, size: usize) -> Result<(), WrongState> {
        if self.in_use() != 0 || self.books.is_some() {
            return Err(WrongState);
        }
        self.size = usable(size);
        self.oneway_free = self.size / 2;
        self.spam_reported = false;
        Ok(())
    }

    /// Finds a range of at least `size` bytes and reserves it.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        size: usize,
        kind: CallKind,
        label: Label,
        spare: &mut Spare<T, FEW_RANGES>,
    ) -> Result<Reserved, ReserveError> {
        let size = rounded(size).ok_or(ReserveError::NoSpace)?;
        let oneway_sender = match kind {
            CallKind::Sync => None,
            CallKind::Oneway { .. } if size > self.oneway_free => {
                return Err(ReserveError::NoSpace)
            }
            CallKind::Oneway { sender, quota } => {
                if quota != 0 && self.exceeds_quota(sender, quota, size) {
                    return Err(ReserveError::NoSpace);
                }
                Some(sender)
            }
        };
        // Made anew where it is needed: for the array it need not exist in memory.
        let claim = || Claim {
            size,
            oneway_sender,
            label,
        };

        let offset = match &mut self.books {
            Some(books) => books.reserve(claim, size, self.size, spare)?,
            None => {
                let gap = self.first.best_gap(size, self.size);
                let gap = gap.ok_or(ReserveError::NoSpace)?;
                match self.first.insert(gap, claim()) {
                    Ok(offset) => offset,
                    Err(array::Full) => self.reserve_in_new_books(claim(), spare)?,
                }
            }
        };

        self.reach.now = self.reach.now.max(offset + size);
        Ok(Reserved {
            offset: offset as usize,
            size: size as usize,
            oneway_spam_suspect: match oneway_sender {
                Some(sender) => self.charge(sender, size),
                None => false,
            },
        })
    }

    /// Frees a reserved range that the sender could not deliver, whatever the reason.
    pub(crate) fn abort(&mut self, offset: usize) -> Result<Leftover<T>, WrongState> {
        self.free(offset, Phase::Reserved)
    }

    /// Delivers a reserved range. The receiver may free it from now on, which undoes `payload`.
    ///
    /// Fails and returns the payload if no reserved range begins at `offset`.
    #[inline(always)] // Most of a short lock round, twice in a call.
    pub(crate) fn deliver(&mut self, offset: usize, payload: T) -> Result<(), T> {
        match self.state_mut(offset) {
            Some(state) => state.deliver(payload),
            None => Err(payload),
        }
    }

    /// Begins to free the range that starts exactly at `offset`: returns its size and payload to
    /// the first caller, and [`None`] to all others.
    ///
    /// The range stays in use until [`release`](Self::release).
    pub(crate) fn take(&mut self, offset: usize) -> Option<(usize, T)> {
        let offset = u32::try_from(offset).ok()?;
        let (size, state) = match &mut self.books {
            None => self.first.get_mut(offset)?,
            Some(books) => books.get_mut(offset)?,
        };
        Some((size as usize, state.take()?))
    }

    /// Frees the space of a range whose payload has been undone.
    pub(crate) fn release(&mut self, offset: usize) -> Result<Leftover<T>, WrongState> {
        self.free(offset, Phase::Freeing)
    }

    /// Returns the payload of the delivered range that starts exactly at `offset`.
    pub(crate) fn payload_mut(&mut self, offset: usize) -> Option<&mut T> {
        match self.state_mut(offset)? {
            State::Delivered(payload) => Some(payload),
            State::Reserved | State::Freeing => None,
        }
    }

    /// Returns the number of ranges in use, in any state.
    pub(crate) fn in_use(&self) -> usize {
        self.first.len() + self.books.as_ref().map_or(0, |books| books.len())
    }

    /// Returns the size of the space.
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns how much of the oneway budget is left.
    pub(crate) fn free_oneway_space(&self) -> usize {
        self.oneway_free as usize
    }

    /// Whether any range in use has a byte in `start..end`. If not, its memory can be freed.
    pub(crate) fn touches(&self, start: usize, end: usize) -> bool {
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        match u32::try_from(start) {
            Ok(start) if start < end => match &self.books {
                None => self.first.touches(start, end),
                Some(books) => books.touches(start, end),
            },
            _ => false,
        }
    }

    /// Whether the memory behind `start..end` can be reclaimed: no range in use has a byte in it,
    /// and no range that was reserved in this round or the one before ends behind `start`.
    ///
    /// Reclaim checks the whole space again and again, and passes another `round` whenever it
    /// begins at its start.
    pub(crate) fn is_idle(&mut self, start: usize, end: usize, round: u32) -> bool {
        self.reach.is_beyond(start, round) && !self.touches(start, end)
    }

    /// Returns all ranges in use, by ascending offset.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<'_, T>> {
        // Not `.chain()`: the kernel's prelude has an `Init::chain` as well.
        let in_books = self.books.iter().flat_map(|books| books.iter());
        Iterator::chain(self.first.iter(), in_books)
    }

    /// Returns the first range in use that does not begin before `offset`.
    pub(crate) fn first_from(&self, offset: usize) -> Option<Range<'_, T>> {
        let offset = u32::try_from(offset).ok()?;
        match &self.books {
            None => self.first.first_from(offset),
            Some(books) => books.first_from(offset),
        }
    }

    fn state_mut(&mut self, offset: usize) -> Option<&mut State<T>> {
        let offset = u32::try_from(offset).ok()?;
        let (_, state) = match &mut self.books {
            None => self.first.get_mut(offset)?,
            Some(books) => books.get_mut(offset)?,
        };
        Some(state)
    }

    /// Frees the range at `offset`, which has to be in `phase`.
    #[inline(never)]
    fn free(&mut self, offset: usize, phase: Phase) -> Result<Leftover<T>, WrongState> {
        let offset = u32::try_from(offset).map_err(|_| WrongState)?;
        if self.books.is_some() {
            return self.free_in_books(offset, phase);
        }
        let claim = self.first.remove(offset, phase).ok_or(WrongState)?;
        self.credit(claim);
        Ok(Leftover { scraps: None })
    }

    // The next three functions are apart from their callers so that the callers, which run for each
    // transaction, stay short.

    /// Makes books, moves all ranges there, and reserves one more.
    #[cold]
    fn reserve_in_new_books(
        &mut self,
        claim: Claim,
        spare: &mut Spare<T, FEW_RANGES>,
    ) -> Result<u32, ReserveError> {
        let mut books = spare.pop_books()?;
        books.take_over(&mut self.first);
        let books = self.books.insert(books);
        books.reserve(|| claim, claim.size, self.size, spare)
    }

    /// Frees a range in the books.
    #[inline(never)]
    fn free_in_books(&mut self, offset: u32, phase: Phase) -> Result<Leftover<T>, WrongState> {
        let books = self.books.as_mut().ok_or(WrongState)?;
        if books.is_tree() {
            return self.free_in_tree(offset, phase);
        }
        let claim = books.remove(offset, phase).ok_or(WrongState)?;
        self.credit(claim);
        Ok(Leftover { scraps: None })
    }

    /// Frees a range in the tree.
    #[cold]
    fn free_in_tree(&mut self, offset: u32, phase: Phase) -> Result<Leftover<T>, WrongState> {
        let books = self.books.as_mut().ok_or(WrongState)?;
        let (claim, scraps) = books.remove_from_tree(offset, phase).ok_or(WrongState)?;
        self.credit(claim);
        Ok(Leftover { scraps })
    }

    /// Returns to the oneway budget what [`charge`](Self::charge) took from it.
    fn credit(&mut self, claim: Claim) {
        if claim.oneway_sender.is_some() {
            self.oneway_free += claim.size;
        }
    }

    /// Charges the oneway budget for a new range. Returns `true` if its sender is to be reported.
    fn charge(&mut self, sender: i32, size: u32) -> bool {
        self.oneway_free -= size;
        if self.oneway_free >= self.size / 10 {
            self.spam_reported = false;
            return false;
        }
        // A suspect is reported once.
        if self.spam_reported {
            return false;
        }
        let held = self.held_by(sender);
        // The new range does not count, as with the C driver (contract ALLOC-7).
        let (ranges, bytes) = (held.ranges - 1, held.bytes - size as usize);
        self.spam_reported = ranges > SPAM_RANGES || bytes > self.size as usize / 4;
        self.spam_reported
    }

    /// Whether `size` more bytes would exceed the sender's part of the oneway budget.
    #[cold]
    fn exceeds_quota(&self, sender: i32, percent: u8, size: u32) -> bool {
        let quota = u64::from(self.size / 2) * u64::from(percent) / 100;
        let held = self.held_by(sender).bytes as u64;
        held + u64::from(size) > quota
    }

    /// Returns the number and the sum of the oneway ranges of a sender.
    fn held_by(&self, sender: i32) -> Holding {
        match &self.books {
            None => self.first.held_by(sender),
            Some(books) => books.held_by(sender),
        }
    }
}

/// Returns the part of a space that can be addressed and divided into granules.
const fn usable(size: usize) -> u32 {
    let size = if size > u32::MAX as usize {
        u32::MAX
    } else {
        size as u32
    };
    size - size % GRANULE
}

/// Returns the size of the range for a request; an empty request gets an address of its own, too.
fn rounded(size: usize) -> Option<u32> {
    let last = size.max(1).checked_add(GRANULE as usize - 1)?;
    u32::try_from(last - last % GRANULE as usize).ok()
}
