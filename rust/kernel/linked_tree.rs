// SPDX-License-Identifier: GPL-2.0

//! Objects in the order of a key, in a tree that allocates nothing.
//!
//! The tree is a treap: it is ordered by key from left to right, and by *weight* from top to
//! bottom. The weight of an object is a number that depends on its address and on a secret, and
//! looks random. So the shape of the tree is that of a search tree into which the objects were
//! inserted in random order, whatever the keys are and in whatever order they came: of *n* objects
//! it has about 2 log₂ *n* levels. An object needs no more than its [`Link`] for this, which a
//! red-black tree, with its pointer upwards and a number for the order of equal keys, would not fit
//! into. Where no two objects of a tree have the same key, [`Branches`], which have no number, are
//! enough.
//!
//! ```text
//!                 (key 5, weight 9)
//!                 ╱               ╲
//!     (key 2, weight 4)      (key 7, weight 8)
//!                   ╲
//!             (key 2, weight 1), inserted later
//! ```

use super::link::{
    self,
    Branches,
    HasLink,
    Link,
    Room,
    Sorted,
    User,
    FIRST_KIND, //
};
use core::{
    cmp::Ordering,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::sync::{
    atomic::{Atomic, Relaxed},
    Arc,
    ArcBorrow,
    UniqueArc, //
};

/// What has a place in a tree.
pub(crate) trait Keyed: HasLink<Sorted> {
    /// Returns the key. It is the same as long as the object is in a tree; if it is not, the object
    /// may be searched for in vain.
    fn key(&self) -> u64;
}

/// Objects in the order of their keys; those of the same key in the order in which they were
/// inserted.
///
/// # Invariants
///
/// - Each object that is reached from `root` by the ends of links is reached in one way only.
/// - The tree has the right to use the links, or the branches, of these objects, which come from
///   [`link::into_link`], and whose reference counts it owns. The number of the user of a link is
///   that of the insertion, which no other user of links has.
/// - `len` is the number of these objects.
pub(crate) struct LinkedTree<O: Keyed> {
    root: Option<NonNull<O::Room>>,
    len: usize,
    _owns: PhantomData<Arc<O>>,
}

// SAFETY: The tree may use its links (type invariant) and nothing else does, so moving it to
// another thread moves only references to `O`s.
unsafe impl<O: Keyed + Send + Sync> Send for LinkedTree<O> {}

// SAFETY: A shared tree returns only references to `O`s.
unsafe impl<O: Keyed + Send + Sync> Sync for LinkedTree<O> {}

/// A pointer in a tree that leads to an object or to nothing: its root, or one of the ends of a
/// link.
type Branch<R> = NonNull<Option<NonNull<R>>>;

/// A reference to an object with [`Branches`] that is in no tree, and the only reference with which
/// it can be inserted into one.
///
/// Dropped unused, it is a reference like any other: then the object can be inserted once nothing
/// else refers to it.
///
/// # Invariants
///
/// No tree has the object, and no other value of this type refers to it.
pub(crate) struct Unplaced<O>(Arc<O>);

impl<O: HasLink<Sorted, Room = Branches>> Unplaced<O> {
    /// Makes the reference of the only one that exists.
    #[inline]
    pub(crate) fn new(object: UniqueArc<O>) -> Self {
        // INVARIANT: A tree that had the object, and another value of this type, would be other
        // references.
        Self(object.into())
    }

    /// Returns the object.
    #[inline]
    pub(crate) fn object(&self) -> &Arc<O> {
        &self.0
    }
}

impl<O: Keyed> LinkedTree<O> {
    /// Makes an empty tree.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no objects.
        Self {
            root: None,
            len: 0,
            _owns: PhantomData,
        }
    }

    /// Whether the tree is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns an object of this key.
    pub(crate) fn get(&self, key: u64) -> Option<ArcBorrow<'_, O>> {
        let mut at = self.root?;
        // SAFETY: By the type invariant all of these are links that the tree may use, and `&self`
        // keeps them from being changed as long as the object is borrowed.
        unsafe {
            loop {
                at = match Self::key_of(at).cmp(&key) {
                    Ordering::Less => behind(at).read()?,
                    Ordering::Equal => return Some(Self::borrow(at)),
                    Ordering::Greater => before(at).read()?,
                };
            }
        }
    }

    /// Returns the first object whose key is not less than `key`.
    pub(crate) fn first_from(&self, key: u64) -> Option<ArcBorrow<'_, O>> {
        let mut found = None;
        let mut next = self.root;
        // SAFETY: As in `get`.
        unsafe {
            while let Some(at) = next {
                next = if Self::key_of(at) < key {
                    behind(at).read()
                } else {
                    found = next;
                    before(at).read()
                };
            }
            Some(Self::borrow(found?))
        }
    }

    /// Adds an object behind those of the same key.
    ///
    /// # Safety
    ///
    /// The room comes from [`link::into_link`], and the tree has the right to use it, which is not
    /// in the tree yet. If it has a number, that is a new one.
    unsafe fn add(&mut self, new: NonNull<O::Room>) {
        self.len += 1;
        let mut branch = NonNull::from(&mut self.root);
        // SAFETY: By the type invariant all branches lead to what the tree may use, and the new one
        // is another. `&mut self` keeps others from using them meanwhile. Each pointer that is
        // written leads to where the one that is overwritten led, or to where a branch led that is
        // overwritten next.
        unsafe {
            let key = Self::key_of(new);
            while let Some(at) = *branch.as_ptr() {
                if weight(at) < weight(new) {
                    break;
                }
                branch = if Self::key_of(at) <= key {
                    behind(at)
                } else {
                    before(at)
                };
            }
            // INVARIANT: The new object is above what was here, which is divided into what comes
            // before it and what comes behind it.
            let mut rest = branch.replace(Some(new));
            let (mut smaller, mut larger) = (before(new), behind(new));
            while let Some(at) = rest {
                if Self::key_of(at) <= key {
                    smaller.write(rest);
                    smaller = behind(at);
                    rest = smaller.read();
                } else {
                    larger.write(rest);
                    larger = before(at);
                    rest = larger.read();
                }
            }
            smaller.write(None);
            larger.write(None);
        }
    }

    /// Removes the object that was inserted first of those with this key.
    pub(crate) fn take_first(&mut self, key: u64) -> Option<Arc<O>> {
        let mut found = None;
        let mut branch = NonNull::from(&mut self.root);
        // SAFETY: As in `add`; nothing is written.
        unsafe {
            while let Some(at) = *branch.as_ptr() {
                branch = match Self::key_of(at).cmp(&key) {
                    Ordering::Less => behind(at),
                    Ordering::Equal => {
                        found = Some(branch);
                        before(at)
                    }
                    Ordering::Greater => before(at),
                };
            }
        }
        // SAFETY: The branch is one of this tree, which has not been changed since.
        let taken = unsafe { Self::cut(found?) }?;
        self.len -= 1;
        Some(taken)
    }

    /// Removes an object, if it is in this tree. With [`Branches`] it may not be found as long as
    /// the tree has another one of the same key.
    pub(crate) fn take(&mut self, object: &O) -> Option<Arc<O>> {
        // If another collection has it, that has another number.
        let place = core::ptr::from_ref(object.link());
        let wanted = (object.key(), object.link().number());
        let mut branch = NonNull::from(&mut self.root);
        loop {
            // SAFETY: As in `take_first`.
            let order = unsafe {
                let at = (*branch.as_ptr())?;
                let order = wanted.cmp(&(Self::key_of(at), at.as_ref().number()));
                match order {
                    Ordering::Less => branch = before(at),
                    Ordering::Greater => branch = behind(at),
                    // Another object, which has no number either.
                    Ordering::Equal if at.as_ptr().cast_const() != place => return None,
                    Ordering::Equal => {}
                }
                order
            };
            if order == Ordering::Equal {
                // SAFETY: The branch is one of this tree, which has not been changed since.
                let taken = unsafe { Self::cut(branch) }?;
                self.len -= 1;
                return Some(taken);
            }
        }
    }

    /// Removes the first of the objects.
    pub(crate) fn pop_first(&mut self) -> Option<Arc<O>> {
        let mut branch = NonNull::from(&mut self.root);
        // SAFETY: As in `take_first`; and the branch is one of this tree.
        let taken = unsafe {
            while let Some(at) = *branch.as_ptr() {
                if before(at).read().is_none() {
                    break;
                }
                branch = before(at);
            }
            Self::cut(branch)
        }?;
        self.len -= 1;
        Some(taken)
    }

    /// Removes all objects at once and returns them: the tree is empty afterwards.
    pub(crate) fn take_all(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Removes the object that a branch leads to, but for its being counted.
    ///
    /// # Safety
    ///
    /// The branch is one of a tree that nothing else uses meanwhile.
    unsafe fn cut(mut branch: Branch<O::Room>) -> Option<Arc<O>> {
        // SAFETY: As in `add`.
        unsafe {
            let object = branch.read()?;
            let (mut smaller, mut larger) = (before(object).read(), behind(object).read());
            // INVARIANT: What was below the object, on either side, takes its place: nothing leads
            // to the object any more, and one branch to all that is left.
            while let (Some(left), Some(right)) = (smaller, larger) {
                if weight(left) >= weight(right) {
                    branch.write(smaller);
                    branch = behind(left);
                    smaller = branch.read();
                } else {
                    branch.write(larger);
                    branch = before(right);
                    larger = branch.read();
                }
            }
            branch.write(smaller.or(larger));
            // It was in one tree, and has left that, so this is done once; the reference keeps the
            // object.
            let reference = link::from_link::<Sorted, O>(object);
            object.as_ref().give_up();
            Some(reference)
        }
    }

    /// Returns the key of the object of a link.
    ///
    /// # Safety
    ///
    /// The link comes from [`link::into_link`] for this type, and its reference is not given back.
    unsafe fn key_of(link: NonNull<O::Room>) -> u64 {
        // SAFETY: As the caller promises.
        unsafe { &*link::object_of::<Sorted, O>(link) }.key()
    }

    /// Borrows the object of a link.
    ///
    /// # Safety
    ///
    /// The link is one of a tree that is not changed for `'a`.
    unsafe fn borrow<'a>(link: NonNull<O::Room>) -> ArcBorrow<'a, O> {
        // SAFETY: The object was made a pointer by `Arc::into_raw`, and the tree owns the count for
        // `'a`.
        unsafe { ArcBorrow::from_raw(link::object_of::<Sorted, O>(link)) }
    }
}

