// SPDX-License-Identifier: GPL-2.0

//! Objects in the order of a key, in a tree that allocates nothing.
//!
//! The tree is a treap: it is ordered by key from left to right, and by *weight* from top to
//! bottom. The weight of an object is a number that depends on its address and on a secret, and
//! looks random. So the tree has the shape of a search tree into which the objects were inserted in
//! random order, whatever their keys and their real order are. With *n* objects it has about 2 log₂
//! *n* levels. An object needs only its [`Link`] for this. A red-black tree would need more room,
//! for a pointer upwards and a number for the order of equal keys. Where no two objects of a tree
//! have the same key, [`Branches`], which have no number, are enough.
//!
//! ```text
//!                 (key 5, weight 9)
//!                 ╱               ╲
//!     (key 2, weight 4)      (key 7, weight 8)
//!                   ╲
//!             (key 2, weight 1), inserted later
//! ```

use super::{
    from_field,
    into_field,
    new_number,
    object_of,
    Branches,
    HasField,
    Link,
    TreeRoom,
    ONLY_KIND, //
};
use crate::kernel_ext::once::read_once_u64;
use core::{
    cell::Cell,
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
pub(crate) trait Keyed: HasField<Self::Room> {
    /// What it has its place in.
    type Room: TreeRoom;

    /// Returns the key. It must not change while the object is in a tree; if it does, a search may
    /// miss the object.
    fn key(&self) -> u64;
}

/// Objects in the order of their keys; those of the same key in the order in which they were
/// inserted.
///
/// # Invariants
///
/// - Each object that is reached from `root` by the ends of rooms is reached in one way only.
/// - The tree has claimed the links of these objects, or no other tree has them. Their rooms come
///   from [`into_field`], and the tree owns that reference. The number of a link is that of the
///   insertion, which no other user of links has.
/// - `len` is the number of these objects.
pub(crate) struct LinkedTree<O: Keyed> {
    root: Branch<O>,
    len: usize,
    _owns: PhantomData<Arc<O>>,
}

/// A pointer in a tree that leads to an object or to nothing: its root, or one of the ends of a
/// room.
type Branch<O> = Cell<Option<NonNull<<O as Keyed>::Room>>>;

// SAFETY: The tree may use its rooms (type invariant) and nothing else does, so moving it to
// another thread moves only references to `O`s.
unsafe impl<O: Keyed + Send + Sync> Send for LinkedTree<O> {}

// SAFETY: A shared tree is not changed, and returns only references to `O`s.
unsafe impl<O: Keyed + Send + Sync> Sync for LinkedTree<O> {}

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

impl<O: Keyed<Room = Branches>> Unplaced<O> {
    /// Makes the reference of the only one that exists.
    #[inline]
    pub(crate) fn new(object: UniqueArc<O>) -> Self {
        // INVARIANT: A tree that had the object, and another value of this type, would be other
        // references.
        Self(object.into())
    }

    /// Returns the object.
    pub(crate) fn object(&self) -> &Arc<O> {
        &self.0
    }
}

impl<O: Keyed> LinkedTree<O> {
    /// Makes an empty tree.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no objects.
        Self {
            root: Cell::new(None),
            len: 0,
            _owns: PhantomData,
        }
    }

    /// Returns whether the tree is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns an object of this key.
    pub(crate) fn get(&self, key: u64) -> Option<ArcBorrow<'_, O>> {
        self.first_from(key).filter(|object| object.key() == key)
    }

    /// Returns the first object whose key is not less than `key`.
    pub(crate) fn first_from(&self, key: u64) -> Option<ArcBorrow<'_, O>> {
        let found = self.branch_to_first(|object| object.key() >= key)?.get()?;
        // SAFETY: The object was made a pointer by `Arc::into_raw`, and the tree, which is borrowed
        // as long as the result, owns that count.
        Some(unsafe { ArcBorrow::from_raw(object_of::<_, O>(found)) })
    }

    /// Removes the object that was inserted first of those with this key.
    pub(crate) fn take_first(&mut self, key: u64) -> Option<Arc<O>> {
        self.take_if(|object| object.key() >= key, |object| object.key() == key)
    }

    /// Removes an object, if it is in this tree. With [`Branches`] it may not be found as long as
    /// the tree has another one of the same key.
    pub(crate) fn take(&mut self, object: &O) -> Option<Arc<O>> {
        // If another collection has it, that is another user.
        let user = |link: &Link| read_once_u64(&link.user);
        let order = |object: &O| (object.key(), object.field().link().map_or(0, user));
        let wanted = order(object);
        let is_it = |found: &O| core::ptr::eq(found, object);
        self.take_if(|object| order(object) >= wanted, is_it)
    }

    /// Removes the first of the objects.
    pub(crate) fn pop_first(&mut self) -> Option<Arc<O>> {
        self.take_if(|_| true, |_| true)
    }

    /// Removes all objects at once and returns them: the tree is empty afterwards.
    pub(crate) fn take_all(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Returns the branch that leads to the first object that `is_behind` accepts, which accepts
    /// all objects behind that, too.
    #[inline]
    fn branch_to_first(&self, is_behind: impl Fn(&O) -> bool) -> Option<&Branch<O>> {
        let (mut found, mut branch) = (None, &self.root);
        while let Some(at) = branch.get() {
            let object = self.object(at);
            branch = if is_behind(object) {
                found = Some(branch);
                &object.field().ends().before
            } else {
                &object.field().ends().behind
            };
        }
        found
    }

    /// Returns the object of a room of the tree.
    #[inline]
    fn object(&self, at: NonNull<O::Room>) -> &O {
        // SAFETY: By the type invariants the room comes from `into_field`, and its reference keeps
        // the object at least as long as the tree is borrowed: what removes it borrows it
        // exclusively, and drops none.
        unsafe { &*object_of(at) }
    }

    /// Adds an object, which the tree owns now, behind those of the same key.
    fn add(&mut self, new: NonNull<O::Room>) {
        self.len += 1;
        let key = self.object(new).key();
        let mut branch = &self.root;
        while let Some(at) = branch.get().filter(|at| weight(*at) >= weight(new)) {
            branch = self.side(at, self.object(at).key() <= key);
        }
        // INVARIANT: The new object is above what was here, which is divided into what comes before
        // it and what comes behind it.
        let mut rest = branch.replace(Some(new));
        let (mut smaller, mut larger) = (self.side(new, false), self.side(new, true));
        while let Some(at) = rest {
            let is_smaller = self.object(at).key() <= key;
            let side = self.side(at, is_smaller);
            let divided = if is_smaller {
                &mut smaller
            } else {
                &mut larger
            };
            divided.set(rest);
            *divided = side;
            rest = side.get();
        }
        smaller.set(None);
        larger.set(None);
    }

    /// Removes the first object that `is_behind` accepts, if it is the one that is sought.
    fn take_if(
        &mut self,
        is_behind: impl Fn(&O) -> bool,
        is_it: impl FnOnce(&O) -> bool,
    ) -> Option<Arc<O>> {
        let branch = self.branch_to_first(is_behind)?;
        let taken = branch.get()?;
        if !is_it(self.object(taken)) {
            return None;
        }
        let (smaller, larger) = (self.side(taken, false), self.side(taken, true));
        self.join(branch, smaller.get(), larger.get());
        self.len -= 1;
        if let Some(link) = self.object(taken).field().link() {
            link.release();
        }
        // SAFETY: The room was in one tree, and has left that, so this is done once.
        Some(unsafe { from_field(taken) })
    }

    /// Has a branch lead to what was below an object, on either side, instead of to the object.
    fn join<'a>(
        &'a self,
        mut branch: &'a Branch<O>,
        mut smaller: Option<NonNull<O::Room>>,
        mut larger: Option<NonNull<O::Room>>,
    ) {
        // INVARIANT: Nothing leads to the object any more, and one branch to all that is left.
        while let (Some(left), Some(right)) = (smaller, larger) {
            if weight(left) >= weight(right) {
                branch.set(smaller);
                branch = self.side(left, true);
                smaller = branch.get();
            } else {
                branch.set(larger);
                branch = self.side(right, false);
                larger = branch.get();
            }
        }
        branch.set(smaller.or(larger));
    }

    /// Returns the branch to what comes behind an object, or before it.
    #[inline]
    fn side(&self, at: NonNull<O::Room>, is_behind: bool) -> &Branch<O> {
        let ends = self.object(at).field().ends();
        if is_behind {
            &ends.behind
        } else {
            &ends.before
        }
    }
}

