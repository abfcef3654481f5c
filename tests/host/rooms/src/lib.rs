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

mod kernel_ext;

#[cfg(test)]
mod tests;
