// SPDX-License-Identifier: GPL-2.0
//! Calls, followed live through the trace events of the driver.
//!
//! [`source`] gives the [`event`]s of all CPUs in order: it makes a tracing [`instance`], reads the pages of its
//! [`ring`]s, and knows by the [`format`] files where things stand in them. [`calls`] makes calls of them, and is pure
//! logic. [`names`] says what the processes are called, [`filter`] which calls are wanted; [`text`], [`record`] and
//! [`perfetto`] are the forms in which they are shown.

pub mod calls;
pub mod event;
pub mod filter;
pub mod format;
pub mod instance;
pub mod names;
pub mod perfetto;
pub mod record;
#[cfg(test)]
pub mod recorded;
pub mod ring;
pub mod source;
pub mod text;
