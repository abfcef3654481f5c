// SPDX-License-Identifier: GPL-2.0

//! What goes in and out of an allocator so that it never allocates or frees under its lock.

use super::tree::{Pair, Superfluous, Tree};
use super::ReserveError;
use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;

/// Descriptors for [`reserve`](super::RangeAllocator::reserve), allocated while the allocator is
/// not locked.
///
/// Making one costs nothing, and nearly all calls leave it empty.
pub(crate) struct Spare<T> {
    pairs: KVec<Pair<T>>,
    wanted: usize,
}

impl<T> Spare<T> {
    /// Without any descriptor.
    pub(crate) const fn new() -> Self {
        Self {
            pairs: KVec::new(),
            wanted: 0,
        }
    }

    /// Allocates what the last [`ReserveError::NeedSpare`] was about. May sleep if `flags` say so.
    pub(crate) fn fill(&mut self, flags: Flags) -> Result<(), AllocError> {
        while self.pairs.len() < self.wanted {
            self.pairs.push(Pair::new(flags)?, flags)?;
        }
        Ok(())
    }

    /// Makes sure that there are `count` descriptors, or notes that the caller should bring them.
    pub(super) fn require(&mut self, count: usize) -> Result<(), ReserveError> {
        if self.pairs.len() < count {
            self.wanted = count;
            return Err(ReserveError::NeedSpare);
        }
        Ok(())
    }

    /// One descriptor, or a note that the caller should bring one.
    pub(super) fn pop(&mut self) -> Result<Pair<T>, ReserveError> {
        self.pairs.pop().ok_or_else(|| {
            self.wanted = 1;
            ReserveError::NeedSpare
        })
    }
}

/// What freeing a range made superfluous: to be dropped after the lock.
#[must_use = "drop it when the lock is gone"]
pub(crate) struct Leftover<T> {
    pub(super) scraps: Option<Scraps<T>>,
}

impl<T> Leftover<T> {
    /// Whether dropping it will free any memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.scraps.is_none()
    }
}

/// Held only to be dropped.
#[expect(dead_code)]
pub(super) enum Scraps<T> {
    Pairs(Superfluous<T>),
    Tree(Tree<T>),
}
