// SPDX-License-Identifier: GPL-2.0

//! `BC_TRANSACTION` and `BC_REPLY`: sends calls and replies, and translates their objects.
//!
//! This file has what both commands need: the thread that sends, and the reports of a call or a
//! reply that fails.

pub(crate) mod reply;
pub(crate) mod send;
mod translate;

use crate::{
    common::{
        debug::{self, DebugSubject},
        failure::Failure,
        netlink::{self, Party},
        transaction_log::{record, CallType}, //
    },
    defs::{Command, TransactionRequest},
    ffi,
    kernel_ext::{files::Descriptors, sched::WakeHint},
    process::Process,
    thread::Thread, //
};
use kernel::{
    cred::Credential,
    fmt,
    prelude::*,
    sync::Arc, //
};

/// The calling thread, which sends a call or a reply.
pub(crate) struct Sender<'a> {
    pub(crate) thread: &'a Arc<Thread>,
    /// The credential with which it sends: the one with which its process has opened the device.
    pub(crate) credential: &'a Credential,
    /// Its file descriptors.
    pub(crate) descriptors: Descriptors<'a, Process>,
    /// On which CPU to wake the thread that waits for what it sends.
    pub(crate) hint: WakeHint,
    /// The offset in the write buffer of the command that runs.
    pub(crate) at: u64,
    /// True if the thread reads once its commands have run, and has room for a completion and more.
    pub(crate) reads_then: bool,
}

/// The completion of a reply that was the last command of its thread, for which no other work was
/// queued then, and whose pool [needed](crate::process::ProcessState::needs_thread) no other
/// thread. It is not queued: the thread reads it at once, and nothing else.
pub(crate) struct ReplySent {
    /// True if the reply has failed, which its caller reads: if the thread cannot read the
    /// completion at once, that stops its commands until it does (contract TXN-25).
    pub(crate) has_failed: bool,
}

/// Logs that call or reply `id` fails, and reports it to the listeners. `node` is the debug id of
/// the node that is called, if that is known; else 0. `receiver` is the receiver of the data, if
/// the call came far enough for that to be known: a thread of the process, or any. No lock may be
/// held.
#[cold]
fn tell(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    call_type: CallType,
    (id, node): (u32, u32),
    receiver: Option<(&Process, Option<&Thread>)>,
    failure: Failure,
) {
    let reason = failure.reason;
    let to = receiver.map_or(Party::default(), |(process, thread)| {
        process.party(thread.map_or(0, |thread| thread.id))
    });
    let is_wanted = debug::is_wanted(DebugSubject::FailedTransaction)
        || (reason.is_user_error() && debug::is_wanted(DebugSubject::UserError))
        || (reason.is_about_space() && debug::is_wanted(DebugSubject::SpaceError));
    if is_wanted {
        let receiver = receiver.map(|(process, _)| process);
        print_failure(sender, request, call_type, id, (to, receiver), failure);
    }
    if reason.is_user_error() {
        ffi::user_error_happened();
    }
    let thread = sender.thread;
    let failed = record(call_type, request, thread.party(), to, node);
    thread.process.log.add_failed(id, failed, failure);
    let parties = (thread.party(), to);
    let is_reply = call_type == CallType::Reply;
    let context = thread.process.context.name();
    netlink::report(context, parties, is_reply, request, failure.return_code());
}

/// Writes why call or reply `id` fails to the kernel's log, with the state of the receiver's space
/// if that is the reason.
fn print_failure(
    sender: &Sender<'_>,
    request: &TransactionRequest,
    call_type: CallType,
    id: u32,
    (to, receiver): (Party, Option<&Process>),
    failure: Failure,
) {
    let command = match call_type {
        CallType::Reply => Command::Reply,
        CallType::Call | CallType::Oneway => Command::Transaction,
    };
    let (command, outcome) = (command.name(), failure.return_code().name());
    let at = sender.at;
    let context = sender.thread.process.context.name();
    let errno = failure.errno.into();
    let say = |why: fmt::Arguments<'_>| {
        debug::print(fmt!(
            "{command} at offset {at} of the write buffer: {outcome}, {} ({errno}): {why} \
             [{id} on {context} to {to} handle {} code {} flags {:#x} size {}-{}-{} line {}]",
            debug::errno_name(errno),
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
    let has_no_room = |_: &_| failure.reason.is_lack_of_room();
    let space = receiver.filter(has_no_room).and_then(|process| {
        let ranges = process.buffers.ranges.lock();
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
