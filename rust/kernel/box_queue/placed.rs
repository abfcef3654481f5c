// SPDX-License-Identifier: GPL-2.0

//! A value in one allocation with its place in a queue.

use super::{super::link::Link, Cell, Refers, Ticket};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    ptr::NonNull, //
};
use kernel::alloc::KBox;

/// A value that brings its place. It has one owner at any time, which is this or the queue that it
/// is in; made by [`Ticket::fill`].
///
/// # Invariants
///
/// This may use the cell, in which there is a value, and whose link is free.
pub(crate) struct Placed<T>(
    KBox<Cell<T>>,
    /// It gives `&T`, which a `KBox<Cell<T>>` does not.
    PhantomData<T>,
);

impl<T> Placed<T> {
    #[inline(always)]
    pub(super) fn new(ticket: Ticket<T>, value: T) -> Self {
        // SAFETY: By the type invariant the ticket may use the cell.
        unsafe { (*ticket.0.value.get()).write(value) };
        // INVARIANT: There is a value now. The ticket, whose link is free, is given up for this.
        Self(ticket.0, PhantomData)
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants there is a value, and only this may use it.
        unsafe { (*self.0.value.get()).assume_init_ref() }
    }
}

impl<T> DerefMut for Placed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As above; and the borrow is exclusive.
        unsafe { (*self.0.value.get()).assume_init_mut() }
    }
}

impl<T> Drop for Placed<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: As above. The value is not used any more.
        unsafe { (*self.0.value.get()).assume_init_drop() };
    }
}

// SAFETY: The link is at the beginning of the cell, and comes from a box that was turned into a
// pointer. The link of a `Placed` is free, and there is one `Placed` of a cell.
unsafe impl<T> Refers for Placed<T> {
    const IS_SOLE: bool = true;

    #[inline(always)]
    fn into_link(self) -> NonNull<Link> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used, nor dropped, after this, so the box is moved.
        let cell = KBox::into_raw(unsafe { core::ptr::read(&raw const this.0) });
        // SAFETY: A pointer to a cell is not null.
        unsafe { NonNull::new_unchecked(cell.cast()) }
    }

    #[inline(always)]
    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: The caller promises that the link is from `into_link`, and that this is done
        // once.
        let cell = unsafe { KBox::from_raw(link.cast::<Cell<T>>().as_ptr()) };
        // INVARIANT: The right to the cell comes back with the box, and the value with it.
        Self(cell, PhantomData)
    }
}
