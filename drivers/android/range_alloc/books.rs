// SPDX-License-Identifier: GPL-2.0

//! Where the ranges are kept once there are more than the allocator itself has room for: in a
//! larger array, or, when that is full too, in a tree.

use super::accounts::Holding;
use super::spare::Scraps;
use super::{Array, Claim, Phase, Range, ReserveError, Spare, State, Tree};
use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;

/// All ranges of a space.
///
/// # Invariants
///
/// If `tree` exists, it has all ranges and `array` is empty; otherwise `array` has all ranges.
pub(super) struct Books<T, const FEW_RANGES: usize> {
    array: Array<T, FEW_RANGES>,
    tree: Option<Tree<T>>,
}

impl<T, const FEW_RANGES: usize> Books<T, FEW_RANGES> {
    const EMPTY: Self = Self {
        array: Array::new(),
        tree: None,
    };

    /// Allocates them, without ranges. May sleep if `flags` say so.
    pub(super) fn new(flags: Flags) -> Result<KBox<Self>, AllocError> {
        // Initialised in place: they are too large for the stack.
        Ok(KBox::new_uninit(flags)?.write(Self::EMPTY))
    }

    /// Moves all ranges here from a smaller array; there must be none here.
    pub(super) fn take_over<const N: usize>(&mut self, first: &mut Array<T, N>) {
        const { assert!(N <= FEW_RANGES, "all of them need a slot") };
        while let Some((offset, claim, state)) = first.pop() {
            self.array.push_front(offset, claim, state);
        }
    }

    /// Returns the number of ranges.
    pub(super) fn len(&self) -> usize {
        self.array.len() + self.tree.as_ref().map_or(0, Tree::len)
    }

    /// Reserves the beginning of the best gap for `size` bytes in a space of `space` bytes. Returns
    /// the offset. `claim` makes the claim.
    #[inline(always)]
    pub(super) fn reserve(
        &mut self,
        claim: impl Fn() -> Claim,
        size: u32,
        space: u32,
        spare: &mut Spare<T, FEW_RANGES>,
    ) -> Result<u32, ReserveError> {
        if self.tree.is_none() {
            let gap = self.array.best_gap(size, space);
            let gap = gap.ok_or(ReserveError::NoSpace)?;
            if let Ok(offset) = self.array.insert(gap, claim()) {
                return Ok(offset);
            }
        }
        self.reserve_in_tree(claim(), space, spare)
    }

    /// Reserves a range in the tree, which is made of the array first if it does not exist.
    #[cold]
    fn reserve_in_tree(
        &mut self,
        claim: Claim,
        space: u32,
        spare: &mut Spare<T, FEW_RANGES>,
    ) -> Result<u32, ReserveError> {
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(Tree::plant(&mut self.array, space, spare)?),
        };
        tree.reserve(claim, spare)
    }

    /// Whether the ranges are in the tree.
    #[inline]
    pub(super) fn is_tree(&self) -> bool {
        self.tree.is_some()
    }

    /// Returns size and state of the range at exactly this offset.
    #[inline]
    pub(super) fn get_mut(&mut self, offset: u32) -> Option<(u32, &mut State<T>)> {
        match &mut self.tree {
            None => self.array.get_mut(offset),
            Some(tree) => tree.get_mut(offset),
        }
    }

    /// Frees the range at exactly this offset, which has to be in this phase, and in the array.
    #[inline]
    pub(super) fn remove(&mut self, offset: u32, phase: Phase) -> Option<Claim> {
        self.array.remove(offset, phase)
    }

    /// Frees such a range in the tree. Returns it, and memory that is to be dropped after the lock
    /// is released.
    pub(super) fn remove_from_tree(
        &mut self,
        offset: u32,
        phase: Phase,
    ) -> Option<(Claim, Option<Scraps<T>>)> {
        let tree = self.tree.as_mut()?;
        let (claim, superfluous) = tree.remove(offset, phase)?;
        // The tree is kept until few ranges are left, so that a process whose number of ranges
        // changes around the limit does not make a tree again and again.
        let tree = if tree.len() > FEW_RANGES / 4 {
            None
        } else {
            self.fell_tree()
        };
        let scraps = Scraps::unless_empty(superfluous, tree);
        Some((claim, scraps))
    }

    /// Moves all ranges from the tree to the array. Returns the empty tree.
    fn fell_tree(&mut self) -> Option<Tree<T>> {
        let mut tree = self.tree.take()?;
        tree.fell(&mut self.array);
        Some(tree)
    }

    /// Returns the number and the sum of the oneway ranges of a sender.
    pub(super) fn held_by(&self, sender: i32) -> Holding {
        match &self.tree {
            None => self.array.held_by(sender),
            Some(tree) => tree.held_by(sender),
        }
    }

    /// Whether any range has a byte in `start..end`.
    pub(super) fn touches(&self, start: u32, end: u32) -> bool {
        match &self.tree {
            None => self.array.touches(start, end),
            Some(tree) => tree.touches(start, end),
        }
    }

    /// Returns all ranges, by ascending offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<'_, T>> {
        // Not `.chain()`: the kernel's prelude has an `Init::chain` as well.
        Iterator::chain(self.array.iter(), self.tree.iter().flat_map(Tree::iter))
    }

    /// Returns the first range that does not begin before `offset`.
    pub(super) fn first_from(&self, offset: u32) -> Option<Range<'_, T>> {
        match &self.tree {
            None => self.array.first_from(offset),
            Some(tree) => tree.first_from(offset),
        }
    }
}
