// SPDX-License-Identifier: GPL-2.0

//! A first-in, first-out queue whose cells are owned by the items that wait in it.
//!
//! Queueing under a spinlock must not allocate, so the memory for a place in the queue has to be
//! there before. A [`Ticket`] is that place: allocated ahead of time, handed over together with
//! the value by [`BoxQueue::push_back`], and handed back with it by [`BoxQueue::pop_front`]. Whoever
//! holds a ticket knows by the type system that nothing of his is waiting under it:
//!
//! ```text
//!            push_back(ticket, value)
//!   Ticket ───────────────────────────► cell in exactly one queue
//!      ▲                                           │
//!      └───────────────────────────────────────────┘
//!            pop_front() / take() -> (value, ticket)
//! ```

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        AllocError,
        Flags, //
    },
    prelude::*, //
};

struct Cell<T> {
    next: Option<NonNull<Cell<T>>>,
    value: Option<T>,
}

// SAFETY: `next` is followed by nobody but the queue that owns both cells; apart from that a cell is
// a `T` at most.
unsafe impl<T: Send> Send for Cell<T> {}

// SAFETY: As above; a shared cell gives out nothing but `&T`.
unsafe impl<T: Sync> Sync for Cell<T> {}

/// An empty place for a [`BoxQueue`].
pub(crate) struct Ticket<T>(KBox<Cell<T>>);

impl<T> Ticket<T> {
    /// Allocates a place.
    pub(crate) fn new(flags: Flags) -> Result<Self, AllocError> {
        let cell = Cell {
            next: None,
            value: None,
        };
        Ok(Self(KBox::new(cell, flags)?))
    }
}

/// A queue of values in cells that were allocated beforehand.
///
/// # Invariants
///
/// Starting at `ends.first` and following `next`, one reaches `ends.last` after finitely many
/// steps, and only there `next` is `None`. Each cell on the way came out of a [`Ticket`], is owned
/// by this queue alone, and holds a value.
pub(crate) struct BoxQueue<T> {
    ends: Option<Ends<T>>,
    _owns: PhantomData<KBox<Cell<T>>>,
}

struct Ends<T> {
    first: NonNull<Cell<T>>,
    last: NonNull<Cell<T>>,
}

// SAFETY: The queue owns its cells (type invariant), so moving it to another thread moves nothing
// but `T`s and memory that any thread may free.
unsafe impl<T: Send> Send for BoxQueue<T> {}

// SAFETY: A shared queue gives out nothing but `&T`.
unsafe impl<T: Sync> Sync for BoxQueue<T> {}

impl<T> BoxQueue<T> {
    /// Makes an empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no cells.
        Self {
            ends: None,
            _owns: PhantomData,
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// The value that has waited longest.
    pub(crate) fn front(&self) -> Option<&T> {
        let ends = self.ends.as_ref()?;
        // SAFETY: By the type invariant `first` is a cell that this queue owns, and `&self` keeps
        // it from being changed or taken out while the reference lives.
        unsafe { ends.first.as_ref() }.value.as_ref()
    }

    /// Lets `value` wait behind all others, in the place that `ticket` stands for.
    pub(crate) fn push_back(&mut self, ticket: Ticket<T>, value: T) {
        let mut cell = ticket.0;
        cell.next = None;
        // A ticket's place is empty, so there is nothing to drop; the compiler does not know that.
        core::mem::forget(cell.value.replace(value));
        let cell = NonNull::from(KBox::leak(cell));
        // INVARIANT: The new cell came out of a ticket, holds a value, and is owned by the queue
        // now that its box is leaked. It becomes the last one, and its `next` is `None`.
        match &mut self.ends {
            None => {
                self.ends = Some(Ends {
                    first: cell,
                    last: cell,
                });
            }
            Some(ends) => {
                // SAFETY: By the type invariant `last` is a cell of ours, and `&mut self` makes
                // this the only access to it.
                unsafe { ends.last.as_mut() }.next = Some(cell);
                ends.last = cell;
            }
        }
    }

    /// Takes out the value that has waited longest, and gives its ticket back.
    pub(crate) fn pop_front(&mut self) -> Option<(T, Ticket<T>)> {
        let ends = self.ends.as_mut()?;
        // SAFETY: By the type invariant `first` is a leaked box that only this queue owns. It is
        // unlinked right below, so nobody will make a box of it again.
        let mut cell = unsafe { KBox::from_raw(ends.first.as_ptr()) };
        // INVARIANT: What followed the first cell is first now; a cell without a follower was the
        // last one, so the queue is empty without it.
        match cell.next.take() {
            Some(next) => ends.first = next,
            None => self.ends = None,
        }
        let value = cell.value.take()?;
        Some((value, Ticket(cell)))
    }

    /// Takes out the first value that `wanted` accepts, wherever it waits; the others keep their
    /// order. Looks at all before it, so it is for rare cases.
    pub(crate) fn take_first(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Option<(T, Ticket<T>)> {
        let mut before = Self::new();
        let mut found = None;
        while let Some((value, ticket)) = self.pop_front() {
            if wanted(&value) {
                found = Some((value, ticket));
                break;
            }
            before.push_back(ticket, value);
        }
        before.append(self);
        *self = before;
        found
    }

    /// Takes out the last value that `wanted` accepts, wherever it waits; the others keep their
    /// order. Looks at all of them, so it is for rare cases.
    pub(crate) fn take_last(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Option<(T, Ticket<T>)> {
        let mut before = Self::new();
        let mut after = Self::new();
        let mut found = None;
        while let Some((value, ticket)) = self.pop_front() {
            if wanted(&value) {
                if let Some((earlier, ticket)) = found.replace((value, ticket)) {
                    before.push_back(ticket, earlier);
                    before.append(&mut after);
                }
            } else if found.is_some() {
                after.push_back(ticket, value);
            } else {
                before.push_back(ticket, value);
            }
        }
        before.append(&mut after);
        *self = before;
        found
    }

    /// Moves all of `other` behind what waits here.
    fn append(&mut self, other: &mut Self) {
        while let Some((value, ticket)) = other.pop_front() {
            self.push_back(ticket, value);
        }
    }
}

impl<T> Drop for BoxQueue<T> {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}
