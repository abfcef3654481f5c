// SPDX-License-Identifier: GPL-2.0
//! A transaction as the lines of stacks and queues have it.

use crate::scan::{DebugId, Pointer, Scan, Task};
use binder_sys::TransactionFlags;
use std::fmt;

/// A call, a oneway call or a reply that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub id: DebugId,
    /// Where the kernel has it, hashed. Upstream's driver does not print it.
    pub address: Option<Pointer>,
    pub from: Task,
    /// To whom; the thread is 0 as long as none has it, and with upstream's driver always.
    pub to: Task,
    pub code: u32,
    pub flags: u32,
    /// The nice value, or the real-time priority, that it is served with. Upstream's driver does not print it.
    pub priority: Option<i64>,
    pub is_async: bool,
    pub is_reply: Option<bool>,
    pub elapsed_ms: i64,
    pub held: Held,
}

/// What a line says of a transaction's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing: the buffer is another process's.
    Elsewhere,
    /// The buffer has been given back.
    Free,
    /// The process whose line it is has it.
    Here {
        /// The node that is called; none for a reply.
        node: Option<DebugId>,
        data_size: i64,
        offsets_size: i64,
        /// Where it lies in the process's space. Upstream's driver does not print it.
        offset: Option<u64>,
    },
}

/// What follows the words that say where a transaction is.
pub(crate) fn transaction(scan: &mut Scan) -> Option<Transaction> {
    let id = scan.number("")?;
    let upstream = scan.lenient && scan.rest.starts_with(": from ");
    let address = match upstream {
        true => scan.word(":").map(|()| None)?,
        false => Some(scan.pointer(": ")?),
    };
    let from = scan.task(" from ")?;
    let to = match upstream {
        true => Task { process: scan.number(" to ")?, thread: 0 },
        false => scan.task(" to ")?,
    };
    let (code, flags) = (scan.hex32(" code ")?, scan.hex32(" flags ")?);
    let (priority, is_async, is_reply) = match upstream {
        true => (None, flags & TransactionFlags::ONE_WAY.bits() != 0, None),
        false => (Some(scan.number(" pri ")?), scan.flag(" a")?, Some(scan.flag(" r")?)),
    };
    let elapsed_ms = scan.number(" elapsed ")?;
    scan.word("ms")?;
    let held = scan.maybe(|scan| here(scan, upstream)).or_else(|| match scan.has(" buffer free") {
        _ if upstream => None,
        true => Some(Held::Free),
        false => Some(Held::Elsewhere),
    })?;
    Some(Transaction { id, address, from, to, code, flags, priority, is_async, is_reply, elapsed_ms, held })
}

fn here(scan: &mut Scan, upstream: bool) -> Option<Held> {
    Some(Held::Here {
        node: scan.maybe(|scan| scan.number(" node ")),
        data_size: scan.number(" size ")?,
        offsets_size: scan.number(":")?,
        offset: if upstream { None } else { Some(scan.hex(" offset ")?) },
    })
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
