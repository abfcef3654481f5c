// SPDX-License-Identifier: GPL-2.0

//! What a process can request to be notified of: the [`death`] of a node, the [`freeze`] of its
//! owner. Both are a [`Notification`](crate::notification::Notification).

pub(crate) mod death;
pub(crate) mod freeze;
