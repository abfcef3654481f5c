// SPDX-License-Identifier: GPL-2.0

//! A first-in, first-out queue whose cells are owned by the items that wait in it.
//!
//! Queueing under a spinlock must not allocate, so the memory for a place in the queue has to exist
//! before. A [`Ticket`] is that memory: it is allocated in advance, passed to
//! [`BoxQueue::push_back`] together with the value, and returned with it by
//! [`BoxQueue::pop_front`]. By the type system, nothing is queued in the place of a ticket while a
//! caller holds it:
//!
//! ```text
//!            push_back(ticket, value)
//!   Ticket ───────────────────────────► cell in exactly one queue
//!      ▲                                           │
//!      └───────────────────────────────────────────┘
//!            pop_front() / take() -> (value, ticket)
//! ```
//!
//! A [`Position`] belongs to the cell of one ticket, in any queue. With it a value is taken from
//! the middle of a queue without a search: the cells of queues that are made for this
//! ([`BoxQueue::numbered`]) store the number of their queue.

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        AllocError,
        Flags, //
    },
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
        ArcBorrow, //
    },
};

/// The number of queues that are not numbered, and of cells that are in no queue.
const NO_NUMBER: u64 = 0;

static LAST_NUMBER: Atomic<u64> = Atomic::new(NO_NUMBER);

/// A place in a queue.
///
/// # Invariants
///
/// One object at a time may use the cell, which is to access `seat` and to write `queue`: its
/// ticket, or the queue that it is in.
struct Cell<T> {
    /// The number of the queue that the cell is in.
    queue: Atomic<u64>,
    seat: UnsafeCell<Seat<T>>,
}

struct Seat<T> {
    previous: Option<NonNull<Cell<T>>>,
    next: Option<NonNull<Cell<T>>>,
    value: Option<T>,
}

impl<T> Cell<T> {
    /// Returns the parts of a cell that the caller may use.
    ///
    /// # Safety
    ///
    /// The caller may use the cell, and has no other reference to its seat while this one lives.
    unsafe fn parts<'a>(this: NonNull<Self>) -> (&'a Atomic<u64>, &'a mut Seat<T>) {
        // SAFETY: A cell is not freed while an object may use it; the rest is promised by the
        // caller.
        unsafe { (&this.as_ref().queue, &mut *this.as_ref().seat.get()) }
    }
}

// SAFETY: The object that may use the cell can take the `T` out of it, and that right can be moved
// to another thread; no other object follows the pointers.
unsafe impl<T: Send> Send for Cell<T> {}

// SAFETY: Objects that may not use the cell read only `queue`, which is atomic.
unsafe impl<T: Send> Sync for Cell<T> {}

/// An empty place for a [`BoxQueue`].
///
/// # Invariants
///
/// The ticket may use the cell, in which there is no value, and whose `queue` is [`NO_NUMBER`].
pub(crate) struct Ticket<T>(Arc<Cell<T>>);

/// The cell of a ticket, by which the value that is queued in it can be taken.
pub(crate) struct Position<T>(Arc<Cell<T>>);

impl<T> Ticket<T> {
    /// Allocates a place.
    pub(crate) fn new(flags: Flags) -> Result<Self, AllocError> {
        let cell = Cell {
            queue: Atomic::new(NO_NUMBER),
            seat: UnsafeCell::new(Seat {
                previous: None,
                next: None,
                value: None,
            }),
        };
        // INVARIANT: Nothing else refers to the cell.
        Ok(Self(Arc::new(cell, flags)?))
    }

    /// Returns the position of any value that will be queued in this place.
    pub(crate) fn position(&self) -> Position<T> {
        Position(self.0.clone())
    }
}

/// A queue of values in cells that were allocated in advance.
///
/// # Invariants
///
/// - Starting at `first` and following `next`, one reaches `last` after finitely many steps, and
///   only there `next` is `None`. `previous` leads back the same way. `first` and `last` are both
///   `None` or neither is.
/// - Each cell on the way comes from the `Arc` of a [`Ticket`], whose reference count the queue
///   owns now; the queue may use the cell, and it contains a value.
/// - `number` is [`NO_NUMBER`], or no other queue has it, and then the cells on the way and no
///   others have it as their `queue`.
pub(crate) struct BoxQueue<T> {
    first: Option<NonNull<Cell<T>>>,
    last: Option<NonNull<Cell<T>>>,
    number: u64,
    _owns: PhantomData<Arc<Cell<T>>>,
}

