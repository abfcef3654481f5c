// SPDX-License-Identifier: GPL-2.0

//! How processes and threads begin and end, and how processes are looked up and frozen.

pub(crate) mod freeze;
pub(crate) mod processes;
pub(crate) mod threads;
