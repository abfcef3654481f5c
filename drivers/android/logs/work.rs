// SPDX-License-Identifier: GPL-2.0

//! The lines of what is queued for a thread, a process or a node.

use super::{
    pointers::Pointer,
    transactions::{Line, Party}, //
};
use crate::{
    defs::{NodeName, Return},
    process::ProcessState,
    pure::death_state::{Cleared, DeathState},
    transaction::Content,
    work::Work, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// Something that is queued, as a line shows it.
pub(super) enum WorkLine {
    Transaction(Line),
    /// The code of an error.
    Error(Return),
    Node(u32, NodeName),
    /// A line that is the same every time.
    Fixed(&'static str),
    /// What user space is not told any more.
    Nothing,
}

/// How the lines of a queue begin.
pub(super) struct Prefixes {
    pub(super) work: &'static str,
    pub(super) transaction: &'static str,
}

impl WorkLine {
    /// Returns the line of something that is queued for `to`, in the queue of a process, of one of
    /// its threads or of one of its nodes. The caller holds the state lock of the process.
    pub(super) fn of(work: &Work, process: &ProcessState, to: Party) -> Self {
        match work {
            Work::Call(call) => Self::Transaction(Line::of(call, to)),
            Work::Outcome(outcome) => match outcome.content() {
                Content::Failed(error) => Self::Error(error.return_code()),
                _ => Self::Transaction(Line::of(outcome, to)),
            },
            Work::Error(thread) => Self::Error(thread.state_shared(process).unread_error),
            Work::Completion => Self::Fixed("transaction complete"),
            // The C driver has no words for two kinds of completions, and prints their numbers.
            Work::ReturnCode(Return::TransactionPendingFrozen) => {
                Self::Fixed("unknown work: type 3")
            }
            Work::ReturnCode(Return::OnewaySpamSuspect) => Self::Fixed("unknown work: type 4"),
            Work::ReturnCode(_) => Self::Fixed("transaction complete"),
            Work::Node(node) => Self::Node(node.debug_id, node.name),
            Work::Death(death) => match death.state_shared(process).subject {
                DeathState::Queued(Cleared::No) => Self::Fixed("has dead binder"),
                DeathState::Queued(Cleared::Yes) => Self::Fixed("has cleared dead binder"),
                DeathState::Clearing => Self::Fixed("has cleared death notification"),
                _ => Self::Nothing,
            },
            Work::Freeze(freeze) => {
                let subject = &freeze.state_shared(process).subject;
                match (subject.is_queued(), subject.is_withdrawn()) {
                    (false, _) => Self::Nothing,
                    (true, false) => Self::Fixed("has frozen binder"),
                    (true, true) => Self::Fixed("has cleared freeze notification"),
                }
            }
        }
    }

    /// Writes the line.
    pub(super) fn write(&self, prefixes: &Prefixes, pointer: Pointer, out: &SeqFile) {
        let prefix = prefixes.work;
        match self {
            Self::Transaction(line) => line.write(prefixes.transaction, out),
            Self::Error(code) => seq_print!(out, "{prefix}transaction error: {}\n", code.code()),
            Self::Node(id, name) => {
                seq_print!(out, "{prefix}node work {}: ", *id as i32);
                pointer.write_name(name, out);
                seq_print!(out, "\n");
            }
            Self::Fixed(line) => seq_print!(out, "{prefix}{line}\n"),
            Self::Nothing => {}
        }
    }
}
