// SPDX-License-Identifier: GPL-2.0

//! How many items of a growing collection a reader visits.
//!
//! A reader that visits items in the order of their keys, and gives up the lock between them, comes
//! to no end while somebody adds items with ever higher keys faster than it reads. So it stops
//! after twice as many as there were, and a few more.

/// How many items are visited while a lock is held.
pub(crate) const AT_ONCE: usize = 32;

/// How many visits are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisitsLeft(usize);

impl VisitsLeft {
    /// How many more are allowed than twice the number of items.
    const FEW: usize = 64;

    /// Allows visits of a collection that has `len` items when the first one is visited.
    pub(crate) fn of(len: usize) -> Self {
        Self(len.saturating_mul(2).saturating_add(Self::FEW))
    }

    /// Takes as many visits. Returns whether they were left.
    pub(crate) fn take(&mut self, visits: usize) -> bool {
        let left = self.0.checked_sub(visits);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}
