// SPDX-License-Identifier: GPL-2.0

//! A first-in, first-out queue that allocates nothing.
//!
//! Queueing under a spinlock must not allocate, so the memory for a place in the queue has to exist
//! before. It comes from one of two sources.
//!
//! - An object that has a [`Link`] is queued in that place ([`BoxQueue::push_object`]). As long as
//!   it waits, it cannot be queued anywhere else. [`Placed`] is a value in one allocation with such
//!   a place.
//! - Any value is queued in the place of a [`Ticket`], which is allocated in advance, passed to
//!   [`BoxQueue::push_back`] together with the value, and returned with it by
//!   [`BoxQueue::pop_front`]. By the type system, nothing is queued in the place of a ticket while
//!   a caller holds it:
//!
//! ```text
//!            push_back(ticket, value)
//!   Ticket ───────────────────────────► cell in exactly one queue
//!      ▲                                           │
//!      └───────────────────────────────────────────┘
//!            pop_front() -> (value, Some(ticket))
//! ```
//!
//! An object is taken from the middle of a queue without a search ([`BoxQueue::take_object`]): the
//! links of queues that are made for this ([`BoxQueue::numbered`]), and of a [`SmallQueue`], store
//! the number of their queue.

#[path = "box_queue/placed.rs"]
mod placed;
#[path = "box_queue/queued.rs"]
mod queued;
#[path = "box_queue/small.rs"]
mod small;

pub(crate) use placed::Placed;
pub(crate) use queued::{queued, Queued, Refers};
pub(crate) use small::SmallQueue;

use super::link::{
    self,
    HasLink,
    Kind,
    Link,
    User,
    Waiting,
    CELL,
    NO_NUMBER, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    ops::Deref,
    ptr::NonNull, //
};
use kernel::alloc::{
    AllocError,
    Flags,
    KBox, //
};

/// A place in a queue that was allocated.
///
/// # Invariants
///
/// One object at a time may use the cell, which is to access `value` and to claim the link: its
/// ticket, or the queue that it is in.
#[repr(C)]
struct Cell<T> {
    /// First, so that a pointer to it is a pointer to the cell.
    link: Link,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: The object that may use the cell can take the `T` out of it, and that right can be moved
// to another thread; no other object follows the pointers.
unsafe impl<T: Send> Send for Cell<T> {}

// SAFETY: Objects that may not use the cell read only who does, which is atomic.
unsafe impl<T: Send> Sync for Cell<T> {}

/// An empty place for a [`BoxQueue`].
///
/// # Invariants
///
/// The ticket may use the cell, in which there is no value, and whose link is free.
pub(crate) struct Ticket<T>(KBox<Cell<T>>);

impl<T> Ticket<T> {
    /// Allocates a place.
    pub(crate) fn new(flags: Flags) -> Result<Self, AllocError> {
        let cell = Cell {
            link: Link::new(),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        // INVARIANT: Nothing else refers to the cell.
        Ok(Self(KBox::new(cell, flags)?))
    }

    /// Puts a value into the place, for good.
    #[inline(always)] // Otherwise the value would be copied twice.
    pub(crate) fn fill(self, value: T) -> Placed<T> {
        Placed::new(self, value)
    }
}

/// A queue of values in places that exist already.
///
/// # Invariants
///
/// - Starting at `first` and following `behind`, one reaches `last` after finitely many steps, and
///   only there `behind` is `None`. `before` leads back the same way. `first` and `last` are both
///   `None` or neither is.
/// - The queue has the right to use each link on the way. Its kind is [`CELL`]: then the link is
///   that of a cell from the box of a [`Ticket`], which the queue owns now, and the cell contains a
///   value. Or link and kind come from [`Queued::into_link`].
/// - The number of `user` is [`NO_NUMBER`], or no other user of links has it, and then the links on
///   the way and no others are used by it. The kind of `user` is [`CELL`].
pub(crate) struct BoxQueue<T: Queued> {
    first: Option<NonNull<Link>>,
    last: Option<NonNull<Link>>,
    user: User,
    _owns: PhantomData<(T, KBox<Cell<T>>)>,
}

// SAFETY: The queue may use its links (type invariant) and no other object does, so moving it to
// another thread moves only `T`s and memory that any thread may free.
unsafe impl<T: Queued + Send> Send for BoxQueue<T> {}

// SAFETY: A shared queue returns only `&T`, and values that refer to what such a `T` refers to.
unsafe impl<T: Queued + Send + Sync> Sync for BoxQueue<T> {}

impl<T: Queued> BoxQueue<T> {
    /// Makes an empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no links.
        Self {
            first: None,
            last: None,
            user: User::new(NO_NUMBER, CELL),
            _owns: PhantomData,
        }
    }

