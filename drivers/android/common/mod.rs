// SPDX-License-Identifier: GPL-2.0

//! What the whole driver uses: failures of transactions, limits, counters of objects and codes,
//! debug messages, reports over netlink.

pub(crate) mod debug;
pub(crate) mod failure;
pub(crate) mod limits;
pub(crate) mod netlink;
pub(crate) mod stats;
pub(crate) mod transaction_log;
