// SPDX-License-Identifier: GPL-2.0

//! A table that maps handles to entries, and returns the lowest free handle for a new entry.
//!
//! User space reads small numbers, and expects the lowest free one, so that a table of its own
//! stays small too. Here a handle is an index into leaves of 64 entries:
//!
//! ```text
//!   handle 4100 = 64 · 64 + 4
//!
//!   full_words   one bit for each word of `full_leaves` that is all ones
//!   full_leaves  …111 0      one bit for each leaf without a free entry
//!                     ┊
//!   leaves       … [ leaf 63 ] [ leaf 64: used ...010011, entries: 0 1 2 3 4 5 … 63 ]
//!                                                                          ▲
//! ```
//!
//! A lookup takes two steps whatever the size. The lowest free handle is found in three steps,
//! through one word of each level. Only the topmost level is searched, which has one word for 262144
//! handles.
//!
//! The table takes no lock and allocates nothing. When it has no room, [`HandleTable::lowest_free`]
//! notes the missing memory in a [`Spare`]. The caller releases its lock, calls [`Spare::fill`] to
//! allocate, and starts again from its first lookup: in the meantime, another thread may have done
//! the same work (lesson C11, trap 20 of the contract).

use core::mem::{self, ManuallyDrop};
use kernel::alloc::{AllocError, Flags};
use kernel::prelude::*;

/// The number of entries in a leaf: the bits of a word.
const LEAF: usize = u64::BITS as usize;

/// The number of leaves that a table has room for when it gets its first entry.
const FIRST_LEAVES: usize = 4;

/// The number of leaves for all handles up to `u32::MAX`.
const MAX_LEAVES: usize = u32::MAX as usize / LEAF + 1;

// This holds also if `usize` has 32 bits and the last handle plus one does not fit into it.
const _: () = assert!(MAX_LEAVES as u64 * LEAF as u64 == 1 << u32::BITS);

/// A table of handles and their entries.
///
/// Guarded by the lock of the caller; lives as long as the process that has the handles.
///
/// # Invariants
///
/// - The bits of `index.full_leaves` are set for the leaves that have no free entry; the bits of
///   `index.full_words` are set for the words of `index.full_leaves` that are all ones. All other
///   bits are clear, also those for leaves that do not exist.
/// - The last leaf has an entry in use.
/// - `len` is the number of entries in use.
pub(crate) struct HandleTable<R> {
    index: Index<R>,
    len: usize,
    /// Entries of a leaf that became empty, kept for the next leaf that needs them.
    idle: Entries<R>,
}

/// Either empty or [`LEAF`] long. The table drops the entries that are in use; memory that is freed has
/// none.
type Entries<R> = KVec<ManuallyDrop<Option<R>>>;

struct Leaf<R> {
    used: u64,
    entries: Entries<R>,
}

/// The parts of a table whose size depends on the number of its leaves.
struct Index<R> {
    leaves: KVVec<Leaf<R>>,
    full_leaves: KVVec<u64>,
    full_words: KVVec<u64>,
}

impl<R> HandleTable<R> {
    /// Returns an empty table, which has no memory of its own.
    pub(crate) const fn new() -> Self {
        Self {
            index: Index::EMPTY,
            len: 0,
            idle: KVec::new(),
        }
    }

    /// Returns the entry of a handle.
    pub(crate) fn get(&self, handle: u32) -> Option<&R> {
        let (leaf, entry) = position(handle);
        self.index.leaves.get(leaf)?.entries.get(entry)?.as_ref()
    }

