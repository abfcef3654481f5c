// SPDX-License-Identifier: GPL-2.0

//! What the `kernel` crate lacks for a driver like Binder, written as if it were to be added there.
//!
//! Nothing in here depends on Binder. Apart from the driver's thin FFI edge this is the only place
//! where `unsafe` may stand, and the only place that depends on differences between kernels.

pub(crate) mod callers;
pub(crate) mod clocks;
pub(crate) mod closable;
pub(crate) mod cpu_rings;
#[cfg(kunit_suites)]
pub(crate) mod expect;
pub(crate) mod files;
pub(crate) mod layouts;
pub(crate) mod link;
pub(crate) mod once;
pub(crate) mod owned_by;
#[allow(unreachable_pub)] // Written for more users than one.
pub(crate) mod page_range;
pub(crate) mod pid;
pub(crate) mod poll_queue;
pub(crate) mod rcu;
pub(crate) mod sched;
pub(crate) mod spin_lock;
pub(crate) mod user;
