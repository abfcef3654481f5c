// SPDX-License-Identifier: GPL-2.0

//! Items by their numbers, in a tree that grows and shrinks by one small piece of memory after the
//! other, so that nothing is ever copied to a larger place.
//!
//! The lowest pieces contain items, those above them contain other pieces:
//!
//! ```text
//!   number 37 = (0 · 16 + 9) · 4 + 1
//!
//!   level 2   [ 0 1 2 … 15 ]        16 pieces, each for 64 items
//!               │
//!   level 1   [ 0 … 9 … 15 ]        16 pieces, each for 4 items
//!                   │
//!   level 0   [ 0 1 2 3 ]           4 items
//!                 ▲
//! ```
//!
//! A tree has as many levels as its highest number needs, so a step to an item is one of seven at
//! most, and one of four for 16384 items. An item can be marked as full. A piece says which of
//! those below it exist, and which are full, themselves or with all that is below them: the first
//! item that is not full is found by these bits, level by level.
//!
//! The tree takes no lock and neither allocates nor frees: pieces are [allocated](Pieces::allocate)
//! beforehand, and those that have nothing below them any more are given to the caller.

use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;

/// The number of items in a piece of the lowest level.
const ITEMS: usize = 4;

/// The number of pieces in a piece of any other level.
const PIECES: usize = 16;

/// The most levels that a tree can have.
#[allow(dead_code)] // Rust 1.85 does not see uses in assertions.
const MOST_LEVELS: u32 = 7;

/// The number of items that there can be, whose numbers begin with 0.
#[allow(dead_code)] // As above.
pub(crate) const NUMBERS: usize = 1 << bits_below(MOST_LEVELS);

/// Items by their numbers.
///
/// Guarded by the lock of the caller.
///
/// # Invariants
///
/// - `root` is at the highest of `height` levels; there is none if there are none. It has something
///   below it at another place than the first, or is the only level.
/// - The bits of `present` of a piece are those of what exists below it, at least one.
/// - The bits of `full` are those of items that are marked as full, and of pieces for which all
///   bits of `full` that their level has are set.
pub(crate) struct RadixTree<T> {
    root: Option<KBox<Piece<T>>>,
    height: u32,
}

/// A piece of memory of a tree.
struct Piece<T> {
    present: u16,
    full: u16,
    below: Below<T>,
    /// Of a piece in [`Pieces`]: the next one.
    next: Option<KBox<Piece<T>>>,
}

#[allow(clippy::large_enum_variant)] // In the kernel, both are equally large.
enum Below<T> {
    Items([Option<T>; ITEMS]),
    Pieces([Option<KBox<Piece<T>>>; PIECES]),
}

/// Pieces that are in no tree, and have nothing below them.
pub(crate) struct Pieces<T> {
    first: Option<KBox<Piece<T>>>,
    len: usize,
}

impl<T> RadixTree<T> {
    /// How large a piece is.
    #[allow(dead_code)] // Rust 1.85 does not see uses in assertions.
    pub(crate) const PIECE_BYTES: usize = size_of::<Piece<T>>();

    /// Returns an empty tree, which has no memory of its own.
    pub(crate) const fn new() -> Self {
        Self {
            root: None,
            height: 0,
        }
    }

