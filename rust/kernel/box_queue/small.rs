// SPDX-License-Identifier: GPL-2.0

//! A queue of objects that is as small as a pointer.

use super::{
    super::link::{self, HasLink, Link, Waiting},
    known, values, BoxQueue, Queued, View,
};
use core::{marker::PhantomData, ptr::NonNull};

/// A queue of objects that bring their places, for what has few queues in use among very many.
///
/// It is like a [numbered](BoxQueue::numbered) queue and takes a third of the memory: where it ends
/// is in the place of its first object, and its number, which is another one each time that it has
/// been empty, in all of them. So the first object is accessed whenever another one is queued, and
/// whatever is queued while there is none takes a new number, from a counter that all queues share.
///
/// # Invariants
///
/// - Starting at `first` and following `behind`, one reaches the last link after finitely many
///   steps, and only there `behind` is `None`. `before` leads back the same way, and from the first
///   link to the last.
/// - The queue has the right to use each link on the way. Link and kind come from
///   [`Queued::into_link`].
/// - The links have the same number, which is not [`NO_NUMBER`](link::NO_NUMBER). No other user of
///   links has it, nor has had it.
pub(crate) struct SmallQueue<T: Queued> {
    first: Option<NonNull<Link>>,
    _owns: PhantomData<T>,
}

// SAFETY: The queue may use its links (type invariant) and no other object does, so moving it to
// another thread moves only `T`s.
unsafe impl<T: Queued + Send> Send for SmallQueue<T> {}

// SAFETY: As for `BoxQueue`s.
unsafe impl<T: Queued + Send + Sync> Sync for SmallQueue<T> {}

impl<T: Queued> SmallQueue<T> {
    /// Makes an empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no links.
        Self {
            first: None,
            _owns: PhantomData,
        }
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = View<'_, T>> {
        // SAFETY: By the type invariant `first` is the first link of this queue, which is not
        // changed while it is borrowed.
        unsafe { values(self.first) }
    }

    /// Queues an object behind all others, in its own place. Returns it if it has no link, or one
    /// that is not free: then it waits somewhere already.
    pub(crate) fn push_object(&mut self, value: T) -> Result<(), T> {
        let (new, kind) = value.into_link()?;
        let number = match self.first {
            None => link::new_number(),
            // SAFETY: By the type invariant the object of a link in a queue exists.
            Some(first) => unsafe { first.as_ref() }.user().number(),
        };
        // SAFETY: They were returned just now.
        unsafe { BoxQueue::<T>::claim(new, kind, number) }?;
        let last = match self.first {
            None => new,
            // SAFETY: By the type invariant the queue may use its links; the one before the first
            // is the last.
            Some(first) => unsafe { (*first.as_ref().ends()).before }.unwrap_or(first),
        };
        // SAFETY: The queue may use its links, of which the new one is one now.
        unsafe {
            *new.as_ref().ends() = link::Ends {
                before: Some(last),
                behind: None,
            };
        }
        // INVARIANT: The new link is the last one: nothing is behind it, it is behind the one that
        // was last, and before the first one, which it is itself if there was none. It has the
        // number of all.
        match self.first {
            None => self.first = Some(new),
            // SAFETY: As above.
            Some(first) => unsafe {
                (*last.as_ref().ends()).behind = Some(new);
                (*first.as_ref().ends()).before = Some(new);
            },
        }
        Ok(())
    }

    /// Takes the value that was queued first.
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let first = self.first?;
        // SAFETY: The link is one of this queue.
        Some(unsafe { self.unlink(first) })
    }

    /// Takes an object out, wherever it is, if it is in this queue.
    pub(crate) fn take_object(&mut self, object: &impl HasLink<Waiting, Room = Link>) -> Option<T> {
        let link = object.link();
        if !self.has(link) {
            return None;
        }
        // SAFETY: The link is one of this queue. That can change neither way meanwhile, because a
        // change takes a `&mut` of the queue.
        let link = unsafe { known(link, self.first) }?;
        // SAFETY: As above.
        Some(unsafe { self.unlink(link) })
    }

    /// Takes the first value that `wanted` accepts, wherever it is in the queue. Visits all values
    /// before it, so it is for rare cases.
    pub(crate) fn take_first(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let mut at = self.first;
        while let Some(link) = at {
            // SAFETY: By the type invariant the way leads to links of this queue, which is not
            // changed as long as the view exists.
            if wanted(&*unsafe { BoxQueue::<T>::view(link) }) {
                // SAFETY: As above.
                return Some(unsafe { self.unlink(link) });
            }
            // SAFETY: By the type invariant the queue may use its links.
            at = unsafe { (*link.as_ref().ends()).behind };
        }
        None
    }

    /// Whether a link is one of this queue.
    fn has(&self, link: &Link) -> bool {
        // SAFETY: By the type invariant the object of a link in a queue exists.
        let first = self.first.map(|first| unsafe { first.as_ref() });
        first.is_some_and(|first| first.user().number() == link.user().number())
    }

    /// Takes a link out of the queue, wherever it is.
    ///
    /// # Safety
    ///
    /// The link is in this queue.
    unsafe fn unlink(&mut self, link: NonNull<Link>) -> T {
        // SAFETY: By the type invariant the queue may use its links; each has one before it.
        let (before, behind) = unsafe {
            let ends = link.as_ref().ends();
            ((*ends).before, (*ends).behind)
        };
        // INVARIANT: What was behind the link is behind what was before it, or first; what was
        // before it is before what was behind it, or before the first link, as the last one.
        if self.first == Some(link) {
            self.first = behind;
        } else if let Some(before) = before {
            // SAFETY: As above.
            unsafe { (*before.as_ref().ends()).behind = behind };
        }
        if let Some(next) = behind.or(self.first) {
            // SAFETY: As above.
            unsafe { (*next.as_ref().ends()).before = before };
        }
        // SAFETY: The link was one of this queue, and is not on the way through it any more. As it
        // is not that of a cell, there is no ticket.
        unsafe { BoxQueue::<T>::give_back(link) }.0
    }
}

impl<T: Queued> Drop for SmallQueue<T> {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}
