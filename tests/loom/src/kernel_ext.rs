// SPDX-License-Identifier: GPL-2.0
//! Names by which macros and others find things.

pub(crate) use super::link;
pub(crate) use kernel::sync::rcu;

/// Locks of loom.
pub(crate) mod spin_lock {
    use kernel::sync::lock::{spinlock::SpinLockBackend, Guard};
    pub(crate) use kernel::sync::SpinLock;

    pub(crate) type SpinLockGuard<'a, T> = Guard<'a, T, SpinLockBackend>;
}

/// Ordered accesses.
pub(crate) mod once {
    use kernel::sync::{
        atomic::{Atomic, Relaxed, Release},
        barrier::{smp_mb, Write},
    };

    pub(crate) fn read_once<T: Copy>(atomic: &Atomic<T>) -> T {
        atomic.load(Relaxed)
    }

    pub(crate) fn read_once_u64(atomic: &Atomic<u64>) -> u64 {
        read_once(atomic)
    }

    pub(crate) fn write_once<T: Copy>(atomic: &Atomic<T>, value: T) {
        atomic.store(value, Relaxed);
    }

    pub(crate) fn store_release(atomic: &Atomic<u32>, value: u32) {
        atomic.store(value, Release);
    }

    pub(crate) fn store_release_u64(atomic: &Atomic<u64>, value: u64) {
        atomic.store(value, Release);
    }

    pub(crate) fn write_barrier() {
        smp_mb(Write);
    }

    pub(crate) fn write_once_u64(atomic: &Atomic<u64>, value: u64) {
        write_once(atomic, value);
    }
}
