// SPDX-License-Identifier: GPL-2.0

//! A stack that is limited by memory alone, and whose items keep their places.
//!
//! The last item, which is the only one of most stacks, is in the stack itself. Those below it are
//! in [chunks](Chunks), which are allocated when a second item is to be pushed for the first time:
//! an item goes there when another one is pushed, and comes back when that is popped. The caller
//! passes the memory by which the stack grows and receives the memory that becomes free, so pushing
//! and popping neither allocate nor free.

pub(crate) use super::chunks::Chunk;
use super::chunks::Chunks;
use kernel::{alloc::Flags, prelude::*};

/// What has to be allocated before an item can be pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// All that a second item needs.
    Chunks,
    /// One more chunk.
    Chunk,
}

/// Memory that was allocated because of a [`Shortage`].
pub(crate) enum Room<T> {
    Chunks(KBox<Chunks<T>>),
    Chunk(Chunk<T>),
}

impl Shortage {
    /// Allocates the memory. Fails with `ENOMEM`; may sleep if `flags` say so.
    pub(crate) fn allocate<T>(self, flags: Flags) -> Result<Room<T>> {
        Ok(match self {
            Self::Chunks => Room::Chunks(KBox::new(Chunks::new(flags)?, flags)?),
            Self::Chunk => Room::Chunk(Chunk::new(flags)?),
        })
    }
}

/// A stack whose items keep their places.
///
/// # Invariants
///
/// If there is no `last` item, there are none `below` it.
pub(crate) struct ChunkedStack<T> {
    last: Option<T>,
    below: Option<KBox<Chunks<T>>>,
}

impl<T> ChunkedStack<T> {
    /// Returns an empty stack, without memory.
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            below: None,
        }
    }

    /// Whether the stack is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Returns the number of items, which is the place of the next one.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.place_of_last() + usize::from(!self.is_empty())
    }

    /// Returns the place of the last item, which is the number of those below it.
    fn place_of_last(&self) -> usize {
        self.below.as_deref().map_or(0, Chunks::len)
    }

    /// Returns the item that was pushed last.
    #[inline]
    pub(crate) fn last(&self) -> Option<&T> {
        self.last.as_ref()
    }

    /// Returns the item that was pushed last.
    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.last.as_mut()
    }

    /// Returns the item at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        if place == self.place_of_last() {
            return self.last.as_ref();
        }
        self.below.as_deref()?.get(place)
    }

    /// Returns the item at a place, and the one that was pushed before it.
    pub(crate) fn get_with_previous(&self, place: usize) -> Option<(&T, &T)> {
        let below = self.below.as_deref()?;
        if place == below.len() {
            return Some((self.last.as_ref()?, below.last()?));
        }
        below.get_with_previous(place)
    }

    /// Returns the item at a place.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        if place == self.place_of_last() {
            return self.last.as_mut();
        }
        self.below.as_deref_mut()?.get_mut(place)
    }

    /// Whether an item can be pushed.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.is_empty() || self.below.as_deref().is_some_and(Chunks::has_room)
    }

    /// Returns what has to be allocated before an item can be pushed, if anything.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        if self.has_room() {
            None
        } else if self.below.is_none() {
            Some(Shortage::Chunks)
        } else {
            Some(Shortage::Chunk)
        }
    }

    /// Adds memory. Returns what is not needed, to be dropped where freeing is allowed.
    pub(crate) fn add_room(&mut self, room: Room<T>) -> Option<Room<T>> {
        match (room, &mut self.below) {
            (Room::Chunks(chunks), below @ None) => {
                *below = Some(chunks);
                None
            }
            (Room::Chunk(chunk), Some(below)) => below.add_chunk(chunk).map(Room::Chunk),
            (room, _) => Some(room),
        }
    }

    /// Pushes an item, and returns its place. Fails and returns the item if the stack has no room.
    #[inline(always)] // Most of a short lock round, and the item is made for it.
    pub(crate) fn push(&mut self, item: T) -> Result<usize, T> {
        if self.is_empty() {
            self.set_last(Some(item));
            return Ok(0);
        }
        let below = self.below.as_deref_mut();
        let Some(below) = below.and_then(Chunks::with_room) else {
            return Err(item);
        };
        Ok(1 + below.push(self.last.replace(item)))
    }

    /// Removes the item that was pushed last, and returns it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.below.as_deref_mut().and_then(Chunks::pop);
        core::mem::replace(&mut self.last, last)
    }

    /// Sets the last item, which was taken out. What is replaced is forgotten, because the compiler
    /// does not know that it is `None`, and would add code that drops it.
    #[inline(always)]
    fn set_last(&mut self, last: Option<T>) {
        core::mem::forget(core::mem::replace(&mut self.last, last));
    }

    /// Returns a chunk that became free, to be dropped where freeing is allowed. Between two chunks
    /// that become free, as many items are popped as fit into one.
    #[inline]
    pub(crate) fn take_surplus(&mut self) -> Option<Chunk<T>> {
        self.below.as_deref_mut()?.take_surplus()
    }
}
