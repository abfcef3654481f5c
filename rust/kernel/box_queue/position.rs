// SPDX-License-Identifier: GPL-2.0

//! Where a list of what waits in a queue, or a count of it, was interrupted.

use super::{
    super::link::{Ends, Kind, Link, CELL},
    BoxQueue, Cell, Queued,
};
use core::{marker::PhantomData, ptr::NonNull};

/// Where a list of the values of a queue was interrupted: between two values that were queued then,
/// or behind the last one.
///
/// The list goes on there as long as one of the two waits. If both have gone, it goes on at the
/// front: values are mostly taken from there, so what was before the two has gone, too. It returns
/// values twice if both were taken out of the middle. It misses some if a neighbour was queued anew
/// and another list has been interrupted next to that since, unless the other one is the first now.
pub(crate) struct Position<T: Queued> {
    before: Neighbour<T>,
    /// None at the end of the queue.
    behind: Option<Neighbour<T>>,
}

impl<T: Queued> Position<T> {
    /// Returns the position behind a value, and before the one behind that, if there is one.
    ///
    /// # Safety
    ///
    /// The links are of a queue of `T`s, which is not changed meanwhile.
    pub(super) unsafe fn between(before: NonNull<Link>, behind: Option<NonNull<Link>>) -> Self {
        // SAFETY: As the caller promises.
        let neighbour = |link| unsafe { Neighbour::of(link) };
        Self {
            before: neighbour(before),
            behind: behind.map(neighbour),
        }
    }

    /// Returns the neighbours that the position has now in a queue; nothing, if it has no place
    /// there any more. What is before the first link is as the queue has it.
    ///
    /// # Safety
    ///
    /// The queue is one of `T`s, and is not changed meanwhile. It begins with the link `first`, and
    /// `has` returns true for links of it and no others.
    pub(super) unsafe fn neighbours(
        &self,
        first: Option<NonNull<Link>>,
        has: impl Fn(&Link) -> bool,
    ) -> Option<Ends<Link>> {
        let waiting = |neighbour: &Neighbour<T>| neighbour.waits() && has(neighbour.link());
        let is_first = |link: &Link| first.is_some_and(|first| core::ptr::eq(link, first.as_ptr()));
        let behind = self.behind.as_ref().filter(|behind| waiting(behind));
        let behind = behind.map(Neighbour::link);
        // If the one behind is first, the one before is not where it was, whatever it says.
        if waiting(&self.before) && !behind.is_some_and(is_first) {
            let before = self.before.link();
            // SAFETY: The link is in the queue, which may use it.
            let behind = unsafe { (*before.ends()).behind };
            // SAFETY: As above.
            let before = unsafe { known(before, first) };
            return Some(Ends { before, behind });
        }
        let behind = behind?;
        // SAFETY: As above.
        let before = unsafe { (*behind.ends()).before };
        // SAFETY: As above.
        let behind = unsafe { known(behind, first) };
        Some(Ends { before, behind })
    }
}

/// Returns the pointer by which a queue knows a link, which is one into the whole object.
///
/// # Safety
///
/// The link is of a queue that begins with the link `first`, and is not changed meanwhile.
pub(super) unsafe fn known(link: &Link, first: Option<NonNull<Link>>) -> Option<NonNull<Link>> {
    // SAFETY: By the type invariants of queues they may use their links.
    let before = unsafe { (*link.ends()).before };
    // What is before the first link is nothing, or the last link, behind which is nothing.
    // SAFETY: As above.
    let known = before.and_then(|before| unsafe { (*before.as_ref().ends()).behind });
    known.or(first)
}

/// A value that a position is next to.
///
/// # Invariants
///
/// The link was one of a queue of `T`s, which knew it as one of this kind, and its memory is kept
/// by a reference of this. It was [visited](Link::visit) then.
struct Neighbour<T: Queued> {
    link: NonNull<Link>,
    kind: Kind,
    _values: PhantomData<T>,
}

// SAFETY: A neighbour reads who uses a link, which is atomic, and drops a reference, with which
// `T`s may be dropped: on any thread, if they may be sent there.
unsafe impl<T: Queued + Send> Send for Neighbour<T> {}

impl<T: Queued> Neighbour<T> {
    /// Returns the value of a link.
    ///
    /// # Safety
    ///
    /// The link is one of a queue of `T`s, which is not changed meanwhile.
    unsafe fn of(link: NonNull<Link>) -> Self {
        // SAFETY: By the type invariant of queues the object of a link exists.
        let here = unsafe { link.as_ref() };
        let kind = here.user().kind();
        if kind == CELL {
            // SAFETY: By the type invariant of queues the link is that of a cell, which comes from
            // an `Arc` that was turned into a pointer, whose count the queue owns.
            unsafe { Cell::<T>::keep(link) };
        } else {
            // SAFETY: By the type invariant of queues both come from `into_link`, and the queue
            // keeps its reference meanwhile.
            unsafe { T::keep(link, kind) };
        }
        // SAFETY: The queue has the right to the link, and is not changed.
        unsafe { here.visit() };
        // INVARIANT: There is a reference for this now, and the link is visited.
        Self {
            link,
            kind,
            _values: PhantomData,
        }
    }

    /// Returns the link.
    fn link(&self) -> &Link {
        // SAFETY: By the type invariants its memory is kept. The link of a cell or an object is
        // there as long as its memory is.
        unsafe { self.link.as_ref() }
    }

    /// Whether the value waits in a queue, and has since this was made.
    fn waits(&self) -> bool {
        self.link().user().is_visited()
    }
}

impl<T: Queued> Drop for Neighbour<T> {
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
    /// Counts up to `most` values from the last one on towards the front, or from that before a
    /// position on; none, if nothing next to it is in this queue any more. Returns their number,
    /// and where the next ones are, if there are any. Only for a numbered queue may there be a
    /// `position`.
    pub(crate) fn count_back(
        &self,
        position: Option<&Position<T>>,
        most: usize,
    ) -> (usize, Option<Position<T>>) {
        let mut next = self.last;
        if let Some(position) = position {
            // SAFETY: `&self` keeps the queue from being changed meanwhile.
            let neighbours = unsafe { position.neighbours(self.first, |link| self.has(link)) };
            next = neighbours.and_then(|neighbours| neighbours.before);
        }
        let (mut count, mut last) = (0, None);
        while let Some(link) = next.filter(|_| count < most) {
            // SAFETY: By the type invariant the queue may use its links, which are not changed
            // meanwhile.
            next = unsafe { (*link.as_ref().ends()).before };
            last = Some(link);
            count += 1;
        }
        // SAFETY: The way leads to links of this queue, which is not changed meanwhile.
        let position = next.map(|next| unsafe { Position::between(next, last) });
        (count, position)
    }
}
