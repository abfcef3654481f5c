// SPDX-License-Identifier: GPL-2.0

//! Many ranges, kept in red-black trees.
//!
//! An entry of no size comes before all ranges, so each gap begins where an entry ends. `ranges`
//! finds a range by its [key](key_of), and `gaps` a gap by its size.
//!
//! ```text
//!           │ 0: in use │ 24: free │ 64: in use │ 80: in use │ 96: free              │
//!   ranges  0, 1                     65           81
//!   gaps           (40, 24)                                    (4000, 96)
//! ```
//!
//! Each entry has the memory of the gap behind it, so that freeing never allocates: a node of
//! `gaps`, or memory kept by the entry if there is no gap. The caller passes all other memory to
//! the allocator ([`SpareMemory`]) and receives it back ([`UnusedMemory`]). So the allocator never
//! allocates or frees under its lock.

use super::{Array, Claim, Holding, Label, MoreRanges, Range, ReserveError, State, FEW};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};

/// The number of ranges whose nodes are kept for the next requests, and allocated when none is
/// left. If many ranges are reserved one after the other, few calls have to allocate.
const IDLE_NODES: usize = 4;

/// Size and offset of a gap: the best fit is the first key that is not less than `(size, 0)`, and
/// therefore the lowest of the smallest.
type GapKey = (u32, u32);

/// The memory of a node in `gaps`, while it is not in that tree.
type GapNode = RBTreeNodeReservation<GapKey, ()>;

/// The memory of an account.
pub(super) type AccountNode = RBTreeNodeReservation<i32, Holding>;

/// The memory that describes one range and the gap behind it.
pub(super) struct RangeNodes<T> {
    range: RBTreeNodeReservation<u32, TreeRange<T>>,
    gap: GapNode,
}

struct TreeRange<T> {
    claim: Claim,
    state: State<T>,
    /// The memory of the gap behind the range, if there is no gap.
    gap: Option<GapNode>,
}

/// The key in `ranges` of the entry that comes before all ranges.
const FIRST_KEY: u32 = 0;

/// Returns the key of the range at `offset`. No range begins at the highest offset.
fn key_of(offset: u32) -> u32 {
    offset.saturating_add(1)
}

/// Returns where an entry begins; that with [`FIRST_KEY`] is at the start of the space.
fn offset_of(key: u32) -> u32 {
    key.saturating_sub(1)
}

/// All ranges of a space.
///
/// # Invariants
///
/// - `ranges` has an entry of no size with [`FIRST_KEY`], and one for each range. `len` is the
///   number of ranges. They do not overlap.
/// - `gaps` contains `(size, offset)` for each gap behind an entry, and nothing else.
/// - An entry keeps the memory of a gap if and only if no gap is behind it.
/// - Each sender of a oneway range has an account with the number and the sum of its ranges, and no
///   other account exists.
pub(super) struct Tree<T> {
    ranges: RBTree<u32, TreeRange<T>>,
    gaps: RBTree<GapKey, ()>,
    accounts: RBTree<i32, Holding>,
    len: usize,
    space: u32,
    idle: [Option<RangeNodes<T>>; IDLE_NODES],
    /// The memory of an account that was closed, for the next sender.
    idle_account: Option<AccountNode>,
}

impl<T> Tree<T> {
    /// Makes a tree of all ranges of an array, which is empty afterwards. Fails with
    /// [`ReserveError::NeedSpare`], and changes nothing then.
    pub(super) fn of_array<const N: usize>(
        array: &mut Array<T, N>,
        space: u32,
        spare: &mut SpareMemory<T, N>,
    ) -> Result<Self, ReserveError> {
        let is_oneway = |range: &Range<'_, T>| range.oneway_sender.is_some();
        let senders = array.iter().filter(is_oneway).count();
        // One more range is the entry without size. The rest is for the next step of `reserve`, for
        // the range that has no slot in the array. After this, nothing below fails.
        spare.require(array.len() + 1 + IDLE_NODES, senders + 1)?;
        let mut tree = Self {
            ranges: RBTree::new(),
            gaps: RBTree::new(),
            accounts: RBTree::new(),
            len: array.len(),
            space,
            idle: [const { None }; IDLE_NODES],
            idle_account: None,
        };
        // From the highest offset to the lowest: what begins at `next` is done.
        let mut next = space;
        while let Some((offset, claim, state)) = array.pop() {
            tree.charge(claim, spare)?;
            tree.add(key_of(offset), claim, state, next, spare.take_range()?);
            next = offset;
        }
        let nothing = Claim {
            size: 0,
            oneway_sender: None,
            label: Label::NONE,
        };
        tree.add(
            FIRST_KEY,
            nothing,
            State::Freeing,
            next,
            spare.take_range()?,
        );
        Ok(tree)
    }

