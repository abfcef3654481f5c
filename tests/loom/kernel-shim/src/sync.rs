// SPDX-License-Identifier: GPL-2.0
//! Shared memory, locks and atomics over those of loom.

use host::alloc::{AllocError, Flags};
use std::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

#[path = "../../../host/kernel-shim/src/sync/references.rs"]
mod references;

pub use references::{ArcBorrow, UniqueArc};

/// Memory with a count of references. It is never freed, so that the use of a lock in it after its
/// end is noticed.
pub struct Arc<T>(*const Counted<T>);

#[repr(C)]
struct Counted<T> {
    value: ManuallyDrop<T>,
    count: atomic::Atomic<usize>,
}

// SAFETY: Threads share the value, and any of them drops it.
unsafe impl<T: Send + Sync> Send for Arc<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Arc<T> {}

impl<T> Arc<T> {
    /// Puts a value there.
    pub fn new(value: T, _: Flags) -> Result<Self, AllocError> {
        let new = Counted { value: ManuallyDrop::new(value), count: atomic::Atomic::new(1) };
        new.count.load(atomic::Relaxed);
        Ok(Self(Box::leak(Box::new(new))))
    }

    /// Gives the reference up to the holder of the pointer.
    pub fn into_raw(self) -> *const T {
        ManuallyDrop::new(self).0.cast()
    }

    /// Makes a reference again of what [`into_raw`](Self::into_raw) gave up.
    ///
    /// # Safety
    ///
    /// The pointer comes from `into_raw`, and this is done once.
    pub unsafe fn from_raw(raw: *const T) -> Self {
        Self(raw.cast())
    }

    /// Drops the reference, unless it is the only one.
    pub fn into_unique_or_drop(this: Self) -> Option<UniqueArc<T>> {
        (this.counted().count.load(atomic::Acquire) == 1).then(|| UniqueArc(this))
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: The memory is never freed.
        unsafe { &*self.0 }
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        self.counted().count.fetch_add(1, atomic::Relaxed);
        Self(self.0)
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Arc<T> {
    fn drop(&mut self) {
        if self.counted().count.fetch_sub(1, atomic::Full) == 1 {
            // SAFETY: Nobody has a reference.
            unsafe { ManuallyDrop::drop(&mut (*self.0.cast_mut()).value) };
        }
    }
}

/// A lock, with its data. It panics if it is used after its end.
pub struct SpinLock<T> {
    lock: loom::sync::Mutex<T>,
    has_ended: AtomicBool,
}

impl<T> SpinLock<T> {
    /// Makes one that nobody holds.
    pub fn new(guarded: T) -> Self {
        Self { lock: loom::sync::Mutex::new(guarded), has_ended: AtomicBool::new(false) }
    }

    /// Takes it.
    pub fn lock(&self) -> lock::Guard<'_, T, lock::spinlock::SpinLockBackend> {
        let guard = self.lock.lock().unwrap();
        lock::Guard { guard, has_ended: &self.has_ended, backend: PhantomData }
    }
}

impl<T> Drop for SpinLock<T> {
    fn drop(&mut self) {
        self.has_ended.store(true, Relaxed);
    }
}

/// The guards of locks.
pub mod lock {
    use loom::sync::MutexGuard;
    use std::{
        marker::PhantomData,
        ops::{Deref, DerefMut},
        sync::atomic::{AtomicBool, Ordering::Relaxed},
    };

    /// Holds it until it is dropped.
    pub struct Guard<'a, T, B> {
        pub(super) guard: MutexGuard<'a, T>,
        pub(super) has_ended: &'a AtomicBool,
        pub(super) backend: PhantomData<B>,
    }

    impl<T, B> Deref for Guard<'_, T, B> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T, B> DerefMut for Guard<'_, T, B> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }

    impl<T, B> Drop for Guard<'_, T, B> {
        fn drop(&mut self) {
            assert!(!self.has_ended.load(Relaxed), "a lock that was dropped is used");
        }
    }

    /// Locks that spin.
    pub mod spinlock {
        /// Their kind.
        pub struct SpinLockBackend;
    }
}

/// Reading without locks: a grace period is one in which nobody reads.
pub mod rcu {
    use loom::sync::{RwLock, RwLockReadGuard};

