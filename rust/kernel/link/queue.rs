// SPDX-License-Identifier: GPL-2.0

//! A first-in, first-out queue, from whose middle objects are taken without a search.

use super::{
    from_field,
    into_field,
    new_number,
    HasField,
    Kind,
    Link,
    FREE,
    KIND_MASK,
    ONLY_KIND, //
};
use crate::kernel_ext::once::{read_once_u64, write_once_u64};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        AllocError,
        Flags,
        KBox, //
    },
    sync::Arc,
};

/// A value in one allocation with its place in a queue. It has one owner at any time, which is this
/// or the queue that it is in.
///
/// # Invariants
///
/// The link is free.
pub(crate) struct Placed<T>(KBox<WithLink<T>>);

/// A value and its link.
#[repr(C)]
struct WithLink<T> {
    /// First, so that a pointer to it is a pointer to the cell.
    link: Link,
    value: T,
}

impl<T> Placed<T> {
    /// Allocates memory, and makes the value there.
    #[inline(always)] // Otherwise the value would be copied.
    pub(crate) fn new(value: impl FnOnce() -> T, flags: Flags) -> Result<Self, AllocError> {
        let memory = KBox::new_uninit(flags)?;
        Ok(Self(memory.write(WithLink {
            link: Link::new(),
            value: value(),
        })))
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for Placed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

/// A reference to an object that brings its place, or an enum of such references; see [`queued`].
///
/// # Safety
///
/// - [`Self::into_link`] returns the link of an object, whose memory is not freed before
///   [`Self::from_link`] has been called for it, and the result of that has been dropped.
/// - If [`Self::is_sole`] returns `true` for its kind, the link is free when `into_link` returns,
///   and nothing else can claim it before `from_link` has been called for it.
pub(crate) unsafe trait Queued: Sized {
    /// Gives the reference up for the link of its object. Returns that.
    fn into_link(self) -> (NonNull<Link>, Kind);

    /// Returns whether objects of this kind have one owner.
    fn is_sole(kind: Kind) -> bool;

    /// Makes a reference again of what [`Self::into_link`] returned.
    ///
    /// # Safety
    ///
    /// Link and kind come from there. This is done once, or the result is not dropped and nothing
    /// but looked at.
    unsafe fn from_link(link: NonNull<Link>, kind: Kind) -> Self;
}

// SAFETY: The link is at the beginning of the cell, which is in a box that is not freed before it
// is made again. The link of a `Placed` is free, and there is one `Placed` of a cell.
unsafe impl<T> Queued for Placed<T> {
    #[inline(always)]
    fn into_link(self) -> (NonNull<Link>, Kind) {
        (NonNull::from(KBox::leak(self.0)).cast(), ONLY_KIND)
    }

    #[inline(always)]
    fn is_sole(_kind: Kind) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn from_link(link: NonNull<Link>, _kind: Kind) -> Self {
        // SAFETY: The caller promises that the link is from `into_link`, and that this is done
        // once.
        Self(unsafe { KBox::from_raw(link.cast::<WithLink<T>>().as_ptr()) })
    }
}

// SAFETY: The link is that of the object, which the reference that is given up keeps.
unsafe impl<O: HasField<Link>> Queued for Arc<O> {
    #[inline]
    fn into_link(self) -> (NonNull<Link>, Kind) {
        (into_field(self), ONLY_KIND)
    }

    #[inline(always)]
    fn is_sole(_kind: Kind) -> bool {
        false
    }

    #[inline]
    unsafe fn from_link(link: NonNull<Link>, _kind: Kind) -> Self {
        // SAFETY: As the caller promises.
        unsafe { from_field(link) }
    }
}

/// Implements [`Queued`] for an enum of references.
macro_rules! queued {
    ($type:ty $(, $variant:ident($reference:ty))*) => {
        #[allow(unsafe_code)]
        const _: () = {
            use core::ptr::NonNull;
            use $crate::kernel_ext::link::{self, Kind, Link, Queued};

            #[repr(u64)]
            enum Number {
                $($variant,)*
            }

            // SAFETY: Each variant has a kind of its own, by which the object is found to be one of
            // that variant again.
            unsafe impl Queued for $type {
                #[inline]
                fn into_link(self) -> (NonNull<Link>, Kind) {
                    match self {
                        $(Self::$variant(reference) => {
                            let (link, _) = Queued::into_link(reference);
                            (link, const { link::kind(Number::$variant as u64) })
                        })*
                    }
                }

                #[inline(always)]
                fn is_sole(kind: Kind) -> bool {
                    $(if kind == const { link::kind(Number::$variant as u64) } {
                        return <$reference as Queued>::is_sole(kind);
                    })*
                    false
                }

                #[inline]
                unsafe fn from_link(link: NonNull<Link>, kind: Kind) -> Self {
                    $(if kind == const { link::kind(Number::$variant as u64) } {
                        // SAFETY: This kind stands for references of this type; the rest is
                        // promised by the caller.
                        return Self::$variant(unsafe {
                            <$reference as Queued>::from_link(link, kind)
                        });
                    })*
                    // SAFETY: `into_link` returns no other kind.
                    unsafe { core::hint::unreachable_unchecked() }
                }
            }
        };
    };
}
pub(crate) use queued;

/// A queue of objects.
///
/// # Invariants
///
/// - Starting at `first` and following `behind`, one reaches the last link after finitely many
///   steps, and only there `behind` is `None`. `before` leads back the same way, and from the first
///   link to the last.
/// - The queue has claimed each link on the way. Link and kind come from [`Queued::into_link`].
/// - The links have the same number. No other user of links has it.
/// - `own_number`, of a [`NumberedQueue`], is of no other queue, nor was it.
pub(crate) struct LinkedQueue<T: Queued, const NUMBERS: usize = 0> {
    first: Option<NonNull<Link>>,
    own_number: [u64; NUMBERS],
    _owns: PhantomData<T>,
}

/// A queue that has the same number for its whole life, by which its links name it. A queue without
/// a number is as small as a pointer; but the first object that is pushed takes a number from a
/// counter that all queues share.
pub(crate) type NumberedQueue<T> = LinkedQueue<T, 1>;

// SAFETY: The queue has claimed its links (type invariant) and no other object has, so moving it to
// another thread moves only `T`s.
unsafe impl<T: Queued + Send, const NUMBERS: usize> Send for LinkedQueue<T, NUMBERS> {}

// SAFETY: A shared queue returns only `&T`, and values that refer to what such a `T` refers to.
unsafe impl<T: Queued + Send + Sync, const NUMBERS: usize> Sync for LinkedQueue<T, NUMBERS> {}

impl<T: Queued> LinkedQueue<T> {
    /// Makes an empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no links.
        Self {
            first: None,
            own_number: [],
            _owns: PhantomData,
        }
    }
}

impl<T: Queued> NumberedQueue<T> {
    /// Makes an empty queue that has a number of its own.
    pub(crate) fn numbered() -> Self {
        // INVARIANT: There are no links, and nothing has the number of another.
        Self {
            first: None,
            own_number: [new_number()],
            _owns: PhantomData,
        }
    }
}

impl<T: Queued, const NUMBERS: usize> LinkedQueue<T, NUMBERS> {
    /// Returns whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the value that was queued first.
    pub(crate) fn front(&self) -> Option<View<'_, T>> {
        self.first.map(|first| self.view(first))
    }

