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
#[allow(unsafe_code)]
#[path = "../../../../rust/kernel/link.rs"]
#[rustfmt::skip]
mod link;

/// The name by which macros and others find things of that floor.
mod kernel_ext {
    pub(crate) use super::link;

    pub(crate) mod once {
        use kernel::sync::atomic::{Atomic, Relaxed, Release};

        pub(crate) fn read_once_u64(atomic: &Atomic<u64>) -> u64 {
            atomic.load(Relaxed)
        }

        pub(crate) fn write_once_u64(atomic: &Atomic<u64>, value: u64) {
            atomic.store(value, Relaxed);
        }

        pub(crate) fn store_release_u64(atomic: &Atomic<u64>, value: u64) {
            atomic.store(value, Release);
        }
    }
}

#[cfg(test)]
mod tests;
