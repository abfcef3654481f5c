// SPDX-License-Identifier: GPL-2.0

//! Which pages of a range are present, or were. Reclaim goes on meanwhile, so that an answer may
//! have become wrong when it is returned.

use super::{slots::Slot, PageRange};
use core::ops::Range;
use kernel::sync::atomic::ordering;

impl PageRange {
    /// Whether a page is present, at this moment. `false` if the range is closed.
    pub fn has_page(&self, index: usize) -> bool {
        let space = self.space.open();
        let mapping = space.as_ref().and_then(|space| space.mapping.as_ref());
        let slot = mapping.and_then(|mapping| mapping.slots.get(index));
        slot.is_some_and(Slot::is_filled)
    }

    /// Returns which of up to 64 pages are present: a bit for each, the lowest for the first.
    pub fn present_in(&self, pages: Range<usize>) -> u64 {
        let space = self.space.open();
        let mapping = space.as_ref().and_then(|space| space.mapping.as_ref());
        let slots = mapping.and_then(|mapping| mapping.slots.get(pages));
        let slots = slots.unwrap_or_default().iter().rev();
        slots.fold(0, |bits, slot| bits << 1 | u64::from(slot.is_filled()))
    }

    /// Returns how many pages, from the start of the mapping on, were present at some time, those
    /// between them included.
    pub fn high_watermark(&self) -> usize {
        let space = self.space.open();
        let mapping = space.as_ref().and_then(|space| space.mapping.as_ref());
        mapping.map_or(0, |mapping| mapping.highest.load(ordering::Relaxed))
    }

    /// Returns how many pages are present. Walks all slots: for statistics.
    pub fn pages_present(&self) -> usize {
        let space = self.space.open();
        let mapping = space.as_ref().and_then(|space| space.mapping.as_ref());
        let slots = mapping.map_or(&[][..], |mapping| &mapping.slots[..]);
        slots.iter().filter(|slot| slot.is_filled()).count()
    }
}
