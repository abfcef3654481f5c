// SPDX-License-Identifier: GPL-2.0

//! How processes are looked up, frozen and ended.

pub(crate) mod freeze;
pub(crate) mod registry;
pub(crate) mod teardown;
