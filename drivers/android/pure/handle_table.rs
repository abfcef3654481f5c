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
//!              leaf 65, without entries                    ▲
//! ```
//!
//! The first leaf, which most processes need and no other, is in the table itself. The others are
//! in two trees of the kernel, by their numbers, and move from one to the other with their tree
//! nodes. So the lowest free handle is in the first leaf of `open`. The steps of what is done with
//! one handle grow with the logarithm of their number, and no operation copies entries. A walk
//! passes all leaves that exist, one at a time.
//!
//! The kernel has no container for this. `XArray` has no lowest free index, no next index, and
//! allocates when it stores. `IdPool` copies a bitmap when it grows, and searches it, in as many
//! steps as there are handles.
//!
//! The table takes no lock and allocates nothing. When [`HandleTable::lowest_free`] lacks memory,
//! the caller releases its lock and allocates a [`RoomForLeaf`]. Then it starts again from its
//! first lookup: in the meantime, another thread may have done the same work (lesson C11, trap 20
//! of the contract).

use core::mem::{self, ManuallyDrop};
use kernel::{
    alloc::AllocError,
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
/// - The leaves behind the first one are numbered from 1 to `last`. Each of them is in one of the
///   trees: in `full` if all of its entries are in use, and in `open` otherwise.
/// - `len` is the number of entries in use.
pub(crate) struct HandleTable<R> {
    first: Leaf<R>,
    open: Leaves<R>,
    full: Leaves<R>,
    last: u32,
    pub(crate) len: u32,
    /// No handle is added any more. It is a part of the table because a process has no room for it
    /// elsewhere.
    pub(crate) is_closed: bool,
    /// Entries of a leaf that became empty, kept for the next leaf that needs them.
    idle: Entries<R>,
}

/// Leaves by their numbers.
pub(crate) type Leaves<R> = RBTree<u32, Leaf<R>>;

/// Either empty or [`LEAF`] long. The table drops the entries that are in use; memory that is freed
/// has none.
pub(crate) type Entries<R> = KVec<ManuallyDrop<Option<R>>>;

/// Memory that a table does not keep.
pub(crate) type Outgrown<R> = Option<(Entries<R>, Leaves<R>)>;

pub(crate) struct Leaf<R> {
    used: u64,
    entries: Entries<R>,
}

impl<R> Leaf<R> {
    const EMPTY: Self = Leaf {
        used: 0,
        entries: KVec::new(),
    };
}

/// Memory for one more leaf, allocated while the table is not locked.
pub(crate) struct RoomForLeaf<R> {
    /// Its place in a tree, until a leaf has it.
    place: Option<RBTreeNodeReservation<u32, Leaf<R>>>,
    entries: Entries<R>,
}

impl<R> RoomForLeaf<R> {
    /// Allocates the memory. Fails with `ENOMEM`. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let mut entries = KVec::with_capacity(LEAF as usize, GFP_KERNEL)?;
        for _ in 0..LEAF {
            entries.push(ManuallyDrop::new(None), GFP_KERNEL)?;
        }
        Ok(Self {
            place: Some(RBTreeNodeReservation::new(GFP_KERNEL)?),
            entries,
        })
    }
}

impl<R> HandleTable<R> {
    /// The size of a leaf's entries, and the size of a leaf in a tree.
    #[allow(dead_code)] // Rust 1.85 does not see uses in assertions.
    pub(crate) const BYTES: (usize, usize) = (
        LEAF as usize * size_of::<ManuallyDrop<Option<R>>>(),
        size_of::<(u32, Leaf<R>)>(),
    );

