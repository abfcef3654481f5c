// SPDX-License-Identifier: GPL-2.0

//! `BC_TRANSACTION` and `BC_REPLY`: sends calls and replies, and translates their objects.

mod failure;
pub(crate) mod reply;
pub(crate) mod send;
pub(crate) mod sender;
pub(crate) mod translate;