    /// Returns the entry of a handle.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut R> {
        let (leaf, entry) = position(handle);
        let leaf = self.index.leaves.get_mut(leaf)?;
        leaf.entries.get_mut(entry)?.as_mut()
    }

    /// Returns the lowest free handle that is not below `min`.
    ///
    /// Returns [`None`] if memory is missing: the caller releases its lock, fills `spare`, and
    /// starts again.
    pub(crate) fn lowest_free(&mut self, min: u32, spare: &mut Spare<R>) -> Option<Vacant<'_, R>> {
        let (leaf, entry) = self.index.lowest_free(min);
        let handle = leaf.checked_mul(LEAF)?.checked_add(entry)?;
        let handle = u32::try_from(handle).ok()?;

        if leaf >= self.index.leaves.capacity() {
            match &mut spare.room {
                Some(room) if leaf < room.index.leaves.capacity() => {
                    self.index.move_to(&mut room.index);
                }
                _ => {
                    spare.wanted_leaves = leaf + 1;
                    return None;
                }
            }
        }
        let has_entries = self
            .index
            .leaves
            .get(leaf)
            .is_some_and(|leaf| !leaf.entries.is_empty());
        if !has_entries && self.idle.is_empty() {
            match &mut spare.room {
                Some(room) if !room.entries.is_empty() => {
                    mem::swap(&mut self.idle, &mut room.entries);
                }
                _ => {
                    spare.wants_entries = true;
                    return None;
                }
            }
        }
        Some(Vacant {
            table: self,
            handle,
        })
    }

    /// Frees a handle and returns its entry. Always inlined, because the result is large and would
    /// be copied.
    #[inline(always)]
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Removed<R>> {
        let (index, entry) = position(handle);
        let leaf = self.index.leaves.get_mut(index)?;
        let value = leaf.entries.get_mut(entry)?.take()?;
        let was_full = leaf.used == u64::MAX;
        leaf.used &= !(1 << entry);
        self.len -= 1;
        let mut outgrown = None;
        if leaf.used == 0 {
            mem::swap(&mut self.idle, &mut leaf.entries);
            if !leaf.entries.is_empty() {
                outgrown = Some(mem::take(&mut leaf.entries));
            }
        }
        if was_full {
            self.index.set_full(index, false);
        }
        while self.index.leaves.last().is_some_and(|leaf| leaf.used == 0) {
            if let Some(leaf) = self.index.leaves.pop() {
                discard(leaf.entries);
            }
        }
        Some(Removed {
            value,
            _outgrown: outgrown,
        })
    }

    /// Returns the highest handle in use, by which all handles can be removed one by one without
    /// searching.
    pub(crate) fn last(&self) -> Option<u32> {
        let leaf = self.index.leaves.last()?;
        let entry = leaf.used.checked_ilog2()?;
        // CAST: There are at most `MAX_LEAVES` leaves.
        Some(((self.index.leaves.len() - 1) * LEAF) as u32 + entry)
    }

    /// Returns the handles in use of the leaf that `from` is in, and from that on, in ascending order,
    /// with their entries; and the first handle of the next leaf. Nothing if `from` is behind the last
    /// leaf.
    pub(crate) fn leaf_from(&self, from: u32) -> Option<(impl Iterator<Item = (u32, &R)>, u64)> {
        let (at, first) = position(from);
        let leaf = self.index.leaves.get(at)?;
        let start = (at * LEAF) as u64;
        let entries = leaf.entries.iter().enumerate().skip(first);
        let used = entries.filter_map(move |(entry, value)| {
            // CAST: There are at most `MAX_LEAVES` leaves.
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

    /// Calls `each` with the entries of one leaf, from the handle `from` on. Returns the first handle of
    /// the next leaf, if there is one.
    pub(crate) fn visit_leaf(&self, from: u32, mut each: impl FnMut(u32, &R)) -> Option<u32> {
        let (at, first) = position(from);
        // CAST: There are at most `MAX_LEAVES` leaves.
        let start = (at * LEAF) as u32;
        for (handle, value) in (start..)
            .zip(&self.index.leaves.get(at)?.entries)
            .skip(first)
        {
            if let Some(value) = &**value {
                each(handle, value);
            }
        }
        (at + 1 < self.index.leaves.len()).then(|| start + LEAF as u32)
    }

    /// Returns all handles in use, in ascending order, and their entries.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        self.index.leaves.iter().enumerate().flat_map(|(at, leaf)| {
            let entries = leaf.entries.iter().enumerate();
            entries.filter_map(move |(entry, value)| {
                // CAST: There are at most `MAX_LEAVES` leaves.
                Some(((at * LEAF + entry) as u32, value.as_ref()?))
            })
        })
    }
}

impl<R> Drop for HandleTable<R> {
    fn drop(&mut self) {
        while let Some(last) = self.last() {
            drop(self.remove(last));
        }
    }
}

/// What was removed from a table with a handle, to be dropped while the table is not locked.
pub(crate) struct Removed<R> {
    /// The entry of the handle.
    pub(crate) value: R,
    /// Entries of a leaf that became empty while other entries were idle already, if any. Freeing
    /// memory may take long: the kernel frees thousands of pages at once after many objects were
    /// freed.
    _outgrown: Option<Entries<R>>,
}

/// A free handle, and memory for its entry.
pub(crate) struct Vacant<'a, R> {
    table: &'a mut HandleTable<R>,
    handle: u32,
}

impl<R> Vacant<'_, R> {
    /// Returns the handle.
    #[cfg(test)]
    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }

    /// Inserts `value` as the entry of the handle, and returns the handle.
    pub(crate) fn insert(self, value: R) -> u32 {
        let HandleTable { index, len, idle } = self.table;
        let (at, entry) = position(self.handle);
        // `lowest_free` has checked that the capacity exists.
        while index.leaves.len() <= at && index.leaves.push_within_capacity(Leaf::EMPTY).is_ok() {}
        let leaf = &mut index.leaves[at];
        if leaf.entries.is_empty() {
            mem::swap(&mut leaf.entries, idle);
        }
        // What was there is empty.
        leaf.entries[entry] = ManuallyDrop::new(Some(value));
        leaf.used |= 1 << entry;
        *len += 1;
        if leaf.used == u64::MAX {
            index.set_full(at, true);
        }
        self.handle
    }
}

/// Memory that [`HandleTable::lowest_free`] needs, allocated while the table is not locked.
/// Afterwards, the memory that the table has replaced by it.
pub(crate) struct Spare<R> {
    wanted_leaves: usize,
    wants_entries: bool,
    /// Usually [`None`]: dropping a vector takes a call of the allocator, even if the vector is
    /// empty.
    room: Option<Room<R>>,
}

