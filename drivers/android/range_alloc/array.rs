// SPDX-License-Identifier: GPL-2.0

//! A few ranges, kept in an array in the order of their offsets.
//!
//! What is searched and shifted (`spans`) is small and separate from what is only read and written
//! (`slots`). In the usual case, with one or two ranges in use, all of it is one cache line.

use super::{Claim, Holding, Label, Range, State};
use core::mem::{self, ManuallyDrop};

/// At most `N` ranges.
///
/// # Invariants
///
/// - `spans[..len]` are in ascending order of their offsets and do not overlap.
/// - Each of `spans[..len]` has a slot of its own, whose bit in `slots_used` is set; no other bits
///   are set.
/// - Only slots whose bit is set are [`State::Delivered`].
/// - `used` is the sum of the sizes of `spans[..len]`.
#[repr(C)]
pub(super) struct Array<T, const N: usize> {
    slots_used: u64,
    len: u32,
    used: u32,
    spans: [Span; N],
    /// Dropped by the array itself, which knows those that are in use.
    slots: ManuallyDrop<[ArraySlot<T>; N]>,
}

#[derive(Clone, Copy)]
struct Span {
    offset: u32,
    size: u32,
    slot: u8,
    is_oneway: bool,
}

impl Span {
    const NOWHERE: Self = Span {
        offset: 0,
        size: 0,
        slot: 0,
        is_oneway: false,
    };

    fn end(&self) -> u32 {
        self.offset + self.size
    }

    /// Returns the process that is charged for the range, whose slot this is.
    fn sender<T>(&self, slot: &ArraySlot<T>) -> Option<i32> {
        self.is_oneway.then_some(slot.sender)
    }
}

struct ArraySlot<T> {
    /// Of use only if the range is oneway.
    sender: i32,
    label: Label,
    state: State<T>,
}

impl<T> ArraySlot<T> {
    const EMPTY: Self = ArraySlot {
        sender: 0,
        label: Label::NONE,
        state: State::Freeing,
    };
}

impl<T, const N: usize> Array<T, N> {
    /// A bit for each slot.
    const ALL_SLOTS: u64 = {
        assert!(N <= u64::BITS as usize, "each slot needs a bit");
        match N {
            0 => 0,
            _ => u64::MAX >> (u64::BITS as usize - N),
        }
    };

