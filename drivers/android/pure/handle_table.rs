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
//!   full       … leaf 63
//!   open       leaf 64: used ...010011, entries: 0 1 2 3 4 5 … 63
//!                                                          ▲
//!   empty      leaf 65, without entries
//! ```
//!
//! The first leaf, which most processes need and no other, is in the table itself. The others are
//! in three trees of the kernel, by their numbers, and move from one to another with their tree
//! nodes. So the lowest free handle is in the first leaf of `open` or of `empty`. The steps of each
//! operation grow with the logarithm of the number of handles, and no operation copies entries.
//!
//! The kernel has no container for this. `XArray` has no lowest free index, no next index, and
//! allocates when it stores. `IdPool` copies a bitmap when it grows, and searches it, in as many
//! steps as there are handles. Such a table took 49 721 instructions under its lock
//! (`docs/growth.md`).
//!
//! The table takes no lock and allocates nothing. When it has no room, [`HandleTable::lowest_free`]
//! notes the missing memory in a [`Spare`]. The caller releases its lock, calls [`Spare::fill`] to
//! allocate, and starts again from its first lookup: in the meantime, another thread may have done
//! the same work (lesson C11, trap 20 of the contract).

use core::mem::{self, ManuallyDrop};
use kernel::{
    alloc::{AllocError, Flags},
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation}, //
};

/// The number of entries in a leaf: the bits of a word.
pub(crate) const LEAF: u32 = u64::BITS;

/// The highest number of a leaf. Tests reach it with fewer handles.
const LAST_LEAF: u32 = if cfg!(test) { 9_999 } else { u32::MAX / LEAF };

/// A table of handles and their entries.
///
/// Guarded by the lock of the caller; lives as long as the process that has the handles.
///
/// # Invariants
///
/// - The leaves behind the first one are numbered from 1 on, without gaps. Each of them is in one
///   of the trees: in `full` if all of its entries are in use, in `empty` if none is, and in
///   `open` otherwise.
/// - A leaf without an entry in use has no memory for entries.
/// - `len` is the number of entries in use.
pub(crate) struct HandleTable<R> {
    first: Leaf<R>,
    full: Leaves<R>,
    open: Leaves<R>,
    empty: Leaves<R>,
    len: u32,
    /// No handle is added any more. It is a part of the table because a process has no room for it
    /// elsewhere.
    is_closed: bool,
    /// Entries of a leaf that became empty, kept for the next leaf that needs them.
    idle: Entries<R>,
}

/// Leaves by their numbers.
type Leaves<R> = RBTree<u32, Leaf<R>>;

/// The memory of a leaf in a tree.
type Place<R> = RBTreeNodeReservation<u32, Leaf<R>>;

/// Either empty or [`LEAF`] long. The table drops the entries that are in use; memory that is freed
/// has none.
type Entries<R> = KVec<ManuallyDrop<Option<R>>>;

struct Leaf<R> {
    used: u64,
    entries: Entries<R>,
}

impl<R> HandleTable<R> {
    /// How large the entries of a leaf are, and what a tree has of a leaf.
    #[allow(dead_code)] // Rust 1.85 does not see uses in assertions.
    pub(crate) const BYTES: (usize, usize) = (
        LEAF as usize * size_of::<ManuallyDrop<Option<R>>>(),
        size_of::<(u32, Leaf<R>)>(),
    );

