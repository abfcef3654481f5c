// SPDX-License-Identifier: GPL-2.0

//! A stack that is limited by memory alone. It grows by chunks, so no item is moved, and no
//! allocation is larger than a page.
//!
//! The last chunk, where items are pushed and popped, is in the stack itself. The chunks below it
//! are full and are in a tree, which finds an item by its place. The caller passes the memory by
//! which the stack grows and receives the memory that becomes free, so pushing and popping neither
//! allocate nor free:
//!
//! ```text
//!   push, `top` is full:  top ─► full,  spare ─► top
//!   pop, `top` is empty:  full ─► top,  top ─► spare, or `surplus` if there is one
//! ```

use kernel::{
    alloc::Flags,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation}, //
};

/// The number of items that fit into the first chunk: most stacks never have more.
const FIRST: usize = 4;

/// The number of items that fit into each other chunk: if the items are calls, as many as fit into
/// a page.
const CHUNK: usize = 256;

/// Items in the order in which they were pushed.
type Items<T> = KVec<T>;

/// Memory for more items.
pub(crate) struct Chunk<T> {
    /// An empty vector with a fixed capacity.
    items: Items<T>,
    /// The tree node for the chunk before this one.
    node: RBTreeNodeReservation<usize, Items<T>>,
}

/// What has to be allocated before an item can be pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The first chunk.
    First,
    /// One more chunk.
    Another,
}

/// Memory that was allocated because of a [`Shortage`].
pub(crate) enum Room<T> {
    First(Items<T>),
    Another(Chunk<T>),
}

impl Shortage {
    /// Allocates the memory. Fails with `ENOMEM`; may sleep if `flags` say so.
    pub(crate) fn allocate<T>(self, flags: Flags) -> Result<Room<T>> {
        Ok(match self {
            Self::First => Room::First(Items::with_capacity(FIRST, flags)?),
            Self::Another => Room::Another(Chunk {
                items: Items::with_capacity(CHUNK, flags)?,
                node: RBTreeNodeReservation::new(flags)?,
            }),
        })
    }
}

/// A stack whose items keep their places.
///
/// # Invariants
///
/// - `top` is empty only if the stack is.
/// - Each chunk in `full` has the place of its first item as its key, and is full: it has [`FIRST`]
///   items if it is the first one, and [`CHUNK`] items otherwise. All of them together have `below`
///   items.
pub(crate) struct ChunkedStack<T> {
    top: Items<T>,
    below: usize,
    full: RBTree<usize, Items<T>>,
    /// The chunk that replaces `top` when that is full.
    spare: Option<Chunk<T>>,
    /// A chunk that became free, to be dropped where freeing is allowed.
    surplus: Option<Chunk<T>>,
}

impl<T> ChunkedStack<T> {
    /// Returns an empty stack, without memory.
    pub(crate) fn new() -> Self {
        Self {
            top: Items::new(),
            below: 0,
            full: RBTree::new(),
            spare: None,
            surplus: None,
        }
    }

    /// Whether the stack is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.is_empty()
    }

    /// Returns the number of items, which is the place of the next one.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.below + self.top.len()
    }

    /// Returns the item that was pushed last.
    #[inline]
    pub(crate) fn last(&self) -> Option<&T> {
        self.top.last()
    }

    /// Returns the item that was pushed last.
    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.top.last_mut()
    }

    /// Returns the item at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        let (items, at) = self.find(place)?;
        items.get(at)
    }

    /// Returns the item at a place, and the one that was pushed before it.
    pub(crate) fn get_with_previous(&self, place: usize) -> Option<(&T, &T)> {
        let (items, at) = self.find(place)?;
        let previous = match at.checked_sub(1) {
            Some(before) => items.get(before)?,
            None => self.get(place.checked_sub(1)?)?,
        };
        Some((items.get(at)?, previous))
    }

    /// Returns the chunk that contains a place, and the index of the place in it.
    fn find(&self, place: usize) -> Option<(&Items<T>, usize)> {
        match place.checked_sub(self.below) {
            Some(at) => Some((&self.top, at)),
            None => {
                let start = start_of_chunk(place);
                Some((self.full.get(&start)?, place - start))
            }
        }
    }

    /// Returns the item at a place.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        match place.checked_sub(self.below) {
            Some(at) => self.top.get_mut(at),
            None => {
                let start = start_of_chunk(place);
                self.full.get_mut(&start)?.get_mut(place - start)
            }
        }
    }

    /// Whether an item can be pushed.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.top.len() < self.top.capacity() || self.spare.is_some()
    }

    /// Returns what has to be allocated before an item can be pushed, if anything.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        if self.has_room() {
            None
        } else if self.top.capacity() == 0 {
            Some(Shortage::First)
        } else {
            Some(Shortage::Another)
        }
    }

    /// Adds memory. Returns what is not needed, to be dropped where freeing is allowed.
    pub(crate) fn add_room(&mut self, room: Room<T>) -> Option<Room<T>> {
        match room {
            Room::First(items) if self.top.capacity() == 0 => {
                self.top = items;
                None
            }
            Room::Another(chunk) if self.spare.is_none() => {
                self.spare = Some(chunk);
                None
            }
            room => Some(room),
        }
    }

    /// Pushes an item. Fails and returns the item if the stack has no room.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.top.len() == self.top.capacity() && !self.begin_chunk() {
            return Err(item);
        }
        self.top.push_within_capacity(item).map_err(|full| full.0)
    }

    /// Removes the item that was pushed last, and returns it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.top.pop()?;
        if self.below != 0 && self.top.is_empty() {
            self.end_chunk();
        }
        Some(item)
    }

    /// Returns a chunk that became free, to be dropped where freeing is allowed. Between two chunks
    /// that become free, as many items are popped as fit into one.
    #[inline]
    pub(crate) fn take_surplus(&mut self) -> Option<Chunk<T>> {
        self.surplus.take()
    }

    /// Replaces `top`, which is full. Returns `false` if no spare chunk exists.
    #[cold]
    fn begin_chunk(&mut self) -> bool {
        let Some(Chunk { items, node }) = self.spare.take() else {
            return false;
        };
        let full = core::mem::replace(&mut self.top, items);
        let start = self.below;
        self.below += full.len();
        // No chunk has this key: the keys in the tree are smaller.
        let replaced = self.full.insert(node.into_node(start, full));
        debug_assert!(replaced.is_none());
        true
    }

    /// Replaces `top`, which is empty, by the chunk below it.
    #[cold]
    fn end_chunk(&mut self) {
        let start = start_of_chunk(self.below - 1);
        let Some(full) = self.full.get_mut(&start) else {
            return;
        };
        let items = core::mem::replace(&mut self.top, core::mem::take(full));
        self.below = start;
        let Some(node) = self.full.remove_node(&start) else {
            return;
        };
        // The vector of the node was moved out, so this frees nothing.
        let node = node.into_reservation();
        let chunk = Chunk { items, node };
        let unused = match &self.spare {
            None => &mut self.spare,
            Some(_) => &mut self.surplus,
        };
        *unused = Some(chunk);
    }
}

/// Returns the place of the first item of the chunk that contains a place.
fn start_of_chunk(place: usize) -> usize {
    match place.checked_sub(FIRST) {
        None => 0,
        Some(behind) => place - behind % CHUNK,
    }
}
