// SPDX-License-Identifier: GPL-2.0
//! The commands: their arguments, what they do, and their reports.

pub mod devices;
pub mod doctor;
pub mod explain;
pub mod graph;
pub mod list;
pub mod top;
pub mod trace;
