// SPDX-License-Identifier: GPL-2.0

//! Reports of calls and replies that fail, over generic netlink, for whoever has joined the group
//! `report` of the family `binder` (contract NL-1 to NL-3).
//!
//! `common/netlink.c` has the family and builds the messages. As long as nobody listens, a call
//! that fails pays for the question whether somebody does, and nothing else is done.

use crate::{
    defs::{Return, TransactionRequest},
    ffi::netlink,
    ffi::trace, //
};
use kernel::prelude::*;

/// The family, registered as long as this value exists, if its name is not taken by another driver.
pub(crate) struct Family(());

impl Family {
    /// Registers the family. If it cannot be registered, a message says why, and nothing is
    /// reported. In process context; only one value may exist at a time.
    pub(crate) fn register() -> Self {
        netlink::register();
        Self(())
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        netlink::unregister();
    }
}

/// A task of a process of Binder, by its numbers in the initial pid namespace.
#[derive(Clone, Copy, Default)]
pub(crate) struct Party {
    pub(crate) pid: i32,
    /// 0 if any thread of the process is meant.
    pub(crate) tid: i32,
}

/// Reports a call or a reply, of which its sender reads `outcome`, to whoever listens. `context` is
/// the name of the device. `to` is whom the data was for; all 0 if the call did not come far enough
/// for that to be known. Sleeps; no lock may be held. A report for which memory is short is lost.
pub(crate) fn report(
    context: &CStr,
    (from, to): (Party, Party),
    is_reply: bool,
    request: &TransactionRequest,
    outcome: Return,
) {
    if !netlink::has_listeners() {
        return;
    }
    let report = netlink::Report {
        context: context.into(),
        error: outcome.code(),
        from_pid: from.pid as u32,
        from_tid: from.tid as u32,
        to_pid: to.pid as u32,
        to_tid: to.tid as u32,
        is_reply: is_reply.into(),
        flags: request.flags,
        code: request.code,
        // CAST: the attribute has 32 bits, and more than that no space has room for.
        data_size: request.data_size as u32,
    };
    trace::netlink_report(&report);
    netlink::send(&report);
}
