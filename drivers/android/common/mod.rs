// SPDX-License-Identifier: GPL-2.0

//! What the whole driver uses: transaction errors, limits, counters of objects, debug messages.

pub(crate) mod debug;
pub(crate) mod error;
pub(crate) mod limits;
pub(crate) mod stats;
