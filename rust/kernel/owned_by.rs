// SPDX-License-Identifier: GPL-2.0

//! Data that belongs to an object, and that is guarded by a lock in that object. After the object
//! has ended, a lock in its name guards the data.
//!
//! ```text
//!   data ──► name: Severable ──► owner, with the lock     until the owner ends
//!                  After lock                             from then on
//! ```
//!
//! So what is left of an owner that has ended is its name, however long the data stays.
//!
//! A user of the data takes the owner's lock under RCU. Then it looks whether the owner was severed
//! in between: [`Severable::sever`] holds that lock, and drops the owner after a grace period.
//!
//! The kernel's `LockedBy` stores a pointer to the lock, and the owner would have to stay.

use super::link::HasField;
use crate::kernel_ext::{
    once::read_once,
    rcu,
    spin_lock::{SpinLock, SpinLockGuard}, //
};
use core::{cell::UnsafeCell, marker::PhantomData, mem::size_of, ptr};
use kernel::sync::{
    atomic::{Acquire, Atomic, Release},
    Arc,
    ArcBorrow, //
};

/// What the lock in the name of an owner guards: the right to access data of an owner that has
/// ended.
#[derive(Default)]
pub(crate) struct After(#[allow(dead_code)] u8);

/// A reference to an object, which is severed when the object ends.
///
/// # Invariants
///
/// The pointer is null before an object is given; then it is that of an `Arc<O>`, of which `self`
/// has one count; then it is [`Self::ENDED`], for good. It changes to that under the object's lock,
/// and the count is dropped after a grace period.
pub(crate) struct Severable<O>(Atomic<*const O>);

// SAFETY: It is a reference that is shared by counting.
unsafe impl<O: Send + Sync> Send for Severable<O> {}
// SAFETY: As above.
unsafe impl<O: Send + Sync> Sync for Severable<O> {}

impl<O> Severable<O> {
    /// The address of no object.
    const ENDED: *const O = ptr::without_provenance(1);

    /// Makes one that has no object yet.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(ptr::null()))
    }

    /// Gives it its object. Does nothing if that was done before.
    pub(crate) fn set(&self, object: Arc<O>) {
        let given = Arc::into_raw(object);
        // ORDERING: Pairs with the dependent reads of the object. INVARIANT: It has the count.
        if self.0.cmpxchg(ptr::null(), given, Release).is_err() {
            // SAFETY: The count was given up above, and is not used.
            drop(unsafe { Arc::from_raw(given) });
        }
    }

    /// Returns the pointer, if there is an object.
    #[inline(always)]
    fn pointer(&self) -> Option<*const O> {
        let pointer = read_once(&self.0);
        (pointer.addr() > Self::ENDED.addr()).then_some(pointer)
    }

    /// Returns whether this is the reference to `object`, and not severed.
    #[inline(always)]
    pub(crate) fn is(&self, object: &O) -> bool {
        ptr::eq(read_once(&self.0), object)
    }

    /// Returns a reference to the object, unless it is severed.
    #[inline]
    pub(crate) fn get(&self) -> Option<Arc<O>> {
        let _reading = rcu::read_lock();
        let pointer = self.pointer()?;
        // SAFETY: By the type invariants the object has a count until a grace period has ended
        // since the pointer was another one, and none ends before `_reading` is dropped.
        Some(unsafe { ArcBorrow::from_raw(pointer) }.into())
    }

    /// Runs `step` with the object, unless it is severed. `step` must not sleep.
    #[inline]
    pub(crate) fn with<R>(&self, step: impl FnOnce(Option<&O>) -> R) -> R {
        let _reading = rcu::read_lock();
        // SAFETY: As in `get`, and `step` ends before that.
        step(self.pointer().map(|pointer| unsafe { &*pointer }))
    }

    /// Severs it from its object, and drops the reference after a grace period. May sleep; no lock
    /// may be held.
    pub(crate) fn sever<G>(&self)
    where
        O: HasField<SpinLock<G>> + Send + Sync + 'static,
    {
        let Some(object) = self.get() else {
            return;
        };
        let pointer = ptr::from_ref(&*object);
        let guard = object.field().lock();
        let is_severed = self.is(&object);
        if is_severed {
            // ORDERING: Pairs with `has_ended`. INVARIANT: Under the lock.
            self.0.store(Self::ENDED, Release);
        }
        drop(guard);
        if is_severed {
            // SAFETY: By the type invariants there was a count, and who severs drops it.
            rcu::drop_later(unsafe { Arc::from_raw(pointer) });
        }
    }
}

impl<O> Drop for Severable<O> {
    fn drop(&mut self) {
        if let Some(pointer) = self.pointer() {
            // SAFETY: By the type invariants `self` has a count, which nobody uses any more.
            drop(unsafe { Arc::from_raw(pointer) });
        }
    }
}

/// The lock that guards data of an owner, held: that of the owner, or that of its name.
pub(crate) enum Locked<'a, G> {
    Owners(SpinLockGuard<'a, G>),
    Names(SpinLockGuard<'a, After>),
}

impl<G: Unpin> Locked<'_, G> {
    /// Returns what the lock of the owner guards, unless the owner has ended.
    #[inline]
    pub(crate) fn of_owner(&mut self) -> Option<&mut G> {
        match self {
            Self::Owners(guard) => Some(&mut **guard),
            Self::Names(_) => None,
        }
    }
}

/// Data that belongs to an owner, and may be accessed while the owner's lock is held; after the end
/// of the owner, while that of its name is. `N` is the type of names.
///
/// # Invariants
///
/// - `data` is accessed only by who shows what the lock of the owner guards, for as long as that is
///   borrowed.
/// - Once the owner is severed from its name, it is what the lock of the name guards.
/// - `name` does not change as long as this is shared.
pub(crate) struct OwnedBy<T, N, O, G> {
    name: Arc<N>,
    data: UnsafeCell<T>,
    _guarded: PhantomData<fn(O, G)>,
}

