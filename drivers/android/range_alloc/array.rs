// SPDX-License-Identifier: GPL-2.0

//! A few ranges, kept in an array in the order of their offsets.
//!
//! The part that is searched and shifted (`spans`) is small and separate from the part that is only
//! read and written (`slots`). In the usual case, with one or two ranges in use, all of it is one
//! cache line.

use super::{Claim, Label, Range, ReserveError, State};
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
    /// The array itself drops those that are in use.
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
    fn end(&self) -> u32 {
        self.offset + self.size
    }
}

struct ArraySlot<T> {
    /// Of use only if the range is oneway.
    sender: i32,
    label: Label,
    state: State<T>,
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
            spans: [const {
                Span {
                    offset: 0,
                    size: 0,
                    slot: 0,
                    is_oneway: false,
                }
            }; N],
            slots: ManuallyDrop::new(
                [const {
                    ArraySlot {
                        sender: 0,
                        label: Label::NONE,
                        state: State::Freeing,
                    }
                }; N],
            ),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    /// Reserves the beginning of the smallest gap that is large enough in a space of `space` bytes;
    /// of several such, of the one with the lowest offset. Returns its offset, or [`None`] if all
    /// slots are in use.
    #[inline(always)]
    pub(super) fn reserve(
        &mut self,
        space: u32,
        claim: Claim,
    ) -> Result<Option<u32>, ReserveError> {
        let end = self.spans[..self.len as usize].last().map_or(0, Span::end);
        let gap = if end == self.used {
            // The ranges lie next to each other, so there is one gap: what is behind them.
            (space - end >= claim.size).then_some((self.len as usize, end))
        } else {
            self.best_of_many_gaps(claim.size, space)
        };
        let (index, offset) = gap.ok_or(ReserveError::NoSpace)?;
        Ok(self.insert(index, offset, claim).map(|_| offset))
    }

    /// Returns the gap to use where there are gaps between ranges, by the index of the span behind
    /// it and its offset.
    #[inline(never)]
    fn best_of_many_gaps(&self, size: u32, space: u32) -> Option<(usize, u32)> {
        let mut best = None;
        let mut best_room = u32::MAX;
        let mut offset = 0;
        for (index, span) in self.spans[..self.len as usize].iter().enumerate() {
            let room = span.offset - offset;
            if room >= size && room < best_room {
                best_room = room;
                best = Some((index, offset));
            }
            offset = span.end();
        }
        let room = space - offset;
        if room >= size && (best.is_none() || room < best_room) {
            best = Some((self.len as usize, offset));
        }
        best
    }

    /// Adds a reserved range before the span with this index. Returns its state, or [`None`] if all
    /// slots are in use.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        index: usize,
        offset: u32,
        claim: Claim,
    ) -> Option<&mut State<T>> {
        // The last one first: that of a space's first ranges ends with a cache line, so a space of
        // which one range is in use has two lines that change.
        let slot = (!self.slots_used & Self::ALL_SLOTS).checked_ilog2()? as usize;
        let entry = self.slots.get_mut(slot)?;
        entry.sender = claim.oneway_sender.unwrap_or(0);
        entry.label = claim.label;
        // The state of an unused slot has no payload. The compiler cannot prove that, and would add
        // code to drop one.
        mem::forget(mem::replace(&mut entry.state, State::Reserved));
        self.slots_used |= 1 << slot;

        let len = self.len as usize;
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
        Some(&mut self.slots[slot].state)
    }

    /// Returns size and state of the range at exactly this offset.
    pub(super) fn get_mut(&mut self, offset: u32) -> Option<(u32, &mut State<T>)> {
        let span = self.spans[..self.len as usize]
            .iter()
            .find(|span| span.offset == offset)?;
        let (size, slot) = (span.size, span.slot);
        Some((size, &mut self.slots[slot as usize].state))
    }

    /// Frees the range at exactly this offset, unless it is delivered.
    #[inline(always)]
    pub(super) fn remove(&mut self, offset: u32) -> Option<Claim> {
        let index = self.spans[..self.len as usize]
            .iter()
            .position(|span| span.offset == offset)?;
        let span = self.spans[index];
        if matches!(self.slots[span.slot as usize].state, State::Delivered(_)) {
            return None;
        }
        let claim = self.claim(&span);
        self.slots_used &= !(1 << span.slot);
        let len = self.len as usize;
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
        let span = self.spans[self.len as usize];
        self.used -= span.size;
        self.slots_used &= !(1 << span.slot);
        let state = &mut self.slots[span.slot as usize].state;
        let state = mem::replace(state, State::Freeing);
        Some((span.offset, self.claim(&span), state))
    }

    /// Returns all ranges, by ascending offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<'_, T>> {
        self.spans[..self.len as usize]
            .iter()
            .map(|span| self.range(span))
    }

    /// Returns the first range that ends behind `start`.
    pub(super) fn first_behind(&self, start: u32) -> Option<Range<'_, T>> {
        let first = self.spans[..self.len as usize]
            .iter()
            .find(|span| span.end() > start);
        first.map(|span| self.range(span))
    }

    fn range(&self, span: &Span) -> Range<'_, T> {
        let state = &self.slots[span.slot as usize].state;
        Range::new(span.offset, self.claim(span), state)
    }

    fn claim(&self, span: &Span) -> Claim {
        let slot = &self.slots[span.slot as usize];
        Claim {
            size: span.size,
            oneway_sender: span.is_oneway.then_some(slot.sender),
            label: slot.label,
        }
    }
}

impl<T, const N: usize> Drop for Array<T, N> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