    /// Makes an empty queue that [`take_object`](Self::take_object) works on.
    pub(crate) fn numbered() -> Self {
        // INVARIANT: There are no links, and nothing has the number of another.
        Self {
            user: User::new(link::new_number(), CELL),
            ..Self::new()
        }
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the value that was queued first.
    pub(crate) fn front(&self) -> Option<View<'_, T>> {
        // SAFETY: By the type invariant this is a link of the queue, which does not change now.
        self.first.map(|first| unsafe { Self::view(first) })
    }

    /// Returns the values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = View<'_, T>> {
        // SAFETY: By the type invariant `first` is the first link of this queue, which is not
        // changed while it is borrowed.
        unsafe { values(self.first) }
    }

    /// Queues `value` behind all others, in the place of `ticket`.
    #[inline]
    pub(crate) fn push_back(&mut self, ticket: Ticket<T>, value: T) {
        let Some(cell) = NonNull::new(KBox::into_raw(ticket.0)) else {
            return;
        };
        // SAFETY: The ticket could use the cell, and so can the queue now that the ticket is
        // consumed. The cell is not freed, because the queue owns the box of the ticket.
        unsafe {
            let cell = cell.as_ref();
            (*cell.value.get()).write(value);
            cell.link.set_user(self.user);
        }
        // SAFETY: The queue has the right to use the link, whose cell contains a value.
        unsafe { self.link_last(cell.cast()) };
    }

    /// Queues an object behind all others, in its own place. Returns it if it has no link, or one
    /// that is not free: then it waits somewhere already.
    #[inline]
    pub(crate) fn push_object(&mut self, value: T) -> Result<(), T> {
        let (link, kind) = value.into_link()?;
        // SAFETY: They were returned just now.
        unsafe { Self::claim(link, kind, self.user.number()) }?;
        // SAFETY: The queue has the right to use the link, which comes from `into_link`.
        unsafe { self.link_last(link) };
        Ok(())
    }

    /// Claims the link of an object for a queue of this number. Returns the object if it is taken.
    ///
    /// # Safety
    ///
    /// Link and kind were returned by [`Queued::into_link`], and the object is made of them again
    /// nowhere else.
    #[inline]
    unsafe fn claim(link: NonNull<Link>, kind: Kind, number: u64) -> Result<(), T> {
        let user = User::new(number, kind);
        if T::is_sole(kind) {
            // SAFETY: The link is free, and nothing else gives it to a queue (see
            // `Refers::IS_SOLE`). The object exists, because the reference to it was given up for
            // the link.
            unsafe { link.as_ref().set_user(user) };
        // SAFETY: As above, the object exists.
        } else if !unsafe { link.as_ref() }.claim(user) {
            // SAFETY: The caller has both from `into_link`, and the object is made of them here
            // alone.
            return Err(unsafe { T::from_link(link, kind) });
        }
        Ok(())
    }