impl<O: Keyed + HasLink<Sorted, Room = Link>> LinkedTree<O> {
    /// Inserts an object behind those of the same key. Returns it if its link is not free.
    pub(crate) fn insert(&mut self, object: Arc<O>) -> Result<(), Arc<O>> {
        let number = link::new_number();
        let new = link::into_link::<Sorted, O>(object);
        // SAFETY: The object exists, because the reference to it was given up for the link.
        if !unsafe { new.as_ref() }.claim(User::new(number, FIRST_KIND)) {
            // SAFETY: It was returned just now.
            return Err(unsafe { link::from_link::<Sorted, O>(new) });
        }
        // SAFETY: The link was returned just now, is claimed for this tree, and the number is new.
        unsafe { self.add(new) };
        Ok(())
    }
}

impl<O: Keyed + HasLink<Sorted, Room = Branches>> LinkedTree<O> {
    /// Inserts an object behind those of the same key, of which there should be none.
    pub(crate) fn insert_unplaced(&mut self, object: Unplaced<O>) {
        let new = link::into_link::<Sorted, O>(object.0);
        // SAFETY: The branches were returned just now. By the type invariants no tree has the
        // object, and with the value that is given up for this no other one can get it.
        unsafe { self.add(new) };
    }
}

impl<O: Keyed> Drop for LinkedTree<O> {
    fn drop(&mut self) {
        while self.pop_first().is_some() {}
    }
}

