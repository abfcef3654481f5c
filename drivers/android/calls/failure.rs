// SPDX-License-Identifier: GPL-2.0

//! A call or a reply that fails: what its sender reads of that, and what others are told.

use crate::{
    calls::sender::Sender,
    common::{
        debug::binder_debug,
        error::TransactionError,
        netlink::{Party, Report}, //
    },
    defs::{Return, TransactionRequest},
    process::Process,
    thread::Thread, //
};

/// Why a call or a reply fails.
pub(super) struct Failure {
    pub(super) error: TransactionError,
    /// Whom the data was for, if it came far enough for that to be known.
    receiver: Option<Party>,
}

impl Failure {
    /// Returns the failure of a call that a thread of `process`, or `thread`, would have served.
    pub(super) fn on_the_way_to(
        process: &Process,
        thread: Option<&Thread>,
        error: TransactionError,
    ) -> Self {
        Self {
            error,
            receiver: Some(party(process, thread)),
        }
    }

    /// Logs the failure, and reports it to whoever listens. No lock may be held.
    #[cold]
    pub(super) fn tell(
        &self,
        sender: &Sender<'_>,
        request: &TransactionRequest,
        id: u32,
        is_reply: bool,
    ) {
        binder_debug!(
            FailedTransaction,
            "{} {id} to handle {} with code {}, {} bytes and {} of offsets: {:#x}, {}",
            if is_reply { "reply" } else { "call" },
            request.handle,
            request.code,
            request.data_size,
            request.offsets_size,
            self.error.return_code.code(),
            self.error.param
        );
        report(
            sender,
            request,
            is_reply,
            self.receiver,
            self.error.return_code,
        );
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Self {
        Self {
            error,
            receiver: None,
        }
    }
}

/// Names a process, and a thread of it if it is not just any.
fn party(process: &Process, thread: Option<&Thread>) -> Party {
    Party {
        pid: process.pid(),
        tid: thread.map_or(0, |thread| thread.id),
    }
}

/// Reports to whoever listens that a oneway call for `target` is queued, but in a way that is out of the
/// ordinary (contract NL-3). No lock may be held.
#[cold]
pub(super) fn report_queued(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    target: &Process,
    outcome: Return,
) {
    report(sender, request, false, Some(party(target, None)), outcome);
}

fn report(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    is_reply: bool,
    to: Option<Party>,
    outcome: Return,
) {
    let process = &sender.thread.process;
    Report {
        context: process.context.name(),
        from: party(process, Some(sender.thread)),
        to,
        is_reply,
        request,
        outcome,
    }
    .send();
}
