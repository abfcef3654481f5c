// SPDX-License-Identifier: GPL-2.0

//! A stack that is limited by memory alone, and whose items keep their places.
//!
//! The last item, which is the only one of most stacks, is in the stack itself. Those below it are
//! in chunks: an item goes there when another one is pushed, and comes back when that is popped.
//! Each chunk has room for twice as many items as the one below it, so no item is moved when the
//! stack grows, and few steps lead to any place.
//!
//! ```text
//!   highest ─► 32: empty ─► 16: places 8 … 11 ─► 8: places 0 … 7        last: place 12
//! ```
//!
//! A `KVVec` alone copies all items when it grows. A stack would do that under its lock, and `make
//! growth` fails where the longest stretch with preemption off grows with the depth. Here the
//! caller passes the memory by which the stack grows and receives the memory that becomes free, so
//! pushing and popping neither allocate nor free.

use kernel::{alloc::Flags, prelude::*};

/// The number of items that fit into the lowest chunk: few stacks ever have more.
const FIRST: usize = 8;

/// The number of items that the next chunk has to have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage(usize);

/// Memory for more items.
pub(crate) type Room<T> = KBox<StackChunk<T>>;

/// A piece of memory of a stack.
pub(crate) struct StackChunk<T> {
    /// Has no `None`: an item goes there and comes back as it is, so the compiler need not take it
    /// apart to find out that it is one.
    items: KVVec<Option<T>>,
    /// The place of the first item.
    start: usize,
    below: Option<Room<T>>,
}

/// A stack whose items keep their places.
///
/// # Invariants
///
/// - If there is no `last` item, there are none in chunks.
/// - The chunks above one that is not full are empty, and those below one that is not empty are
///   full.
pub(crate) struct ChunkedStack<T> {
    last: Option<T>,
    highest: Option<Room<T>>,
}

impl Shortage {
    /// Allocates the memory. Fails with `ENOMEM`; may sleep if `flags` say so.
    pub(crate) fn allocate<T>(self, flags: Flags) -> Result<Room<T>> {
        let chunk = StackChunk {
            items: KVVec::with_capacity(self.0, flags)?,
            start: 0,
            below: None,
        };
        Ok(KBox::new(chunk, flags)?)
    }
}

impl<T> StackChunk<T> {
    fn is_full(&self) -> bool {
        self.items.len() == self.items.capacity()
    }

    /// Returns the place behind the last item.
    fn end(&self) -> usize {
        self.start + self.items.len()
    }
}

impl<T> ChunkedStack<T> {
    /// Returns an empty stack, without memory.
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            highest: None,
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
        let mut chunk = self.highest.as_deref();
        while let Some(empty) = chunk.filter(|chunk| chunk.items.is_empty()) {
            chunk = empty.below.as_deref();
        }
        chunk.map_or(0, StackChunk::end)
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
        let mut chunk = self.highest.as_deref()?;
        while place < chunk.start {
            chunk = chunk.below.as_deref()?;
        }
        chunk.items.get(place - chunk.start)?.as_ref()
    }

    /// Returns the item at a place.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        if place == self.place_of_last() {
            return self.last.as_mut();
        }
        let mut chunk = self.highest.as_deref_mut()?;
        while place < chunk.start {
            chunk = chunk.below.as_deref_mut()?;
        }
        chunk.items.get_mut(place - chunk.start)?.as_mut()
    }

    /// Whether an item can be pushed.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.is_empty() || self.highest.as_deref().is_some_and(|it| !it.is_full())
    }

    /// Returns what has to be allocated before an item can be pushed, if anything.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        let highest = self.highest.as_deref();
        let next = highest.map_or(FIRST, |highest| 2 * highest.items.capacity());
        (!self.has_room()).then_some(Shortage(next))
    }

    /// Adds memory. Returns what is not needed, to be dropped where freeing is allowed.
    pub(crate) fn add_room(&mut self, mut room: Room<T>) -> Option<Room<T>> {
        if self.has_room() {
            return Some(room);
        }
        room.start = self.place_of_last();
        room.below = self.highest.take();
        self.highest = Some(room);
        None
    }

    /// Pushes an item, and returns its place. Fails and returns the item if the stack has no room.
    #[inline(always)] // Most of a short lock round, and the item is made for it.
    pub(crate) fn push(&mut self, item: T) -> Result<usize, T> {
        if self.is_empty() {
            self.set_last(Some(item));
            return Ok(0);
        }
        let chunk = self.highest.as_deref_mut();
        let Some(chunk) = chunk.and_then(Self::with_room) else {
            return Err(item);
        };
        let place = chunk.end();
        // Does not fail, because there is room.
        let _ = chunk.items.push_within_capacity(self.last.replace(item));
        Ok(place + 1)
    }

    /// Returns the lowest chunk that is not full, from the highest one.
    #[inline]
    fn with_room(mut chunk: &mut StackChunk<T>) -> Option<&mut StackChunk<T>> {
        while chunk.below.as_ref().is_some_and(|below| !below.is_full()) {
            chunk = chunk.below.as_deref_mut()?;
        }
        (!chunk.is_full()).then_some(chunk)
    }

    /// Removes the item that was pushed last, and returns it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = match &mut self.highest {
            None => None,
            Some(highest) => Self::pop_below(highest),
        };
        core::mem::replace(&mut self.last, last)
    }

    /// Removes the last item that is in a chunk, and returns it.
    fn pop_below(mut chunk: &mut StackChunk<T>) -> Option<T> {
        while chunk.items.is_empty() {
            chunk = chunk.below.as_deref_mut()?;
        }
        let item = chunk.items.last_mut()?.take();
        // Its place now contains `None`, so nothing has to be dropped.
        core::mem::forget(chunk.items.pop());
        item
    }

    /// Sets the last item, which was taken out. The old value, `None`, is not dropped: the compiler
    /// cannot prove that it is `None`, and would add code that drops it.
    #[inline(always)]
    fn set_last(&mut self, last: Option<T>) {
        core::mem::forget(core::mem::replace(&mut self.last, last));
    }

    /// Returns a chunk that became free, to be dropped where freeing is allowed: one that is empty
    /// and has an empty one below it. Between two chunks that become free, as many items are popped
    /// as fit into one.
    #[inline]
    pub(crate) fn take_surplus(&mut self) -> Option<Room<T>> {
        let is_empty = |chunk: &Room<T>| chunk.items.is_empty();
        let mut surplus = self
            .highest
            .take_if(|highest| is_empty(highest) && highest.below.as_ref().is_some_and(is_empty))?;
        self.highest = surplus.below.take();
        Some(surplus)
    }
}
