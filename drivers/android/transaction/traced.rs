// SPDX-License-Identifier: GPL-2.0

//! What trace events say of a transaction.

use super::{ArrivedReply, Transaction};
use crate::{
    ffi::trace, //
    process::{Pid, Process},
};

impl Transaction {
    /// Returns what trace events say of the end of this call or reply, which was for thread
    /// `thread` of process `process`. From whom it was is not known then, as in the C driver.
    pub(crate) fn ended_at(&self, process: Pid, thread: Pid) -> trace::Ended {
        ended_at(self.id, (self.code, self.flags), process, thread)
    }

    /// The same for a call that is not queued, because something fails.
    pub(crate) fn ended_as_draft(&self, target: &Process) -> trace::Ended {
        let ended = self.ended_at(target.pid(), 0);
        if self.is_oneway() {
            return ended;
        }
        let sender = self.sender();
        trace::Ended {
            from_process: sender.pid,
            from_thread: sender.tid,
            ..ended
        }
    }
}

impl ArrivedReply {
    /// Returns what trace events say of its end, as thread `thread` of process `process` has it.
    pub(crate) fn ended_at(&self, process: Pid, thread: Pid) -> trace::Ended {
        ended_at(self.id, (self.code, self.flags), process, thread)
    }
}

fn ended_at(id: u32, (code, flags): (u32, u32), process: Pid, thread: Pid) -> trace::Ended {
    trace::Ended {
        id,
        from_process: 0,
        from_thread: 0,
        to_process: process,
        to_thread: thread,
        code,
        flags,
    }
}
