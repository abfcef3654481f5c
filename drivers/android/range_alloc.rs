// SPDX-License-Identifier: GPL-2.0

//! Which ranges of a receiver's buffer space are in use.
//!
//! A receiver maps one space, and each transaction that is sent to it lives in a range of that
//! space from the moment the sender reserves it until the receiver frees it:
//!
//! ```text
//!            reserve              deliver                take               release
//!   free ──────────────► Reserved ────────► Delivered(T) ────► Freeing ──────────────► free
//!     ▲                     │
//!     └───────── abort ─────┘
//! ```
//!
//! - *Reserved*: a sender is filling the range. Nobody else may touch it.
//! - *Delivered*: the receiver knows the address and may free the range whenever it likes. The
//!   payload `T` says what has to be undone then.
//! - *Freeing*: one thread has taken the payload out and is undoing it. A second attempt to free
//!   the same range finds nothing to take, however closely the two race.
//!
//! # What this room does not do
//!
//! It takes no lock and allocates no memory: the caller holds a spinlock around each call. Where
//! descriptors are needed, [`RangeAllocator::reserve`] answers [`ReserveError::NeedSpare`], the
//! caller drops its lock, lets [`Spare::fill`] allocate, and asks again. What becomes superfluous
//! when ranges are freed is handed out as a [`Leftover`], to be dropped once the lock is gone.
//!
//! # Two ways to keep the books
//!
//! While at most `FEW` ranges are in use they are kept in [`mod@array`], in the allocator itself,
//! which never needs a descriptor. Beyond that they move to [`tree`]. Both give the smallest gap
//! that is large enough, and among equals the lowest, so nobody can tell from the offsets which of
//! the two is in use.

#[path = "range_alloc/accounts.rs"]
mod accounts;
#[path = "range_alloc/array.rs"]
mod array;
#[path = "range_alloc/spare.rs"]
mod spare;
#[path = "range_alloc/tree.rs"]
mod tree;

use accounts::Holding;
use array::Array;
use spare::Scraps;
pub(crate) use spare::{Leftover, Spare};
use tree::Tree;

/// Offsets and sizes of ranges are multiples of this: the kernel's pointer size.
const GRANULE: u32 = size_of::<usize>() as u32;

/// A sender with more oneway ranges than this is suspected of spamming (when space is low).
const SPAM_RANGES: usize = 50;

/// How many ranges are kept without descriptors, unless the user of the type says otherwise.
///
/// A pool of threads that serves synchronous calls keeps about one range a thread in use, and the
/// usual limit of such a pool is 15. Oneway calls come in bursts of some dozens, of each of which the
/// tree would need two allocations. A place costs a process some 50 bytes, and with so many the books of one are
/// just below 2 KiB, beyond which the kernel's allocator would round them up to 4.
pub(crate) const FEW: usize = 35;

/// Who waits for the contents of a range, and therefore which budget pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The sender waits for a reply. Such calls may use the whole space.
    Sync,
    /// Nobody waits. All oneway calls together may use half of the space.
    Oneway {
        /// The sending process, by which oneway ranges are counted.
        sender: i32,
        /// How much of that half all calls of this sender may use, in percent; 0 if all of it.
        quota: u8,
    },
}

/// A range that was just reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Where it begins, relative to the start of the space.
    pub(crate) offset: usize,
    /// How long it is: the size that was asked for, rounded up.
    pub(crate) size: usize,
    /// The receiver is low on oneway space and this sender holds much of it.
    ///
    /// Told once, then not again until there is enough space.
    pub(crate) oneway_spam_suspect: bool,
}

/// Why no range was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReserveError {
    /// No gap is large enough, or the oneway budget or the sender's part of it is exhausted.
    NoSpace,
    /// The caller has to drop its lock, fill its [`Spare`], and try again.
    NeedSpare,
}

/// There is no range at this offset that is in the state which the call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongState;

/// What a range in use is at the moment. See the module's drawing.
#[derive(Debug)]
pub(crate) enum State<T> {
    /// A sender fills it.
    Reserved,
    /// The receiver may free it.
    Delivered(T),
    /// One thread is freeing it.
    Freeing,
}