    loom::lazy_static! {
        static ref READERS: RwLock<()> = RwLock::new(());
    }

    /// Keeps a grace period from ending.
    pub struct Guard(#[allow(dead_code)] RwLockReadGuard<'static, ()>);

    /// Begins to read.
    pub fn read_lock() -> Guard {
        Guard(READERS.read().unwrap())
    }

    /// Drops a reference after waiting for those that read now.
    pub fn drop_later<T>(object: super::Arc<T>) {
        drop(READERS.write().unwrap());
        drop(object);
    }
}

/// Types that stand for orders of C11.
macro_rules! in_c11 {
    ($(#[$doc:meta])* $kind:ident: $($name:ident = $ordering:ident),*) => {
        $(#[$doc])*
        pub trait $kind {
            /// Its name in C11.
            const IN_C11: Ordering;
        }
        $(
            pub struct $name;
            impl $kind for $name {
                const IN_C11: Ordering = Ordering::$ordering;
            }
        )*
    };
}
use in_c11;

/// Numbers and pointers that threads share.
pub mod atomic {
    use loom::sync::atomic::{AtomicU64, Ordering};
    use std::sync::OnceLock;

    /// One of them. loom's are made during a run, and the driver's when it is compiled: so loom's is
    /// made at the first access. It has to be before those of other threads.
    pub struct Atomic<T> {
        first: T,
        shared: OnceLock<AtomicU64>,
    }

    // SAFETY: A pointer is a number here.
    unsafe impl<T> Send for Atomic<T> {}
    // SAFETY: As above.
    unsafe impl<T> Sync for Atomic<T> {}

    super::in_c11! {
        /// The order of an access.
        Order: Relaxed = Relaxed, Acquire = Acquire, Release = Release, Full = SeqCst
    }

    /// Their other names.
    pub mod ordering {
        pub use super::{Acquire, Full, Relaxed, Release};
    }

    fn bits<T: Copy>(value: T) -> u64 {
        const { assert!(size_of::<T>() <= size_of::<u64>()) };
        let mut bits = 0;
        // SAFETY: The value fits.
        unsafe { (&raw mut bits).cast::<T>().write(value) };
        bits
    }

    fn value<T: Copy>(bits: u64) -> T {
        // SAFETY: They are from `bits`, or from a sum of numbers.
        unsafe { (&raw const bits).cast::<T>().read() }
    }

    impl<T: Copy> Atomic<T> {
        /// A number or a pointer.
        pub const fn new(first: T) -> Self {
            Self { first, shared: OnceLock::new() }
        }

        fn shared(&self) -> &AtomicU64 {
            self.shared.get_or_init(|| AtomicU64::new(bits(self.first)))
        }

        /// There is none: loom has to see each access.
        pub fn as_ptr(&self) -> *mut T {
            unimplemented!()
        }

        /// Reads it.
        pub fn load<O: Order>(&self, _: O) -> T {
            value(self.shared().load(O::IN_C11))
        }

        /// Writes it.
        pub fn store<O: Order>(&self, value: T, _: O) {
            self.shared().store(bits(value), O::IN_C11);
        }

        /// Writes it if it is `old`. Returns the previous value, and whether it was `old`.
        pub fn cmpxchg<O: Order>(&self, old: T, new: T, _: O) -> Result<T, T> {
            let swapped = self.shared().compare_exchange(bits(old), bits(new), O::IN_C11, Ordering::Relaxed);
            swapped.map(value).map_err(value)
        }

        /// Adds to it; returns the previous value.
        pub fn fetch_add<O: Order>(&self, number: T, _: O) -> T {
            value(self.shared().fetch_add(bits(number), O::IN_C11))
        }

        /// Subtracts from it; returns the previous value.
        pub fn fetch_sub<O: Order>(&self, number: T, _: O) -> T {
            value(self.shared().fetch_sub(bits(number), O::IN_C11))
        }
    }
}

/// Barriers that keep accesses in order.
pub mod barrier {
    use loom::sync::atomic::{fence, Ordering};

    super::in_c11! {
        /// What a barrier orders.
        Kind: Read = Acquire, Write = Release
    }

    /// Keeps accesses before it before those after it.
    pub fn smp_mb<K: Kind>(_: K) {
        fence(K::IN_C11);
    }
}