    /// Moves all ranges to an array, which has to be large enough. The tree must not be used
    /// afterwards.
    pub(super) fn move_to<const N: usize>(&mut self, array: &mut Array<T, N>) {
        for (&key, entry) in self.ranges.iter_mut().skip(1) {
            let state = core::mem::replace(&mut entry.state, State::Freeing);
            if let Some(place) = array.insert(array.len(), offset_of(key), entry.claim) {
                *place = state;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number and the sum of the oneway ranges of a sender.
    pub(super) fn held_by(&self, sender: i32) -> Holding {
        self.accounts.get(&sender).copied().unwrap_or_default()
    }

    /// Reserves the beginning of the best gap. Returns the offset.
    pub(super) fn reserve<const N: usize>(
        &mut self,
        claim: Claim,
        spare: &mut SpareMemory<T, N>,
    ) -> Result<u32, ReserveError> {
        let best = self.gaps.cursor_lower_bound(&(claim.size, 0));
        let (room, offset) = *best.ok_or(ReserveError::NoSpace)?.current().0;

        // All that can fail is done first.
        if self.idle.iter().all(Option::is_none) {
            spare.require(IDLE_NODES, 0)?;
            for place in &mut self.idle {
                *place = Some(spare.take_range()?);
            }
        }
        self.charge(claim, spare)?;
        let nodes = self.idle.iter_mut().find_map(Option::take);
        let nodes = nodes.ok_or(ReserveError::NeedSpare)?;

        let gap = self.gaps.remove_node(&(room, offset));
        let key = key_of(offset);
        self.add(key, claim, State::Reserved, offset + room, nodes);
        self.len += 1;
        // No gap is behind the entry before any more.
        if let Some(mut at) = self.ranges.cursor_lower_bound_mut(&key) {
            if let Some((_, before)) = at.peek_prev_mut() {
                before.gap = gap.map(|node| node.into_reservation());
            }
        }
        Ok(offset)
    }

    /// Adds an entry, and the gap between its end and the next one, which begins at `next`.
    fn add(&mut self, key: u32, claim: Claim, state: State<T>, next: u32, nodes: RangeNodes<T>) {
        let end = offset_of(key) + claim.size;
        let gap = if end == next {
            Some(nodes.gap)
        } else {
            self.gaps.insert(nodes.gap.into_node((next - end, end), ()));
            None
        };
        let entry = TreeRange { claim, state, gap };
        self.ranges.insert(nodes.range.into_node(key, entry));
    }

    /// Returns size and state of the range at exactly this offset.
    pub(super) fn get_mut(&mut self, offset: u32) -> Option<(u32, &mut State<T>)> {
        let entry = self.ranges.get_mut(&key_of(offset))?;
        Some((entry.claim.size, &mut entry.state))
    }

    /// Frees the range at exactly this offset, unless it is delivered. Returns it, and memory that
    /// is not kept.
    pub(super) fn remove(&mut self, offset: u32) -> Option<(Claim, UnusedMemory<T>)> {
        let key = key_of(offset);
        let mut at = self.ranges.cursor_lower_bound_mut(&key)?;
        let (&found, entry) = at.current_mut();
        if found != key || matches!(entry.state, State::Delivered(_)) {
            return None;
        }
        let claim = entry.claim;
        let own_gap = entry.gap.take();
        let end = offset + claim.size;
        let next = at
            .peek_next()
            .map_or(self.space, |(&key, _)| offset_of(key));
        let (&key, before) = at.peek_prev_mut()?;
        let start = offset_of(key) + before.claim.size;

        // The gaps before and behind the range become one.
        let mut take = |kept: Option<GapNode>, gap: GapKey| match kept {
            Some(kept) => Some(kept),
            None => Some(self.gaps.remove_node(&gap)?.into_reservation()),
        };
        let own_gap = take(own_gap, (next - end, end))?;
        let gap = take(before.gap.take(), (offset - start, start))?;
        self.gaps.insert(gap.into_node((next - start, start), ()));

        let (_, range) = at.remove_current();
        self.len -= 1;
        let mut unused = UnusedMemory {
            range: Some(RangeNodes {
                range: range.into_reservation(),
                gap: own_gap,
            }),
            account: self.credit(claim),
            tree: None,
        };
        if let Some(place) = self.idle.iter_mut().find(|place| place.is_none()) {
            *place = unused.range.take();
        }
        Some((claim, unused))
    }

    /// Adds a range to the account of its sender. The range that opens an account needs its memory.
    fn charge<const N: usize>(
        &mut self,
        claim: Claim,
        spare: &mut SpareMemory<T, N>,
    ) -> Result<(), ReserveError> {
        let Some(sender) = claim.oneway_sender else {
            return Ok(());
        };
        let bytes = claim.size as usize;
        if let Some(held) = self.accounts.get_mut(&sender) {
            held.ranges += 1;
            held.bytes += bytes;
            return Ok(());
        }
        let node = match self.idle_account.take() {
            Some(node) => node,
            None => spare.take_account()?,
        };
        let held = Holding { ranges: 1, bytes };
        self.accounts.insert(node.into_node(sender, held));
        Ok(())
    }

    /// Removes a range from the account of its sender. Returns the memory of an account that is not
    /// needed.
    fn credit(&mut self, claim: Claim) -> Option<AccountNode> {
        let sender = claim.oneway_sender?;
        let held = self.accounts.get_mut(&sender)?;
        held.ranges -= 1;
        held.bytes -= claim.size as usize;
        if held.ranges > 0 {
            return None;
        }
        let node = self.accounts.remove_node(&sender)?.into_reservation();
        self.idle_account.replace(node)
    }

    /// Returns the first range that ends behind `start`.
    pub(super) fn first_behind(&self, start: u32) -> Option<Range<'_, T>> {
        let key = self.key_behind(start)?;
        let entry = self.ranges.get(&key)?;
        Some(Range::new(offset_of(key), entry.claim, &entry.state))
    }

    /// Returns the offset of that range, which takes half the time.
    pub(super) fn offset_behind(&self, start: usize) -> Option<usize> {
        let key = self.key_behind(u32::try_from(start).ok()?)?;
        Some(offset_of(key) as usize)
    }

    fn key_behind(&self, start: u32) -> Option<u32> {
        let begin = key_of(start);
        let reaches_it =
            |(&key, entry): (&u32, &TreeRange<T>)| (key + entry.claim.size > begin).then_some(key);
        match self.ranges.cursor_lower_bound(&begin) {
            Some(at) => {
                let before = at.peek_prev().and_then(reaches_it);
                Some(before.unwrap_or(*at.current().0))
            }
            None => reaches_it(self.ranges.cursor_back()?.current()),
        }
    }
}

/// Memory for [`reserve`](super::RangeAllocator::reserve), allocated while the allocator is not
/// locked.
pub(crate) struct SpareMemory<T, const FEW_RANGES: usize = FEW> {
    /// The number of nodes of ranges that are missing.
    ranges: u32,
    /// The number of nodes of accounts that are missing.
    accounts: u32,
    /// True if [`MoreRanges`] are missing.
    is_more_missing: bool,
    pieces: Option<Pieces<T, FEW_RANGES>>,
}

/// The memory that was allocated.
struct Pieces<T, const FEW_RANGES: usize> {
    ranges: KVec<RangeNodes<T>>,
    accounts: KVec<AccountNode>,
    more: Option<KBox<MoreRanges<T, FEW_RANGES>>>,
}

impl<T, const FEW_RANGES: usize> SpareMemory<T, FEW_RANGES> {
    /// No memory.
    pub(crate) const EMPTY: Self = Self {
        ranges: 0,
        accounts: 0,
        is_more_missing: false,
        pieces: None,
    };

    /// Allocates the memory for which the last [`ReserveError::NeedSpare`] was returned. Fails with
    /// `ENOMEM`. May sleep.
    pub(crate) fn fill(&mut self) -> Result {
        let pieces = self.pieces.get_or_insert_with(|| Pieces {
            ranges: KVec::new(),
            accounts: KVec::new(),
            more: None,
        });
        while pieces.ranges.len() < self.ranges as usize {
            let range = RBTreeNodeReservation::new(GFP_KERNEL)?;
            let gap = GapNode::new(GFP_KERNEL)?;
            let nodes = RangeNodes { range, gap };
            pieces.ranges.push(nodes, GFP_KERNEL)?;
        }
        while pieces.accounts.len() < self.accounts as usize {
            let node = AccountNode::new(GFP_KERNEL)?;
            pieces.accounts.push(node, GFP_KERNEL)?;
        }
        if self.is_more_missing && pieces.more.is_none() {
            // Initialised in place: it is too large for the stack.
            let more = KBox::new_uninit(GFP_KERNEL)?;
            pieces.more = Some(more.write(
                const {
                    MoreRanges {
                        array: Array::new(),
                        tree: None,
                    }
                },
            ));
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
        Err(ReserveError::NeedSpare)
    }

    /// Takes the nodes of a range, which were [required](Self::require).
    pub(super) fn take_range(&mut self) -> Result<RangeNodes<T>, ReserveError> {
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
        let more = self.pieces.as_mut().and_then(|pieces| pieces.more.take());
        self.is_more_missing = more.is_none();
        more.ok_or(ReserveError::NeedSpare)
    }
}

/// Memory that is not needed any more after a range was freed: to be dropped after the lock is
/// released.
#[must_use = "drop it after the lock is released"]
pub(crate) struct UnusedMemory<T> {
    pub(super) range: Option<RangeNodes<T>>,
    pub(super) account: Option<AccountNode>,
    pub(super) tree: Option<Tree<T>>,
}

impl<T> UnusedMemory<T> {
    /// Drops it.
    #[cold]
    pub(crate) fn free(self) {
        drop((self.range, self.account, self.tree));
    }
}
