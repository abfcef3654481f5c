// SPDX-License-Identifier: GPL-2.0

//! The lines of the log files, as they are copied, and their text.

use super::{
    processes::key_of,
    stats,
    CallKey,
    Log,
    NodeKey,
    Snapshot, //
};
use crate::{
    common::{
        netlink::Party,
        transaction_log::{CallType, Entry, TransactionLog}, //
    },
    defs::{NodeName, Return, TF_ONE_WAY},
    kernel_ext::{
        clocks::Ticks,
        user, //
    },
    node::Node,
    process::{Pid, Process},
    pure::{log_lines::write_escaped, node_counts::NodeCounts},
    transaction::{Content, Transaction}, //
};
use kernel::{
    fmt,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// A line, or a few that follow each other. It has nothing to drop, so it is copied under
/// spinlocks.
pub(super) enum Line {
    /// A line that is the same every time, behind this.
    Fixed(&'static str, &'static str),
    /// The lines that name a process, by its number in the snapshot.
    Process(usize),
    /// The lines of `stats` about all processes.
    Sums,
    /// Those about a process.
    Stats(usize),
    /// A call or a reply that was sent, by its number in the snapshot.
    Sent(usize),
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
    Incoming(LineOfTransaction),
    /// Any other transaction, behind this.
    Transaction(&'static str, LineOfTransaction),
    /// The code of an error, behind this.
    Error(&'static str, Return),
    /// A node whose owner is to read of its counts, behind this.
    NodeWork(&'static str, u32, NodeName),
    Node(LineOfNode),
    /// A handle.
    Ref {
        id: u32,
        handle: u32,
        node: u32,
        is_dead: bool,
        strong: u32,
        weak: u32,
        /// The address of the request for a notification of the node's death; 0 if there is none.
        death: usize,
    },
    Buffer(LineOfBuffer),
}

/// A node.
pub(super) struct LineOfNode {
    pub(super) key: NodeKey,
    name: NodeName,
    counts: NodeCounts,
}

impl LineOfNode {
    /// Returns the line of a node with these counts.
    pub(super) fn of(node: &Node, counts: NodeCounts) -> Self {
        Self {
            key: key_of(node),
            name: node.name,
            counts,
        }
    }
}

/// A buffer.
pub(super) struct LineOfBuffer {
    /// The number of its transaction.
    pub(super) id: u32,
    /// Its data; the node is that of a call that the receiver has read, and may be serving.
    pub(super) data: PlaceOfData,
    /// The number of bytes behind the data and the offsets.
    pub(super) extra_size: u32,
    /// True if its transaction exists.
    pub(super) is_active: bool,
}

/// A transaction.
pub(super) struct LineOfTransaction {
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
    pub(super) data: Option<PlaceOfData>,
}

/// The place and the size of a transaction's data.
#[derive(Clone, Copy)]
pub(super) struct PlaceOfData {
    /// The node that is called; none for a reply.
    pub(super) node: Option<u32>,
    pub(super) data_size: u32,
    pub(super) offsets_size: u32,
    pub(super) offset: u32,
}

impl LineOfTransaction {
    /// Returns the line of a transaction that is queued for `to`, or that it serves. Once
    /// a transaction is being served, it does not contain the place of its data.
    pub(super) fn of(transaction: &Transaction, to: Party) -> Self {
        let (replier, node, buffer) = match &transaction.content {
            Content::Call { node, buffer, .. } => (None, Some(node.debug_id), Some(buffer)),
            &Content::Reply {
                ref buffer,
                from: (pid, tid),
                ..
            } => (Some(Party { pid, tid }), None, Some(buffer)),
            Content::Empty | Content::Failed(_) => (None, None, None),
        };
        let is_oneway = replier.is_none() && transaction.flags & TF_ONE_WAY != 0;
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
            data: buffer.map(|buffer| PlaceOfData {
                node,
                data_size: buffer.layout.data_size,
                offsets_size: buffer.layout.offsets_size,
                offset: buffer.offset,
            }),
        }
    }
}

impl Snapshot {
    /// Writes a line, or a few.
    #[inline(never)] // Or all that is written has one stack frame.
    pub(super) fn write(&self, line: &Line, out: &SeqFile) -> Result {
        match line {
            Line::Fixed(indent, text) => seq_print!(out, "{indent}{text}\n"),
            Line::Process(number) => {
                if matches!(self.log, Log::Process(_)) {
                    seq_print!(out, "binder proc state:\n");
                }
                write_names(&self.processes[*number], out);
            }
            Line::Sums => stats::write_sums(&self.sums, out),
            Line::Stats(number) => stats::write_process(&self.processes[*number], out)?,
            Line::Sent(number) => write_sent(&self.sent[*number], out),
            // No thread is used by others but by references that need not be counted.
            Line::Thread {
                id,
                looper,
                must_return,
            } => {
                let must_return = u8::from(*must_return);
                seq_print!(
                    out,
                    "  thread {id}: l {looper:02x} need_return {must_return} tr 0\n"
                );
            }
            Line::Outgoing { call, from, .. } => self.write_outgoing(*call, from, out),
            Line::Incoming(line) => write_transaction(line, "    incoming transaction", out),
            Line::Transaction(prefix, line) => write_transaction(line, prefix, out),
            Line::Error(indent, code) => {
                seq_print!(out, "{indent}transaction error: {}\n", code.code());
            }
            Line::NodeWork(indent, id, name) => {
                seq_print!(out, "{indent}node work {}: ", *id as i32);
                self.write_name(name, out);
                seq_print!(out, "\n");
            }
            Line::Node(node) => self.write_node(node, out),
            Line::Ref {
                id,
                handle,
                node,
                is_dead,
                strong,
                weak,
                death,
            } => {
                seq_print!(
                    out,
                    "  ref {}: desc {} {}node {} s {strong} w {weak} d ",
                    *id as i32,
                    *handle as i32,
                    if *is_dead { "dead " } else { "" },
                    *node as i32
                );
                user::write_restricted(out, *death);
                seq_print!(out, "\n");
            }
            Line::Buffer(buffer) => write_buffer(buffer, out),
        }
        Ok(())
    }

    fn write_outgoing(&self, call: CallKey, from: &Party, out: &SeqFile) {
        match self.line_of_call(call) {
            Some(line) => write_start(line, "    outgoing transaction", out),
            // All that is known of it is that its thread waits.
            None => seq_print!(
                out,
                "    outgoing transaction 0: 0000000000000000 from {from} to 0:0 code 0 flags 0 pri 0 a0 r0 elapsed 0ms"
            ),
        }
        seq_print!(out, "\n");
    }

    /// Returns the line of a call where it is queued or served.
    fn line_of_call(&self, key: CallKey) -> Option<&LineOfTransaction> {
        let found = self.calls.binary_search_by_key(&key, |(call, _)| *call);
        match self.lines.get(self.calls[found.ok()?].1)? {
            Line::Incoming(line) | Line::Transaction(_, line) => Some(line),
            _ => None,
        }
    }

    fn write_node(&self, node: &LineOfNode, out: &SeqFile) {
        let (knows_strong, knows_weak) = node.counts.owner_refs();
        let (local_strong, local_weak) = node.counts.locals();
        let (strong_refs, refs) = (node.counts.strong_refs, node.counts.refs);
        seq_print!(out, "  node {}: ", node.key.0 as i32);
        self.write_name(&node.name, out);
        seq_print!(
            out,
            " hs {} hw {} ls {local_strong} lw {local_weak} is {strong_refs} iw {refs} tr {}",
            u8::from(knows_strong),
            u8::from(knows_weak),
            node.counts.pins
        );
        // The pids of those that hold it, once for each device.
        let first = self.holders.partition_point(|(held, _)| *held < node.key);
        let mut word = " proc";
        for (_, pid) in self.holders[first..]
            .iter()
            .take_while(|(held, _)| *held == node.key)
        {
            seq_print!(out, "{word} {pid}");
            word = "";
        }
        seq_print!(out, "\n");
    }

    /// Writes the two pointers by which a process names a node: as they are, or hashed, so that
    /// readers can only compare them.
    fn write_name(&self, name: &NodeName, out: &SeqFile) {
        let (Log::State { is_hashed: true } | Log::Transactions { is_hashed: true }) = self.log
        else {
            seq_print!(out, "u{:016x} c{:016x}", name.ptr, name.cookie);
            return;
        };
        // CAST: With addresses of 32 bits, the lower half of the 64 distinguishes the names that
        // user space gives.
        seq_print!(out, "u");
        user::write_hashed(out, name.ptr as usize);
        seq_print!(out, " c");
        user::write_hashed(out, name.cookie as usize);
    }
}

/// Writes the line behind a prefix, but for the data. In place of the transaction's address, which
/// the C driver hides in its own way, there are zeros: its number identifies it.
fn write_start(line: &LineOfTransaction, prefix: &str, out: &SeqFile) {
    seq_print!(
        out,
        "{prefix} {}: 0000000000000000 from {} to {} code {:x} flags {:x} pri {} a{} r{} elapsed {}ms",
        line.id as i32,
        line.from,
        line.to,
        line.code,
        line.flags,
        line.nice,
        u8::from(line.is_oneway),
        u8::from(line.is_reply),
        line.start.elapsed_milliseconds()
    );
}

fn write_buffer(buffer: &LineOfBuffer, out: &SeqFile) {
    seq_print!(
        out,
        "  buffer {}: {:x} size {}:{}:{} {}\n",
        buffer.id as i32,
        buffer.data.offset,
        buffer.data.data_size,
        buffer.data.offsets_size,
        buffer.extra_size,
        if buffer.is_active {
            "active"
        } else {
            "delivered"
        }
    );
}

/// Writes the line behind a prefix.
fn write_transaction(line: &LineOfTransaction, prefix: &str, out: &SeqFile) {
    write_start(line, prefix, out);
    let Some(data) = &line.data else {
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

/// Writes what was sent through a device.
fn write_sent((entry, device): &(Entry, Arc<TransactionLog>), out: &SeqFile) {
    let call_type = match entry.call_type {
        CallType::Call => "call ",
        CallType::Oneway => "async",
        CallType::Reply => "reply",
    };
    // CAST: All numbers are shown as signed ones, as the C driver does.
    seq_print!(
        out,
        "{}: {call_type} from {} to {} context {} node {} handle {} size {}:{} ret {}/{} l={}{}\n",
        entry.id as i32,
        entry.from,
        entry.to,
        DeviceName(device.device.to_bytes()),
        entry.node as i32,
        entry.handle as i32,
        entry.data_size as i32,
        entry.offsets_size as i32,
        entry.return_code,
        entry.param,
        entry.line,
        if entry.is_complete {
            ""
        } else {
            " (incomplete)"
        }
    );
}

/// Writes the lines that name a process.
pub(super) fn write_names(process: &Process, out: &SeqFile) {
    seq_print!(out, "proc {}\n", process.pid);
    let device = process.context.name().to_bytes();
    seq_print!(out, "context {}\n", DeviceName(device));
}

/// The name of a device, to be shown in a line: as it is, but for what is no text of one line.
struct DeviceName<'a>(&'a [u8]);

impl fmt::Display for DeviceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(self.0, f)
    }
}
