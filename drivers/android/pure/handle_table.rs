// SPDX-License-Identifier: GPL-2.0

//! A table that maps handles to entries, and returns the lowest free handle for a new entry.
//!
//! User space reads small numbers, and expects the lowest free one, so that a table of its own
//! stays small too. Here a handle is an index into leaves of 64 entries:
//!
//! ```text
//!   handle 4100 = 64 · 64 + 4
//!
//!   first      leaf 0
//!   others     … [ leaf 63: full ] [ leaf 64: used ...010011, entries: 0 1 2 3 4 5 … 63 ]
//!                                                                      ▲
//! ```
//!
//! The first leaf, which most processes need and no other, is in the table itself. The others are
//! in a [`RadixTree`], which finds the first that is not full. Each operation takes a few steps for
//! each level of that tree, whose number grows with the logarithm of the handles, and no operation
//! copies entries.
//!
//! The table takes no lock and allocates nothing. When it has no room, [`HandleTable::lowest_free`]
//! notes the missing memory in a [`Spare`]. The caller releases its lock, calls [`Spare::fill`] to
//! allocate, and starts again from its first lookup: in the meantime, another thread may have done
//! the same work (lesson C11, trap 20 of the contract).

use super::radix_tree::{Pieces, RadixTree, NUMBERS};
use core::mem::{self, ManuallyDrop};
use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;

/// The number of entries in a leaf: the bits of a word.
const LEAF: usize = u64::BITS as usize;

/// The most pieces of the tree that are kept when they are not needed: as many as another leaf
/// takes in a table of fewer than 4160 handles.
const MOST_IDLE_PIECES: usize = 2;

// The tree has room for all leaves. This is computed so that it holds also if `usize` has 32 bits.
const _: () = assert!((NUMBERS as u64 + 1) * LEAF as u64 > u32::MAX as u64);

/// A table of handles and their entries.
///
/// Guarded by the lock of the caller; lives as long as the process that has the handles.
///
/// # Invariants
///
/// - `others` has the leaves behind the first one that have an entry in use, and the leaf whose
///   number is `n` has the number `n - 1` there. It is marked as full if all of its entries are in
///   use.
/// - A leaf without an entry in use has no memory.
/// - `len` is the number of entries in use.
pub(crate) struct HandleTable<R> {
    first: Leaf<R>,
    others: RadixTree<Leaf<R>>,
    len: usize,
    /// Entries of a leaf that became empty, kept for the next leaf that needs them.
    idle: Entries<R>,
    /// Pieces of the tree, likewise.
    idle_pieces: Pieces<Leaf<R>>,
}

/// Either empty or [`LEAF`] long. The table drops the entries that are in use; memory that is freed
/// has none.
type Entries<R> = KVec<ManuallyDrop<Option<R>>>;

struct Leaf<R> {
    used: u64,
    entries: Entries<R>,
}

impl<R> HandleTable<R> {
    /// How large the entries of a leaf are, and a piece of the tree of leaves.
    #[allow(dead_code)] // Rust 1.85 does not see uses in assertions.
    pub(crate) const BYTES: (usize, usize) = (
        LEAF * size_of::<ManuallyDrop<Option<R>>>(),
        RadixTree::<Leaf<R>>::PIECE_BYTES,
    );

    /// Returns an empty table, which has no memory of its own.
    pub(crate) const fn new() -> Self {
        Self {
            first: Leaf::EMPTY,
            others: RadixTree::new(),
            len: 0,
            idle: KVec::new(),
            idle_pieces: Pieces::new(),
        }
    }

    /// Returns the entry of a handle.
    pub(crate) fn get(&self, handle: u32) -> Option<&R> {
        let (leaf, entry) = position(handle);
        self.leaf(leaf)?.entries.get(entry)?.as_ref()
    }

