// SPDX-License-Identifier: GPL-2.0
//! A transaction as the lines of stacks and queues have it.

use crate::words::{flag, hex, hex32, number, pointer, task, DebugId, Parsed, Pointer, Task};
use serde::Serialize;
use std::fmt;
use winnow::combinator::{alt, opt, preceded, seq};
use winnow::prelude::*;

/// A call, a oneway call or a reply that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transaction {
    /// Its number.
    pub id: DebugId,
    /// Where the kernel has it, hashed. Upstream's driver does not say.
    pub address: Option<Pointer>,
    /// Who sent it.
    pub from: Task,
    /// To whom; the thread is 0 as long as none has it, and with upstream's driver always.
    pub to: Task,
    /// What is asked for.
    pub code: u32,
    /// Its `TF_` flags.
    pub flags: u32,
    /// The nice value, or the real-time priority, that it is served with. Upstream's driver does not say.
    pub priority: Option<i64>,
    /// Whether it is a oneway call.
    pub is_async: bool,
    /// Whether it is a reply. Upstream's driver does not say.
    pub is_reply: Option<bool>,
    /// Milliseconds since it was sent.
    pub elapsed_ms: i64,
    /// Its data.
    pub held: Held,
}

/// What a line says of a transaction's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Nothing: the buffer is another process's.
    Elsewhere,
    /// The buffer has been given back.
    Free,
    /// The process whose line it is has it.
    Here {
        /// The node that is called; none for a reply.
        node: Option<DebugId>,
        /// Bytes of data.
        data_size: i64,
        /// Bytes of offsets of objects.
        offsets_size: i64,
        /// Where it lies in the process's space. Upstream's driver does not say.
        offset: Option<u64>,
    },
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.id)?;
        if let Some(address) = self.address {
            write!(f, "{address} ")?;
        }
        let Self { from, to, code, flags, .. } = self;
        write!(f, "from {from} to {to} code {code:x} flags {flags:x}")?;
        if let (Some(priority), Some(is_reply)) = (self.priority, self.is_reply) {
            write!(f, " pri {priority} a{} r{}", u8::from(self.is_async), u8::from(is_reply))?;
        }
        write!(f, " elapsed {}ms", self.elapsed_ms)?;
        match self.held {
            Held::Elsewhere => Ok(()),
            Held::Free => f.write_str(" buffer free"),
            Held::Here { node, data_size, offsets_size, offset } => {
                if let Some(node) = node {
                    write!(f, " node {node}")?;
                }
                write!(f, " size {data_size}:{offsets_size}")?;
                offset.map_or(Ok(()), |offset| write!(f, " offset {offset:x}"))
            }
        }
    }
}

/// What follows the words that say where a transaction is.
pub(crate) fn transaction(input: &mut &str) -> Parsed<Transaction> {
    seq!(Transaction {
        id: number,
        _: ": ",
        address: pointer.map(Some),
        _: " from ",
        from: task,
        _: " to ",
        to: task,
        _: " code ",
        code: hex32,
        _: " flags ",
        flags: hex32,
        _: " pri ",
        priority: number.map(Some),
        _: " a",
        is_async: flag,
        _: " r",
        is_reply: flag.map(Some),
        _: " elapsed ",
        elapsed_ms: number,
        _: "ms",
        held: held,
    })
    .parse_next(input)
}

fn held(input: &mut &str) -> Parsed<Held> {
    let here = seq!(Held::Here {
        node: opt(preceded(" node ", number)),
        _: " size ",
        data_size: number,
        _: ':',
        offsets_size: number,
        _: " offset ",
        offset: hex.map(Some),
    });
    alt((" buffer free".value(Held::Free), here, "".value(Held::Elsewhere))).parse_next(input)
}
