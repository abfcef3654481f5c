// SPDX-License-Identifier: GPL-2.0
//! Calls, followed live through the trace events of the driver.
//!
//! [`source`] returns the [`event`]s of all CPUs in order: it makes a tracing instance, and reads the pages of its
//! [`ring`]s. [`calls`] makes calls of them, and is pure logic. [`live`] does both for commands that can do without.
//! [`record`] is the form in which they are shown.

pub mod calls;
pub mod event;
pub mod live;
pub mod record;
#[cfg(test)]
pub mod recorded;
pub mod ring;
pub mod source;