    /// Returns the entry of a handle.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut R> {
        let (leaf, entry) = position(handle);
        self.leaf_mut(leaf)?.entries.get_mut(entry)?.as_mut()
    }

    #[inline]
    fn leaf(&self, at: usize) -> Option<&Leaf<R>> {
        match at.checked_sub(1) {
            None => Some(&self.first),
            Some(number) => self.others.get(number),
        }
    }

    #[inline]
    fn leaf_mut(&mut self, at: usize) -> Option<&mut Leaf<R>> {
        match at.checked_sub(1) {
            None => Some(&mut self.first),
            Some(number) => self.others.get_mut(number),
        }
    }

    /// Returns the lowest free handle that is not below `min`.
    ///
    /// Returns [`None`] if memory is missing: the caller releases its lock, fills `spare`, and
    /// starts again.
    pub(crate) fn lowest_free(&mut self, min: u32, spare: &mut Spare<R>) -> Option<Vacant<'_, R>> {
        let (at, entry, has_entries) = self.first_free(min);
        let Some(handle) = handle_at(at, entry) else {
            spare.wanted = Wanted::AnotherHandle;
            return None;
        };
        if !has_entries {
            self.take_room(at, spare)?;
        }
        Some(Vacant {
            table: self,
            handle,
            is_in_new_leaf: !has_entries,
        })
    }

    /// Returns leaf and entry of the lowest free handle that is not below `min`, and whether that
    /// leaf has memory.
    fn first_free(&self, min: u32) -> (usize, usize, bool) {
        let (mut at, mut low) = position(min);
        // Not more than three turns: the third leaf is chosen because it is not full.
        loop {
            let Some(leaf) = self.leaf(at) else {
                return (at, low, false);
            };
            let taken = leaf.used | below(low);
            if taken != u64::MAX {
                let entry = taken.trailing_ones() as usize;
                return (at, entry, !leaf.entries.is_empty());
            }
            at = self.others.first_not_full(at) + 1;
            low = 0;
        }
    }

    /// Makes sure that the table has what a leaf needs. Returns nothing, and notes it in `spare`,
    /// if that is not there.
    #[cold]
    fn take_room(&mut self, at: usize, spare: &mut Spare<R>) -> Option<()> {
        let pieces = at
            .checked_sub(1)
            .map_or(0, |number| self.others.missing(number));
        let pieces = pieces.saturating_sub(self.idle_pieces.len());
        let entries = self.idle.is_empty();
        if pieces == 0 && !entries {
            return Some(());
        }
        match &mut spare.room {
            Some(room) if room.has(pieces, entries) => {
                room.pieces.give(pieces, &mut self.idle_pieces);
                if entries {
                    mem::swap(&mut self.idle, &mut room.entries);
                }
                Some(())
            }
            _ => {
                spare.wanted = Wanted::Room { pieces, entries };
                None
            }
        }
    }

    /// Adds a leaf, for which the table has what it needs.
    fn add_leaf(&mut self, at: usize) {
        let entries = mem::take(&mut self.idle);
        match at.checked_sub(1) {
            None => discard(mem::replace(&mut self.first.entries, entries)),
            Some(number) => {
                let leaf = Leaf { used: 0, entries };
                self.others.insert(number, leaf, &mut self.idle_pieces);
            }
        }
    }

    /// Frees a handle and returns its entry. Always inlined, because the result is large and would
    /// be copied.
    #[inline(always)]
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Removed<R>> {
        let (at, entry) = position(handle);
        let leaf = self.leaf_mut(at)?;
        let value = leaf.entries.get_mut(entry)?.take()?;
        let used = leaf.used;
        leaf.used = used & !(1 << entry);
        self.len -= 1;
        let mut outgrown = None;
        if used == 1 << entry {
            outgrown = self.remove_leaf(at);
        } else if let (u64::MAX, Some(number)) = (used, at.checked_sub(1)) {
            self.others.set_full(number, false);
        }
        Some(Removed {
            value,
            _outgrown: outgrown,
        })
    }

    /// Removes a leaf without an entry in use. Returns memory that is not kept.
    fn remove_leaf(&mut self, at: usize) -> Option<Outgrown<R>> {
        let mut entries = match at.checked_sub(1) {
            None => mem::take(&mut self.first.entries),
            Some(number) => self.others.remove(number, &mut self.idle_pieces)?.entries,
        };
        mem::swap(&mut self.idle, &mut entries);
        let unneeded = self.idle_pieces.len().saturating_sub(MOST_IDLE_PIECES);
        if unneeded == 0 && entries.is_empty() {
            discard(entries);
            return None;
        }
        let mut pieces = Pieces::new();
        self.idle_pieces.give(unneeded, &mut pieces);
        Some(Outgrown {
            _entries: entries,
            _pieces: pieces,
        })
    }

    /// Returns the lowest handle in use, by which all handles can be removed one by one: each step
    /// takes as long as a look-up.
    pub(crate) fn first(&self) -> Option<u32> {
        let at = match self.first.used {
            0 => self.others.first_from(0)? + 1,
            _ => 0,
        };
        // By the type invariants the leaf has an entry in use.
        handle_at(at, self.leaf(at)?.used.trailing_zeros() as usize)
    }

    /// Returns handles in use that follow each other, the first from `from` on and the others of
    /// its leaf, in ascending order, with their entries; and the first handle of the next leaf.
    /// Nothing if no handle from `from` on is in use in another leaf than its own, and that one
    /// does not exist.
    pub(crate) fn leaf_from(&self, from: u32) -> Option<(impl Iterator<Item = (u32, &R)>, u64)> {
        let (mut at, mut first) = position(from);
        if at > 0 || self.first.used == 0 {
            let next = self.others.first_from(at.saturating_sub(1))? + 1;
            if next != at {
                (at, first) = (next, 0);
            }
        }
        let leaf = self.leaf(at)?;
        let start = (at * LEAF) as u64;
        let entries = leaf.entries.iter().enumerate().skip(first);
        let used = entries.filter_map(move |(entry, value)| {
            // CAST: There are at most `NUMBERS` leaves.
            Some(((at * LEAF + entry) as u32, value.as_ref()?))
        });
        Some((used, start + LEAF as u64))
    }

    /// Returns the number of handles in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether no handle is in use.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all handles in use, in ascending order, and their entries.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        let leaves = core::iter::successors(self.leaf_from(0), |(_, next)| {
            self.leaf_from(u32::try_from(*next).ok()?)
        });
        leaves.flat_map(|(used, _)| used)
    }
}