impl<T> State<T> {
    fn phase(&self) -> Phase {
        match self {
            State::Reserved => Phase::Reserved,
            State::Delivered(_) => Phase::Delivered,
            State::Freeing => Phase::Freeing,
        }
    }

    /// Reserved becomes delivered. Gives the payload back if the range is not reserved.
    fn deliver(&mut self, payload: T) -> Result<(), T> {
        match self {
            State::Reserved => {
                *self = State::Delivered(payload);
                Ok(())
            }
            State::Delivered(_) | State::Freeing => Err(payload),
        }
    }

    /// Delivered becomes freeing, for whoever comes first.
    fn take(&mut self) -> Option<T> {
        if self.phase() != Phase::Delivered {
            return None;
        }
        match core::mem::replace(self, State::Freeing) {
            State::Delivered(payload) => Some(payload),
            State::Reserved | State::Freeing => None,
        }
    }
}

/// A [`State`] without its payload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reserved,
    Delivered,
    Freeing,
}

/// What is asked of a backend: how much, and which process is charged if the call is oneway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    size: u32,
    oneway_sender: Option<i32>,
}

/// A range in use, as shown by [`RangeAllocator::ranges`].
#[derive(Debug)]
pub(crate) struct Range<'a, T> {
    /// Where it begins, relative to the start of the space.
    pub(crate) offset: usize,
    /// How long it is.
    pub(crate) size: usize,
    /// The sending process, for a oneway call.
    pub(crate) oneway_sender: Option<i32>,
    /// What it is at the moment.
    pub(crate) state: &'a State<T>,
}

/// Keeps track of the ranges of one space.
///
/// Guarded by the lock that the caller puts around it; lives as long as the receiving process.
///
/// # Invariants
///
/// - The ranges in use do not overlap and lie within `0..size`.
/// - If `tree` is there, it knows all ranges and `array` is empty; otherwise `array` knows all.
/// - `oneway_free` is the oneway budget less the sizes of all oneway ranges in use.
pub(crate) struct RangeAllocator<T, const FEW_RANGES: usize = FEW> {
    array: Array<T, FEW_RANGES>,
    tree: Option<Tree<T>>,
    size: u32,
    oneway_free: u32,
    /// A spammer was reported, and space has been low ever since.
    spam_reported: bool,
    reach: Reach,
}

/// How far from the start of a space ranges were reserved, lately and before that.
///
/// The lowest gap is preferred, so this is what a steady use of the space keeps using. "Lately" is
/// since whoever asks for idle memory began to go round again: the [round](RangeAllocator::is_idle).
struct Reach {
    /// In this round.
    now: u32,
    /// In the round before.
    before: u32,
    round: u32,
}

impl Reach {
    const NOWHERE: Self = Reach {
        now: 0,
        before: 0,
        round: 0,
    };

