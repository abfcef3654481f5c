// SPDX-License-Identifier: GPL-2.0

//! Collections whose objects bring the memory for their places, so that adding one under a spinlock
//! allocates nothing: a [queue](LinkedQueue) and a [tree](LinkedTree).
//!
//! The place is a [`Link`] in the object. The collection owns a reference to the object, and keeps
//! in the link what it would otherwise keep in memory of its own. A link names its user:
//!
//! ```text
//!              claim
//!   free ─────────────────► used by one collection
//!     ▲                                │
//!     └────────────────────────────────┘
//!              release
//! ```
//!
//! So no collection takes an object that another one has, and a collection finds out without a
//! search whether it has an object. This is checked, and not promised by the user of the
//! collection: nothing that the user does wrong makes two collections use one link.
//!
//! [`Branches`] have room for a place in a tree, and do not name a user, for which a link needs a
//! third of its memory. The type of the reference with which the object is inserted proves that no
//! tree uses them ([`Unplaced`]).
//!
//! The kernel crate's list and red-black tree are not enough. An object would need an allocation
//! for each place (see `docs/performance.md`), and removal from the middle of a list is unsafe.

#[path = "link/queue.rs"]
mod queue;
#[path = "link/tree.rs"]
mod tree;

pub(crate) use queue::{queued, LinkedQueue, NumberedQueue, Placed, Queued, View};
pub(crate) use tree::{set_secret, Keyed, LinkedTree, Unplaced};

#[cfg(test)]
pub(crate) use tree::weight_at;

use crate::kernel_ext::once::{read_once_u64, store_release_u64};
use core::{cell::Cell, ptr::NonNull};
use kernel::sync::{
    atomic::{Acquire, Atomic, Relaxed},
    Arc, //
};

/// The neighbours of a place in a queue, or the branches below it in a tree: what comes before it,
/// and what comes behind it. Only the collection that has the object accesses them.
pub(crate) struct Ends<R> {
    before: Cell<Option<NonNull<R>>>,
    behind: Cell<Option<NonNull<R>>>,
}

// SAFETY: The pointers are followed by the collection that has the object, which moves between
// threads only if what it points to may; see the collections.
unsafe impl<R> Send for Ends<R> {}

// SAFETY: Only the collection that has the object accesses the cells: those of a link after it has
// claimed that, and those of branches because one collection has the object.
unsafe impl<R> Sync for Ends<R> {}

impl<R> Ends<R> {
    const fn none() -> Self {
        Self {
            before: Cell::new(None),
            behind: Cell::new(None),
        }
    }
}

/// Which of several types of objects the object of a link has. A queue distinguishes up to seven.
pub(crate) type Kind = u64;

/// The kind of an object in a collection of one type.
const ONLY_KIND: Kind = 1;

/// The bits of a link's user that are the kind of the object.
const KIND_MASK: Kind = 0b111;

/// Returns the kind of this number, counted from 0.
pub(crate) const fn kind(number: u64) -> Kind {
    let kind = ONLY_KIND + number;
    assert!(
        kind <= KIND_MASK,
        "a collection cannot tell so many kinds apart"
    );
    kind
}

/// The user of a link that is free.
const FREE: u64 = 0;

static LAST_NUMBER: Atomic<u64> = Atomic::new(0);

/// Returns a number that is larger than those before it, and whose bits of the kind are 0. A
/// counter of 61 bits does not wrap.
fn new_number() -> u64 {
    const STEP: u64 = KIND_MASK + 1;
    LAST_NUMBER.fetch_add(STEP, Relaxed).wrapping_add(STEP)
}

/// The room for the place in a collection.
///
/// # Invariants
///
/// While the link is not free, the collection that has claimed it owns a reference to its object,
/// and nothing else accesses `ends` or changes `user`.
pub(crate) struct Link {
    /// [`FREE`]; or the number of the user, which no other user has, and the kind of the object in
    /// the bits of [`KIND_MASK`].
    user: Atomic<u64>,
    ends: Ends<Link>,
}

