// SPDX-License-Identifier: GPL-2.0

//! Data that belongs to an object, by a reference to it, and that is guarded by a lock in that
//! object.
//!
//! The kernel's `LockedBy` stores a pointer to the lock. Here the reference to the owner, which
//! objects with such data have anyway, leads to the lock.

use super::link::HasField;
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::size_of, //
};
use kernel::sync::{Arc, SpinLock};

/// Data that belongs to an owner, and may be accessed while the owner's lock is held.
///
/// # Invariants
///
/// `data` is accessed only by who shows what the lock of `owner` guards, for as long as that is
/// borrowed. `owner` does not change as long as this is shared.
pub(crate) struct OwnedBy<T, O: HasField<SpinLock<G>>, G> {
    owner: Arc<O>,
    data: UnsafeCell<T>,
    _guarded: PhantomData<fn(G)>,
}

// SAFETY: Threads that share it get `&mut T` one at a time, by the lock, and `&T` only if `T` is
// `Sync`; and they share the owner.
unsafe impl<T: Send, O: HasField<SpinLock<G>> + Send + Sync, G> Sync for OwnedBy<T, O, G> {}

impl<T, O: HasField<SpinLock<G>>, G> OwnedBy<T, O, G> {
    /// Makes data that belongs to `owner`, whose lock guards a `G`.
    #[inline]
    pub(crate) fn new(owner: Arc<O>, data: T) -> Self {
        // INVARIANT: Nothing accesses the data yet.
        Self {
            owner,
            data: UnsafeCell::new(data),
            _guarded: PhantomData,
        }
    }

    /// Returns the owner.
    #[inline(always)] // It is a field.
    pub(crate) fn owner(&self) -> &Arc<O> {
        &self.owner
    }

    /// Returns the data, for as long as what the owner's lock guards is borrowed.
    ///
    /// Panics if `guarded` is what the lock of another owner guards.
    #[inline]
    pub(crate) fn access<'a>(&'a self, guarded: &'a G) -> &'a T
    where
        T: Sync,
    {
        self.check(guarded);
        // SAFETY: `guarded` is borrowed for `'a`, so nobody can show an exclusive reference to it
        // during `'a`: by the type invariant there are only shared references to the data.
        unsafe { &*self.data.get() }
    }

    /// Returns the data to be changed, for as long as what the owner's lock guards is borrowed
    /// exclusively.
    ///
    /// Panics if `guarded` is what the lock of another owner guards.
    #[inline]
    #[allow(clippy::mut_from_ref)] // It is the borrow of `guarded` that makes it exclusive.
    pub(crate) fn access_mut<'a>(&'a self, guarded: &'a mut G) -> &'a mut T {
        self.check(guarded);
        // SAFETY: `guarded` is borrowed exclusively for `'a`, so nobody can show another reference
        // to it during `'a`: by the type invariant there is no other reference to the data.
        unsafe { &mut *self.data.get() }
    }

    /// Panics if `guarded` is not what the lock of the owner guards.
    ///
    /// It is that value if it lies in the memory of that lock. `self` keeps the owner; a value of
    /// the type is in that memory once, as it is no part of itself; and of the rest of a lock
    /// nobody has references.
    #[inline]
    fn check(&self, guarded: *const G) {
        const {
            // References to what has no size can be had anywhere.
            assert!(size_of::<G>() > 0);
        }
        let lock = core::ptr::from_ref(self.owner.field()).addr();
        if guarded.addr().wrapping_sub(lock) >= size_of::<SpinLock<G>>() {
            panic!("mismatched owners");
        }
    }
}
