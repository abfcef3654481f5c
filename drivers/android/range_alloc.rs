// SPDX-License-Identifier: GPL-2.0

//! The ranges of a receiver's space that are in use.
//!
//! A receiver maps one space. Each transaction that is sent to it has a range of that space from
//! the time the sender reserves the range until the receiver frees it:
//!
//! ```text
//!            reserve              deliver                take               release
//!   free ──────────────► Reserved ────────► Delivered(T) ────► Freeing ──────────────► free
//!     ▲                     │
//!     └────── release ──────┘
//! ```
//!
//! - *Reserved*: a sender is filling the range. No other thread may touch it.
//! - *Delivered*: the receiver has the address and may free the range at any time. Freeing undoes
//!   the payload `T`.
//! - *Freeing*: one thread has taken the payload and is undoing it. A second attempt to free the
//!   same range finds nothing to take, however closely the two race.
//!
//! # Locking and memory
//!
//! The allocator takes no lock and allocates no memory: the caller holds a spinlock around each
//! call. [`RangeAllocator::reserve`] fails with [`ReserveError::NeedSpare`] if it needs
//! descriptors; the caller releases its lock, calls [`SpareMemory::fill`] to allocate, and tries
//! again. Memory that becomes unused when a range is freed is returned as [`UnusedMemory`], to be
//! dropped without the lock.
//!
//! # Where the ranges are
//!
//! The first few are in an [`mod@array`] in the allocator itself, which is small because most
//! processes have few ranges in use at once. When more than `FIRST` ranges are in use for the first
//! time, [`MoreRanges`] are allocated, and the ranges stay there from then on. They are in a larger
//! array, and, while more than `FEW` are in use and until few are left, in a [`tree`]. All of them
//! return the smallest gap that is large enough, and the lowest of several such, so the offsets do
//! not depend on where the ranges are.

#[path = "range_alloc/array.rs"]
mod array;
#[path = "range_alloc/tree.rs"]
mod tree;

use array::Array;
use tree::Tree;
pub(crate) use tree::{SpareMemory, UnusedMemory};

use kernel::prelude::*;

/// Offsets and sizes of ranges are multiples of this: the kernel's pointer size.
const GRANULE: u32 = size_of::<usize>() as u32;

/// A sender that has more oneway ranges than this, and reserves another one when space is low, is a
/// spam suspect.
const SPAM_RANGES: usize = 50;

/// The number of ranges that an allocator has room for itself, unless the user of the type sets
/// another number.
///
/// A process that serves one call at a time, or makes some, has no more. An entry takes some 50
/// bytes; this many keep an allocator at 256 bytes, beyond which the kernel would allocate 512.
pub(crate) const FIRST: usize = 4;

/// The number of ranges that are kept without descriptors, unless the user of the type sets another
/// number.
///
/// A pool of threads that serves synchronous calls keeps about one range per thread in use, and the
/// usual limit of such a pool is 15. Oneway calls arrive in bursts of some dozens, and the tree
/// needs two allocations for each of them. This many keep [`MoreRanges`] just below 2 KiB, beyond
/// which the kernel would allocate 4 KiB for them.
pub(crate) const FEW: usize = 35;

/// The kind of call, which determines the budget that the range counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The sender waits for a reply. Such calls may use the whole space.
    Sync,
    /// No thread waits. All oneway calls together may use half of the space.
    Oneway {
        /// The sending process, by which oneway ranges are counted.
        sender: i32,
        /// The part of that half that all calls of this sender may use, in percent; 0 for all of
        /// it.
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
    /// The caller has to release its lock, fill its [`SpareMemory`], and try again.
    NeedSpare,
}

/// The transaction that a range was reserved for, which the logs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// Its debug id.
    pub(crate) id: u32,
    /// The size of its data in bytes.
    pub(crate) data_size: u32,
    /// The size of its offsets in bytes; they follow the data.
    pub(crate) offsets_size: u32,
}

impl Label {
    /// The label of no transaction.
    pub(crate) const NONE: Self = Self {
        id: 0,
        data_size: 0,
        offsets_size: 0,
    };

