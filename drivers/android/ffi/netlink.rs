// SPDX-License-Identifier: GPL-2.0

//! The functions of `common/netlink.c`, and what they are given.

use super::Text;

/// A call or a reply that fails, in the layout of `struct rust_binder_report` of
/// `common/netlink.h`.
#[repr(C)]
pub(crate) struct Report<'a> {
    pub(crate) context: Text<'a>,
    pub(crate) error: u32,
    pub(crate) from_pid: u32,
    pub(crate) from_tid: u32,
    pub(crate) to_pid: u32,
    pub(crate) to_tid: u32,
    pub(crate) is_reply: u32,
    pub(crate) flags: u32,
    pub(crate) code: u32,
    pub(crate) data_size: u32,
}

// Why these are safe to call: `common/netlink.c` defines them with these arguments. What they are
// given they read during the call alone, and what a `Text` in it points to is valid that long (its
// type invariant). Registering a family that is registered fails, and unregistering one that is not
// does nothing.
unsafe extern "C" {
    #[link_name = "rust_binder_netlink_register"]
    pub(crate) safe fn register();
    #[link_name = "rust_binder_netlink_unregister"]
    pub(crate) safe fn unregister();
    #[link_name = "rust_binder_netlink_has_listeners"]
    pub(crate) safe fn has_listeners() -> bool;
    #[link_name = "rust_binder_netlink_send"]
    pub(crate) safe fn send(report: &Report<'_>);
}