    /// Returns the item of this number.
    #[inline(never)] // It would be in all callers that look into something else first.
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        if number >= self.capacity() {
            return None;
        }
        let mut piece = self.root.as_deref()?;
        let mut way = Way::to(number, self.height);
        loop {
            match &piece.below {
                Below::Items(items) => return items[number % ITEMS].as_ref(),
                Below::Pieces(pieces) => piece = pieces[way.step()].as_deref()?,
            }
        }
    }

    /// Returns the item of this number.
    #[inline(never)] // As above.
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        if number >= self.capacity() {
            return None;
        }
        let mut piece = self.root.as_deref_mut()?;
        let mut way = Way::to(number, self.height);
        loop {
            match &mut piece.below {
                Below::Items(items) => return items[number % ITEMS].as_mut(),
                Below::Pieces(pieces) => piece = pieces[way.step()].as_deref_mut()?,
            }
        }
    }

    /// Returns the number of items for which the levels suffice.
    #[inline]
    fn capacity(&self) -> usize {
        match self.height {
            0 => 0,
            height => 1 << bits_below(height),
        }
    }

    /// Returns the first number from `from` on that an item has.
    pub(crate) fn first_from(&self, from: usize) -> Option<usize> {
        let first = self.find_from(from, |piece| piece.present);
        (first < self.capacity()).then_some(first)
    }

    /// Returns the first number from `from` on whose item is not full or does not exist.
    pub(crate) fn first_not_full(&self, from: usize) -> usize {
        self.find_from(from, |piece| !piece.full)
    }

    /// Returns the first number from `from` on that is `wanted`: as long as that is not decided,
    /// the bits say what may be looked into. Returns a number above all levels if there is none.
    fn find_from(&self, from: usize, wanted: impl Fn(&Piece<T>) -> u16) -> usize {
        let mut at = from;
        // Where nothing is found below a piece this begins again behind that piece: it is as often
        // as there are levels at most, because what is chosen behind `from` has what is wanted.
        'behind: while at < self.capacity() {
            let mut level = self.height;
            let mut below = &self.root;
            while let Some(piece) = below {
                level -= 1;
                let slot = slot(at, level);
                let found = (wanted(piece) & !ones(slot)).trailing_zeros() as usize;
                if found >= slots(level) {
                    at = (at | ((1 << bits_below(level + 1)) - 1)) + 1;
                    continue 'behind;
                }
                if found > slot {
                    at &= !((1 << bits_below(level + 1)) - 1);
                    at |= found << bits_below(level);
                }
                match &piece.below {
                    Below::Items(_) => break,
                    Below::Pieces(pieces) => below = &pieces[found],
                }
            }
            break;
        }
        at
    }

    /// Returns how many pieces an item of this number lacks.
    pub(crate) fn missing(&self, number: usize) -> usize {
        let height = levels_for(number);
        if height > self.height {
            // All of them below the root are missing, too, because whatever there is stands at the
            // first place of each new level.
            let above = if self.root.is_none() {
                0
            } else {
                height - self.height
            };
            return (above + height - u32::from(above > 0)) as usize;
        }
        let mut level = self.height;
        let mut below = &self.root;
        while let Some(piece) = below {
            level -= 1;
            match &piece.below {
                Below::Items(_) => return 0,
                Below::Pieces(pieces) => below = &pieces[slot(number, level)],
            }
        }
        level as usize
    }

    /// Adds an item, which is not full, with pieces of `unused`: as many as are
    /// [missing](Self::missing). Returns nothing, and drops the item, if there are fewer.
    pub(crate) fn insert(
        &mut self,
        number: usize,
        item: T,
        unused: &mut Pieces<T>,
    ) -> Option<&mut T> {
        if self.missing(number) > unused.len {
            return None;
        }
        self.grow(levels_for(number), unused)?;
        let mut level = self.height;
        let mut piece = self.root.as_deref_mut()?;
        loop {
            level -= 1;
            let slot = slot(number, level);
            piece.present |= 1 << slot;
            match &mut piece.below {
                Below::Items(items) => return Some(items[slot].insert(item)),
                Below::Pieces(pieces) => {
                    let below = &mut pieces[slot];
                    if below.is_none() {
                        *below = Some(unused.pop(level - 1)?);
                    }
                    piece = below.as_deref_mut()?;
                }
            }
        }
    }

    /// Makes the tree so high.
    fn grow(&mut self, height: u32, unused: &mut Pieces<T>) -> Option<()> {
        if self.root.is_none() {
            self.root = Some(unused.pop(height - 1)?);
            self.height = height;
        }
        while self.height < height {
            let mut root = unused.pop(self.height)?;
            let old = self.root.take()?;
            root.present = 1;
            root.full = u16::from(old.full == ones(slots(self.height - 1)));
            if let Below::Pieces(pieces) = &mut root.below {
                pieces[0] = Some(old);
            }
            self.root = Some(root);
            self.height += 1;
        }
        Some(())
    }

    /// Marks an item that exists as full, or as not full.
    pub(crate) fn set_full(&mut self, number: usize, is_full: bool) {
        // The levels below this one change: if the item becomes full, up to the lowest piece that
        // does not.
        let mut changes = self.height;
        if is_full {
            self.visit_way(number, |piece, level, bit| {
                if piece.full | bit != ones(slots(level)) {
                    changes = level + 1;
                }
            });
        }
        self.visit_way(number, |piece, level, bit| match is_full {
            true if level < changes => piece.full |= bit,
            true => {}
            false => piece.full &= !bit,
        });
    }

    /// Calls `each` with the pieces on the way from the root to an item, their levels, and the bit
    /// that the way has in each.
    fn visit_way(&mut self, number: usize, mut each: impl FnMut(&mut Piece<T>, u32, u16)) {
        let mut level = self.height;
        let mut below = &mut self.root;
        while let Some(piece) = below {
            level -= 1;
            let slot = slot(number, level);
            each(&mut *piece, level, 1 << slot);
            match &mut piece.below {
                Below::Items(_) => return,
                Below::Pieces(pieces) => below = &mut pieces[slot],
            }
        }
    }

    /// Removes an item. Adds the pieces that have nothing below them any more to `unused`.
    pub(crate) fn remove(&mut self, number: usize, unused: &mut Pieces<T>) -> Option<T> {
        let mut removed = None;
        // The lowest piece that has something else below it.
        let mut stays = None;
        self.get(number)?;
        self.visit_way(number, |piece, level, bit| {
            piece.full &= !bit;
            if piece.present != bit {
                stays = Some(level);
            }
            if let Below::Items(items) = &mut piece.below {
                removed = items[slot(number, 0)].take();
            }
        });
        let mut level = stays.unwrap_or(self.height);
        let mut below = None;
        match stays {
            None => below = self.root.take(),
            Some(stays) => self.visit_way(number, |piece, level, _| {
                if level == stays {
                    below = piece.take(slot(number, level));
                }
            }),
        }
        while let Some(mut piece) = below {
            level -= 1;
            below = piece.take(slot(number, level));
            unused.push(piece);
        }
        self.shrink(unused);
        removed
    }

    /// Removes the levels that nothing needs.
    fn shrink(&mut self, unused: &mut Pieces<T>) {
        if self.root.is_none() {
            self.height = 0;
        }
        while self.height > 1 {
            let below = match &mut self.root {
                Some(root) if root.present == 1 => root.take(0),
                _ => return,
            };
            if let Some(root) = core::mem::replace(&mut self.root, below) {
                unused.push(root);
            }
            self.height -= 1;
        }
    }
}

