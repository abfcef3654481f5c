// SPDX-License-Identifier: GPL-2.0

//! The lines of a process, as they are copied, and their text.

use super::nodes::NodeLine;
use crate::{
    allocation::Buffer,
    common::netlink::Party,
    defs::{NodeName, Return},
    kernel_ext::{
        hashed,
        ticks::Ticks, //
    },
    process::{Pid, ProcessState},
    pure::death_state::{Cleared, DeathState},
    range_alloc::Label,
    transaction::{Content, Transaction},
    work::{Code, Work}, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// A line, or a few that follow each other. It has nothing to drop, so it is copied under
/// spinlocks.
pub(super) enum Line {
    /// A line that is the same every time, behind this.
    Fixed(&'static str, &'static str),
    /// The lines that name a process, by its number in the snapshot.
    Process(usize),
    Thread {
        id: Pid,
        /// Its state in the bits of the C driver.
        looper: u32,
        must_return: bool,
    },
    /// A call that a thread makes to a process of this pid.
    Outgoing {
        call: CallKey,
        from: Party,
        target: Pid,
    },
    /// A call that a thread serves.
    Incoming(TransactionLine),
    /// Any other transaction, behind this.
    Transaction(&'static str, TransactionLine),
    /// The code of an error, behind this.
    Error(&'static str, Return),
    /// A node whose owner is to read of its counts, behind this.
    NodeWork(&'static str, u32, NodeName),
    Node(NodeLine),
    Ref(RefLine),
    Buffer {
        label: Label,
        offset: u32,
        size: u32,
        /// Whether its transaction exists.
        is_active: bool,
    },
}

/// Names a call: the address of the record of the thread that makes it, and the number of its
/// frame. The address is not used as one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallKey {
    pub(super) thread: usize,
    pub(super) serial: u64,
}

/// A handle.
pub(super) struct RefLine {
    pub(super) id: u32,
    pub(super) handle: u32,
    pub(super) node: u32,
    pub(super) is_dead: bool,
    pub(super) strong: u32,
    pub(super) weak: u32,
    /// The address of the request for a notification of the node's death; 0 if there is none.
    pub(super) death: usize,
}

/// A transaction.
pub(super) struct TransactionLine {
    pub(super) id: u32,
    from: Party,
    to: Party,
    code: u32,
    flags: u32,
    nice: i16,
    is_oneway: bool,
    is_reply: bool,
    start: Ticks,
    /// The place of its data in the space of the process whose line it is; nothing if they are
    /// freed.
    pub(super) data: Option<Data>,
}

/// The place and the size of a transaction's data.
#[derive(Clone, Copy)]
pub(super) struct Data {
    /// The node that is called; none for a reply.
    pub(super) node: Option<u32>,
    pub(super) data_size: u32,
    pub(super) offsets_size: u32,
    pub(super) offset: u32,
}

impl Data {
    fn of(buffer: &Buffer, node: Option<u32>) -> Option<Self> {
        // CAST: All of it is within a space.
        Some(Self {
            node,
            data_size: buffer.layout.data_size() as u32,
            offsets_size: buffer.layout.offsets_size() as u32,
            offset: buffer.offset() as u32,
        })
    }
}

impl TransactionLine {
    /// Returns the line of a transaction that is queued for `to`, or that it serves. Once
    /// a transaction is being served, it does not contain the place of its data.
    pub(super) fn of(transaction: &Transaction, to: Party) -> Self {
        let (replier, data) = match &transaction.content {
            Content::Call { node, buffer, .. } => (None, Data::of(buffer, Some(node.debug_id))),
            Content::Reply {
                buffer,
                from: (pid, tid),
                ..
            } => {
                let (pid, tid) = (*pid, *tid);
                (Some(Party { pid, tid }), Data::of(buffer, None))
            }
            Content::Empty | Content::Failed(_) => (None, None),
        };
        let is_oneway = replier.is_none() && transaction.is_oneway();
        Self {
            id: transaction.id,
            from: replier.unwrap_or(transaction.sender()),
            to,
            code: transaction.code,
            flags: transaction.flags,
            // Nobody inherits the priority of a oneway call, so it is not noted.
            nice: if is_oneway {
                0
            } else {
                transaction.caller_priority.nice()
            },
            is_oneway,
            is_reply: replier.is_some(),
            start: transaction.start,
            data,
        }
    }

    /// Writes the line behind a prefix, but for the data. In place of the transaction's address,
    /// which the C driver hides in its own way, there are zeros: its number identifies it.
    pub(super) fn write_start(&self, prefix: &str, out: &SeqFile) {
        seq_print!(
            out,
            "{prefix} {}: 0000000000000000 from {}:{} to {}:{} code {:x} flags {:x} pri {} a{} r{} elapsed {}ms",
            self.id as i32,
            self.from.pid,
            self.from.tid,
            self.to.pid,
            self.to.tid,
            self.code,
            self.flags,
            self.nice,
            u8::from(self.is_oneway),
            u8::from(self.is_reply),
            self.start.elapsed_milliseconds()
        );
    }

    /// Writes the line behind a prefix.
    pub(super) fn write(&self, prefix: &str, out: &SeqFile) {
        self.write_start(prefix, out);
        let Some(data) = &self.data else {
            seq_print!(out, " buffer free\n");
            return;
        };
        if let Some(node) = data.node {
            seq_print!(out, " node {}", node as i32);
        }
        seq_print!(
            out,
            " size {}:{} offset {:x}\n",
            data.data_size,
            data.offsets_size,
            data.offset
        );
    }
}

/// How the lines of a queue begin.
pub(super) struct Prefixes {
    pub(super) work: &'static str,
    pub(super) transaction: &'static str,
}

impl Line {
    /// Returns the line of an item that is queued for `to`, in the queue of a process, of one of
    /// its threads or of one of its nodes. Returns nothing for an item that user space will not
    /// read any more. The caller holds the state lock of the process.
    pub(super) fn of_work(
        work: &Work,
        process: &ProcessState,
        to: Party,
        prefixes: &Prefixes,
    ) -> Option<Self> {
        let transaction = |transaction| {
            let line = TransactionLine::of(transaction, to);
            Some(Self::Transaction(prefixes.transaction, line))
        };
        let fixed = |text| Some(Self::Fixed(prefixes.work, text));
        match work {
            Work::Call(call) => transaction(call),
            Work::Outcome(outcome) => match &outcome.content {
                Content::Failed(error) => Some(Self::Error(prefixes.work, error.return_code())),
                _ => transaction(outcome),
            },
            Work::Error(thread) => {
                let code = thread.state_shared(process).unread_error;
                Some(Self::Error(prefixes.work, code))
            }
            // The C driver has no words for two kinds of completions, and prints their numbers.
            Work::Code(code) => fixed(match **code {
                Code::Return(Return::TransactionPendingFrozen) => "unknown work: type 3",
                Code::Return(Return::OnewaySpamSuspect) => "unknown work: type 4",
                Code::Return(_) | Code::Completion => "transaction complete",
            }),
            Work::Node(node) => Some(Self::NodeWork(prefixes.work, node.debug_id, node.name)),
            Work::Death(death) => match death.state_shared(process).subject {
                DeathState::Queued(Cleared::No) => fixed("has dead binder"),
                DeathState::Queued(Cleared::Yes) => fixed("has cleared dead binder"),
                DeathState::Clearing => fixed("has cleared death notification"),
                _ => None,
            },
            Work::Freeze(freeze) => {
                let subject = &freeze.state_shared(process).subject;
                match (subject.is_queued(), subject.is_withdrawn()) {
                    (false, _) => None,
                    (true, false) => fixed("has frozen binder"),
                    (true, true) => fixed("has cleared freeze notification"),
                }
            }
        }
    }
}

impl RefLine {
    pub(super) fn write(&self, out: &SeqFile) {
        seq_print!(
            out,
            "  ref {}: desc {} {}node {} s {} w {} d ",
            self.id as i32,
            self.handle as i32,
            if self.is_dead { "dead " } else { "" },
            self.node as i32,
            self.strong,
            self.weak
        );
        hashed::write_restricted(out, self.death);
        seq_print!(out, "\n");
    }
}

/// Writes the two pointers by which a process names a node: as they are, or hashed, so that readers
/// can only compare them.
pub(super) fn write_name(name: &NodeName, is_hashed: bool, out: &SeqFile) {
    if !is_hashed {
        seq_print!(out, "u{:016x} c{:016x}", name.ptr, name.cookie);
        return;
    }
    // CAST: With addresses of 32 bits, the lower half of the 64 distinguishes the names that user
    // space gives.
    seq_print!(out, "u");
    hashed::write(out, name.ptr as usize);
    seq_print!(out, " c");
    hashed::write(out, name.cookie as usize);
}