// SAFETY: The queue may use its cells (type invariant) and no other object does, so moving it to
// another thread moves only `T`s and memory that any thread may free.
unsafe impl<T: Send> Send for BoxQueue<T> {}

// SAFETY: A shared queue returns only `&T`.
unsafe impl<T: Sync> Sync for BoxQueue<T> {}

impl<T> BoxQueue<T> {
    /// Makes an empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no cells.
        Self {
            first: None,
            last: None,
            number: NO_NUMBER,
            _owns: PhantomData,
        }
    }

    /// Makes an empty queue that [`take`](Self::take) works on.
    pub(crate) fn numbered() -> Self {
        // INVARIANT: There are no cells, and a counter of 64 bits does not wrap.
        Self {
            number: LAST_NUMBER.fetch_add(1, Relaxed) + 1,
            ..Self::new()
        }
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the value that was queued first.
    pub(crate) fn front(&self) -> Option<&T> {
        // SAFETY: By the type invariant the queue may use the cell, and `&self` keeps it from being
        // changed or taken out while the reference lives; other references that are made meanwhile
        // are shared ones, too.
        let seat = unsafe { &*self.first?.as_ref().seat.get() };
        seat.value.as_ref()
    }

    /// Returns the values behind the one in the place that `after` belongs to, or all values if that
    /// place is not in this queue: values are mostly taken from the front, so what was queued before
    /// that one has gone, too. Only for a numbered queue may there be an `after`.
    pub(crate) fn iter(&self, after: Option<&Position<T>>) -> Iter<'_, T> {
        let is_here = |position: &&Position<T>| {
            self.number != NO_NUMBER && position.0.queue.load(Relaxed) == self.number
        };
        // INVARIANT: By the type invariant of queues `first` is a cell of this one, and by another one
        // any cell with its number is, and so is the one behind it.
        let next = match after.filter(is_here) {
            None => self.first,
            // SAFETY: By the type invariant only cells of this queue have its number. The queue may use
            // them, and `&self` keeps them from being changed meanwhile.
            Some(position) => unsafe { &*position.0.seat.get() }.next,
        };
        Iter {
            next,
            last: None,
            _queue: PhantomData,
        }
    }

    /// Gives a queue a number, so that [`take`](Self::take) and [`iter`](Self::iter) work on it, if it
    /// is empty and has none.
    pub(crate) fn become_numbered(&mut self) {
        if self.number == NO_NUMBER && self.is_empty() {
            *self = Self::numbered();
        }
    }

    /// Queues `value` behind all others, in the place of `ticket`.
    #[inline]
    pub(crate) fn push_back(&mut self, ticket: Ticket<T>, value: T) {
        let Some(cell) = NonNull::new(Arc::into_raw(ticket.0).cast_mut()) else {
            return;
        };
        // SAFETY: The ticket could use the cell, and so can the queue now that the ticket is
        // consumed.
        let (queue, seat) = unsafe { Cell::parts(cell) };
        queue.store(self.number, Relaxed);
        seat.previous = self.last;
        seat.next = None;
        // A ticket's place is empty, so nothing is dropped here; the compiler does not know that.
        core::mem::forget(seat.value.replace(value));
        // INVARIANT: The new cell is the last one: nothing follows it, it follows the one that was
        // last, and it has the number of this queue.
        match self.last.replace(cell) {
            None => self.first = Some(cell),
            // SAFETY: By the type invariant the queue may use its cells, and this is another one.
            Some(before) => unsafe { Cell::parts(before) }.1.next = Some(cell),
        }
    }

    /// Takes the value that was queued first, and returns it with its ticket.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<(T, Ticket<T>)> {
        let first = self.first?;
        // SAFETY: By the type invariant the queue may use its cells.
        let (_, seat) = unsafe { Cell::parts(first) };
        // INVARIANT: The cell that followed the first one is first now; if none did, the queue is
        // empty.
        self.first = seat.next;
        match seat.next {
            None => self.last = None,
            // SAFETY: As above, and this is another cell.
            Some(next) => unsafe { Cell::parts(next) }.1.previous = None,
        }
        // SAFETY: The first cell was one of this queue, and is not on the way through it any more.
        unsafe { Self::give_back(first) }
    }

    /// Takes the value in the place that `position` belongs to, if it is in this queue, which has
    /// to be a numbered one.
    pub(crate) fn take(&mut self, position: &Position<T>) -> Option<(T, Ticket<T>)> {
        let number = position.0.queue.load(Relaxed);
        if number == NO_NUMBER || number != self.number {
            return None;
        }
        let cell = NonNull::new(Arc::as_ptr(&position.0).cast_mut())?;
        // SAFETY: By the type invariant only cells of this queue have its number. That can change
        // neither way meanwhile, because a change takes a `&mut` of this queue.
        unsafe { self.unlink(cell) }
    }

    /// Takes the first value that `wanted` accepts, wherever it is in the queue. Visits all values
    /// before it, so it is for rare cases.
    pub(crate) fn take_first(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Option<(T, Ticket<T>)> {
        let mut at = self.first;
        while let Some(cell) = at {
            // SAFETY: By the type invariant the way leads to cells that the queue may use.
            let (_, seat) = unsafe { Cell::parts(cell) };
            if seat.value.as_ref().is_some_and(&mut wanted) {
                // SAFETY: The cell is one of this queue.
                return unsafe { self.unlink(cell) };
            }
            at = seat.next;
        }
        None
    }

    /// Takes a cell out of the queue, wherever it is.
    ///
    /// # Safety
    ///
    /// The cell is in this queue.
    unsafe fn unlink(&mut self, cell: NonNull<Cell<T>>) -> Option<(T, Ticket<T>)> {
        // SAFETY: By the type invariant the queue may use its cells.
        let (_, seat) = unsafe { Cell::parts(cell) };
        let (previous, next) = (seat.previous, seat.next);
        // INVARIANT: The cells before and behind this one follow each other now.
        match previous {
            None => self.first = next,
            // SAFETY: As above, and this is another cell.
            Some(previous) => unsafe { Cell::parts(previous) }.1.next = next,
        }
        match next {
            None => self.last = previous,
            // SAFETY: As above, and this is another cell.
            Some(next) => unsafe { Cell::parts(next) }.1.previous = previous,
        }
        // SAFETY: The cell was one of this queue, and is not on the way through it any more.
        unsafe { Self::give_back(cell) }
    }

    /// Returns the value of a cell, and its ticket.
    ///
    /// # Safety
    ///
    /// The cell was one of a queue, and is not on the way through that any more.
    #[inline]
    unsafe fn give_back(cell: NonNull<Cell<T>>) -> Option<(T, Ticket<T>)> {
        // SAFETY: The queue may use its cells.
        let (queue, seat) = unsafe { Cell::parts(cell) };
        let value = seat.value.take();
        // INVARIANT: The cell is in no queue any more; the ticket may use it from now on.
        queue.store(NO_NUMBER, Relaxed);
        // SAFETY: By the type invariant of queues the cell comes from an `Arc` that was turned into
        // a pointer; it was in one queue, and has left that, so this is done once.
        let ticket = Ticket(unsafe { Arc::from_raw(cell.as_ptr()) });
        Some((value?, ticket))
    }
}

