// SPDX-License-Identifier: GPL-2.0

//! Reports of calls and replies that fail, over generic netlink, to the members of the group
//! `report`. The family is `binder`, unless the driver has another name (contract NL-1 to NL-3;
//! `Documentation/netlink/specs/binder.yaml`). Joining takes no capability.
//!
//! Reports are sent in the initial network namespace alone, because they name processes by their
//! global numbers. As long as nobody listens, a call that fails pays for the question whether
//! somebody does, and nothing else is done.

use crate::{
    defs::{Return, TransactionRequest},
    ffi::{self, trace}, //
};
use kernel::{
    ffi::c_int,
    fmt,
    net::netlink::{GenlMsg, NetlinkSkBuff, GENLMSG_DEFAULT_SIZE},
    prelude::*,
    uapi, //
};

/// A task of a process of Binder, by its numbers in the initial pid namespace.
#[derive(Clone, Copy, Default)]
pub(crate) struct Party {
    pub(crate) pid: i32,
    /// 0 if any thread of the process is meant.
    pub(crate) tid: i32,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pid, self.tid)
    }
}

/// Reports a call or a reply, of which its sender reads `outcome`, to the listeners. `context` is
/// the name of the device. `to` is the receiver of the data; all 0 if the call did not come far
/// enough for that to be known. Sleeps; no lock may be held. A report for which memory is short is
/// lost.
#[cold]
pub(crate) fn report(
    context: &CStr,
    (from, to): (Party, Party),
    is_reply: bool,
    request: &TransactionRequest,
    outcome: Return,
) {
    if !ffi::has_listeners() {
        return;
    }
    // CAST: the attribute has 32 bits, and more than that no space has room for.
    let data_size = request.data_size as u32;
    trace::netlink_report(
        context.into(),
        outcome.code(),
        from.pid,
        from.tid,
        to.pid,
        to.tid,
        is_reply,
        request.flags,
        request.code,
        data_size as usize,
    );
    let make = || -> Result<GenlMsg> {
        let buffer = NetlinkSkBuff::new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL)?;
        let mut message = buffer.genlmsg_put(0, 0, &ffi::REPORTS, uapi::BINDER_CMD_REPORT as u8)?;
        message.put_u32(uapi::BINDER_A_REPORT_ERROR as c_int, outcome.code())?;
        message.put_string(uapi::BINDER_A_REPORT_CONTEXT as c_int, context)?;
        message.put_u32(uapi::BINDER_A_REPORT_FROM_PID as c_int, from.pid as u32)?;
        message.put_u32(uapi::BINDER_A_REPORT_FROM_TID as c_int, from.tid as u32)?;
        // Of 0 the number is not known.
        if to.pid != 0 {
            message.put_u32(uapi::BINDER_A_REPORT_TO_PID as c_int, to.pid as u32)?;
        }
        if to.tid != 0 {
            message.put_u32(uapi::BINDER_A_REPORT_TO_TID as c_int, to.tid as u32)?;
        }
        if is_reply {
            message.put_flag(uapi::BINDER_A_REPORT_IS_REPLY as c_int)?;
        }
        message.put_u32(uapi::BINDER_A_REPORT_FLAGS as c_int, request.flags)?;
        message.put_u32(uapi::BINDER_A_REPORT_CODE as c_int, request.code)?;
        message.put_u32(uapi::BINDER_A_REPORT_DATA_SIZE as c_int, data_size)?;
        Ok(message)
    };
    // The lack of listeners is an error, too.
    let _ = make().and_then(|message| message.multicast(&ffi::REPORTS, 0, 0, GFP_KERNEL));
}
