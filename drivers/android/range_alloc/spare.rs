// SPDX-License-Identifier: GPL-2.0

//! The memory that is passed to an allocator and returned by it, so that it never allocates or
//! frees under its lock.

use super::accounts::AccountNode;
use super::tree::{Pair, Superfluous, Tree};
use super::{Books, ReserveError, FEW};
use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;

/// Books and descriptors for [`reserve`](super::RangeAllocator::reserve), allocated while the
/// allocator is not locked.
///
/// An empty one costs nothing, and nearly all calls leave it empty.
pub(crate) struct Spare<T, const FEW_RANGES: usize = FEW> {
    wanted: Wanted,
    found: Option<KBox<Found<T, FEW_RANGES>>>,
}

/// How many descriptors of each kind are missing, and whether books are.
struct Wanted {
    pairs: u32,
    accounts: u32,
    books: bool,
}

struct Found<T, const FEW_RANGES: usize> {
    pairs: KVec<Pair<T>>,
    accounts: KVec<AccountNode>,
    books: Option<KBox<Books<T, FEW_RANGES>>>,
}

impl<T, const FEW_RANGES: usize> Spare<T, FEW_RANGES> {
    /// Returns an empty spare.
    pub(crate) const fn new() -> Self {
        Self {
            wanted: Wanted::NOTHING,
            found: None,
        }
    }

    /// Allocates that for which the last [`ReserveError::NeedSpare`] was returned. May sleep if
    /// `flags` say so.
    pub(crate) fn fill(&mut self, flags: Flags) -> Result<(), AllocError> {
        let found = match self.found.take() {
            Some(found) => found,
            None => KBox::new(Found::NOTHING, flags)?,
        };
        let found = self.found.insert(found);
        while found.pairs.len() < self.wanted.pairs as usize {
            found.pairs.push(Pair::new(flags)?, flags)?;
        }
        while found.accounts.len() < self.wanted.accounts as usize {
            let node = AccountNode::new(flags).map_err(|_| AllocError)?;
            found.accounts.push(node, flags)?;
        }
        if self.wanted.books && found.books.is_none() {
            found.books = Some(Books::new(flags)?);
        }
        Ok(())
    }

    /// Checks that the spare has this number of descriptors of ranges and of accounts. Otherwise
    /// notes that the caller has to allocate them, and fails with [`ReserveError::NeedSpare`].
    pub(super) fn require(&mut self, pairs: usize, accounts: usize) -> Result<(), ReserveError> {
        let (pairs_found, accounts_found) = match &self.found {
            Some(found) => (found.pairs.len(), found.accounts.len()),
            None => (0, 0),
        };
        if pairs_found >= pairs && accounts_found >= accounts {
            return Ok(());
        }
        // CAST: not many more than the entries of an array.
        self.wanted = Wanted {
            pairs: pairs as u32,
            accounts: accounts as u32,
            books: false,
        };
        Err(ReserveError::NeedSpare)
    }

    /// Takes the descriptor of a range. Fails like [`Self::require`].
    pub(super) fn pop(&mut self) -> Result<Pair<T>, ReserveError> {
        self.require(1, 0)?;
        let found = self.found.as_mut();
        let pair = found.and_then(|found| found.pairs.pop());
        pair.ok_or(ReserveError::NeedSpare)
    }

    /// Takes the descriptor of an account. Fails like [`Self::require`].
    pub(super) fn pop_account(&mut self) -> Result<AccountNode, ReserveError> {
        self.require(0, 1)?;
        let found = self.found.as_mut();
        let account = found.and_then(|found| found.accounts.pop());
        account.ok_or(ReserveError::NeedSpare)
    }

    /// Takes the books. Fails like [`Self::require`].
    pub(super) fn pop_books(&mut self) -> Result<KBox<Books<T, FEW_RANGES>>, ReserveError> {
        let found = self.found.as_mut();
        let books = found.and_then(|found| found.books.take());
        if books.is_none() {
            self.wanted = Wanted {
                books: true,
                ..Wanted::NOTHING
            };
        }
        books.ok_or(ReserveError::NeedSpare)
    }
}

impl Wanted {
    const NOTHING: Self = Self {
        pairs: 0,
        accounts: 0,
        books: false,
    };
}

impl<T, const FEW_RANGES: usize> Found<T, FEW_RANGES> {
    const NOTHING: Self = Self {
        pairs: KVec::new(),
        accounts: KVec::new(),
        books: None,
    };
}

/// Memory that is not needed any more after a range was freed: to be dropped after the lock is
/// released.
#[must_use = "drop it after the lock is released"]
pub(crate) struct Leftover<T> {
    pub(super) scraps: Option<Scraps<T>>,
}

impl<T> Leftover<T> {
    /// Whether dropping it frees any memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.scraps.is_none()
    }

    /// Drops it. Nearly always it is empty, and the compiler would call a function to find that
    /// out.
    #[inline]
    pub(crate) fn discard(self) {
        match self.scraps {
            None => {}
            Some(scraps) => scraps.free(),
        }
    }
}

/// Memory that is kept only to be dropped.
#[expect(dead_code)]
pub(super) struct Scraps<T> {
    pairs: Option<Superfluous<T>>,
    tree: Option<Tree<T>>,
}

impl<T> Scraps<T> {
    pub(super) fn unless_empty(
        pairs: Option<Superfluous<T>>,
        tree: Option<Tree<T>>,
    ) -> Option<Self> {
        (pairs.is_some() || tree.is_some()).then_some(Self { pairs, tree })
    }

    #[cold]
    fn free(self) {}
}