/// The values of a queue, in their order.
///
/// # Invariants
///
/// `next` and `last` are cells of the queue, which is not changed while the iterator lives.
pub(crate) struct Iter<'a, T> {
    next: Option<NonNull<Cell<T>>>,
    last: Option<NonNull<Cell<T>>>,
    _queue: PhantomData<&'a BoxQueue<T>>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        let cell = self.next?;
        // SAFETY: By the type invariant this is a cell of a queue that is not changed for `'a`, which
        // may use it; other references that are made meanwhile are shared ones, too.
        let seat = unsafe { &*cell.as_ref().seat.get() };
        // INVARIANT: By the type invariant of queues what follows a cell is another one of the queue.
        self.next = seat.next;
        self.last = Some(cell);
        seat.value.as_ref()
    }
}

impl<T> Iter<'_, T> {
    /// Returns the position of the value that was returned last, to go on behind it later.
    pub(crate) fn position(&self) -> Option<Position<T>> {
        // SAFETY: By the type invariants this is a cell of a queue that is not changed meanwhile. It
        // comes from an `Arc` that was turned into a pointer, whose count the queue owns.
        let cell = unsafe { ArcBorrow::from_raw(self.last?.as_ptr()) };
        Some(Position(cell.into()))
    }
}

impl<T> Drop for BoxQueue<T> {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}