impl<R> Drop for HandleTable<R> {
    fn drop(&mut self) {
        while let Some(first) = self.first() {
            drop(self.remove(first));
        }
    }
}

/// What was removed from a table with a handle, to be dropped while the table is not locked.
pub(crate) struct Removed<R> {
    /// The entry of the handle.
    pub(crate) value: R,
    /// Memory of a leaf that became empty while other memory was idle already, if any. Freeing
    /// memory may take long: the kernel frees thousands of pages at once after many objects were
    /// freed.
    _outgrown: Option<Outgrown<R>>,
}

/// Memory that a table does not need.
struct Outgrown<R> {
    _entries: Entries<R>,
    _pieces: Pieces<Leaf<R>>,
}

/// A free handle, for whose entry the table has memory.
pub(crate) struct Vacant<'a, R> {
    table: &'a mut HandleTable<R>,
    handle: u32,
    is_in_new_leaf: bool,
}

impl<R> Vacant<'_, R> {
    /// Returns the handle.
    #[cfg(test)]
    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }

    /// Inserts `value` as the entry of the handle, and returns the handle.
    pub(crate) fn insert(self, value: R) -> u32 {
        let table = self.table;
        let (at, entry) = position(self.handle);
        if self.is_in_new_leaf {
            table.add_leaf(at);
        }
        // Exists: if it did not, it was just added.
        let Some(leaf) = table.leaf_mut(at) else {
            return self.handle;
        };
        // What was there is empty.
        leaf.entries[entry] = ManuallyDrop::new(Some(value));
        leaf.used |= 1 << entry;
        let is_full = leaf.used == u64::MAX;
        table.len += 1;
        if let (true, Some(number)) = (is_full, at.checked_sub(1)) {
            table.others.set_full(number, true);
        }
        self.handle
    }
}

/// Memory that a table lacks.
enum Wanted {
    Nothing,
    /// So many pieces of the tree, and the entries of a leaf if `entries`.
    Room {
        pieces: usize,
        entries: bool,
    },
    /// No memory helps: there is no handle above the highest one.
    AnotherHandle,
}

/// Memory that [`HandleTable::lowest_free`] needs, allocated while the table is not locked.
pub(crate) struct Spare<R> {
    wanted: Wanted,
    /// Usually [`None`]: dropping a vector takes a call of the allocator, even if the vector is
    /// empty.
    room: Option<Room<R>>,
}

struct Room<R> {
    pieces: Pieces<Leaf<R>>,
    entries: Entries<R>,
}

impl<R> Room<R> {
    /// Whether there are so many pieces, and entries if they are wanted.
    fn has(&self, pieces: usize, entries: bool) -> bool {
        self.pieces.len() >= pieces && (!entries || !self.entries.is_empty())
    }
}

impl<R> Spare<R> {
    /// Returns an empty spare, because no memory is known to be missing.
    pub(crate) const fn new() -> Self {
        Self {
            wanted: Wanted::Nothing,
            room: None,
        }
    }

    /// Allocates the memory that was missing. May sleep if `flags` say so. Fails also if all
    /// handles are in use.
    pub(crate) fn fill(&mut self, flags: Flags) -> Result<(), AllocError> {
        let (pieces, wants_entries) = match self.wanted {
            Wanted::Nothing => return Ok(()),
            Wanted::Room { pieces, entries } => (pieces, entries),
            Wanted::AnotherHandle => return Err(AllocError),
        };
        let room = self.room.get_or_insert(Room {
            pieces: Pieces::new(),
            entries: KVec::new(),
        });
        while room.pieces.len() < pieces {
            room.pieces.allocate(flags)?;
        }
        if wants_entries && room.entries.is_empty() {
            let mut entries = KVec::with_capacity(LEAF, flags)?;
            for _ in 0..LEAF {
                entries.push(ManuallyDrop::new(None), flags)?;
            }
            room.entries = entries;
        }
        Ok(())
    }
}

impl<R> Leaf<R> {
    const EMPTY: Self = Leaf {
        used: 0,
        entries: KVec::new(),
    };
}

/// Drops entries, without a call of the allocator if the vector is empty.
fn discard<R>(entries: Entries<R>) {
    if entries.capacity() == 0 {
        mem::forget(entries);
    }
}

/// Returns leaf and entry of a handle.
fn position(handle: u32) -> (usize, usize) {
    (handle as usize / LEAF, handle as usize % LEAF)
}

/// Returns the handle of an entry, if there are so many handles.
fn handle_at(at: usize, entry: usize) -> Option<u32> {
    u32::try_from(at.checked_mul(LEAF)?.checked_add(entry)?).ok()
}

/// Returns a word with all bits set below `bit`.
fn below(bit: usize) -> u64 {
    (1 << bit) - 1
}
