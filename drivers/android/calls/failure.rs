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
    defs::{Command, Return, TransactionRequest},
    process::Process,
    thread::Thread, //
};
use kernel::{fmt, prelude::*};

/// Why a call or a reply fails.
pub(super) struct Failure {
    /// The debug id of the call or reply.
    pub(super) id: u32,
    pub(super) error: TransactionError,
    /// Whom the data was for; all 0 if it did not come far enough for that to be known.
    receiver: Party,
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
    /// Returns the failure of a call or reply whose receiver is not known, and of the node of a
    /// call at most its debug id.
    #[cold]
    pub(super) fn early(id: u32, node: u32, error: TransactionError) -> Self {
        Self {
            id,
            error,
            receiver: Party::default(),
            space: None,
            node,
        }
    }

    /// Returns the failure of a call on `node`, which a thread of `process`, or `thread`, would
    /// have served, or of a reply, where `node` is 0.
    #[cold]
    pub(super) fn on_the_way_to(
        id: u32,
        process: &Process,
        thread: Option<&Thread>,
        node: u32,
        error: TransactionError,
    ) -> Self {
        Self {
            id,
            error,
            receiver: party(process, thread),
            space: Space::of(process, error.reason),
            node,
        }
    }

    /// Logs the failure, and reports it to whoever listens. No lock may be held.
    #[cold]
    pub(super) fn tell(&self, sender: &Sender<'_>, request: &TransactionRequest, kind: Kind) {
        let reason = self.error.reason;
        if is_wanted(reason) {
            self.log(sender, request, kind);
        }
        if reason.is_user_error() {
            debug::user_error_happened();
        }
        let from = sender.thread.party();
        let sent = Sent::new(kind, request, from, self.receiver, self.node);
        let log = &sender.thread.process.log;
        log.add_failed(self.id, &sent, self.error);
        let outcome = self.error.return_code();
        report(sender, request, kind, self.receiver, outcome);
    }

    fn log(&self, sender: &Sender<'_>, request: &TransactionRequest, kind: Kind) {
        let (id, error) = (self.id, self.error);
        let command = match kind {
            Kind::Reply => Command::Reply,
            Kind::Call | Kind::Oneway => Command::Transaction,
        };
        let (command, outcome) = (command.name(), error.return_code().name());
        let at = sender.consumed.get();
        let context = sender.thread.process.context.name();
        let to = self.receiver;
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

impl Space {
    /// Returns the state of the space of `process`, if that is what `reason` is about.
    fn of(process: &Process, reason: Reason) -> Option<Self> {
        if !reason.is_lack_of_room() {
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

/// Names a process, and a thread of it if it is not just any.
fn party(process: &Process, thread: Option<&Thread>) -> Party {
    Party {
        pid: process.pid(),
        tid: thread.map_or(0, |thread| thread.id),
    }
}

/// Reports to whoever listens that a oneway call for `target` is queued, but in a way that is out
/// of the ordinary (contract NL-3). No lock may be held.
#[cold]
pub(super) fn report_queued(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    target: &Process,
    outcome: Return,
) {
    report(sender, request, Kind::Oneway, party(target, None), outcome);
}

fn report(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    kind: Kind,
    to: Party,
    outcome: Return,
) {
    let process = &sender.thread.process;
    Report {
        context: process.context.name(),
        from: sender.thread.party(),
        to,
        is_reply: kind == Kind::Reply,
        request,
        outcome,
    }
    .send();
}