/// Returns the branch to what comes before an object.
///
/// # Safety
///
/// The object of the link exists.
unsafe fn before<R: Room>(link: NonNull<R>) -> Branch<R> {
    // SAFETY: As the caller promises; a field is not at the address 0.
    unsafe { NonNull::new_unchecked(&raw mut (*link.as_ref().ends()).before) }
}

/// Returns the branch to what comes behind an object.
///
/// # Safety
///
/// The object of the link exists.
unsafe fn behind<R: Room>(link: NonNull<R>) -> Branch<R> {
    // SAFETY: As the caller promises; a field is not at the address 0.
    unsafe { NonNull::new_unchecked(&raw mut (*link.as_ref().ends()).behind) }
}

/// What weights depend on besides addresses, so that user space cannot choose objects whose weights
/// make a tree deep, even if it has found out where they are.
static SECRET: Atomic<u64> = Atomic::new(0);

/// Sets what weights depend on, once, before the first object is inserted anywhere.
pub(crate) fn set_secret(secret: u64) {
    SECRET.store(secret, Relaxed);
}

/// Returns the weight of an object. No two objects have the same.
fn weight<R>(link: NonNull<R>) -> u64 {
    weight_at(link.as_ptr().addr() as u64, SECRET.load(Relaxed))
}

/// Returns the weight of what is at an address: that and a secret, mixed until nothing of their
/// order is left.
pub(crate) const fn weight_at(address: u64, secret: u64) -> u64 {
    let once = mixed(address ^ secret, 0xbf58_476d_1ce4_e5b9);
    let twice = mixed(once, 0x94d0_49bb_1331_11eb);
    twice ^ twice >> 32
}

const fn mixed(bits: u64, factor: u64) -> u64 {
    (bits ^ bits >> 29).wrapping_mul(factor)
}