    pub(super) const fn new() -> Self {
        Self {
            slots_used: 0,
            len: 0,
            used: 0,
            spans: [Span::NOWHERE; N],
            slots: ManuallyDrop::new([const { ArraySlot::EMPTY }; N]),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the smallest gap of at least `size` bytes in a space of `space` bytes, by the index
    /// of the span behind it and its offset; of several such, the one with the lowest offset.
    #[inline(always)]
    pub(super) fn best_gap(&self, size: u32, space: u32) -> Option<(usize, u32)> {
        let end = self.live().last().map_or(0, Span::end);
        if end == self.used {
            // The ranges lie next to each other, so there is one gap: what is behind them.
            return (space - end >= size).then_some((self.len(), end));
        }
        self.best_of_many_gaps(size, space)
    }

    /// The same where there are gaps between ranges.
    #[inline(never)]
    fn best_of_many_gaps(&self, size: u32, space: u32) -> Option<(usize, u32)> {
        let mut best = None;
        let mut best_room = u32::MAX;
        let mut offset = 0;
        for (index, span) in self.live().iter().enumerate() {
            let room = span.offset - offset;
            if room >= size && room < best_room {
                best_room = room;
                best = Some((index, offset));
            }
            offset = span.end();
        }
        let room = space - offset;
        if room >= size && (best.is_none() || room < best_room) {
            best = Some((self.len(), offset));
        }
        best
    }

    /// Reserves the beginning of a [gap](Self::best_gap). Returns its offset, or [`None`] if all
    /// slots are in use.
    #[inline(always)]
    pub(super) fn insert(&mut self, (index, offset): (usize, u32), claim: Claim) -> Option<u32> {
        // The last one first: that of a space's first ranges ends with a cache line, so a space of
        // which one range is in use has two lines that change.
        let slot = (!self.slots_used & Self::ALL_SLOTS).checked_ilog2()? as usize;
        let entry = self.slots.get_mut(slot)?;
        entry.sender = claim.oneway_sender.unwrap_or(0);
        entry.label = claim.label;
        // The state of an unused slot has no payload, but the compiler cannot know that, and would
        // look for one to drop.
        mem::forget(mem::replace(&mut entry.state, State::Reserved));
        self.slots_used |= 1 << slot;

        let len = self.len();
        if index < len {
            self.spans.copy_within(index..len, index + 1);
        }
        self.spans[index] = Span {
            offset,
            size: claim.size,
            slot: slot as u8,
            is_oneway: claim.oneway_sender.is_some(),
        };
        self.len += 1;
        self.used += claim.size;
        Some(offset)
    }

    /// Returns size and state of the range at exactly this offset.
    pub(super) fn get_mut(&mut self, offset: u32) -> Option<(u32, &mut State<T>)> {
        let span = self.live().iter().find(|span| span.offset == offset)?;
        let (size, slot) = (span.size, span.slot);
        Some((size, &mut self.slots[slot as usize].state))
    }

    /// Frees the range at exactly this offset, unless it is delivered.
    #[inline(always)]
    pub(super) fn remove(&mut self, offset: u32) -> Option<Claim> {
        let index = self.live().iter().position(|span| span.offset == offset)?;
        let span = self.spans[index];
        let slot = &self.slots[span.slot as usize];
        if matches!(slot.state, State::Delivered(_)) {
            return None;
        }
        let claim = Claim {
            size: span.size,
            oneway_sender: span.sender(slot),
            label: slot.label,
        };
        self.slots_used &= !(1 << span.slot);
        let len = self.len();
        if index + 1 < len {
            self.spans.copy_within(index + 1..len, index);
        }
        self.len -= 1;
        self.used -= claim.size;
        Some(claim)
    }

    /// Removes the last range, whatever its state, and returns it.
    pub(super) fn pop(&mut self) -> Option<(u32, Claim, State<T>)> {
        self.len = self.len.checked_sub(1)?;
        let span = self.spans[self.len()];
        self.used -= span.size;
        self.slots_used &= !(1 << span.slot);
        let slot = mem::replace(&mut self.slots[span.slot as usize], ArraySlot::EMPTY);
        let claim = Claim {
            size: span.size,
            oneway_sender: span.sender(&slot),
            label: slot.label,
        };
        Some((span.offset, claim, slot.state))
    }

    /// Adds a range in any state before the span with this index. The array must have a free slot.
    pub(super) fn put(&mut self, index: usize, offset: u32, claim: Claim, state: State<T>) {
        if self.insert((index, offset), claim).is_some() {
            let slot = self.spans[index].slot;
            self.slots[slot as usize].state = state;
        }
    }

    /// Returns the number and the sum of the oneway ranges of a sender.
    pub(super) fn held_by(&self, sender: i32) -> Holding {
        let mut held = Holding::default();
        for span in self.live() {
            if span.sender(&self.slots[span.slot as usize]) == Some(sender) {
                held.add(span.size);
            }
        }
        held
    }

    /// Returns all ranges, by ascending offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<'_, T>> {
        self.live().iter().map(|span| self.range(span))
    }

    /// Returns the first range that ends behind `start`.
    pub(super) fn first_behind(&self, start: u32) -> Option<Range<'_, T>> {
        let first = self.live().iter().find(|span| span.end() > start);
        first.map(|span| self.range(span))
    }

    fn range(&self, span: &Span) -> Range<'_, T> {
        let slot = &self.slots[span.slot as usize];
        let claim = Claim {
            size: span.size,
            oneway_sender: span.sender(slot),
            label: slot.label,
        };
        Range::new(span.offset, claim, &slot.state)
    }

    fn live(&self) -> &[Span] {
        &self.spans[..self.len()]
    }
}

impl<T, const N: usize> Drop for Array<T, N> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