impl<T> Piece<T> {
    /// Takes out the piece at a place. What is at the place does not exist any more, also if it is
    /// an item.
    fn take(&mut self, slot: usize) -> Option<KBox<Self>> {
        self.present &= !(1 << slot);
        self.full &= !(1 << slot);
        match &mut self.below {
            Below::Items(_) => None,
            Below::Pieces(pieces) => pieces[slot].take(),
        }
    }
}

impl<T> Below<T> {
    /// Returns nothing, for a piece of this level.
    const fn nothing(level: u32) -> Self {
        match level {
            0 => Self::Items([const { None }; ITEMS]),
            _ => Self::Pieces([const { None }; PIECES]),
        }
    }
}

impl<T> Pieces<T> {
    /// Returns none.
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            len: 0,
        }
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Allocates another one. May sleep if `flags` say so.
    pub(crate) fn allocate(&mut self, flags: Flags) -> Result<(), AllocError> {
        let piece = Piece {
            present: 0,
            full: 0,
            below: Below::nothing(0),
            next: None,
        };
        self.push(KBox::new(piece, flags)?);
        Ok(())
    }

    /// Moves some of them to others.
    pub(crate) fn give(&mut self, count: usize, others: &mut Self) {
        for _ in 0..count {
            let Some(mut piece) = self.first.take() else {
                return;
            };
            self.first = piece.next.take();
            self.len -= 1;
            others.push(piece);
        }
    }

    fn push(&mut self, mut piece: KBox<Piece<T>>) {
        piece.next = self.first.take();
        self.first = Some(piece);
        self.len += 1;
    }

    /// Returns one for this level.
    fn pop(&mut self, level: u32) -> Option<KBox<Piece<T>>> {
        let mut piece = self.first.take()?;
        self.first = piece.next.take();
        self.len -= 1;
        piece.below = Below::nothing(level);
        Some(piece)
    }
}

/// The places on the way to an item, from the root on: what [`slot`] returns, in fewer
/// instructions.
struct Way {
    number: usize,
    shift: u32,
}

impl Way {
    #[inline(always)]
    fn to(number: usize, height: u32) -> Self {
        // What `bits_below` returns for the level of the root, if that is not the lowest.
        let shift = (height * PIECES.ilog2()).wrapping_sub(2 * PIECES.ilog2() - ITEMS.ilog2());
        Self { number, shift }
    }

    #[inline(always)]
    fn step(&mut self) -> usize {
        let slot = self.number.wrapping_shr(self.shift) % PIECES;
        self.shift = self.shift.wrapping_sub(PIECES.ilog2());
        slot
    }
}

/// Returns how many bits of a number decide between what is below a piece of the level `height -
/// 1`, which is the highest of so many.
const fn bits_below(height: u32) -> u32 {
    match height {
        0 => 0,
        _ => ITEMS.ilog2() + (height - 1) * PIECES.ilog2(),
    }
}

/// Returns how many levels a number needs.
fn levels_for(number: usize) -> u32 {
    match (number / ITEMS).checked_ilog2() {
        None => 1,
        Some(bits) => 2 + bits / PIECES.ilog2(),
    }
}

/// Returns how many places a piece of this level has.
#[inline]
fn slots(level: u32) -> usize {
    match level {
        0 => ITEMS,
        _ => PIECES,
    }
}

/// Returns the place of a number in a piece of this level.
#[inline]
fn slot(number: usize, level: u32) -> usize {
    match level {
        0 => number % ITEMS,
        _ => (number >> bits_below(level)) % PIECES,
    }
}

/// Returns as many set bits.
#[inline]
fn ones(count: usize) -> u16 {
    // CAST: There are 16 at most.
    ((1_u32 << count) - 1) as u16
}
