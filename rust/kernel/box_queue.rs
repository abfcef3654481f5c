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
//!
//! A [`Position`] belongs to the cell of one ticket, wherever that goes. With it a value leaves the middle
//! of a queue without a search: the cells of queues that are made for this ([`BoxQueue::numbered`]) know
//! the number of their queue.

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
        Arc, //
    },
};

/// The number of queues that positions mean nothing to, and of cells that wait in none.
const NO_NUMBER: u64 = 0;

static LAST_NUMBER: Atomic<u64> = Atomic::new(NO_NUMBER);

/// A place in a queue.
///
/// # Invariants
///
/// One at a time may use the cell, which is to access `seat` and to write `queue`: its ticket, or
/// the queue in which it waits.
struct Cell<T> {
    /// The number of the queue in which the cell waits.
    queue: Atomic<u64>,
    seat: UnsafeCell<Seat<T>>,
}

struct Seat<T> {
    previous: Option<NonNull<Cell<T>>>,
    next: Option<NonNull<Cell<T>>>,
    value: Option<T>,
}

impl<T> Cell<T> {
    /// The parts of a cell, for whoever may use it.
    ///
    /// # Safety
    ///
    /// The caller may use the cell, and has no other reference to its seat while this one lives.
    unsafe fn parts<'a>(this: NonNull<Self>) -> (&'a Atomic<u64>, &'a mut Seat<T>) {
        // SAFETY: Cells are not freed while somebody may use them; the rest is promised by the caller.
        unsafe { (&this.as_ref().queue, &mut *this.as_ref().seat.get()) }
    }
}

// SAFETY: Whoever may use the cell can take the `T` out of it, and that right can go to another thread;
// the pointers are followed by nobody else.
unsafe impl<T: Send> Send for Cell<T> {}

// SAFETY: Those who may not use the cell read `queue` and nothing else, which is atomic.
unsafe impl<T: Send> Sync for Cell<T> {}

/// An empty place for a [`BoxQueue`].
///
/// # Invariants
///
/// The ticket may use the cell, in which there is no value, and whose `queue` is [`NO_NUMBER`].
pub(crate) struct Ticket<T>(Arc<Cell<T>>);

/// Where the cell of a ticket is, for whoever wants to take out what waits in it.
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
        // INVARIANT: Nobody else knows the cell.
        Ok(Self(Arc::new(cell, flags)?))
    }

    /// The position of whatever will wait in this place.
    pub(crate) fn position(&self) -> Position<T> {
        Position(self.0.clone())
    }
}

/// A queue of values in cells that were allocated beforehand.
///
/// # Invariants
///
/// - Starting at `first` and following `next`, one reaches `last` after finitely many steps, and only
///   there `next` is `None`. `previous` leads back the same way. `first` and `last` are both
///   `None` or neither is.
/// - Each cell on the way comes from the `Arc` of a [`Ticket`], whose count of references is the queue's
///   now; the queue may use it, and there is a value in it.
/// - `number` is [`NO_NUMBER`], or no other queue has it, and then the cells on the way and no others have
///   it as their `queue`.
pub(crate) struct BoxQueue<T> {
    first: Option<NonNull<Cell<T>>>,
    last: Option<NonNull<Cell<T>>>,
    number: u64,
    _owns: PhantomData<Arc<Cell<T>>>,
}

// SAFETY: The queue may use its cells (type invariant) and nobody else does, so moving it to another
// thread moves nothing but `T`s and memory that any thread may free.
unsafe impl<T: Send> Send for BoxQueue<T> {}

