// SPDX-License-Identifier: GPL-2.0

//! Room in an object for its place in one collection at a time.
//!
//! What is added to a collection under a spinlock must not be allocated then. An object with a
//! [`Link`] brings the memory for its place: [`BoxQueue`](super::box_queue::BoxQueue) and
//! [`LinkedTree`](super::linked_tree::LinkedTree) own a reference to the object, and keep in its
//! link what they would otherwise keep in memory of their own.
//!
//! A link says whose it is:
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
//! [`Branches`] have room for a place in a tree, and do not say whose they are, for which a link
//! needs a third of its memory. That they are nobody's is proved by the type of the reference with
//! which the object is inserted ([`Unplaced`](super::linked_tree::Unplaced)).

use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::sync::{
    atomic::{Acquire, Atomic, Relaxed, Release},
    Arc, //
};

/// How a collection finds the object that a link belongs to.
pub(crate) type Kind = u64;

/// The link belongs to a cell that was allocated as a place in a queue.
pub(super) const CELL: Kind = 1;

/// The first of the kinds of objects that a collection tells apart.
pub(super) const FIRST_KIND: Kind = 2;

const KIND_BITS: u32 = 3;

/// Returns the kind of this number, counted from 0; there are six.
pub(crate) const fn kind(number: u64) -> Kind {
    let kind = FIRST_KIND + number;
    assert!(
        kind < 1 << KIND_BITS,
        "a collection cannot tell so many kinds apart"
    );
    kind
}

/// What is no number.
pub(super) const NO_NUMBER: u64 = 0;

static LAST_NUMBER: Atomic<u64> = Atomic::new(NO_NUMBER);

/// Returns a number that is larger than those before it. A counter of 61 bits does not wrap.
pub(super) fn new_number() -> u64 {
    LAST_NUMBER.fetch_add(1, Relaxed) + 1
}

/// The user of a link: a number that no other collection has, or [`NO_NUMBER`], and a [`Kind`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct User(u64);

impl User {
    /// Nobody does.
    pub(super) const FREE: Self = Self(0);

    /// Returns the user of this number, for which the link is of this kind, one from [`CELL`] on.
    #[inline]
    pub(super) const fn new(number: u64, kind: Kind) -> Self {
        Self(number << KIND_BITS | kind)
    }

    #[inline]
    pub(super) const fn number(self) -> u64 {
        self.0 >> KIND_BITS
    }

    #[inline]
    pub(super) const fn kind(self) -> Kind {
        self.0 & ((1 << KIND_BITS) - 1)
    }
}

/// The room for the place in a collection.
///
/// # Invariants
///
/// While `user` is not [`User::FREE`], the collection that has claimed the link has the right to
/// it: to access `ends`, and to change `user`. It owns a reference to the object of the link. No
/// other code does either.
pub(crate) struct Link {
    user: Atomic<u64>,
    ends: UnsafeCell<Ends<Link>>,
}

/// The neighbours of a place in a queue, or the branches below it in a tree: what comes before it,
/// and what comes behind it.
pub(crate) struct Ends<P> {
    pub(super) before: Option<NonNull<P>>,
    pub(super) behind: Option<NonNull<P>>,
}

impl<P> Ends<P> {
    const NONE: Self = Self {
        before: None,
        behind: None,
    };
}

// SAFETY: The pointers are followed by the collection that has the right to the link, which moves
// between threads only if what it points to may; see the collections.
unsafe impl Send for Link {}

// SAFETY: Without that right only `user` is accessed, which is atomic.
unsafe impl Sync for Link {}

impl Link {
    /// Returns a free link.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Nothing has claimed it.
        Self {
            user: Atomic::new(User::FREE.0),
            ends: UnsafeCell::new(Ends::NONE),
        }
    }

    /// Whether a collection has the object by this link. If only collections under one lock ever
    /// have it, that is so until the lock is released.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.user() != User::FREE
    }

    /// Claims the link if it is free. After that the caller has the right to it.
    #[inline]
    pub(super) fn claim(&self, user: User) -> bool {
        // ORDERING: Pairs with `release`: what the last user did to the link was before that.
        self.user.cmpxchg(User::FREE.0, user.0, Acquire).is_ok()
    }

    /// Releases the link.
    ///
    /// # Safety
    ///
    /// The caller has the right to it, which ends, and the object exists until this returns.
    #[inline]
    pub(super) unsafe fn release(&self) {
        // ORDERING: Pairs with `claim`.
        self.user.store(User::FREE.0, Release);
    }

    /// Sets the user of a link that only one thread knows how to claim.
    ///
    /// # Safety
    ///
    /// The caller has the right to the link, or the link is free and nothing else can claim it.
    #[inline]
    pub(super) unsafe fn set_user(&self, user: User) {
        self.user.store(user.0, Relaxed);
    }

    /// Returns the user.
    #[inline]
    pub(super) fn user(&self) -> User {
        User(self.user.load(Relaxed))
    }

    /// Returns what only the user may access.
    #[inline]
    pub(super) fn ends(&self) -> *mut Ends<Self> {
        self.ends.get()
    }
}

