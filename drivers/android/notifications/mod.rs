// SPDX-License-Identifier: GPL-2.0

//! What a process can ask to be told of: [`death`] of a node, [`freeze`] of its owner. Both are a
//! [`Notification`](crate::notification::Notification).

pub(crate) mod death;
pub(crate) mod freeze;
