// SPDX-License-Identifier: GPL-2.0

//! The thread that waits for the outcome of a call, and the way from it up the chain of calls.

use crate::{
    process::ProcessState,
    pure::call_stack::FrameId,
    thread::Thread, //
};
use kernel::sync::Arc;

/// A thread that waited for the outcome of a call when it was looked up.
pub(crate) struct Waiter {
    pub(crate) thread: Arc<Thread>,
    pub(crate) frame: FrameId,
}

impl Waiter {
    /// Whether the thread still waits. The caller holds the state lock of its process.
    pub(crate) fn waits(&self, process: &mut ProcessState) -> bool {
        self.thread.state(process).stack.waits_for(self.frame)
    }

    /// Returns the thread that waits for a reply to what this thread served when it made the call:
    /// the next one up the chain of calls.
    pub(crate) fn next_up(&self) -> Option<Self> {
        let mut process = self.thread.process.lock_state();
        let served = self
            .thread
            .state(&mut process)
            .stack
            .served_during(self.frame);
        served.and_then(|served| served.waiter())
    }
}
