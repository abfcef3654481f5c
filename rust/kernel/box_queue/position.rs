// SPDX-License-Identifier: GPL-2.0

//! Where a list of what waits in a queue, or a count of it, was interrupted.

use super::{
    super::link::{Kind, Link, CELL},
    BoxQueue, Cell, Queued,
};
use core::{marker::PhantomData, ptr::NonNull};

/// Where a list of the values of a queue was interrupted: at a value that was queued then.
///
/// # Invariants
///
/// The link was one of a queue of `T`s, which knew it as one of this kind, and its memory is kept
/// by a reference of this.
pub(crate) struct Position<T: Queued> {
    link: NonNull<Link>,
    kind: Kind,
    _values: PhantomData<T>,
}

// SAFETY: A position reads who uses a link, which is atomic, and drops a reference, with which `T`s
// may be dropped: on any thread, if they may be sent there.
unsafe impl<T: Queued + Send> Send for Position<T> {}

impl<T: Queued> Position<T> {
    /// Returns the position of a link.
    ///
    /// # Safety
    ///
    /// The link is one of a queue of `T`s, which is not changed meanwhile.
    pub(super) unsafe fn of(link: NonNull<Link>) -> Self {
        // SAFETY: By the type invariant of queues the object of a link exists.
        let kind = unsafe { link.as_ref() }.user().kind();
        if kind == CELL {
            // SAFETY: By the type invariant of queues the link is that of a cell, which comes from
            // an `Arc` that was turned into a pointer, whose count the queue owns.
            unsafe { Cell::<T>::keep(link) };
        } else {
            // SAFETY: By the type invariant of queues both come from `into_link`, and the queue
            // keeps its reference meanwhile.
            unsafe { T::keep(link, kind) };
        }
        // INVARIANT: There is a reference for this now.
        Self {
            link,
            kind,
            _values: PhantomData,
        }
    }

    /// Returns the link.
    pub(super) fn link(&self) -> &Link {
        // SAFETY: By the type invariants its memory is kept. The link of a cell or an object is
        // there as long as its memory is.
        unsafe { self.link.as_ref() }
    }
}

impl<T: Queued> Drop for Position<T> {
    fn drop(&mut self) {
        if self.kind == CELL {
            // SAFETY: By the type invariants this owns a reference, which `keep` made. If it is the
            // last one, queue and ticket of the cell are gone, and its value with them.
            unsafe { Cell::<T>::let_go(self.link) };
        } else {
            // SAFETY: As above; it was made by `keep`.
            unsafe { T::let_go(self.link, self.kind) };
        }
    }
}

impl<T: Queued> BoxQueue<T> {
    /// Counts up to `most` values from the last one on towards the front, or from the one before
    /// `before` on; none, if that is not in this queue: then what was before it has gone, too.
    /// Returns their number, and where the next ones are, if there are any. Only for a numbered
    /// queue may there be a `before`.
    pub(crate) fn count_back(
        &self,
        before: Option<&Position<T>>,
        most: usize,
    ) -> (usize, Option<Position<T>>) {
        let mut next = match before.map(Position::link) {
            None => self.last,
            // SAFETY: By the type invariant the queue may use its links. `&self` keeps them from
            // being changed meanwhile.
            Some(link) if self.has(link) => unsafe { (*link.ends()).before },
            Some(_) => None,
        };
        let (mut count, mut last) = (0, None);
        while let Some(link) = next.filter(|_| count < most) {
            // SAFETY: As above.
            next = unsafe { (*link.as_ref().ends()).before };
            last = Some(link);
            count += 1;
        }
        let reached = last.filter(|_| next.is_some());
        // SAFETY: The way leads to links of this queue, which is not changed meanwhile.
        (count, reached.map(|link| unsafe { Position::of(link) }))
    }
}
