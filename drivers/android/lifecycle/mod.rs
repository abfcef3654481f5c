// SPDX-License-Identifier: GPL-2.0

//! How processes and threads begin and end, and how processes are looked up and frozen.

pub(crate) mod code_sums;
pub(crate) mod freeze;
pub(crate) mod registry;
pub(crate) mod teardown;
pub(crate) mod threads;
