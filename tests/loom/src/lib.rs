// SPDX-License-Identifier: GPL-2.0
//! The driver's types that threads use without a lock, or whose lock may end, with loom's threads.
//!
//! They are included by their paths, and find the crate `kernel` in `kernel-shim`.

// They are complete in themselves; not all that they offer has to be used by a test.
#![allow(dead_code, unused_imports, unused_macros)]

#[path = "../../../rust/kernel/closable.rs"]
#[rustfmt::skip]
mod closable;
#[path = "../../../rust/kernel/cpu_rings.rs"]
#[rustfmt::skip]
mod cpu_rings;
#[path = "../../../rust/kernel/link.rs"]
#[rustfmt::skip]
mod link;
#[path = "../../../rust/kernel/owned_by.rs"]
#[rustfmt::skip]
mod owned_by;

mod kernel_ext;

#[cfg(test)]
mod tests;