struct Room<R> {
    index: Index<R>,
    entries: Entries<R>,
}

impl<R> Spare<R> {
    /// Returns an empty spare, because no memory is known to be missing.
    pub(crate) const fn new() -> Self {
        Self {
            wanted_leaves: 0,
            wants_entries: false,
            room: None,
        }
    }

    /// Allocates the memory that was missing. May sleep if `flags` say so.
    pub(crate) fn fill(&mut self, flags: Flags) -> Result<(), AllocError> {
        if self.wanted_leaves == 0 && !self.wants_entries {
            return Ok(());
        }
        let room = self.room.get_or_insert(Room {
            index: Index::EMPTY,
            entries: KVec::new(),
        });
        if room.index.leaves.capacity() < self.wanted_leaves {
            room.index = Index::new(self.wanted_leaves, flags)?;
        }
        if self.wants_entries && room.entries.is_empty() {
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

impl<R> Index<R> {
    const EMPTY: Self = Index {
        leaves: KVVec::new(),
        full_leaves: KVVec::new(),
        full_words: KVVec::new(),
    };

    /// Returns memory for at least `leaves` leaves: a power of two, so that the capacity at least
    /// doubles and growing pays off. Fails for more than [`MAX_LEAVES`]; may sleep if `flags` say
    /// so.
    fn new(leaves: usize, flags: Flags) -> Result<Self, AllocError> {
        if leaves > MAX_LEAVES {
            return Err(AllocError);
        }
        let capacity = leaves.max(FIRST_LEAVES).next_power_of_two();
        let words = capacity.div_ceil(LEAF);
        Ok(Index {
            leaves: KVVec::with_capacity(capacity, flags)?,
            full_leaves: zeroes(words, flags)?,
            full_words: zeroes(words.div_ceil(LEAF), flags)?,
        })
    }

    /// Returns leaf and entry of the lowest free handle that is not below `min`.
    fn lowest_free(&self, min: u32) -> (usize, usize) {
        let (first, low) = position(min);
        let Some(leaf) = self.leaves.get(first) else {
            return (first, low);
        };
        let taken = leaf.used | below(low);
        if taken != u64::MAX {
            return (first, taken.trailing_ones() as usize);
        }
        let at = self.not_full_from(first + 1);
        let used = self.leaves.get(at).map_or(0, |leaf| leaf.used);
        (at, used.trailing_ones() as usize)
    }

    /// Returns the first leaf from `from` on that has a free entry, or would have one if it
    /// existed.
    fn not_full_from(&self, from: usize) -> usize {
        let (word, bit) = (from / LEAF, from % LEAF);
        let full = self.full_leaves.get(word).copied().unwrap_or(0) | below(bit);
        if full != u64::MAX {
            return word * LEAF + full.trailing_ones() as usize;
        }
        let word = first_zero_from(&self.full_words, word + 1);
        let full = self.full_leaves.get(word).copied().unwrap_or(0);
        word * LEAF + full.trailing_ones() as usize
    }

    /// Sets or clears the bit of a leaf, and that of its word.
    fn set_full(&mut self, leaf: usize, is_full: bool) {
        set_bit(&mut self.full_leaves, leaf, is_full);
        let word = leaf / LEAF;
        let is_full = self.full_leaves[word] == u64::MAX;
        set_bit(&mut self.full_words, word, is_full);
    }

    /// Moves everything to `larger`, and exchanges the two.
    fn move_to(&mut self, larger: &mut Self) {
        for leaf in &mut self.leaves {
            let leaf = mem::replace(leaf, Leaf::EMPTY);
            if larger.leaves.push_within_capacity(leaf).is_err() {
                // Does not happen: `larger` has more capacity, and is empty.
                return;
            }
        }
        larger.full_leaves[..self.full_leaves.len()].copy_from_slice(&self.full_leaves);
        larger.full_words[..self.full_words.len()].copy_from_slice(&self.full_words);
        mem::swap(self, larger);
    }
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

/// Returns a word with all bits set below `bit`.
fn below(bit: usize) -> u64 {
    (1 << bit) - 1
}

fn set_bit(words: &mut [u64], bit: usize, value: bool) {
    let mask = 1 << (bit % LEAF);
    if value {
        words[bit / LEAF] |= mask;
    } else {
        words[bit / LEAF] &= !mask;
    }
}

/// Returns the first clear bit from `from` on; all bits behind the end are clear.
fn first_zero_from(words: &[u64], from: usize) -> usize {
    let mut at = from / LEAF;
    let mut ignored = below(from % LEAF);
    while let Some(word) = words.get(at) {
        let word = word | ignored;
        if word != u64::MAX {
            return at * LEAF + word.trailing_ones() as usize;
        }
        ignored = 0;
        at += 1;
    }
    usize::max(from, at * LEAF)
}

fn zeroes(count: usize, flags: Flags) -> Result<KVVec<u64>, AllocError> {
    let mut words = KVVec::with_capacity(count, flags)?;
    for _ in 0..count {
        words.push(0, flags)?;
    }
    Ok(words)
}