    /// Returns an empty table, which has no memory of its own.
    pub(crate) fn new() -> Self {
        Self {
            first: Leaf::EMPTY,
            open: RBTree::new(),
            full: RBTree::new(),
            last: 0,
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

    #[inline]
    fn leaf(&self, at: u32) -> Option<&Leaf<R>> {
        match at {
            0 => Some(&self.first),
            // `open` is mostly small.
            _ => self.open.get(&at).or_else(|| self.full.get(&at)),
        }
    }

    #[inline]
    fn leaf_mut(&mut self, at: u32) -> Option<&mut Leaf<R>> {
        match at {
            0 => Some(&mut self.first),
            _ => (self.open.get_mut(&at)).or_else(|| self.full.get_mut(&at)),
        }
    }

    /// Returns the lowest free handle that is not below `min`, which is one of the first leaf, for
    /// [`Self::insert`].
    ///
    /// Returns [`None`] if memory is missing, and `room` is none or has been used: the caller
    /// allocates another one without its lock, and starts again. Fails if all handles are in use.
    pub(crate) fn lowest_free(
        &mut self,
        min: u32,
        room: &mut Option<RoomForLeaf<R>>,
    ) -> Result<Option<u32>, AllocError> {
        let taken = self.first.used | ((1 << min) - 1);
        let (at, entry, has_entries) = if taken != u64::MAX {
            (0, taken.trailing_ones(), !self.first.entries.is_empty())
        } else {
            let open = self.open.cursor_lower_bound(&0);
            match open.as_ref().map(|open| open.current()) {
                Some((&at, leaf)) => (at, leaf.used.trailing_ones(), !leaf.entries.is_empty()),
                None => (self.last + 1, 0, false),
            }
        };
        if at > LAST_LEAF {
            return Err(AllocError);
        }
        let is_there = has_entries || self.add_entries(at, room);
        Ok(is_there.then_some(at * LEAF + entry))
    }

    /// Adds entries to a leaf, and the leaf if it does not exist. Returns `false` if memory is
    /// missing.
    #[cold]
    fn add_entries(&mut self, at: u32, room: &mut Option<RoomForLeaf<R>>) -> bool {
        if at > self.last {
            let Some(place) = room.as_mut().and_then(|room| room.place.take()) else {
                return false;
            };
            self.open.insert(place.into_node(at, Leaf::EMPTY));
            self.last = at;
        }
        if let (true, Some(room)) = (self.idle.is_empty(), room) {
            mem::swap(&mut self.idle, &mut room.entries);
        }
        let entries = mem::take(&mut self.idle);
        let are_there = !entries.is_empty();
        if let Some(leaf) = self.leaf_mut(at) {
            leaf.entries = entries;
        }
        are_there
    }

    /// Inserts `value` as the entry of a handle that [`Self::lowest_free`] has returned. The table
    /// is unchanged since.
    pub(crate) fn insert(&mut self, handle: u32, value: R) {
        let (at, entry) = position(handle);
        let Some(leaf) = self.leaf_mut(at) else {
            return;
        };
        // The overwritten entry is empty.
        leaf.entries[entry] = ManuallyDrop::new(Some(value));
        leaf.used |= 1 << entry;
        let is_full = leaf.used == u64::MAX;
        self.len += 1;
        if is_full && at > 0 {
            pass(&mut self.open, &mut self.full, at);
        }
    }

    /// Frees a handle. Returns its entry. Memory that the table does not keep gets to `outgrown`.
    /// It is to be dropped while the table is not locked: the kernel frees thousands of pages at
    /// once after many objects were freed. As a result it would be copied, and is seldom there.
    #[inline(always)] // Otherwise the entry would be copied.
    pub(crate) fn remove(&mut self, handle: u32, outgrown: &mut Outgrown<R>) -> Option<R> {
        let (at, entry) = position(handle);
        let leaf = self.leaf_mut(at)?;
        let value = leaf.entries.get_mut(entry)?.take()?;
        let used = leaf.used;
        leaf.used = used & !(1 << entry);
        self.len -= 1;
        if used == 1 << entry {
            *outgrown = self.take_entries(at);
        } else if used == u64::MAX && at > 0 {
            pass(&mut self.full, &mut self.open, at);
        }
        Some(value)
    }

    /// Takes the entries of a leaf of which none is in use. Returns memory that is not kept, if
    /// any: other entries that are idle, and the leaves behind the first one if there are several
    /// and all of them are empty.
    fn take_entries(&mut self, at: u32) -> Outgrown<R> {
        let mut entries = mem::take(&mut self.leaf_mut(at)?.entries);
        mem::swap(&mut self.idle, &mut entries);
        let mut leaves = RBTree::new();
        if self.last > 1 && self.len == self.first.used.count_ones() {
            mem::swap(&mut self.open, &mut leaves);
            self.last = 0;
        }
        if leaves.is_empty() && entries.is_empty() {
            // Dropped, a vector would take a call of the allocator, even if it is empty.
            mem::forget(entries);
            return None;
        }
        Some((entries, leaves))
    }

    /// Returns the lowest handle in use in the leaf of `from` or behind that, by which all handles
    /// can be removed one by one.
    pub(crate) fn first_from(&self, from: u32) -> Option<u32> {
        let in_use = |at| Some((at, self.leaf(at)?.used)).filter(|(_, used)| *used != 0);
        let (at, used) = (from / LEAF..=self.last).find_map(in_use)?;
        Some(at * LEAF + used.trailing_zeros())
    }

    /// Calls `each` with the handles in use from `from` on in its leaf, in ascending order, and
    /// their entries. Returns the first handle of the next leaf, if there is one.
    pub(crate) fn visit_leaf(&self, from: u32, mut each: impl FnMut(u32, &R)) -> Option<u32> {
        let (at, first) = position(from);
        for (entry, value) in self.leaf(at)?.entries.iter().enumerate().skip(first) {
            if let Some(value) = value.as_ref() {
                // CAST: An entry is one of a leaf.
                each(at * LEAF + entry as u32, value);
            }
        }
        (at < self.last).then_some((at + 1) * LEAF)
    }

    /// Takes out all handles, and closes the table: no handle may be added to it any more.
    pub(crate) fn close(&mut self) -> Self {
        let mut closed = Self::new();
        closed.is_closed = true;
        mem::replace(self, closed)
    }
}

impl<R> Drop for HandleTable<R> {
    fn drop(&mut self) {
        let mut next = 0;
        while let Some(handle) = self.first_from(next) {
            drop(self.remove(handle, &mut None));
            next = handle;
        }
    }
}

/// Moves a leaf from one tree to another.
fn pass<R>(from: &mut Leaves<R>, to: &mut Leaves<R>, at: u32) {
    if let Some(leaf) = from.remove_node(&at) {
        to.insert(leaf);
    }
}

/// Returns leaf and entry of a handle.
fn position(handle: u32) -> (u32, usize) {
    (handle / LEAF, (handle % LEAF) as usize)
}