// SAFETY: Threads that share it get `&mut T` one at a time, by the lock, and `&T` only if `T` is
// `Sync`; and they share the name.
unsafe impl<T: Send, N: Send + Sync, O, G> Sync for OwnedBy<T, N, O, G> {}

impl<T, N, O, G> OwnedBy<T, N, O, G>
where
    N: HasField<Severable<O>> + HasField<SpinLock<After>>,
    O: HasField<SpinLock<G>>,
    G: Unpin,
{
    /// Makes data that belongs to the owner of this name, whose lock guards a `G`.
    #[inline]
    pub(crate) fn new(name: Arc<N>, data: T) -> Self {
        // INVARIANT: Nothing accesses the data yet.
        Self {
            name,
            data: UnsafeCell::new(data),
            _guarded: PhantomData,
        }
    }

    /// Returns the name of the owner.
    #[inline(always)] // It is a field.
    pub(crate) fn name(&self) -> &Arc<N> {
        &self.name
    }

    /// Returns the reference to the owner.
    #[inline(always)]
    pub(crate) fn owner(&self) -> &Severable<O> {
        self.name.field()
    }

    /// Takes the lock that guards the data.
    ///
    /// Panics if the name has no object yet.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, G> {
        loop {
            let _reading = rcu::read_lock();
            let Some(owner) = self.owner().pointer() else {
                break;
            };
            // SAFETY: As in `Severable::get`. The guard is dropped either below, while `_reading`
            // exists, or while the owner is not severed, as that takes the lock.
            let guard = unsafe { &*owner }.field().lock();
            if ptr::eq(read_once(&self.owner().0), owner) {
                return Locked::Owners(guard);
            }
        }
        self.lock_after()
    }

    #[cold]
    fn lock_after(&self) -> Locked<'_, G> {
        let after: &SpinLock<After> = self.name.field();
        assert!(self.has_ended(), "no owner yet");
        Locked::Names(after.lock())
    }

    /// Returns whether the owner is severed. If so, what others have done with the data under its
    /// lock comes before.
    fn has_ended(&self) -> bool {
        // ORDERING: Pairs with `sever` and its lock.
        ptr::eq(self.owner().0.load(Acquire), Severable::ENDED)
    }

    /// Returns the data to be changed, for as long as the lock that guards it is borrowed
    /// exclusively.
    ///
    /// Panics if it is the lock of another owner.
    #[inline]
    #[allow(clippy::mut_from_ref)] // It is the borrow of `locked` that makes it exclusive.
    pub(crate) fn in_lock<'a>(&'a self, locked: &'a mut Locked<'_, G>) -> &'a mut T {
        match locked {
            Locked::Owners(guard) => self.access_mut(guard),
            Locked::Names(guard) => self.access_after(guard),
        }
    }

    #[cold]
    #[allow(clippy::mut_from_ref)] // As above.
    fn access_after<'a>(&'a self, after: &'a mut After) -> &'a mut T {
        check::<After>(self.name.field(), after);
        assert!(self.has_ended(), "the owner has not ended");
        // SAFETY: The owner is severed for good. `after` is borrowed exclusively for `'a`, so
        // nobody can show another reference to it during `'a`: by the type invariant there is no
        // other reference to the data.
        unsafe { &mut *self.data.get() }
    }

    /// Returns the data, for as long as what the owner's lock guards is borrowed.
    ///
    /// Panics if `guarded` is what the lock of another owner guards, or the owner has ended.
    #[inline]
    pub(crate) fn access<'a>(&'a self, guarded: &'a G) -> &'a T
    where
        T: Sync,
    {
        self.check(guarded);
        // SAFETY: `guarded` is borrowed for `'a`, so nobody can show an exclusive reference to it
        // during `'a`, or sever the owner, which takes its lock: by the type invariant there are
        // only shared references to the data.
        unsafe { &*self.data.get() }
    }

    /// Returns the data to be changed, for as long as what the owner's lock guards is borrowed
    /// exclusively.
    ///
    /// Panics if `guarded` is what the lock of another owner guards, or the owner has ended.
    #[inline]
    #[allow(clippy::mut_from_ref)] // It is the borrow of `guarded` that makes it exclusive.
    pub(crate) fn access_mut<'a>(&'a self, guarded: &'a mut G) -> &'a mut T {
        self.check(guarded);
        // SAFETY: `guarded` is borrowed exclusively for `'a`, so nobody can show another reference
        // to it during `'a`, or sever the owner: by the type invariant there is no other reference
        // to the data.
        unsafe { &mut *self.data.get() }
    }

    /// Panics if `guarded` is not what the lock of the owner guards.
    #[inline]
    fn check(&self, guarded: &G) {
        let owner = read_once(&self.owner().0);
        // The owner need not exist: its address is compared.
        let lock = owner.wrapping_byte_add(O::OFFSET).cast();
        check::<G>(lock, guarded);
    }
}

/// Panics if `guarded` is not what this lock guards.
///
/// It is that value if it lies in the memory of the lock. A value of the type is in that memory
/// once, as it is no part of itself, and nobody has references to the rest of a lock. If the lock
/// does not exist, no value is there.
#[inline]
fn check<G>(lock: *const SpinLock<G>, guarded: *const G) {
    const {
        // References to what has no size can be had anywhere.
        assert!(size_of::<G>() > 0);
    }
    if guarded.addr().wrapping_sub(lock.addr()) >= size_of::<SpinLock<G>>() {
        panic!("mismatched owners");
    }
}
