// SPDX-License-Identifier: GPL-2.0
//! Shared memory and atomics over the standard ones.

use crate::alloc::{AllocError, Flags};
use crate::testing::{Allocation, Origin};
use std::mem::ManuallyDrop;
use std::ops::Deref;

mod references;

pub use references::{ArcBorrow, UniqueArc};

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