    /// Returns an empty table, which has no memory of its own.
    pub(crate) fn new() -> Self {
        Self {
            first: Leaf::EMPTY,
            full: RBTree::new(),
            open: RBTree::new(),
            empty: RBTree::new(),
            len: 0,
            is_closed: false,
            idle: KVec::new(),
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

    /// Returns a leaf, unless it is in `empty`.
    #[inline]
    fn leaf(&self, at: u32) -> Option<&Leaf<R>> {
        match at {
            0 => Some(&self.first),
            // `open` is mostly small.
            _ => self.open.get(&at).or_else(|| self.full.get(&at)),
        }
    }

    /// Returns a leaf, unless it is in `empty`.
    #[inline]
    fn leaf_mut(&mut self, at: u32) -> Option<&mut Leaf<R>> {
        match at {
            0 => Some(&mut self.first),
            _ => (self.open.get_mut(&at)).or_else(|| self.full.get_mut(&at)),
        }
    }

    /// Returns the lowest free handle that is not below `min`, which is one of the first leaf.
    ///
    /// Returns [`None`] if memory is missing: the caller releases its lock, fills `spare`, and
    /// starts again.
    pub(crate) fn lowest_free(&mut self, min: u32, spare: &mut Spare<R>) -> Option<Vacant<'_, R>> {
        let (at, entry, has_entries) = self.first_free(min);
        if !has_entries {
            self.take_room(at, spare)?;
        }
        Some(Vacant {
            table: self,
            handle: at * LEAF + entry,
            has_entries,
        })
    }

    /// Returns leaf and entry of the lowest free handle that is not below `min`, and whether that
    /// leaf has memory. A leaf that does not exist is the next one.
    fn first_free(&self, min: u32) -> (u32, u32, bool) {
        let taken = self.first.used | ((1 << min) - 1);
        if taken != u64::MAX {
            return (0, taken.trailing_ones(), !self.first.entries.is_empty());
        }
        let empty = number_from(&self.empty, 0);
        let open = self.open.cursor_lower_bound(&0);
        match open.as_ref().map(|open| open.current()) {
            Some((&at, leaf)) if empty.is_none_or(|empty| at < empty) => {
                (at, leaf.used.trailing_ones(), true)
            }
            _ => (empty.unwrap_or_else(|| self.last_leaf() + 1), 0, false),
        }
    }

    /// Returns the number of the last leaf, 0 if there is only the first one.
    fn last_leaf(&self) -> u32 {
        let last = |leaves: &Leaves<R>| leaves.cursor_back().map_or(0, |last| *last.current().0);
        last(&self.full)
            .max(last(&self.open))
            .max(last(&self.empty))
    }

    /// Makes sure that a leaf exists and that the table has entries for it. Returns nothing, and
    /// notes it in `spare`, if memory is missing.
    #[cold]
    fn take_room(&mut self, at: u32, spare: &mut Spare<R>) -> Option<()> {
        if at > LAST_LEAF {
            spare.wanted = Wanted::AnotherHandle;
            return None;
        }
        let (lacks_entries, lacks_place) = (self.idle.is_empty(), at > self.last_leaf());
        if !lacks_entries && !lacks_place {
            return Some(());
        }
        match &mut spare.room {
            Some(room) if !(lacks_place && room.place.is_none()) => {
                if let Some(place) = room.place.take_if(|_| lacks_place) {
                    self.empty.insert(place.into_node(at, Leaf::EMPTY));
                }
                if lacks_entries {
                    mem::swap(&mut self.idle, &mut room.entries);
                }
                (!self.idle.is_empty()).then_some(())
            }
            _ => {
                spare.wanted = Wanted::Room { lacks_place };
                None
            }
        }
    }

    /// Gives a leaf without entries those that the table has for it.
    fn add_entries(&mut self, at: u32) {
        let entries = mem::take(&mut self.idle);
        if at == 0 {
            return discard(mem::replace(&mut self.first.entries, entries));
        }
        if let Some(leaf) = self.empty.get_mut(&at) {
            discard(mem::replace(&mut leaf.entries, entries));
        }
        pass(&mut self.empty, &mut self.open, at);
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
            outgrown = self.take_entries(at);
        } else if used == u64::MAX && at > 0 {
            pass(&mut self.full, &mut self.open, at);
        }
        Some(Removed {
            value,
            _outgrown: outgrown,
        })
    }

    /// Takes the entries of a leaf of which none is in use. Returns memory that is not kept: other
    /// entries that are idle, and the leaves behind the first one if there are several and all of
    /// them are empty.
    fn take_entries(&mut self, at: u32) -> Option<Outgrown<R>> {
        let mut entries = mem::take(&mut self.leaf_mut(at)?.entries);
        if at > 0 {
            pass(&mut self.open, &mut self.empty, at);
        }
        mem::swap(&mut self.idle, &mut entries);
        let are_all_empty = self.full.is_empty() && self.open.is_empty();
        let mut leaves = RBTree::new();
        if are_all_empty && self.last_leaf() > 1 {
            mem::swap(&mut self.empty, &mut leaves);
        }
        if leaves.is_empty() && entries.is_empty() {
            discard(entries);
            return None;
        }
        Some(Outgrown {
            _entries: entries,
            _leaves: leaves,
        })
    }

