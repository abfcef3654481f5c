// SPDX-License-Identifier: GPL-2.0

//! How much of a space is in steady use, which reclaim leaves alone.

/// The highest end of the ranges that were reserved in this round and in the one before.
///
/// The lowest gap is preferred, so a steady use of the space stays below this offset. A new
/// [round](super::RangeAllocator::is_idle) begins whenever reclaim of idle memory begins again.
pub(super) struct Reach {
    /// In this round.
    pub(super) now: u32,
    /// In the round before.
    before: u32,
    round: u32,
}

impl Reach {
    pub(super) const NOWHERE: Self = Reach {
        now: 0,
        before: 0,
        round: 0,
    };

    /// Whether what begins at `start` was beyond reach in `round` and the one before.
    pub(super) fn is_beyond(&mut self, start: usize, round: u32) -> bool {
        if round != self.round {
            *self = Reach {
                now: 0,
                before: self.now,
                round,
            };
        }
        start >= self.now.max(self.before) as usize
    }
}
