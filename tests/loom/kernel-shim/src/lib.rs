// SPDX-License-Identifier: GPL-2.0
//! The kernel crate of `tests/host`, with what threads share as loom has it: it runs a test in all
//! orders of such accesses, and with all values that a load may see in C11's memory model.

pub use host::{alloc, cpu, error, prelude};

pub mod sync;