impl<O: Keyed<Room = Link>> LinkedTree<O> {
    /// Inserts an object behind those of the same key. Returns it if its link is not free.
    pub(crate) fn insert(&mut self, object: Arc<O>) -> Result<(), Arc<O>> {
        if !object.field().claim(new_number() | ONLY_KIND) {
            return Err(object);
        }
        self.add(into_field(object));
        Ok(())
    }
}

impl<O: Keyed<Room = Branches>> LinkedTree<O> {
    /// Inserts an object behind those of the same key, of which there should be none.
    pub(crate) fn insert_unplaced(&mut self, object: Unplaced<O>) {
        // By the type invariants no tree has the object, and with the value that is given up for
        // this no other one can get it.
        self.add(into_field(object.0));
    }
}

impl<O: Keyed> Drop for LinkedTree<O> {
    fn drop(&mut self) {
        while self.pop_first().is_some() {}
    }
}

/// What weights depend on besides addresses, so that user space cannot choose objects whose weights
/// make a tree deep, even if it has found out where they are.
static SECRET: Atomic<u64> = Atomic::new(0);

/// Sets what weights depend on, once, before the first object is inserted anywhere.
pub(crate) fn set_secret(secret: u64) {
    SECRET.store(secret, Relaxed);
}

/// Returns the weight of an object. No two objects have the same.
fn weight<R>(room: NonNull<R>) -> u64 {
    weight_at(room.as_ptr().addr() as u64, read_once_u64(&SECRET))
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