    /// Whether what begins at `start` was beyond reach in `round` and the one before.
    fn is_beyond(&mut self, start: usize, round: u32) -> bool {
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

impl<T, const FEW_RANGES: usize> RangeAllocator<T, FEW_RANGES> {
    /// Manages a space of `size` bytes, of which none is in use. A size of 0 is a space that is
    /// not there yet.
    ///
    /// Of a space larger than 4 GiB, the rest stays unused.
    pub(crate) const fn new(size: usize) -> Self {
        let size = usable(size);
        Self {
            array: Array::new(),
            tree: None,
            size,
            oneway_free: size / 2,
            spam_reported: false,
            reach: Reach::NOWHERE,
        }
    }

    /// Sets the size of a space of which nothing is in use, normally when it gets mapped.
    ///
    /// The same as assigning a new allocator, without moving one.
    pub(crate) fn set_space(&mut self, size: usize) -> Result<(), WrongState> {
        if self.in_use() != 0 || self.tree.is_some() {
            return Err(WrongState);
        }
        self.size = usable(size);
        self.oneway_free = self.size / 2;
        self.spam_reported = false;
        Ok(())
    }

    /// Finds a range of at least `size` bytes and reserves it.
    pub(crate) fn reserve(
        &mut self,
        size: usize,
        kind: CallKind,
        spare: &mut Spare<T>,
    ) -> Result<Reserved, ReserveError> {
        let size = rounded(size).ok_or(ReserveError::NoSpace)?;
        let oneway_sender = match kind {
            CallKind::Sync => None,
            CallKind::Oneway { .. } if size > self.oneway_free => {
                return Err(ReserveError::NoSpace)
            }
            CallKind::Oneway { sender, quota } => {
                if quota != 0 && self.exceeds_quota(sender, quota, size) {
                    return Err(ReserveError::NoSpace);
                }
                Some(sender)
            }
        };
        let claim = Claim {
            size,
            oneway_sender,
        };

        let offset = if self.tree.is_some() {
            self.reserve_in_tree(claim, spare)?
        } else {
            let gap = self.array.best_gap(size, self.size);
            let gap = gap.ok_or(ReserveError::NoSpace)?;
            match self.array.insert(gap, claim) {
                Ok(offset) => offset,
                Err(array::Full) => self.reserve_in_tree(claim, spare)?,
            }
        };

        self.reach.now = self.reach.now.max(offset + size);
        Ok(Reserved {
            offset: offset as usize,
            size: size as usize,
            oneway_spam_suspect: match oneway_sender {
                Some(sender) => self.charge(sender, size),
                None => false,
            },
        })
    }

    /// The sender gives a reserved range back, for whatever reason it could not be delivered.
    pub(crate) fn abort(&mut self, offset: usize) -> Result<Leftover<T>, WrongState> {
        self.free(offset, Phase::Reserved)
    }

    /// From now on the receiver may free the range, and `payload` says what that undoes.
    ///
    /// Gives the payload back if there is no reserved range at `offset`.
    pub(crate) fn deliver(&mut self, offset: usize, payload: T) -> Result<(), T> {
        match self.state_mut(offset) {
            Some(state) => state.deliver(payload),
            None => Err(payload),
        }
    }

    /// The receiver frees the range that starts exactly at `offset`: gives its size and payload
    /// to the first who asks, and [`None`] to everyone else.
    ///
    /// The range stays in use until [`release`](Self::release).
    pub(crate) fn take(&mut self, offset: usize) -> Option<(usize, T)> {
        let offset = u32::try_from(offset).ok()?;
        let (size, state) = match &mut self.tree {
            None => self.array.get_mut(offset)?,
            Some(tree) => tree.get_mut(offset)?,
        };
        Some((size as usize, state.take()?))
    }

    /// All that the range's payload stood for has been undone: its space is free again.
    pub(crate) fn release(&mut self, offset: usize) -> Result<Leftover<T>, WrongState> {
        self.free(offset, Phase::Freeing)
    }

    /// The payload of the delivered range that starts exactly at `offset`.
    pub(crate) fn payload_mut(&mut self, offset: usize) -> Option<&mut T> {
        match self.state_mut(offset)? {
            State::Delivered(payload) => Some(payload),
            State::Reserved | State::Freeing => None,
        }
    }

    /// How many ranges are in use, in whatever state.
    pub(crate) fn in_use(&self) -> usize {
        self.array.len() + self.tree.as_ref().map_or(0, Tree::len)
    }

    /// How large the space is.
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// How much of the oneway budget is left.
    pub(crate) fn free_oneway_space(&self) -> usize {
        self.oneway_free as usize
    }

    /// Whether some range in use has a byte in `start..end`. If not, the memory behind it can go.
    pub(crate) fn touches(&self, start: usize, end: usize) -> bool {
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        match u32::try_from(start) {
            Ok(start) if start < end => match &self.tree {
                None => self.array.touches(start, end),
                Some(tree) => tree.touches(start, end),
            },
            _ => false,
        }
    }

    /// Whether the memory behind `start..end` can go: no range in use has a byte in it, and none was
    /// reserved that reached as far lately.
    ///
    /// Whoever asks goes round all of the space again and again, and says with another `round` that
    /// another time begins. "Lately" is in this round and the one before.
    pub(crate) fn is_idle(&mut self, start: usize, end: usize, round: u32) -> bool {
        self.reach.is_beyond(start, round) && !self.touches(start, end)
    }

    /// All ranges in use, by ascending offset.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<'_, T>> {
        // Not `.chain()`: the kernel's prelude has an `Init::chain` as well.
        Iterator::chain(self.array.iter(), self.tree.iter().flat_map(Tree::iter))
    }

    fn state_mut(&mut self, offset: usize) -> Option<&mut State<T>> {
        let offset = u32::try_from(offset).ok()?;
        let (_, state) = match &mut self.tree {
            None => self.array.get_mut(offset)?,
            Some(tree) => tree.get_mut(offset)?,
        };
        Some(state)
    }

    /// Frees the range at `offset`, which has to be in `phase`.
    #[inline]
    fn free(&mut self, offset: usize, phase: Phase) -> Result<Leftover<T>, WrongState> {
        let offset = u32::try_from(offset).map_err(|_| WrongState)?;
        if self.tree.is_some() {
            return self.free_in_tree(offset, phase);
        }
        let claim = self.array.remove(offset, phase).ok_or(WrongState)?;
        self.credit(claim);
        Ok(Leftover { scraps: None })
    }

    // The two that follow are apart from their callers so that those, which run for each
    // transaction, stay short.

    /// Reserves in the tree, and makes one of the array before if there is none.
    #[cold]
    fn reserve_in_tree(&mut self, claim: Claim, spare: &mut Spare<T>) -> Result<u32, ReserveError> {
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(Tree::plant(&mut self.array, self.size, spare)?),
        };
        tree.reserve(claim, spare)
    }

