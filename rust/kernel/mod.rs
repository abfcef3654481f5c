// SPDX-License-Identifier: GPL-2.0

//! What the `kernel` crate lacks for a driver like Binder, written as if it were to be added there.
//!
//! Nothing in here knows of Binder. Apart from the driver's thin FFI edge this is the only place
//! where `unsafe` may stand, and the only place that depends on differences between kernels.

pub(crate) mod callers;
#[allow(unreachable_pub)] // Written for more users than one.
pub(crate) mod closable;
pub(crate) mod cpu_rings;
pub(crate) mod cycles;
pub(crate) mod debug_mask;
#[allow(unreachable_pub)] // Written for more users than one.
pub(crate) mod deferred_close;
pub(crate) mod descriptors;
#[cfg(kunit_suites)]
pub(crate) mod expect;
pub(crate) mod hashed;
pub(crate) mod layouts;
pub(crate) mod link;
pub(crate) mod open_file;
pub(crate) mod owned_by;
#[allow(dead_code, unreachable_pub)] // Written for more users than one.
pub(crate) mod page_range;
pub(crate) mod park;
pub(crate) mod pid;
pub(crate) mod plain;
pub(crate) mod poll_queue;
pub(crate) mod sched;
pub(crate) mod stack_bytes;
pub(crate) mod ticks;
pub(crate) mod user_bytes;
pub(crate) mod user_error;
pub(crate) mod user_namespace;
pub(crate) mod user_words;
pub(crate) mod versions;
pub(crate) mod worker;