    /// Returns how many bytes of a range of this size are behind data and offsets: of what pointers
    /// point to, and of the sender's security context.
    pub(crate) fn extra_size(&self, size: usize) -> usize {
        let aligned = |size: u32| (size as usize).next_multiple_of(GRANULE as usize);
        match aligned(self.data_size) + aligned(self.offsets_size) {
            // A range without any data has the size of a pointer, so that it has an address.
            0 if size == GRANULE as usize => 0,
            before => size.saturating_sub(before),
        }
    }
}

/// The size of a range, the process that is charged if its call is oneway, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    size: u32,
    oneway_sender: Option<i32>,
    label: Label,
}

/// The state of a range in use.
#[derive(Debug)]
pub(crate) enum State<T> {
    /// A sender is filling it.
    Reserved,
    /// The receiver may free it.
    Delivered(T),
    /// One thread is freeing it.
    Freeing,
}

/// A range in use, as shown by [`RangeAllocator::ranges`].
#[derive(Debug)]
pub(crate) struct Range<'a, T> {
    /// Where it begins, relative to the start of the space.
    pub(crate) offset: usize,
    pub(crate) size: usize,
    /// The sending process, for a oneway call.
    pub(crate) oneway_sender: Option<i32>,
    pub(crate) label: Label,
    pub(crate) state: &'a State<T>,
}

impl<'a, T> Range<'a, T> {
    fn new(offset: u32, claim: Claim, state: &'a State<T>) -> Self {
        Self {
            offset: offset as usize,
            size: claim.size as usize,
            oneway_sender: claim.oneway_sender,
            label: claim.label,
            state,
        }
    }
}

/// The number and the sum of the oneway ranges of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holding {
    ranges: usize,
    bytes: usize,
}

/// All ranges of a space that the allocator itself had no room for at some time.
///
/// # Invariants
///
/// If `tree` exists, it has all ranges and `array` is empty; otherwise `array` has all ranges.
pub(crate) struct MoreRanges<T, const FEW_RANGES: usize> {
    array: Array<T, FEW_RANGES>,
    tree: Option<Tree<T>>,
}

/// The ranges of one space.
///
/// Guarded by the lock of the caller; lives as long as the receiving process.
///
/// # Invariants
///
/// - The ranges in use do not overlap and lie within `0..size`.
/// - If `more` exists, it has all ranges and `first` is empty; otherwise `first` has all ranges.
/// - `oneway_free` is the oneway budget less the sizes of all oneway ranges in use.
#[repr(C)] // What each call changes lies in the first cache line, but for a slot.
pub(crate) struct RangeAllocator<
    T,
    const FIRST_RANGES: usize = FIRST,
    const FEW_RANGES: usize = FEW,
> {
    more: Option<KBox<MoreRanges<T, FEW_RANGES>>>,
    size: u32,
    oneway_free: u32,
    /// The highest end of the ranges that were reserved in this `round` of reclaim, and in the one
    /// before. The lowest gap is preferred, so a steady use of the space stays below this.
    reach: u32,
    reach_before: u32,
    round: u32,
    /// A spam suspect was reported, and space has been low ever since.
    spam_reported: bool,
    first: Array<T, FIRST_RANGES>,
}

