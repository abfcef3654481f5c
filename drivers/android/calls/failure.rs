// SPDX-License-Identifier: GPL-2.0

//! A call or a reply that fails: what its sender reads of that, and what others are told.

use crate::{
    calls::sender::Sender,
    common::{
        debug::{self, Subject},
        failure::{Failure, Reason},
        netlink::{self, Party},
        transaction_log::{Kind, Sent}, //
    },
    defs::{Command, Return, TransactionRequest},
    process::Process,
    thread::Thread, //
};
use kernel::{fmt, prelude::*};

/// Logs that call or reply `id` fails, and reports it to whoever listens. `node` is the debug id of
/// the node that is called, if that is known; else 0. `receiver` is whom the data was for, if the
/// call came far enough for that to be known: a thread of the process, or any. No lock may be held.
#[cold]
pub(super) fn tell(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    kind: Kind,
    (id, node): (u32, u32),
    receiver: Option<(&Process, Option<&Thread>)>,
    failure: Failure,
) {
    let reason = failure.reason;
    let to = receiver.map_or(Party::default(), |(process, thread)| party(process, thread));
    if is_wanted(reason) {
        log(sender, request, kind, id, (to, receiver), failure);
    }
    if reason.is_user_error() {
        debug::user_error_happened();
    }
    let sent = Sent::new(kind, request, sender.thread.party(), to, node);
    sender.thread.process.log.add_failed(id, &sent, failure);
    report(sender, request, kind, to, failure.return_code());
}

/// Writes why call or reply `id` fails to the kernel's log, with the state of the receiver's space
/// if that is the reason.
fn log(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    kind: Kind,
    id: u32,
    (to, receiver): (Party, Option<(&Process, Option<&Thread>)>),
    failure: Failure,
) {
    let command = match kind {
        Kind::Reply => Command::Reply,
        Kind::Call | Kind::Oneway => Command::Transaction,
    };
    let (command, outcome) = (command.name(), failure.return_code().name());
    let at = sender.consumed.get();
    let context = sender.thread.process.context.name();
    let errno = failure.errno.into();
    let say = |why: fmt::Arguments<'_>| {
        debug::print(fmt!(
            "{command} at offset {at} of the write buffer: {outcome}, {} ({errno}): {why} \
             [{id} on {context} to {}:{} handle {} code {} flags {:#x} size {}-{}-{} line {}]",
            debug::errno_name(errno),
            to.pid,
            to.tid,
            request.handle,
            request.code,
            request.flags,
            request.data_size,
            request.offsets_size,
            request.buffers_size,
            failure.line
        ));
    };
    let words = failure.reason.words();
    let has_no_room = |_: &(_, _)| failure.reason.is_lack_of_room();
    let space = receiver.filter(has_no_room).and_then(|(process, _)| {
        let ranges = process.buffers.lock();
        let ranges = ranges.as_ref()?;
        Some((ranges.size(), ranges.in_use(), ranges.free_oneway_space()))
    });
    match (failure.object(), space) {
        (Some(index), _) => say(fmt!("object {index}: {words}")),
        (None, Some((size, buffers, free))) => say(fmt!(
            "{words}; of {size} bytes, {buffers} buffers are in use, and {free} bytes are left for \
             oneway calls"
        )),
        (None, None) => say(fmt!("{words}")),
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
    let context = sender.thread.process.context.name();
    let parties = (sender.thread.party(), to);
    netlink::report(context, parties, kind == Kind::Reply, request, outcome);
}