    #[cold]
    fn free_in_tree(&mut self, offset: u32, phase: Phase) -> Result<Leftover<T>, WrongState> {
        let tree = self.tree.as_mut().ok_or(WrongState)?;
        let (claim, superfluous) = tree.remove(offset, phase).ok_or(WrongState)?;
        // Going back only when far below the limit keeps a process that hovers around it from
        // building a tree again and again.
        let tree = if tree.len() > FEW_RANGES / 4 {
            None
        } else {
            self.fell_tree()
        };
        let scraps = Scraps::unless_empty(superfluous, tree);
        self.credit(claim);
        Ok(Leftover { scraps })
    }

    /// Moves all ranges from the tree to the array.
    fn fell_tree(&mut self) -> Option<Tree<T>> {
        let mut tree = self.tree.take()?;
        tree.fell(&mut self.array);
        Some(tree)
    }

    /// Gives back what [`charge`](Self::charge) took.
    fn credit(&mut self, claim: Claim) {
        if claim.oneway_sender.is_some() {
            self.oneway_free += claim.size;
        }
    }

    /// Pays for a oneway range that was just reserved; true if its sender should be reported.
    fn charge(&mut self, sender: i32, size: u32) -> bool {
        self.oneway_free -= size;
        if self.oneway_free >= self.size / 10 {
            self.spam_reported = false;
            return false;
        }
        // Whoever was found is found once.
        if self.spam_reported {
            return false;
        }
        let held = self.held_by(sender);
        self.spam_reported = held.ranges > SPAM_RANGES || held.bytes > self.size as usize / 4;
        self.spam_reported
    }

    /// Whether a sender would have more than its part of the oneway budget, with so much more.
    #[cold]
    fn exceeds_quota(&self, sender: i32, percent: u8, size: u32) -> bool {
        let quota = u64::from(self.size / 2) * u64::from(percent) / 100;
        let held = self.held_by(sender).bytes as u64;
        held + u64::from(size) > quota
    }

    /// What the oneway ranges of a sender amount to.
    fn held_by(&self, sender: i32) -> Holding {
        match &self.tree {
            None => self.array.held_by(sender),
            Some(tree) => tree.held_by(sender),
        }
    }
}

/// The part of a space that can be addressed and divided into granules.
const fn usable(size: usize) -> u32 {
    let size = if size > u32::MAX as usize {
        u32::MAX
    } else {
        size as u32
    };
    size - size % GRANULE
}

/// The size of the range that serves a request; an empty request gets an address of its own too.
fn rounded(size: usize) -> Option<u32> {
    u32::try_from(size)
        .ok()?
        .max(1)
        .checked_next_multiple_of(GRANULE)
}
