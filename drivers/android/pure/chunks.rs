// SPDX-License-Identifier: GPL-2.0

//! The part of a [stack](super::chunked_stack) that grows by chunks, so no item is moved within it,
//! and no allocation is larger than a page.
//!
//! The last chunk, where items are pushed and popped, is at hand. The chunks below it
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
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation}, //
};

/// The number of items that fit into the first chunk: few stacks ever have more.
const FIRST: usize = 8;

/// The number of items that fit into each other chunk: if the items are calls, as many as fit into
/// a page.
const CHUNK: usize = 256;

/// Items in the order in which they were pushed, and no `None`: an item goes there and comes back
/// as it is, so the compiler need not take it apart to find out that it is one.
type Items<T> = KVec<Option<T>>;

/// The tree node for a full chunk.
type Node<T> = RBTreeNode<usize, Items<T>>;

/// The memory of one.
type NodeMemory<T> = RBTreeNodeReservation<usize, Items<T>>;

/// Memory for more items: the tree node for the chunk before this one, and in it, as long as this
/// is not used, an empty vector with a fixed capacity. So it takes one pointer.
///
/// The key of the node is [`NO_PLACE`].
pub(crate) struct Chunk<T>(Node<T>);

/// What is no place of an item: no stack has so many.
const NO_PLACE: usize = usize::MAX;

impl<T> Chunk<T> {
    /// Allocates the memory. Fails with `ENOMEM`; may sleep if `flags` say so.
    pub(super) fn new(flags: Flags) -> Result<Self> {
        let items = Items::with_capacity(CHUNK, flags)?;
        let node = NodeMemory::new(flags)?;
        Ok(Self(node.into_node(NO_PLACE, items)))
    }
}

/// A stack of chunks.
///
/// # Invariants
///
/// - `top` has memory, and is empty only if the stack is.
/// - Each chunk in `full` has the place of its first item as its key, and is full: it has [`FIRST`]
///   items if it is the first one, and [`CHUNK`] items otherwise. All of them together have `below`
///   items.
pub(crate) struct Chunks<T> {
    top: Items<T>,
    below: usize,
    full: RBTree<usize, Items<T>>,
    /// The chunk that replaces `top` when that is full.
    spare: Option<Chunk<T>>,
    /// A chunk that became free, to be dropped where freeing is allowed.
    surplus: Option<Chunk<T>>,
}

impl<T> Chunks<T> {
    /// Returns an empty stack with its first chunk. Fails with `ENOMEM`; may sleep if `flags` say
    /// so.
    pub(super) fn new(flags: Flags) -> Result<Self> {
        Ok(Self {
            top: Items::with_capacity(FIRST, flags)?,
            below: 0,
            full: RBTree::new(),
            spare: None,
            surplus: None,
        })
    }

    /// Returns the number of items, which is the place of the next one.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.below + self.top.len()
    }

    /// Returns the item that was pushed last.
    #[inline]
    pub(super) fn last(&self) -> Option<&T> {
        self.top.last()?.as_ref()
    }

    /// Returns the item at a place.
    pub(super) fn get(&self, place: usize) -> Option<&T> {
        let (items, at) = self.find(place)?;
        items.get(at)?.as_ref()
    }

    /// Returns the item at a place, and the one that was pushed before it.
    pub(super) fn get_with_previous(&self, place: usize) -> Option<(&T, &T)> {
        let (items, at) = self.find(place)?;
        let previous = match at.checked_sub(1) {
            Some(before) => items.get(before)?.as_ref()?,
            None => self.get(place.checked_sub(1)?)?,
        };
        Some((items.get(at)?.as_ref()?, previous))
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
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        let item = match place.checked_sub(self.below) {
            Some(at) => self.top.get_mut(at),
            None => {
                let start = start_of_chunk(place);
                self.full.get_mut(&start)?.get_mut(place - start)
            }
        };
        item?.as_mut()
    }

    /// Whether an item can be pushed.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.top.len() < self.top.capacity() || self.spare.is_some()
    }

    /// Adds memory. Returns it if it is not needed, to be dropped where freeing is allowed.
    pub(super) fn add_chunk(&mut self, chunk: Chunk<T>) -> Option<Chunk<T>> {
        match self.spare {
            None => {
                self.spare = Some(chunk);
                None
            }
            Some(_) => Some(chunk),
        }
    }

    /// Returns the stack with room for an item in its last chunk, or nothing if it has no room.
    #[inline]
    pub(super) fn with_room(&mut self) -> Option<&mut Self> {
        (self.top.len() < self.top.capacity() || self.begin_chunk()).then_some(self)
    }

    /// Pushes an item, for which there has to be [room](Self::with_room), and returns its place.
    /// The item is dropped if there is none.
    #[inline]
    pub(super) fn push(&mut self, item: Option<T>) -> usize {
        debug_assert!(item.is_some());
        let place = self.len();
        let _ = self.top.push_within_capacity(item);
        place
    }

    /// Removes the item that was pushed last, and returns it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let item = self.top.last_mut()?.take();
        // What is left in its place has nothing to drop.
        core::mem::forget(self.top.pop());
        if self.below != 0 && self.top.is_empty() {
            self.end_chunk();
        }
        item
    }

    /// Returns a chunk that became free, to be dropped where freeing is allowed. Between two chunks
    /// that become free, as many items are popped as fit into one.
    #[inline]
    pub(super) fn take_surplus(&mut self) -> Option<Chunk<T>> {
        self.surplus.take()
    }

    /// Replaces `top`, which is full. Returns `false` if no spare chunk exists.
    #[cold]
    fn begin_chunk(&mut self) -> bool {
        let Some(Chunk(node)) = self.spare.take() else {
            return false;
        };
        let Some((node, items)) = self.take_apart(node) else {
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

    /// Takes the vector out of a node with the key [`NO_PLACE`]. The vector of a node can be
    /// reached only in a tree, and the tree has no other node with that key.
    fn take_apart(&mut self, node: Node<T>) -> Option<(NodeMemory<T>, Items<T>)> {
        let replaced = self.full.insert(node);
        debug_assert!(replaced.is_none());
        let items = core::mem::take(self.full.get_mut(&NO_PLACE)?);
        // The vector was taken, so this frees nothing.
        let node = self.full.remove_node(&NO_PLACE)?.into_reservation();
        Some((node, items))
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
        let chunk = Chunk(node.into_node(NO_PLACE, items));
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
