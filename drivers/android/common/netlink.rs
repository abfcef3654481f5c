// SPDX-License-Identifier: GPL-2.0

//! Reports of calls and replies that fail, over generic netlink, for whoever has joined the group
//! `report` of the family `binder` (contract NL-1 to NL-3).
//!
//! `common/netlink.c` has the family and builds the messages. As long as nobody listens, a call
//! that fails pays for the question whether somebody does, and nothing else is done.

use crate::{
    defs::{Return, TransactionRequest},
    ffi::netlink,
    trace, //
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

/// One report.
pub(crate) struct Report<'a> {
    /// The name of the device.
    pub(crate) context: &'a CStr,
    pub(crate) from: Party,
    /// Whom the data was for; all 0 if the call did not come far enough for that to be known.
    pub(crate) to: Party,
    pub(crate) is_reply: bool,
    pub(crate) request: &'a TransactionRequest,
    /// What the sender reads.
    pub(crate) outcome: Return,
}

impl Report<'_> {
    /// Sends the report, if anybody listens. Sleeps; no lock may be held. A report for which memory
    /// is short is lost.
    pub(crate) fn send(&self) {
        if !netlink::has_listeners() {
            return;
        }
        trace::netlink_report(|| trace::Report {
            context: self.context,
            error: self.outcome.code(),
            from_pid: self.from.pid,
            from_tid: self.from.tid,
            to_pid: self.to.pid,
            to_tid: self.to.tid,
            is_reply: self.is_reply,
            flags: self.request.flags,
            code: self.request.code,
            // CAST: the event has the number that the report has.
            data_size: self.request.data_size as u32 as usize,
        });
        netlink::send(&netlink::Report {
            context: self.context.into(),
            error: self.outcome.code(),
            from_pid: self.from.pid as u32,
            from_tid: self.from.tid as u32,
            to_pid: self.to.pid as u32,
            to_tid: self.to.tid as u32,
            is_reply: self.is_reply.into(),
            flags: self.request.flags,
            code: self.request.code,
            // CAST: the attribute has 32 bits, and more than that no space has room for.
            data_size: self.request.data_size as u32,
        });
    }
}
