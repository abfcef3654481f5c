// SPDX-License-Identifier: GPL-2.0

//! A call or a reply that fails: what its sender reads of that, and what others are told.

use crate::{
    calls::sender::Sender,
    common::{
        debug::{self, Subject},
        error::TransactionError,
        netlink::{Party, Report},
        reason::Reason,
        transaction_log::{Kind, Sent}, //
    },
    defs::{Return, TransactionRequest},
    process::Process,
    thread::Thread, //
};
use kernel::{fmt, prelude::*};

/// Why a call or a reply fails.
pub(super) struct Failure {
    pub(super) error: TransactionError,
    /// Whom the data was for, if it came far enough for that to be known.
    receiver: Option<Party>,
    /// The state of the receiver's space, if that is the reason.
    space: Option<Space>,
    /// The debug id of the node that is called, if that is known; else 0.
    node: u32,
}

/// What is told of a space that has no room.
struct Space {
    size: usize,
    buffers: usize,
    free_for_oneway: usize,
}

impl Failure {
    /// Returns the failure of a call on `node`, which a thread of `process`, or `thread`, would have served,
    /// or of a reply, where `node` is 0.
    #[cold]
    pub(super) fn on_the_way_to(
        process: &Process,
        thread: Option<&Thread>,
        node: u32,
        error: TransactionError,
    ) -> Self {
        Self {
            error,
            receiver: Some(party(process, thread)),
            space: Space::of(process, error.reason),
            node,
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
        let reason = self.error.reason;
        if is_wanted(reason) {
            self.log(sender, request, id, is_reply);
        }
        if reason.is_user_error() {
            debug::user_error_happened();
        }
        let kind = if is_reply {
            Kind::Reply
        } else {
            Kind::of_call(request.flags)
        };
        let to = self.receiver.unwrap_or_default();
        let sent = Sent::new(kind, request, sender.thread.party(), to, self.node);
        sender.thread.process.log.add_failed(id, &sent, self.error);
        let outcome = self.error.return_code();
        report(sender, request, is_reply, self.receiver, outcome);
    }

    fn log(&self, sender: &Sender<'_>, request: &TransactionRequest, id: u32, is_reply: bool) {
        let error = self.error;
        let (command, outcome) = (name(is_reply), outcome_name(error.return_code()));
        let at = sender.at.get();
        let context = sender.thread.process.context.name();
        let to = self.receiver.unwrap_or_default();
        let say = |why: fmt::Arguments<'_>| {
            debug::print(fmt!(
                "{command} at offset {at} of the write buffer: {outcome}, {} ({}): {why} \
                 [{id} on {context} to {}:{} handle {} code {} flags {:#x} size {}-{}-{} line {}]",
                debug::errno_name(error.param()),
                error.param(),
                to.pid,
                to.tid,
                request.handle,
                request.code,
                request.flags,
                request.data_size,
                request.offsets_size,
                request.buffers_size,
                error.line
            ));
        };
        let words = error.reason.words();
        match (error.object(), &self.space) {
            (Some(index), _) => say(fmt!("object {index}: {words}")),
            (None, Some(space)) => say(fmt!(
                "{words}; of {} bytes, {} buffers are in use, and {} bytes are left for oneway calls",
                space.size,
                space.buffers,
                space.free_for_oneway
            )),
            (None, None) => say(fmt!("{words}")),
        }
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Self {
        Self {
            error,
            receiver: None,
            space: None,
            node: 0,
        }
    }
}

impl Space {
    /// Returns the state of the space of `process`, if that is what `reason` is about.
    fn of(process: &Process, reason: Reason) -> Option<Self> {
        if reason != Reason::NoSpace {
            return None;
        }
        let ranges = process.buffers.lock();
        ranges.as_ref().map(|ranges| Self {
            size: ranges.size(),
            buffers: ranges.in_use(),
            free_for_oneway: ranges.free_oneway_space(),
        })
    }
}

/// Whether a failure for this reason is logged.
fn is_wanted(reason: Reason) -> bool {
    debug::is_wanted(Subject::FailedTransaction)
        || (reason.is_user_error() && debug::is_wanted(Subject::UserError))
        || (reason.is_about_space() && debug::is_wanted_of_space(debug::SpaceSubject::UserError))
}

fn name(is_reply: bool) -> &'static str {
    if is_reply {
        "BC_REPLY"
    } else {
        "BC_TRANSACTION"
    }
}

fn outcome_name(code: Return) -> &'static str {
    match code {
        Return::DeadReply => "BR_DEAD_REPLY",
        Return::FrozenReply => "BR_FROZEN_REPLY",
        _ => "BR_FAILED_REPLY",
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
        from: sender.thread.party(),
        to,
        is_reply,
        request,
        outcome,
    }
    .send();
}