impl Link {
    /// Returns a free link.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Nothing has claimed it.
        Self {
            user: Atomic::new(FREE),
            ends: Ends::none(),
        }
    }

    /// Returns whether a collection has the object by this link. If only collections under one lock
    /// ever have the object, the result is valid until the lock is released.
    pub(crate) fn is_used(&self) -> bool {
        read_once_u64(&self.user) != FREE
    }

    /// Claims the link for this user if it is free.
    #[inline]
    fn claim(&self, user: u64) -> bool {
        // ORDERING: Pairs with `release`: what the last user did to the link was before that.
        self.user.cmpxchg(FREE, user, Acquire).is_ok()
    }

    /// Releases the link. Its user calls this, and accesses `ends` no more.
    #[inline]
    fn release(&self) {
        // ORDERING: Pairs with `claim`.
        store_release_u64(&self.user, FREE);
    }
}

/// The room for the place in a tree.
pub(crate) struct Branches(Ends<Branches>);

impl Branches {
    /// Returns room that no tree uses.
    pub(crate) const fn new() -> Self {
        Self(Ends::none())
    }
}

/// The room for the place of an object in a tree: a [`Link`] or [`Branches`]. No other type fits,
/// because only this module makes [`Ends`].
pub(crate) trait TreeRoom: Sized {
    /// Returns what only the user accesses.
    fn ends(&self) -> &Ends<Self>;

    /// Returns the link, if this room is one.
    fn link(&self) -> Option<&Link> {
        None
    }
}

impl TreeRoom for Link {
    fn ends(&self) -> &Ends<Self> {
        &self.ends
    }

    fn link(&self) -> Option<&Link> {
        Some(self)
    }
}

impl TreeRoom for Branches {
    fn ends(&self) -> &Ends<Self> {
        &self.0
    }
}

/// A type whose values have an `F`, by which the place of an object or its lock is found; see
/// [`has_field`].
///
/// # Safety
///
/// Each value has an `F` at `OFFSET`.
pub(crate) unsafe trait HasField<F>: Sized {
    /// Where it is in a value, in bytes.
    const OFFSET: usize;

    /// Returns the field.
    #[inline(always)]
    fn field(&self) -> &F {
        let this = core::ptr::from_ref(self);
        // SAFETY: By the requirement of the trait the field is there, and it is borrowed with the
        // value.
        unsafe { &*this.byte_add(Self::OFFSET).cast::<F>() }
    }
}

/// Implements [`HasField`] for a type, by the name and the type of the field.
macro_rules! has_field {
    (impl$(<$($parameter:ident: $bound:path),*>)? for $type:ty, $field:ident: $of:ty) => {
        // SAFETY: `OFFSET` is that of the field, whose type is checked without any coercion.
        #[allow(unsafe_code)]
        unsafe impl$(<$($parameter: $bound),*>)? $crate::kernel_ext::link::HasField<$of> for $type {
            const OFFSET: usize = {
                let _: fn(&Self) -> *const $of = |value| &raw const value.$field;
                core::mem::offset_of!(Self, $field)
            };
        }
    };
}
pub(crate) use has_field;

/// Gives up a reference for the room of its object.
#[inline]
fn into_field<R, O: HasField<R>>(object: Arc<O>) -> NonNull<R> {
    let object = Arc::into_raw(object);
    // SAFETY: By the requirement of the trait the offset lies in the object.
    let room = unsafe { object.byte_add(O::OFFSET) };
    // SAFETY: A pointer into an object is not null.
    unsafe { NonNull::new_unchecked(room.cast_mut().cast()) }
}

/// Returns the object of a room.
///
/// # Safety
///
/// The room comes from [`into_field`] for this type.
#[inline]
unsafe fn object_of<R, O: HasField<R>>(room: NonNull<R>) -> *const O {
    // SAFETY: The room is so far behind the beginning of its object.
    unsafe { room.as_ptr().cast_const().byte_sub(O::OFFSET).cast() }
}

/// Makes a reference again of what [`into_field`] returned.
///
/// # Safety
///
/// The room comes from [`into_field`] for this type, and this is done once.
#[inline]
unsafe fn from_field<R, O: HasField<R>>(room: NonNull<R>) -> Arc<O> {
    // SAFETY: The object was made a pointer by `Arc::into_raw`, and the caller owns that reference.
    unsafe { Arc::from_raw(object_of(room)) }
}