impl<T, const FIRST_RANGES: usize, const FEW_RANGES: usize>
    RangeAllocator<T, FIRST_RANGES, FEW_RANGES>
{
    /// Returns an allocator for a space of `size` bytes, none in use. Of a larger space, only the
    /// first 4 GiB are used, and of any only whole granules.
    pub(crate) fn new(size: usize) -> Self {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let size = size - size % GRANULE;
        Self {
            more: None,
            size,
            oneway_free: size / 2,
            reach: 0,
            reach_before: 0,
            round: 0,
            spam_reported: false,
            first: Array::new(),
        }
    }

    /// Finds a range of at least `size` bytes and reserves it. Without `spare`, it fails with
    /// [`ReserveError::NeedSpare`] if there are many ranges, although memory need not be missing.
    #[inline(always)] // With few ranges it is a part of each call.
    pub(crate) fn reserve(
        &mut self,
        size: usize,
        kind: CallKind,
        label: Label,
        spare: Option<&mut SpareMemory<T, FEW_RANGES>>,
    ) -> Result<Reserved, ReserveError> {
        // An empty request gets an address of its own, too.
        let last = size.max(1).checked_add(GRANULE as usize - 1);
        let size = last.and_then(|last| u32::try_from(last - last % GRANULE as usize).ok());
        let size = size.ok_or(ReserveError::NoSpace)?;
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

        let offset = match &mut self.more {
            None => self.first.reserve(self.size, claim())?,
            Some(more) if more.tree.is_none() => more.array.reserve(self.size, claim())?,
            Some(_) => None,
        };
        let offset = match offset {
            Some(offset) => offset,
            None => self.reserve_one_more(claim(), spare.ok_or(ReserveError::NeedSpare)?)?,
        };

        self.reach = self.reach.max(offset + size);
        Ok(Reserved {
            offset: offset as usize,
            size: size as usize,
            oneway_spam_suspect: match oneway_sender {
                Some(sender) => self.charge(sender, size),
                None => false,
            },
        })
    }

    /// Delivers a reserved range. The receiver may free it from now on, which undoes `payload`.
    ///
    /// Fails and returns the payload if no reserved range begins at `offset`.
    #[inline(always)] // Most of a short lock round, twice in a call.
    pub(crate) fn deliver(&mut self, offset: usize, payload: T) -> Result<(), T> {
        match self.get_mut(offset) {
            Some((_, state @ State::Reserved)) => {
                *state = State::Delivered(payload);
                Ok(())
            }
            _ => Err(payload),
        }
    }

    /// Begins to free the range that starts exactly at `offset`: returns its size and payload to
    /// the first caller, and [`None`] to all others.
    ///
    /// The range stays in use until [`release`](Self::release).
    pub(crate) fn take(&mut self, offset: usize) -> Option<(usize, T)> {
        let (size, state) = self.get_mut(offset)?;
        match core::mem::replace(state, State::Freeing) {
            State::Delivered(payload) => Some((size as usize, payload)),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Frees the space of a range whose sender could not deliver it, or whose payload was taken.
    /// Returns the memory that is not needed any more, if any. [`None`] if no range begins at
    /// `offset` that is in one of these states.
    #[inline(never)]
    pub(crate) fn release(&mut self, offset: usize) -> Option<Option<UnusedMemory<T>>> {
        let offset = u32::try_from(offset).ok()?;
        let claim = match &mut self.more {
            None => self.first.remove(offset)?,
            Some(more) if more.tree.is_none() => more.array.remove(offset)?,
            Some(_) => return self.release_in_tree(offset),
        };
        if claim.oneway_sender.is_some() {
            self.oneway_free += claim.size;
        }
        Some(None)
    }

    /// Returns the number of ranges in use, in any state.
    pub(crate) fn in_use(&self) -> usize {
        match &self.more {
            None => self.first.len(),
            Some(more) => more.array.len() + more.tree.as_ref().map_or(0, Tree::len),
        }
    }

    /// Returns the size of the space.
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns how much of the oneway budget is left.
    pub(crate) fn free_oneway_space(&self) -> usize {
        self.oneway_free as usize
    }

    /// Returns whether any range in use has a byte in `start..end`. If not, its memory can be
    /// freed.
    pub(crate) fn touches(&self, start: usize, end: usize) -> bool {
        let first = match self.more.as_ref().and_then(|more| more.tree.as_ref()) {
            Some(tree) => tree.offset_behind(start),
            None => self.first_behind(start).map(|range| range.offset),
        };
        start < end && first.is_some_and(|offset| offset < end)
    }

    /// Returns whether the memory behind `start..end` can be reclaimed. No range in use may have a
    /// byte in it, and no range that was reserved in this round or the one before may end behind
    /// `start`.
    ///
    /// Reclaim checks the whole space again and again, and passes another `round` whenever it
    /// begins at its start.
    pub(crate) fn is_idle(&mut self, start: usize, end: usize, round: u32) -> bool {
        if round != self.round {
            self.round = round;
            self.reach_before = core::mem::replace(&mut self.reach, 0);
        }
        start >= self.reach.max(self.reach_before) as usize && !self.touches(start, end)
    }

    /// Returns all ranges in use, by ascending offset.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<'_, T>> {
        // Not the iterators of array and tree in a chain: their functions have names of over 512
        // characters, and a kernel that prints such a name damages its stack.
        let mut start = 0;
        core::iter::from_fn(move || {
            let range = self.first_behind(start)?;
            start = range.offset + range.size;
            Some(range)
        })
    }

    /// Returns the first range in use that ends behind `start`.
    pub(crate) fn first_behind(&self, start: usize) -> Option<Range<'_, T>> {
        let start = u32::try_from(start).ok()?;
        match &self.more {
            None => self.first.first_behind(start),
            Some(more) => match &more.tree {
                None => more.array.first_behind(start),
                Some(tree) => tree.first_behind(start),
            },
        }
    }

    /// Returns size and state of the range at exactly this offset.
    #[inline(always)]
    fn get_mut(&mut self, offset: usize) -> Option<(u32, &mut State<T>)> {
        let offset = u32::try_from(offset).ok()?;
        match &mut self.more {
            None => self.first.get_mut(offset),
            Some(more) => match &mut **more {
                MoreRanges { array, tree: None } => array.get_mut(offset),
                MoreRanges {
                    tree: Some(tree), ..
                } => tree.get_mut(offset),
            },
        }
    }

    // The next two functions are apart from their callers so that the callers, which run for each
    // transaction, stay short.

    /// Reserves a range where the ranges are in the tree, or the array that they are in is full.
    #[cold]
    fn reserve_one_more(
        &mut self,
        claim: Claim,
        spare: &mut SpareMemory<T, FEW_RANGES>,
    ) -> Result<u32, ReserveError> {
        const { assert!(FIRST_RANGES <= FEW_RANGES, "all of them need a slot") };
        let more = match &mut self.more {
            Some(more) => more,
            none => {
                let mut more = spare.take_more()?;
                while let Some((offset, claim, state)) = self.first.pop() {
                    if let Some(place) = more.array.insert(0, offset, claim) {
                        *place = state;
                    }
                }
                none.insert(more)
            }
        };
        let MoreRanges { array, tree } = &mut **more;
        if tree.is_none() {
            if let Some(offset) = array.reserve(self.size, claim)? {
                return Ok(offset);
            }
        }
        let tree = match tree {
            Some(tree) => tree,
            none => none.insert(Tree::of_array(array, self.size, spare)?),
        };
        tree.reserve(claim, spare)
    }

    /// Frees a range in the tree. The tree is kept until few ranges are left, so that a process
    /// whose number of ranges changes around the limit does not make a tree again and again.
    #[cold]
    fn release_in_tree(&mut self, offset: u32) -> Option<Option<UnusedMemory<T>>> {
        let MoreRanges { array, tree } = &mut **self.more.as_mut()?;
        let held = tree.as_mut()?;
        let (claim, mut unused) = held.remove(offset)?;
        if held.len() <= FEW_RANGES / 4 {
            held.move_to(array);
            unused.tree = tree.take();
        }
        if claim.oneway_sender.is_some() {
            self.oneway_free += claim.size;
        }
        // Large, and seldom needed.
        let is_any = unused.range.is_some() || unused.account.is_some() || unused.tree.is_some();
        Some(is_any.then_some(unused))
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

    /// Returns whether `size` more bytes would exceed the sender's part of the oneway budget.
    #[cold]
    fn exceeds_quota(&self, sender: i32, percent: u8, size: u32) -> bool {
        let quota = u64::from(self.size / 2) * u64::from(percent) / 100;
        let held = self.held_by(sender).bytes as u64;
        held + u64::from(size) > quota
    }

    /// Returns the number and the sum of the oneway ranges of a sender.
    fn held_by(&self, sender: i32) -> Holding {
        if let Some(tree) = self.more.as_ref().and_then(|more| more.tree.as_ref()) {
            return tree.held_by(sender);
        }
        let mut held = Holding::default();
        for range in self
            .ranges()
            .filter(|range| range.oneway_sender == Some(sender))
        {
            held.ranges += 1;
            held.bytes += range.size;
        }
        held
    }
}
