// SPDX-License-Identifier: GPL-2.0

//! A backend for many ranges, kept in red-black trees.
//!
//! The space is divided completely: each byte belongs to exactly one chunk, which is free or in
//! use, and no two free chunks are neighbours. `chunks` finds a chunk by its offset, `gaps` finds
//! the free ones by their size.
//!
//! ```text
//!   chunks   │ 0: in use │ 24: free │ 64: in use │ 80: in use │ 96: free              │
//!                              ▲                                   ▲
//!   gaps              (40, 24) ┘                       (4000, 96) ─┘
//! ```
//!
//! A free chunk needs a node in each tree. So that freeing never allocates, a chunk in use keeps
//! the node for `gaps` (`pocket`): a chunk has one [`Pair`] of nodes at any time.

use super::accounts::{AccountNode, Accounts, Holding};
use super::{Array, Claim, Label, Phase, Range, ReserveError, Spare, State};
use kernel::alloc::{AllocError, Flags};
use kernel::rbtree::{RBTree, RBTreeNodeReservation};

/// How many pairs are kept for the next requests, and allocated when none is left.
const IDLE_PAIRS: usize = 4;

/// Size and offset of a free chunk: the best fit is the first key that is not less than `(size,
/// 0)`, and therefore the lowest of the smallest.
type GapKey = (u32, u32);

/// The memory of a node in `gaps`, while it is not in that tree.
type GapNode = RBTreeNodeReservation<GapKey, ()>;

struct Chunk<T> {
    size: u32,
    usage: Usage<T>,
}

enum Usage<T> {
    Free,
    Used {
        oneway_sender: Option<i32>,
        label: Label,
        state: State<T>,
        pocket: GapNode,
    },
}

impl<T> Chunk<T> {
    /// Returns the range that the chunk is, if it is in use.
    fn as_range(&self, offset: u32) -> Option<Range<'_, T>> {
        match &self.usage {
            Usage::Used {
                oneway_sender,
                label,
                state,
                ..
            } => Some(Range {
                offset: offset as usize,
                size: self.size as usize,
                oneway_sender: *oneway_sender,
                label: *label,
                state,
            }),
            Usage::Free => None,
        }
    }
}

/// The memory that describes one chunk.
pub(super) struct Pair<T> {
    chunk: RBTreeNodeReservation<u32, Chunk<T>>,
    gap: GapNode,
}

impl<T> Pair<T> {
    pub(super) fn new(flags: Flags) -> Result<Self, AllocError> {
        let chunk = RBTreeNodeReservation::new(flags).map_err(|_| AllocError)?;
        let gap = RBTreeNodeReservation::new(flags).map_err(|_| AllocError)?;
        Ok(Pair { chunk, gap })
    }
}

/// The pairs of up to two chunks that were merged with a third.
type Merged<T> = [Option<Pair<T>>; 2];

/// Memory that describes nothing any more and is not kept: it is returned only to be dropped.
pub(super) struct Superfluous<T> {
    pairs: Option<Merged<T>>,
    account: Option<AccountNode>,
}

impl<T> Superfluous<T> {
    fn unless_empty(self) -> Option<Self> {
        (self.pairs.is_some() || self.account.is_some()).then_some(self)
    }
}

/// The space as chunks.
///
/// # Invariants
///
/// - The chunks cover the space, do not overlap, and none is empty.
/// - `gaps` contains `(size, offset)` for the free chunks and nothing else.
/// - No free chunk follows another.
/// - `used` is the number of chunks in use, and `accounts` are those of the oneway chunks.
pub(super) struct Tree<T> {
    chunks: RBTree<u32, Chunk<T>>,
    gaps: RBTree<GapKey, ()>,
    used: usize,
    accounts: Accounts,
    idle: [Option<Pair<T>>; IDLE_PAIRS],
}

impl<T> Tree<T> {
    /// Makes a tree of all ranges of an array, which is empty afterwards. Fails with
    /// [`ReserveError::NeedSpare`], and changes nothing then.
    pub(super) fn plant<const N: usize>(
        array: &mut Array<T, N>,
        space: u32,
        spare: &mut Spare<T, N>,
    ) -> Result<Self, ReserveError> {
        // A gap may precede each range, and one may follow them all. The last pair is for the range
        // that has no slot in the array. After this, nothing below fails.
        spare.require(2 * array.len() + 2, array.max_senders() + 1)?;
        let mut tree = Self {
            chunks: RBTree::new(),
            gaps: RBTree::new(),
            used: 0,
            accounts: Accounts::new(),
            idle: [const { None }; IDLE_PAIRS],
        };
        // From the highest offset to the lowest: the part that begins at `start` is done.
        let mut start = space;
        while let Some((offset, claim, state)) = array.pop() {
            let end = offset + claim.size;
            tree.insert_gap(end, start - end, spare)?;
            let Pair { chunk, gap } = spare.pop()?;
            let usage = Usage::Used {
                oneway_sender: claim.oneway_sender,
                label: claim.label,
                state,
                pocket: gap,
            };
            let size = claim.size;
            tree.chunks
                .insert(chunk.into_node(offset, Chunk { size, usage }));
            tree.used += 1;
            tree.accounts.add(claim, spare)?;
            start = offset;
        }
        tree.insert_gap(0, start, spare)?;
        Ok(tree)
    }