// SAFETY: A shared queue gives out nothing but `&T`.
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

    /// Makes an empty queue from which [`take`](Self::take) can take.
    pub(crate) fn numbered() -> Self {
        // INVARIANT: There are no cells, and 64 bits do not come round.
        Self {
            number: LAST_NUMBER.fetch_add(1, Relaxed) + 1,
            ..Self::new()
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The value that has waited longest.
    pub(crate) fn front(&self) -> Option<&T> {
        // SAFETY: By the type invariant the queue may use the cell, and `&self` keeps it from being
        // changed or taken out while the reference lives; other references that are made meanwhile are
        // shared ones, too.
        let seat = unsafe { &*self.first?.as_ref().seat.get() };
        seat.value.as_ref()
    }

    /// Lets `value` wait behind all others, in the place that `ticket` stands for.
    #[inline]
    pub(crate) fn push_back(&mut self, ticket: Ticket<T>, value: T) {
        let Some(cell) = NonNull::new(Arc::into_raw(ticket.0).cast_mut()) else {
            return;
        };
        // SAFETY: The ticket could use the cell, and so can the queue now that it is gone.
        let (queue, seat) = unsafe { Cell::parts(cell) };
        queue.store(self.number, Relaxed);
        seat.previous = self.last;
        seat.next = None;
        // A ticket's place is empty, so there is nothing to drop; the compiler does not know that.
        core::mem::forget(seat.value.replace(value));
        // INVARIANT: The new cell is the last one: nothing follows it, it follows the one that was
        // last, and it has the number of this queue.
        match self.last.replace(cell) {
            None => self.first = Some(cell),
            // SAFETY: By the type invariant the queue may use its cells, and this is another one.
            Some(before) => unsafe { Cell::parts(before) }.1.next = Some(cell),
        }
    }

    /// Takes out the value that has waited longest, and gives its ticket back.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<(T, Ticket<T>)> {
        let first = self.first?;
        // SAFETY: By the type invariant the queue may use its cells.
        let (_, seat) = unsafe { Cell::parts(first) };
        // INVARIANT: What followed the first cell is first now; if nothing did, the queue is empty.
        self.first = seat.next;
        match seat.next {
            None => self.last = None,
            // SAFETY: As above, and this is another cell.
            Some(next) => unsafe { Cell::parts(next) }.1.previous = None,
        }
        // SAFETY: The first cell was one of this queue, and is not on the way through it any more.
        unsafe { Self::give_back(first) }
    }

    /// Takes out what waits in the place that `position` belongs to, if it waits in this queue, which
    /// has to be a numbered one.
    pub(crate) fn take(&mut self, position: &Position<T>) -> Option<(T, Ticket<T>)> {
        let number = position.0.queue.load(Relaxed);
        if number == NO_NUMBER || number != self.number {
            return None;
        }
        let cell = NonNull::new(Arc::as_ptr(&position.0).cast_mut())?;
        // SAFETY: By the type invariant no cells but those of this queue have its number. That can
        // change neither way meanwhile, for it takes a `&mut` of this queue.
        unsafe { self.unlink(cell) }
    }

    /// Takes out the first value that `wanted` accepts, wherever it waits. Looks at all before it, so it
    /// is for rare cases.
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

    /// Takes a cell out, wherever it is.
    ///
    /// # Safety
    ///
    /// The cell waits in this queue.
    unsafe fn unlink(&mut self, cell: NonNull<Cell<T>>) -> Option<(T, Ticket<T>)> {
        // SAFETY: By the type invariant the queue may use its cells.
        let (_, seat) = unsafe { Cell::parts(cell) };
        let (previous, next) = (seat.previous, seat.next);
        // INVARIANT: What came before the cell and what came behind it follow each other now.
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

    /// What waited in a cell, and its ticket.
    ///
    /// # Safety
    ///
    /// The cell was one of a queue, and is not on the way through that any more.
    #[inline]
    unsafe fn give_back(cell: NonNull<Cell<T>>) -> Option<(T, Ticket<T>)> {
        // SAFETY: The queue may use its cells.
        let (queue, seat) = unsafe { Cell::parts(cell) };
        let value = seat.value.take();
        // INVARIANT: The cell is of no queue any more; the ticket may use it from now on.
        queue.store(NO_NUMBER, Relaxed);
        // SAFETY: By the type invariant of queues the cell comes from an `Arc` that was turned into a
        // pointer; it was in one queue, and has left that, so this is done once.
        let ticket = Ticket(unsafe { Arc::from_raw(cell.as_ptr()) });
        Some((value?, ticket))
    }
}

impl<T> Drop for BoxQueue<T> {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}
