// SPDX-License-Identifier: GPL-2.0
//! The driver's pure rooms, compiled for the host, and their tests.
//!
//! They are included by their paths and find the crate `kernel` in `../kernel-shim`. A new one
//! needs a place in `drivers/android/pure/`, a file in `tests/`, and its functions in the shim.

#![deny(unsafe_code)]
// The rooms are complete in themselves; not all that they offer has to be used by a test.
#![allow(dead_code, unused_imports, unused_macros)]

#[path = "../../../../drivers/android/pure/mod.rs"]
#[rustfmt::skip]
mod pure;
#[path = "../../../../drivers/android/range_alloc.rs"]
#[rustfmt::skip]
mod range_alloc;

// From the floor below the driver, where `unsafe` is at home.
#[allow(unsafe_code, improper_ctypes)] // No test reads the kernel's clock.
#[path = "../../../../rust/kernel/clocks.rs"]
#[rustfmt::skip]
mod clocks;
#[allow(unsafe_code)]
#[path = "../../../../rust/kernel/cpu_rings.rs"]
#[rustfmt::skip]
mod cpu_rings;
#[allow(unsafe_code)]
#[path = "../../../../rust/kernel/link.rs"]
#[rustfmt::skip]
mod link;
#[allow(unsafe_code)]
#[path = "../../../../rust/kernel/owned_by.rs"]
#[rustfmt::skip]
mod owned_by;

/// Names by which macros and others find things.
mod kernel_ext {
    pub(crate) use super::link;
    pub(crate) use kernel::sync::rcu;

    /// Locks of the host.
    pub(crate) mod spin_lock {
        use kernel::sync::lock::{spinlock::SpinLockBackend, Guard};
        pub(crate) use kernel::sync::SpinLock;

        pub(crate) type SpinLockGuard<'a, T> = Guard<'a, T, SpinLockBackend>;
    }

    /// Accesses by threads that take turns.
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
}

#[cfg(test)]
mod tests;