    /// Takes the value that was queued first, and returns it with its ticket, if it had one.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<(T, Option<Ticket<T>>)> {
        let first = self.first?;
        // SAFETY: By the type invariant the queue may use its links.
        let next = unsafe { (*first.as_ref().ends()).behind };
        // INVARIANT: The link behind the first one is first now; if there was none, the queue is
        // empty.
        self.first = next;
        match next {
            None => self.last = None,
            // SAFETY: As above.
            Some(next) => unsafe { (*next.as_ref().ends()).before = None },
        }
        // SAFETY: The first link was one of this queue, and is not on the way through it any more.
        Some(unsafe { Self::give_back(first) })
    }

    /// Takes an object out, wherever it is, if it is in this queue, which has to be a numbered one.
    pub(crate) fn take_object(&mut self, object: &impl HasLink<Waiting, Room = Link>) -> Option<T> {
        let link = object.link();
        if !self.has(link) {
            return None;
        }
        // SAFETY: The link is one of this queue. That can change neither way meanwhile, because a
        // change takes a `&mut` of the queue.
        let link = unsafe { known(link, self.first) }?;
        // SAFETY: As above.
        Some(unsafe { self.unlink(link) }.0)
    }

    /// Whether a link is one of this queue.
    fn has(&self, link: &Link) -> bool {
        let number = self.user.number();
        number != NO_NUMBER && link.user().number() == number
    }

    /// Returns the value that a link belongs to.
    ///
    /// # Safety
    ///
    /// The link is in a queue, which is not changed for `'a`.
    #[inline]
    unsafe fn view<'a>(link: NonNull<Link>) -> View<'a, T> {
        // SAFETY: By the type invariant the object of a link in a queue exists.
        let kind = unsafe { link.as_ref() }.user().kind();
        if kind == CELL {
            // SAFETY: By the type invariant the link is that of a cell, which contains a value. The
            // queue may use it; other references that are made meanwhile are shared ones, too.
            let value = unsafe { (*link.cast::<Cell<T>>().as_ref().value.get()).assume_init_ref() };
            return View(Seen::InCell(value));
        }
        // SAFETY: By the type invariant of queues both come from `into_link`. The value that is
        // made is only looked at, and not dropped; the queue keeps its reference as long as `'a`.
        let value = unsafe { T::from_link(link, kind) };
        View(Seen::Object(ManuallyDrop::new(value)))
    }

    /// Adds a link behind all others.
    ///
    /// # Safety
    ///
    /// The queue has the right to use the link, which is as the type invariant requires, and in no
    /// queue.
    #[inline]
    unsafe fn link_last(&mut self, link: NonNull<Link>) {
        // SAFETY: The queue may use the link.
        unsafe {
            let ends = link.as_ref().ends();
            (*ends).before = self.last;
            (*ends).behind = None;
        }
        // INVARIANT: The new link is the last one: nothing is behind it, and it is behind the one
        // that was last.
        match self.last.replace(link) {
            None => self.first = Some(link),
            // SAFETY: By the type invariant the queue may use its links.
            Some(before) => unsafe { (*before.as_ref().ends()).behind = Some(link) },
        }
    }

    /// Takes a link out of the queue, wherever it is.
    ///
    /// # Safety
    ///
    /// The link is in this queue.
    unsafe fn unlink(&mut self, link: NonNull<Link>) -> (T, Option<Ticket<T>>) {
        // SAFETY: By the type invariant the queue may use its links.
        let (before, behind) = unsafe {
            let ends = link.as_ref().ends();
            ((*ends).before, (*ends).behind)
        };
        // INVARIANT: The links before and behind this one follow each other now.
        match before {
            None => self.first = behind,
            // SAFETY: As above.
            Some(before) => unsafe { (*before.as_ref().ends()).behind = behind },
        }
        match behind {
            None => self.last = before,
            // SAFETY: As above.
            Some(behind) => unsafe { (*behind.as_ref().ends()).before = before },
        }
        // SAFETY: The link was one of this queue, and is not on the way through it any more.
        unsafe { Self::give_back(link) }
    }

    /// Returns what a link belongs to: a value and its ticket, or an object.
    ///
    /// # Safety
    ///
    /// The link was one of a queue, and is not on the way through that any more.
    #[inline]
    unsafe fn give_back(link: NonNull<Link>) -> (T, Option<Ticket<T>>) {
        // SAFETY: By the type invariant the object of a link exists; the queue owns a reference.
        let kind = unsafe { link.as_ref() }.user().kind();
        if T::is_sole(kind) {
            // SAFETY: The queue has the right to the link, which nothing else can claim.
            unsafe { link.as_ref().set_user(User::FREE) };
            // SAFETY: By the type invariant both come from `into_link`. The link was in one queue,
            // and has left that, so this is done once. It is free.
            return (unsafe { T::from_link(link, kind) }, None);
        }
        if kind != CELL {
            // SAFETY: As the caller promises.
            return (unsafe { Self::give_back_object(link, kind) }, None);
        }
        let cell = link.cast::<Cell<T>>();
        // SAFETY: By the type invariant this is the link of a cell, which contains a value. The
        // queue may use it, and the value is not used there any more.
        let value = unsafe { (*cell.as_ref().value.get()).assume_init_read() };
        // INVARIANT: The cell is in no queue any more; the ticket may use it from now on.
        // SAFETY: The queue has the right to the link.
        unsafe { cell.as_ref().link.set_user(User::FREE) };
        // SAFETY: By the type invariant of queues the cell comes from a box that was turned into a
        // pointer; it was in one queue, and has left that, so this is done once.
        let ticket = Ticket(unsafe { KBox::from_raw(cell.as_ptr()) });
        (value, Some(ticket))
    }

    /// The same for the link of an object, which is of this kind.
    ///
    /// # Safety
    ///
    /// The link was one of a queue, and is not on the way through that any more.
    #[inline(never)] // Calls, which need no objects, would pay for it.
    unsafe fn give_back_object(link: NonNull<Link>, kind: Kind) -> T {
        // SAFETY: By the type invariant both come from `into_link`. The link was in one queue, and
        // has left that, so this is done once.
        let value = unsafe { T::from_link(link, kind) };
        // SAFETY: The queue has the right to the link, and `value` keeps the object.
        unsafe { link.as_ref().release() };
        value
    }
}

