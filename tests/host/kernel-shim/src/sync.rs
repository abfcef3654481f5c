// SPDX-License-Identifier: GPL-2.0
//! Shared memory and atomics over the standard ones.

use crate::alloc::{AllocError, Flags};
use crate::testing::{Allocation, Origin};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// Memory with a count of references.
pub struct Arc<T>(ManuallyDrop<std::sync::Arc<T>>);

impl<T> Arc<T> {
    /// Puts a value there.
    pub fn new(value: T, _flags: Flags) -> Result<Self, AllocError> {
        // As with boxes: the address may be all that is left.
        Allocation::new(Origin::Kmalloc)?.forget();
        Ok(Self(ManuallyDrop::new(std::sync::Arc::new(value))))
    }

    /// Returns whether both are of the same value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(&this.0, &other.0)
    }

    /// Gives the reference up to the holder of the pointer.
    pub fn into_raw(self) -> *const T {
        let this = ManuallyDrop::new(self);
        std::sync::Arc::as_ptr(&this.0)
    }

    /// Makes a reference again of what [`into_raw`](Self::into_raw) gave up.
    ///
    /// # Safety
    ///
    /// The pointer comes from `into_raw`, and this is done once.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(raw: *const T) -> Self {
        // SAFETY: The pointer is that of a standard one, whose count the caller has.
        Self(ManuallyDrop::new(unsafe { std::sync::Arc::from_raw(raw) }))
    }

    /// Drops the reference, unless it is the only one.
    pub fn into_unique_or_drop(this: Self) -> Option<UniqueArc<T>> {
        let is_unique = std::sync::Arc::strong_count(&this.0) == 1;
        is_unique.then(|| UniqueArc(this))
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Arc<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if std::sync::Arc::strong_count(&self.0) == 1 {
            Allocation::free_forgotten(Origin::Kmalloc);
        }
        // SAFETY: Nobody uses it again.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// Memory with a count of references, of which this is the only one.
pub struct UniqueArc<T>(Arc<T>);

impl<T> UniqueArc<T> {
    /// Puts a value there.
    pub fn new(value: T, flags: Flags) -> Result<Self, AllocError> {
        Arc::new(value, flags).map(Self)
    }
}

impl<T> From<UniqueArc<T>> for Arc<T> {
    fn from(unique: UniqueArc<T>) -> Self {
        unique.0
    }
}

/// A lock, with its data.
pub struct SpinLock<T>(std::sync::Mutex<T>);

impl<T> SpinLock<T> {
    /// Makes one that nobody holds.
    pub const fn new(guarded: T) -> Self {
        Self(std::sync::Mutex::new(guarded))
    }

    /// Takes it.
    pub fn lock(&self) -> lock::Guard<'_, T, lock::spinlock::SpinLockBackend> {
        // Tests make threads panic that hold it.
        let guard = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        lock::Guard(guard, PhantomData)
    }
}

/// Reading without locks.
pub mod rcu {
    use std::sync::{RwLock, RwLockReadGuard};

    static READERS: RwLock<()> = RwLock::new(());

    /// Keeps a grace period from ending.
    pub struct Guard(#[allow(dead_code)] RwLockReadGuard<'static, ()>);

    /// Begins to read.
    pub fn read_lock() -> Guard {
        // Tests make threads panic that read.
        Guard(READERS.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Drops a reference after waiting for those that read now.
    pub fn drop_later<T>(object: super::Arc<T>) {
        drop(READERS.write().unwrap_or_else(|poisoned| poisoned.into_inner()));
        drop(object);
    }
}

/// The guards of locks.
pub mod lock {
    use std::{
        marker::PhantomData,
        ops::{Deref, DerefMut},
        sync::MutexGuard,
    };

    /// Holds it until it is dropped.
    pub struct Guard<'a, T, B>(pub(super) MutexGuard<'a, T>, pub(super) PhantomData<B>);

    impl<T, B> Deref for Guard<'_, T, B> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T, B> DerefMut for Guard<'_, T, B> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }

    /// Locks that spin.
    pub mod spinlock {
        /// Their kind.
        pub struct SpinLockBackend;
    }
}

/// A reference that somebody else has.
pub struct ArcBorrow<'a, T>(ManuallyDrop<Arc<T>>, PhantomData<&'a T>);

impl<T> ArcBorrow<'_, T> {
    /// Borrows what [`Arc::into_raw`] gave up.
    ///
    /// # Safety
    ///
    /// The pointer comes from `into_raw`, and no `Arc` takes it back while this one lives.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(raw: *const T) -> Self {
        // SAFETY: As the caller promises; this one is never dropped.
        Self(ManuallyDrop::new(unsafe { Arc::from_raw(raw) }), PhantomData)
    }
}

impl<T> Deref for ArcBorrow<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<ArcBorrow<'_, T>> for Arc<T> {
    fn from(borrowed: ArcBorrow<'_, T>) -> Self {
        (*borrowed.0).clone()
    }
}

/// Numbers that threads share; `tests/loom` has some whose order matters.
pub mod atomic {
    use std::sync::Mutex;

    /// A number.
    pub struct Atomic<T>(Mutex<T>);

    /// In no order with anything else.
    pub struct Relaxed;
    /// Before what follows.
    pub struct Acquire;
    /// After what precedes.
    pub struct Release;

    /// The order of an access. Here all are alike, in an order that all threads agree on.
    pub trait Order {}
    impl Order for Relaxed {}
    impl Order for Acquire {}
    impl Order for Release {}

    impl<T: Copy> Atomic<T> {
        /// A number.
        pub const fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        /// Its address, for a caller that excludes writes during its use.
        pub fn as_ptr(&self) -> *mut T {
            &raw mut *self.0.lock().unwrap()
        }

        /// Reads it.
        pub fn load(&self, _: impl Order) -> T {
            *self.0.lock().unwrap()
        }

        /// Writes it.
        pub fn store(&self, value: T, _: impl Order) {
            *self.0.lock().unwrap() = value;
        }
    }

    impl<T: Copy + PartialEq> Atomic<T> {
        /// Writes it if it is `old`. Returns the previous value, and whether it was `old`.
        pub fn cmpxchg(&self, old: T, new: T, _: impl Order) -> Result<T, T> {
            let mut number = self.0.lock().unwrap();
            if *number != old {
                return Err(*number);
            }
            Ok(std::mem::replace(&mut *number, new))
        }
    }

    impl Atomic<u64> {
        /// Adds to it; returns the previous value.
        pub fn fetch_add(&self, value: u64, _: impl Order) -> u64 {
            let mut number = self.0.lock().unwrap();
            let sum = number.wrapping_add(value);
            std::mem::replace(&mut *number, sum)
        }
    }
}

/// Barriers that keep accesses in order, which they are in here.
pub mod barrier {
    /// Orders reads.
    pub struct Read;

    /// Orders writes.
    pub struct Write;

    /// Keeps accesses before it before those after it.
    pub fn smp_mb<T>(_: T) {}
}
