// SPDX-License-Identifier: GPL-2.0

//! What a range is for, for people who read the logs. The allocator itself makes no use of it.

use super::GRANULE;

/// The transaction that a range was reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// Its debug id.
    pub(crate) id: u32,
    /// How many bytes its data has.
    pub(crate) data_size: u32,
    /// How many bytes its offsets have, which follow the data.
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