/// A value in a queue, to be looked at.
pub(crate) struct View<'a, T>(Seen<'a, T>);

enum Seen<'a, T> {
    InCell(&'a T),
    /// A reference to an object, which is the queue's.
    Object(ManuallyDrop<T>),
}

impl<T> Deref for View<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Seen::InCell(value) => value,
            Seen::Object(value) => value,
        }
    }
}

/// Returns the values of a queue, in their order.
///
/// # Safety
///
/// `first` is the first link of a queue of `T`s, which is not changed for `'a`.
unsafe fn values<'a, T: Queued + 'a>(
    first: Option<NonNull<Link>>,
) -> impl Iterator<Item = View<'a, T>> {
    // SAFETY: By the type invariants of queues, `behind` leads from the first link to the links of
    // the queue, which it may use. As the caller promises, nothing changes them for `'a`.
    let links = core::iter::successors(first, |link| unsafe { (*link.as_ref().ends()).behind });
    // SAFETY: Each link is in the queue, which nothing changes for `'a`, as the caller promises.
    links.map(|link| unsafe { BoxQueue::view(link) })
}

/// Returns the pointer by which a queue refers to a link: a pointer into the whole object.
///
/// # Safety
///
/// The link is of a queue that begins with the link `first`. Nothing changes the queue during the
/// call.
unsafe fn known(link: &Link, first: Option<NonNull<Link>>) -> Option<NonNull<Link>> {
    // SAFETY: By the type invariants of queues they may use their links.
    let before = unsafe { (*link.ends()).before };
    // The `before` of the first link is `None`, or the last link, whose `behind` is `None`.
    // SAFETY: By the type invariants of queues, `before` is a link of the same queue, which may use
    // it.
    let known = before.and_then(|before| unsafe { (*before.as_ref().ends()).behind });
    known.or(first)
}

impl<T: Queued> Drop for BoxQueue<T> {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}
