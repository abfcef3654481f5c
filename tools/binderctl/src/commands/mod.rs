// SPDX-License-Identifier: GPL-2.0
//! The commands, a file each: its arguments, what it does, and its report.

pub mod add;
pub mod chmod;
pub mod chown;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod graph;
pub mod list;
pub mod man;
pub mod mount;
pub mod rm;
pub mod top;
pub mod trace;