/// The room for a place in a tree.
///
/// # Invariants
///
/// The tree that has the object has the right to access `ends`, and no other code does.
pub(crate) struct Branches(UnsafeCell<Ends<Branches>>);

// SAFETY: As for links.
unsafe impl Send for Branches {}

// SAFETY: Without that right nothing is accessed.
unsafe impl Sync for Branches {}

impl Branches {
    /// Returns room that no tree uses.
    pub(crate) const fn new() -> Self {
        // INVARIANT: No tree has the object, which is being made.
        Self(UnsafeCell::new(Ends::NONE))
    }
}

/// What an object can have its place in: a [`Link`] or [`Branches`].
///
/// # Safety
///
/// [`Self::ends`] returns the same valid pointer each time, which no value but this returns.
pub(crate) unsafe trait Room: Sized {
    /// Returns what only the user may access.
    fn ends(&self) -> *mut Ends<Self>;

    /// Returns the number of the user; the same for all if the room does not say whose it is.
    fn number(&self) -> u64;

    /// Ends the use.
    ///
    /// # Safety
    ///
    /// As for [`Link::release`].
    unsafe fn give_up(&self);
}

// SAFETY: `ends` is a field.
unsafe impl Room for Link {
    #[inline]
    fn ends(&self) -> *mut Ends<Self> {
        self.ends.get()
    }

    #[inline]
    fn number(&self) -> u64 {
        self.user().number()
    }

    #[inline]
    unsafe fn give_up(&self) {
        // SAFETY: As the caller promises.
        unsafe { self.release() };
    }
}

// SAFETY: As above.
unsafe impl Room for Branches {
    #[inline]
    fn ends(&self) -> *mut Ends<Self> {
        self.0.get()
    }

    #[inline]
    fn number(&self) -> u64 {
        NO_NUMBER
    }

    #[inline]
    unsafe fn give_up(&self) {}
}

/// Stands for the link by which an object waits in a queue.
pub(crate) struct Waiting;

/// Stands for the link by which an object has its place in a tree. It can be the same one.
pub(crate) struct Sorted;

/// A type whose values have room for this; see [`has_link`].
///
/// # Safety
///
/// Each value has a [`Self::Room`] at `OFFSET`.
pub(crate) unsafe trait HasLink<Use>: Sized {
    /// The room.
    type Room: Room;

    /// Where it is in a value, in bytes.
    const OFFSET: usize;

    /// Returns the room.
    #[inline]
    fn link(&self) -> &Self::Room {
        let this = core::ptr::from_ref(self);
        // SAFETY: By the requirement of the trait the room is there, and it is borrowed with the
        // value.
        unsafe { &*this.byte_add(Self::OFFSET).cast::<Self::Room>() }
    }
}

/// Implements [`HasLink`] for a type, by the name of the field and what it is for. The field is a
/// [`Link`], or what is said to be behind its name.
macro_rules! has_link {
    (impl$(<$($parameter:ident: $bound:path),*>)? for $type:ty, $field:ident as $use:ident) => {
        $crate::kernel_ext::link::has_link!(
            impl$(<$($parameter: $bound),*>)? for $type, $field: Link as $use
        );
    };
    (
        impl$(<$($parameter:ident: $bound:path),*>)? for $type:ty,
        $field:ident: $room:ident as $use:ident
    ) => {
        // SAFETY: `OFFSET` is that of the field, whose type is checked without any coercion.
        #[allow(unsafe_code)]
        unsafe impl$(<$($parameter: $bound),*>)?
            $crate::kernel_ext::link::HasLink<$crate::kernel_ext::link::$use> for $type
        {
            type Room = $crate::kernel_ext::link::$room;

            const OFFSET: usize = {
                let _: fn(&Self) -> *const $crate::kernel_ext::link::$room =
                    |object| &raw const object.$field;
                core::mem::offset_of!(Self, $field)
            };
        }
    };
}
pub(crate) use has_link;

/// Gives up a reference for the room of its object.
#[inline]
pub(crate) fn into_link<Use, O: HasLink<Use>>(object: Arc<O>) -> NonNull<O::Room> {
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
/// The room comes from [`into_link`] for this type and use.
#[inline]
pub(super) unsafe fn object_of<Use, O: HasLink<Use>>(room: NonNull<O::Room>) -> *const O {
    // SAFETY: The room is so far behind the beginning of its object.
    unsafe { room.as_ptr().cast_const().byte_sub(O::OFFSET).cast() }
}

/// Makes a reference again of what [`into_link`] returned.
///
/// # Safety
///
/// The room comes from [`into_link`] for this type and use, and this is done once.
#[inline]
pub(crate) unsafe fn from_link<Use, O: HasLink<Use>>(room: NonNull<O::Room>) -> Arc<O> {
    // SAFETY: The object was made a pointer by `Arc::into_raw`, and the caller owns that reference.
    unsafe { Arc::from_raw(object_of::<Use, O>(room)) }
}
