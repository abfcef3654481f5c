// SPDX-License-Identifier: GPL-2.0

//! The memory that is passed to an allocator and returned by it, so that it never allocates or
//! frees under its lock.

use super::tree::{AccountNode, RangeNodes, Tree};
use super::{MoreRanges, ReserveError, FEW};
use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;

/// Memory for [`reserve`](super::RangeAllocator::reserve), allocated while the allocator is not
/// locked.
///
/// An empty one costs nothing, and nearly all calls leave it empty.
pub(crate) struct SpareMemory<T, const FEW_RANGES: usize = FEW> {
    /// How many nodes of ranges are missing.
    ranges: u32,
    /// How many nodes of accounts are.
    accounts: u32,
    /// Whether [`MoreRanges`] are.
    is_more_missing: bool,
    pieces: Option<KBox<Pieces<T, FEW_RANGES>>>,
}

/// The memory that was allocated.
struct Pieces<T, const FEW_RANGES: usize> {
    ranges: KVec<RangeNodes<T>>,
    accounts: KVec<AccountNode>,
    more: Option<KBox<MoreRanges<T, FEW_RANGES>>>,
}

impl<T, const FEW_RANGES: usize> SpareMemory<T, FEW_RANGES> {
    /// Returns an empty spare.
    pub(crate) const fn new() -> Self {
        Self {
            ranges: 0,
            accounts: 0,
            is_more_missing: false,
            pieces: None,
        }
    }

    /// Allocates that for which the last [`ReserveError::NeedSpare`] was returned. May sleep if
    /// `flags` say so.
    pub(crate) fn fill(&mut self, flags: Flags) -> Result<(), AllocError> {
        let nothing = Pieces {
            ranges: KVec::new(),
            accounts: KVec::new(),
            more: None,
        };
        let pieces = match self.pieces.take() {
            Some(pieces) => pieces,
            None => KBox::new(nothing, flags)?,
        };
        let pieces = self.pieces.insert(pieces);
        while pieces.ranges.len() < self.ranges as usize {
            pieces.ranges.push(RangeNodes::new(flags)?, flags)?;
        }
        while pieces.accounts.len() < self.accounts as usize {
            let node = AccountNode::new(flags).map_err(|_| AllocError)?;
            pieces.accounts.push(node, flags)?;
        }
        if self.is_more_missing && pieces.more.is_none() {
            pieces.more = Some(MoreRanges::new(flags)?);
        }
        Ok(())
    }

    /// Checks that this number of nodes of ranges and of accounts was allocated. Otherwise notes
    /// that the caller has to allocate them, and fails with [`ReserveError::NeedSpare`].
    pub(super) fn require(&mut self, ranges: usize, accounts: usize) -> Result<(), ReserveError> {
        let is_enough = self.pieces.as_ref().is_some_and(|pieces| {
            pieces.ranges.len() >= ranges && pieces.accounts.len() >= accounts
        });
        if is_enough {
            return Ok(());
        }
        // CAST: not many more than the entries of an array.
        self.ranges = ranges as u32;
        self.accounts = accounts as u32;
        self.is_more_missing = false;
        Err(ReserveError::NeedSpare)
    }

    /// Takes the nodes of a range. Fails like [`Self::require`].
    pub(super) fn take_range(&mut self) -> Result<RangeNodes<T>, ReserveError> {
        self.require(1, 0)?;
        let nodes = self.pieces.as_mut().and_then(|pieces| pieces.ranges.pop());
        nodes.ok_or(ReserveError::NeedSpare)
    }

    /// Takes the node of an account. Fails like [`Self::require`].
    pub(super) fn take_account(&mut self) -> Result<AccountNode, ReserveError> {
        self.require(0, 1)?;
        let node = self
            .pieces
            .as_mut()
            .and_then(|pieces| pieces.accounts.pop());
        node.ok_or(ReserveError::NeedSpare)
    }

    /// Takes the [`MoreRanges`]. Fails like [`Self::require`].
    pub(super) fn take_more(&mut self) -> Result<KBox<MoreRanges<T, FEW_RANGES>>, ReserveError> {
        let pieces = self.pieces.as_mut();
        let more = pieces.and_then(|pieces| pieces.more.take());
        if more.is_none() {
            self.ranges = 0;
            self.accounts = 0;
            self.is_more_missing = true;
        }
        more.ok_or(ReserveError::NeedSpare)
    }
}

/// Memory that is not needed any more after a range was freed: to be dropped after the lock is
/// released.
#[must_use = "drop it after the lock is released"]
pub(crate) struct UnusedMemory<T>(pub(super) Option<Scraps<T>>);

/// Memory that is kept only to be dropped.
pub(super) struct Scraps<T> {
    pub(super) range: Option<RangeNodes<T>>,
    pub(super) account: Option<AccountNode>,
    pub(super) tree: Option<Tree<T>>,
}

impl<T> Scraps<T> {
    pub(super) fn unless_empty(self) -> Option<Self> {
        let is_some = self.range.is_some() || self.account.is_some() || self.tree.is_some();
        is_some.then_some(self)
    }
}

impl<T> UnusedMemory<T> {
    /// Whether dropping it frees any memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Drops it. Nearly always it is empty, and the compiler would call a function to find that
    /// out.
    #[inline]
    pub(crate) fn discard(self) {
        #[cold]
        fn free<T>(_: Scraps<T>) {}
        if let Some(scraps) = self.0 {
            free(scraps);
        }
    }
}