    /// Returns the values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = View<'_, T>> {
        let next = |at: &NonNull<Link>| self.link(*at).ends.behind.get();
        core::iter::successors(self.first, next).map(|at| self.view(at))
    }

    /// Queues a value behind all others. Returns it if its link is not free: then it waits
    /// somewhere already.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let (new, kind) = value.into_link();
        let number = match (self.first, self.own_number.first()) {
            (Some(first), _) => read_once_u64(&self.link(first).user) & !KIND_MASK,
            (None, Some(number)) => *number,
            (None, None) => new_number(),
        };
        let user = number | kind;
        if T::is_sole(kind) {
            // It is free, and nothing else can claim it before this store.
            write_once_u64(&self.link(new).user, user);
        } else if !self.link(new).claim(user) {
            // SAFETY: Both were returned just now, and this is done once.
            return Err(unsafe { T::from_link(new, kind) });
        }
        // INVARIANT: The new link is the last one: nothing is behind it, it is behind the one that
        // was last, and before the first one, which it is itself if there was none. It has the
        // number of all.
        self.link(new).ends.behind.set(None);
        match self.first {
            None => {
                self.link(new).ends.before.set(Some(new));
                self.first = Some(new);
            }
            Some(first) => {
                let last = self.link(first).ends.before.replace(Some(new));
                self.link(new).ends.before.set(last);
                self.link(last.unwrap_or(first)).ends.behind.set(Some(new));
            }
        }
        Ok(())
    }

    /// Takes the value that was queued first.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        Some(self.unlink(self.first?))
    }

    /// Takes an object out, wherever it is, if it is in this queue.
    pub(crate) fn take(&mut self, object: &impl HasField<Link>) -> Option<T> {
        let (first, link) = (self.first?, object.field());
        // A free link has another number. The answer cannot change during the comparison, because a
        // link joins or leaves this queue only by a `&mut` of the queue.
        let (own, found) = (
            read_once_u64(&self.link(first).user),
            read_once_u64(&link.user),
        );
        if own & !KIND_MASK != found & !KIND_MASK {
            return None;
        }
        // The pointer by which the queue refers to the link: one into the whole object. The link
        // before the first one is the last, behind which is none.
        let before = self.link(link.ends.before.get()?);
        Some(self.unlink(before.ends.behind.get().unwrap_or(first)))
    }

    /// Takes the first value that `wanted` accepts, wherever it is in the queue. Visits all values
    /// before it, so it is for rare cases.
    pub(crate) fn take_first(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let next = |at: &NonNull<Link>| self.link(*at).ends.behind.get();
        let found = core::iter::successors(self.first, next).find(|at| wanted(&self.view(*at)));
        Some(self.unlink(found?))
    }

    /// Returns a link of the queue, or one whose reference was given up just now to be queued.
    #[inline]
    fn link(&self, at: NonNull<Link>) -> &Link {
        // SAFETY: By the requirements of `Queued` the object exists until the link is made a
        // reference again. That takes a `&mut` of the queue, and is the last step with the link.
        unsafe { at.as_ref() }
    }

    /// Returns the kind of the object of a link of the queue. A search reads it of each, and the
    /// kernel crate's atomics call a function for a load.
    #[inline]
    fn kind(&self, at: NonNull<Link>) -> Kind {
        // SAFETY: The queue has claimed the link (type invariant), so nothing changes `user`: a
        // claim of it fails and writes nothing.
        let user = unsafe { *self.link(at).user.as_ptr() };
        user & KIND_MASK
    }

    /// Returns the value of a link of the queue.
    #[inline]
    fn view(&self, at: NonNull<Link>) -> View<'_, T> {
        // SAFETY: By the type invariants both come from `into_link`. The value that is made is not
        // dropped; the queue keeps its reference as long as it is borrowed.
        let value = unsafe { T::from_link(at, self.kind(at)) };
        View(ManuallyDrop::new(value), PhantomData)
    }

    /// Takes a link of the queue out, wherever it is, and returns its value.
    #[inline]
    fn unlink(&mut self, at: NonNull<Link>) -> T {
        let link = self.link(at);
        let (before, behind) = (link.ends.before.get(), link.ends.behind.get());
        let kind = self.kind(at);
        // INVARIANT: The link behind this one is now behind the link before it, or first. The link
        // before this one is now before the link behind it, or, as the last one, before the first.
        if self.first == Some(at) {
            self.first = behind;
        } else if let Some(before) = before {
            self.link(before).ends.behind.set(behind);
        }
        if let Some(next) = behind.or(self.first) {
            self.link(next).ends.before.set(before);
        }
        if T::is_sole(kind) {
            // Nothing else can claim it before its owner is made again.
            write_once_u64(&self.link(at).user, FREE);
        } else {
            self.link(at).release();
        }
        // SAFETY: By the type invariants both come from `into_link`. The link was in one queue, and
        // has left that, so this is done once.
        unsafe { T::from_link(at, kind) }
    }
}

impl<T: Queued, const NUMBERS: usize> Drop for LinkedQueue<T, NUMBERS> {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}

/// A value in a queue, to be looked at.
pub(crate) struct View<'a, T>(ManuallyDrop<T>, PhantomData<&'a T>);

impl<T> Deref for View<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
