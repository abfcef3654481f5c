// SPDX-License-Identifier: GPL-2.0

//! A stack without a limit but memory: it grows by chunks, so nothing is moved, and no allocation is
//! larger than a page.
//!
//! The last chunk, where things are pushed and popped, is at hand; those below it are full and lie in
//! a tree, by which an item is found from its place. Memory is brought by who makes the stack grow
//! and given to who makes it shrink, so pushing and popping neither allocate nor free:
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

/// How many items fit into the first chunk: as many as most stacks ever have.
const FIRST: usize = 4;

/// How many fit into each other chunk: of calls, as many as fit into a page.
const CHUNK: usize = 256;

/// Items that were pushed one after the other.
type Items<T> = KVec<T>;

/// Memory for more items.
pub(crate) struct Chunk<T> {
    /// Empty.
    items: Items<T>,
    /// The place in the tree of the chunk before this one.
    node: RBTreeNodeReservation<usize, Items<T>>,
}

/// What has to be allocated before something can be pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The first chunk.
    First,
    /// One more.
    Another,
}

/// What was allocated for that.
pub(crate) enum Room<T> {
    First(Items<T>),
    Another(Chunk<T>),
}

impl Shortage {
    /// Allocates what is short.
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
/// - Each chunk in `full` stands under the place of its first item and is as full as a chunk can
///   be: [`FIRST`] items in the first one, [`CHUNK`] in the others. There are `below` items in all.
pub(crate) struct ChunkedStack<T> {
    top: Items<T>,
    below: usize,
    full: RBTree<usize, Items<T>>,
    /// What `top` is replaced by when it is full.
    spare: Option<Chunk<T>>,
    /// What became free and has to be dropped where that may be done.
    surplus: Option<Chunk<T>>,
}

impl<T> ChunkedStack<T> {
    /// An empty stack, without memory.
    pub(crate) fn new() -> Self {
        Self {
            top: Items::new(),
            below: 0,
            full: RBTree::new(),
            spare: None,
            surplus: None,
        }
    }

    /// Whether there is nothing on the stack.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.is_empty()
    }

    /// How many items there are: the place of the next one.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.below + self.top.len()
    }

    /// The item that was pushed last.
    #[inline]
    pub(crate) fn last(&self) -> Option<&T> {
        self.top.last()
    }

    /// The item that was pushed last.
    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.top.last_mut()
    }

    /// The item at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        let (items, at) = self.find(place)?;
        items.get(at)
    }

    /// The item at a place, and the one that was pushed before it.
    pub(crate) fn get_with_previous(&self, place: usize) -> Option<(&T, &T)> {
        let (items, at) = self.find(place)?;
        let previous = match at.checked_sub(1) {
            Some(before) => items.get(before)?,
            None => self.get(place.checked_sub(1)?)?,
        };
        Some((items.get(at)?, previous))
    }

    /// The chunk that a place lies in, and where in there.
    fn find(&self, place: usize) -> Option<(&Items<T>, usize)> {
        match place.checked_sub(self.below) {
            Some(at) => Some((&self.top, at)),
            None => {
                let start = start_of_chunk(place);
                Some((self.full.get(&start)?, place - start))
            }
        }
    }

    /// The item at a place.
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

    /// What has to be brought before an item can be pushed, if anything has.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        if self.has_room() {
            None
        } else if self.top.capacity() == 0 {
            Some(Shortage::First)
        } else {
            Some(Shortage::Another)
        }
    }

    /// Brings room. Gives back what is not needed, to be dropped where that may be done.
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

    /// Adds an item. Gives it back if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.top.len() == self.top.capacity() && !self.begin_chunk() {
            return Err(item);
        }
        self.top.push_within_capacity(item).map_err(|full| full.0)
    }

    /// Takes the item off that was pushed last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.top.pop()?;
        if self.below != 0 && self.top.is_empty() {
            self.end_chunk();
        }
        Some(item)
    }

    /// Takes out memory that became free, to be dropped where that may be done. Between two chunks that
    /// become free, as many items were popped as fit into one.
    #[inline]
    pub(crate) fn take_surplus(&mut self) -> Option<Chunk<T>> {
        self.surplus.take()
    }

    /// Replaces the chunk at hand, which is full. `false` if there is none to replace it by.
    #[cold]
    fn begin_chunk(&mut self) -> bool {
        let Some(Chunk { items, node }) = self.spare.take() else {
            return false;
        };
        let full = core::mem::replace(&mut self.top, items);
        let start = self.below;
        self.below += full.len();
        // Nothing stands under this place: what is in the tree lies below it.
        let replaced = self.full.insert(node.into_node(start, full));
        debug_assert!(replaced.is_none());
        true
    }

    /// Puts the chunk below the one at hand in its place, which is empty.
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
        // What stood there has moved, so this frees nothing.
        let node = node.into_reservation();
        let chunk = Chunk { items, node };
        let unused = match &self.spare {
            None => &mut self.spare,
            Some(_) => &mut self.surplus,
        };
        *unused = Some(chunk);
    }
}

/// Where the chunk begins that a place lies in.
fn start_of_chunk(place: usize) -> usize {
    match place.checked_sub(FIRST) {
        None => 0,
        Some(behind) => place - behind % CHUNK,
    }
}
