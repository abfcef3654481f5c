// SPDX-License-Identifier: GPL-2.0
//! The tests, one module a group.

use crate::suite::Group;

mod sync;

/// All groups, in the order in which they run.
pub const GROUPS: &[Group] = &[sync::GROUP];