    /// Moves all ranges to an array, which has to be large enough. The tree must not be used
    /// afterwards.
    pub(super) fn fell<const N: usize>(&mut self, array: &mut Array<T, N>) {
        for (&offset, chunk) in self.chunks.iter_mut() {
            if let Usage::Used {
                oneway_sender,
                label,
                state,
                ..
            } = &mut chunk.usage
            {
                let claim = Claim {
                    size: chunk.size,
                    oneway_sender: *oneway_sender,
                    label: *label,
                };
                array.push(offset, claim, core::mem::replace(state, State::Freeing));
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Returns the number and the sum of the oneway ranges of a sender.
    pub(super) fn held_by(&self, sender: i32) -> Holding {
        self.accounts.of(sender)
    }

    /// Reserves the beginning of the best gap. Returns the offset.
    pub(super) fn reserve<const N: usize>(
        &mut self,
        claim: Claim,
        spare: &mut Spare<T, N>,
    ) -> Result<u32, ReserveError> {
        let gap = self.gaps.cursor_lower_bound_mut(&(claim.size, 0));
        let gap = gap.ok_or(ReserveError::NoSpace)?;
        let (&(room, offset), ()) = gap.current();

        // All that can fail is done first: a pair for the part of the gap that stays free, and an
        // account.
        let rest = room - claim.size;
        if rest > 0 {
            stock_up(&mut self.idle, spare)?;
        }
        self.accounts.add(claim, spare)?;

        let (_, node) = gap.remove_current();
        let chunk = self.chunks.get_mut(&offset);
        let chunk = chunk.ok_or(ReserveError::NoSpace)?;
        *chunk = Chunk {
            size: claim.size,
            usage: Usage::Used {
                oneway_sender: claim.oneway_sender,
                label: claim.label,
                state: State::Reserved,
                pocket: node.into_reservation(),
            },
        };
        self.used += 1;
        if rest > 0 {
            if let Some(pair) = self.idle.iter_mut().find_map(Option::take) {
                self.link_gap(offset + claim.size, rest, pair);
            }
        }
        Ok(offset)
    }

    /// Returns size and state of the range at exactly this offset.
    pub(super) fn get_mut(&mut self, offset: u32) -> Option<(u32, &mut State<T>)> {
        let chunk = self.chunks.get_mut(&offset)?;
        match &mut chunk.usage {
            Usage::Used { state, .. } => Some((chunk.size, state)),
            Usage::Free => None,
        }
    }

    /// Frees the range at exactly this offset, which has to be in this phase.
    pub(super) fn remove(
        &mut self,
        offset: u32,
        phase: Phase,
    ) -> Option<(Claim, Option<Superfluous<T>>)> {
        let chunk = self.chunks.get_mut(&offset)?;
        match &chunk.usage {
            Usage::Used { state, .. } if state.phase() == phase => {}
            _ => return None,
        }
        let size = chunk.size;
        match core::mem::replace(&mut chunk.usage, Usage::Free) {
            Usage::Used {
                oneway_sender,
                label,
                pocket,
                ..
            } => {
                self.used -= 1;
                let claim = Claim {
                    size,
                    oneway_sender,
                    label,
                };
                let superfluous = Superfluous {
                    account: self.accounts.remove(claim),
                    pairs: self.merge(offset, size, pocket),
                };
                Some((claim, superfluous.unless_empty()))
            }
            Usage::Free => None,
        }
    }

    /// Merges the chunk at `offset`, which has just become free, with its free neighbours. `pocket`
    /// is the node for `gaps` that the chunk kept while it was in use. Returns the pairs that are
    /// not needed any more.
    fn merge(&mut self, offset: u32, size: u32, pocket: GapNode) -> Option<Merged<T>> {
        let mut merged = (size, offset);
        let mut node = pocket;
        let mut superfluous = [None, None];
        let mut chunk = self.chunks.cursor_lower_bound_mut(&offset)?;

        if let Some(next) = free_key(chunk.peek_next()) {
            let gap = self.gaps.remove_node(&next)?.into_reservation();
            let absorbed = chunk.remove_next()?.into_reservation();
            superfluous[0] = Some(Pair {
                chunk: absorbed,
                gap,
            });
            merged.0 += next.0;
        }
        if let Some(previous) = free_key(chunk.peek_prev()) {
            let gap = core::mem::replace(
                &mut node,
                self.gaps.remove_node(&previous)?.into_reservation(),
            );
            merged = (merged.0 + previous.0, previous.1);
            chunk.peek_prev_mut()?.1.size = merged.0;
            let (_, absorbed) = chunk.remove_current();
            superfluous[1] = Some(Pair {
                chunk: absorbed.into_reservation(),
                gap,
            });
        } else {
            chunk.current_mut().1.size = merged.0;
        }
        self.gaps.insert(node.into_node(merged, ()));
        self.keep_idle(superfluous)
    }

    /// Keeps pairs for the next requests, and returns the others.
    fn keep_idle(&mut self, mut pairs: Merged<T>) -> Option<Merged<T>> {
        for pair in &mut pairs {
            if let Some(place) = self.idle.iter_mut().find(|place| place.is_none()) {
                *place = pair.take();
            }
        }
        pairs.iter().any(Option::is_some).then_some(pairs)
    }

    /// Whether any range has a byte in `start..end`.
    pub(super) fn touches(&self, start: u32, end: u32) -> bool {
        // Checks the chunk that begins before `start`, the one that does not, and the one after it:
        // no two free chunks are neighbours, so one of the last two is in use.
        let meets = |chunk: Option<(&u32, &Chunk<T>)>| {
            chunk.is_some_and(|(&offset, chunk)| {
                matches!(chunk.usage, Usage::Used { .. })
                    && offset < end
                    && offset + chunk.size > start
            })
        };
        match self.chunks.cursor_lower_bound(&start) {
            Some(at) => meets(at.peek_prev()) || meets(Some(at.current())) || meets(at.peek_next()),
            None => meets(self.chunks.cursor_back().as_ref().map(|at| at.current())),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<'_, T>> {
        self.chunks
            .iter()
            .filter_map(|(&offset, chunk)| chunk.as_range(offset))
    }

    /// Returns the first range that does not begin before `offset`.
    pub(super) fn first_from(&self, offset: u32) -> Option<Range<'_, T>> {
        let at = self.chunks.cursor_lower_bound(&offset)?;
        let is_in_use = |(_, chunk): &(&u32, &Chunk<T>)| matches!(chunk.usage, Usage::Used { .. });
        // No free chunk follows another.
        let first = Some(at.current()).filter(is_in_use);
        let (&offset, _) = first.or_else(|| at.peek_next().filter(is_in_use))?;
        self.chunks.get(&offset)?.as_range(offset)
    }

    /// Adds a free chunk, unless it would be empty.
    fn insert_gap<const N: usize>(
        &mut self,
        offset: u32,
        size: u32,
        spare: &mut Spare<T, N>,
    ) -> Result<(), ReserveError> {
        if size > 0 {
            let pair = spare.pop()?;
            self.link_gap(offset, size, pair);
        }
        Ok(())
    }

    /// Inserts a free chunk into both trees.
    fn link_gap(&mut self, offset: u32, size: u32, pair: Pair<T>) {
        let free = Chunk {
            size,
            usage: Usage::Free,
        };
        self.chunks.insert(pair.chunk.into_node(offset, free));
        self.gaps.insert(pair.gap.into_node((size, offset), ()));
    }
}

/// Ensures that an idle pair exists. If many ranges are reserved one after the other, few calls
/// have to allocate.
fn stock_up<T, const N: usize>(
    idle: &mut [Option<Pair<T>>; IDLE_PAIRS],
    spare: &mut Spare<T, N>,
) -> Result<(), ReserveError> {
    if idle.iter().all(Option::is_none) {
        spare.require(IDLE_PAIRS, 0)?;
        for place in idle {
            *place = Some(spare.pop()?);
        }
    }
    Ok(())
}

/// Returns the key in `gaps` of a chunk, if the chunk exists and is free.
fn free_key<T>(chunk: Option<(&u32, &Chunk<T>)>) -> Option<GapKey> {
    match chunk? {
        (&offset, chunk) if matches!(chunk.usage, Usage::Free) => Some((chunk.size, offset)),
        _ => None,
    }
}
