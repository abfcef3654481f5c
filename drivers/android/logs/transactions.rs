// SPDX-License-Identifier: GPL-2.0

//! The line of a transaction.

use crate::{
    allocation::Buffer,
    common::netlink,
    kernel_ext::ticks::Ticks,
    process::{Pid, Process},
    thread::Thread,
    transaction::{Content, Transaction}, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// A process and a thread of it; 0 for none.
#[derive(Clone, Copy, Default)]
pub(super) struct Party {
    pub(super) process: Pid,
    pub(super) thread: Pid,
}

impl Party {
    pub(super) fn of(thread: &Thread) -> Self {
        Self {
            process: thread.process.pid(),
            thread: thread.id,
        }
    }

    pub(super) fn of_numbers(numbers: netlink::Party) -> Self {
        Self {
            process: numbers.pid,
            thread: numbers.tid,
        }
    }

    /// Any thread of a process.
    pub(super) fn pool_of(process: &Process) -> Self {
        Self {
            process: process.pid(),
            thread: 0,
        }
    }
}

/// What a line says of a transaction's data.
#[derive(Clone, Copy)]
pub(super) enum Data {
    /// Nothing: they are not in the space of the process whose line it is.
    Elsewhere,
    /// They have been freed.
    Freed,
    Here {
        /// The node that is called; none for a reply.
        node: Option<u32>,
        data_size: usize,
        offsets_size: usize,
        offset: usize,
    },
}

impl Data {
    fn of(buffer: &Buffer, node: Option<u32>) -> Self {
        Self::Here {
            node,
            data_size: buffer.layout.data_size(),
            offsets_size: buffer.layout.offsets_size(),
            offset: buffer.offset(),
        }
    }
}

/// A transaction as a line shows it.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) id: u32,
    from: Party,
    to: Party,
    code: u32,
    flags: u32,
    nice: i16,
    is_oneway: bool,
    is_reply: bool,
    start: Option<Ticks>,
    pub(super) data: Data,
}

impl Line {
    /// Returns the line of a transaction that is queued for `to`, or that it serves.
    pub(super) fn of(transaction: &Transaction, to: Party) -> Self {
        let (replier, data) = match transaction.content() {
            Content::Call { node, buffer }
            | Content::Oneway { node, buffer, .. }
            | Content::Draft { node, buffer } => (None, Data::of(buffer, Some(node.debug_id))),
            Content::Reply {
                buffer,
                from: (process, thread),
                ..
            } => {
                let (process, thread) = (*process, *thread);
                (Some(Party { process, thread }), Data::of(buffer, None))
            }
            Content::Empty | Content::Failed(_) => (None, Data::Freed),
        };
        let is_oneway = replier.is_none() && transaction.is_oneway();
        Self {
            id: transaction.id,
            from: replier.unwrap_or(Party::of_numbers(transaction.sender())),
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
            start: Some(transaction.start),
            data,
        }
    }

    /// Returns the line of a call of which is known only that `from` waits for its outcome: it is
    /// being sent or delivered.
    pub(super) fn on_its_way(from: Party) -> Self {
        Self {
            id: 0,
            from,
            to: Party::default(),
            code: 0,
            flags: 0,
            nice: 0,
            is_oneway: false,
            is_reply: false,
            start: None,
            data: Data::Elsewhere,
        }
    }

    /// Writes the line behind a prefix. In place of the transaction's address, which the C driver
    /// hides in its own way, there are zeros: its number says which one it is.
    pub(super) fn write(&self, prefix: &str, out: &SeqFile) {
        let elapsed = self.start.map_or(0, Ticks::elapsed_milliseconds);
        seq_print!(
            out,
            "{prefix} {}: 0000000000000000 from {}:{} to {}:{} code {:x} flags {:x} pri {} a{} r{} elapsed {elapsed}ms",
            self.id as i32,
            self.from.process,
            self.from.thread,
            self.to.process,
            self.to.thread,
            self.code,
            self.flags,
            self.nice,
            u8::from(self.is_oneway),
            u8::from(self.is_reply)
        );
        match self.data {
            Data::Elsewhere => seq_print!(out, "\n"),
            Data::Freed => seq_print!(out, " buffer free\n"),
            Data::Here {
                node,
                data_size,
                offsets_size,
                offset,
            } => {
                if let Some(node) = node {
                    seq_print!(out, " node {}", node as i32);
                }
                seq_print!(out, " size {data_size}:{offsets_size} offset {offset:x}\n");
            }
        }
    }
}
