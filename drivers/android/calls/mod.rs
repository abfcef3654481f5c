// SPDX-License-Identifier: GPL-2.0

//! `BC_TRANSACTION` and `BC_REPLY`: sending calls and replies, and translating their objects.

pub(crate) mod send;
pub(crate) mod sender;
pub(crate) mod translate;