    /// Returns the lowest handle in use, by which all handles can be removed one by one: each step
    /// takes as long as a look-up.
    pub(crate) fn first(&self) -> Option<u32> {
        let at = match self.first.used {
            0 => self.used_from(1)?,
            _ => 0,
        };
        // By the type invariants the leaf has an entry in use.
        Some(at * LEAF + self.leaf(at)?.used.trailing_zeros())
    }

    /// Returns the number of the first leaf from `at` on, behind the first of all, that has an
    /// entry in use.
    fn used_from(&self, at: u32) -> Option<u32> {
        let (full, open) = (number_from(&self.full, at), number_from(&self.open, at));
        Iterator::chain(full.into_iter(), open).min()
    }

    /// Returns handles in use that follow each other, the first from `from` on and the others of
    /// its leaf, in ascending order, with their entries; and the first handle of the next leaf.
    /// Nothing if no handle from `from` on is in use in another leaf than its own, and that one
    /// does not exist.
    pub(crate) fn leaf_from(&self, from: u32) -> Option<(impl Iterator<Item = (u32, &R)>, u64)> {
        let (mut at, mut first) = position(from);
        if at > 0 || self.first.used == 0 {
            let next = self.used_from(at.max(1))?;
            if next != at {
                (at, first) = (next, 0);
            }
        }
        let entries = self.leaf(at)?.entries.iter().skip(first);
        // CAST: An entry is one of a leaf.
        let handles = at * LEAF + first as u32..;
        let used = Iterator::zip(handles, entries);
        let used = used.filter_map(|(handle, value)| Some((handle, value.as_ref()?)));
        Some((used, u64::from(at + 1) * u64::from(LEAF)))
    }

    /// Takes out all handles, and closes the table: no handle may be added to it any more.
    pub(crate) fn close(&mut self) -> Self {
        let mut closed = Self::new();
        closed.is_closed = true;
        mem::replace(self, closed)
    }

    /// Whether the table was [closed](Self::close).
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the number of handles in use.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
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
    _leaves: Leaves<R>,
}

/// A free handle, for whose entry the table has memory.
pub(crate) struct Vacant<'a, R> {
    table: &'a mut HandleTable<R>,
    handle: u32,
    has_entries: bool,
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
        if !self.has_entries {
            table.add_entries(at);
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
        if is_full && at > 0 {
            pass(&mut table.open, &mut table.full, at);
        }
        self.handle
    }
}

/// Memory that a table lacks.
enum Wanted {
    Nothing,
    /// The entries of a leaf, and its place if `lacks_place`.
    Room {
        lacks_place: bool,
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
    place: Option<Place<R>>,
    entries: Entries<R>,
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
        let lacks_place = match self.wanted {
            Wanted::Nothing => return Ok(()),
            Wanted::Room { lacks_place } => lacks_place,
            Wanted::AnotherHandle => return Err(AllocError),
        };
        let room = self.room.get_or_insert(Room {
            place: None,
            entries: KVec::new(),
        });
        if lacks_place && room.place.is_none() {
            room.place = Some(Place::new(flags).map_err(|_| AllocError)?);
        }
        if room.entries.is_empty() {
            let mut entries = KVec::with_capacity(LEAF as usize, flags)?;
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

/// Moves a leaf from one tree to another.
fn pass<R>(from: &mut Leaves<R>, to: &mut Leaves<R>, at: u32) {
    if let Some(leaf) = from.remove_node(&at) {
        to.insert(leaf);
    }
}

/// Returns the number of the first leaf from `at` on.
fn number_from<R>(leaves: &Leaves<R>, at: u32) -> Option<u32> {
    Some(*leaves.cursor_lower_bound(&at)?.current().0)
}

/// Drops entries, without a call of the allocator if the vector is empty.
fn discard<R>(entries: Entries<R>) {
    if entries.capacity() == 0 {
        mem::forget(entries);
    }
}

/// Returns leaf and entry of a handle.
fn position(handle: u32) -> (u32, usize) {
    (handle / LEAF, (handle % LEAF) as usize)
}
