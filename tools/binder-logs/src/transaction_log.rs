// SPDX-License-Identifier: GPL-2.0
//! `transaction_log` and `failed_transaction_log`: the last transactions, oldest first.

use crate::error::{Error, Reason};
use crate::lines::{Lines, Mode, UnknownLine};
use crate::words::{number, task, DebugId, Parsed, Task};
use crate::Log;
use serde::Serialize;
use std::fmt;
use winnow::ascii::{dec_int, dec_uint};
use winnow::combinator::{alt, opt, seq};
use winnow::prelude::*;

/// `transaction_log`, and `failed_transaction_log`, which has those that failed alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransactionLog {
    /// The transactions.
    pub entries: Vec<LogEntry>,
    /// Lines that were not understood.
    pub unknown: Vec<UnknownLine>,
}

/// A transaction that somebody wanted to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// Its number.
    pub id: DebugId,
    /// What it is.
    pub kind: Kind,
    /// Who sent it.
    pub from: Task,
    /// To whom; 0 where that was not yet known, or is any thread.
    pub to: Task,
    /// The device's name.
    pub context: String,
    /// The node that was called; 0 for a reply.
    pub node: DebugId,
    /// The handle that was called.
    pub handle: i64,
    /// Bytes of data.
    pub data_size: i64,
    /// Bytes of offsets of objects.
    pub offsets_size: i64,
    /// The `BR_` code that its sender was told, 0 if it did not fail.
    pub return_error: u32,
    /// The negative errno that goes with it, or 0.
    pub errno: i32,
    /// The line of the driver's source that refused it.
    pub line: u32,
    /// Whether it was whole when the line was printed.
    pub is_complete: bool,
}

/// What a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A call that waits for a reply.
    Call,
    /// A oneway call.
    Async,
    /// A reply.
    Reply,
}

impl Log for TransactionLog {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let mut lines = Lines::new(file, contents, mode);
        let mut entries = Vec::new();
        while let Some(line) = lines.next()? {
            match entry(line) {
                Some(entry) => entries.push(entry),
                None => lines.refuse(line, Reason::Unknown)?,
            }
        }
        Ok(Self { entries, unknown: lines.unknown })
    }
}

/// A line. A device's name may hold anything, so it ends where the last of the words that follow it stand.
fn entry(line: &str) -> Option<LogEntry> {
    let (start, rest) = line.split_once(" context ")?;
    let at = rest.rfind(" node ")?;
    let (Begin { id, kind, from, to }, context) = (begin.parse(start).ok()?, rest[..at].to_string());
    let End { node, handle, data_size, offsets_size, return_error, errno, line, is_complete } =
        end.parse(&rest[at..]).ok()?;
    Some(LogEntry {
        id,
        kind,
        from,
        to,
        context,
        node,
        handle,
        data_size,
        offsets_size,
        return_error,
        errno,
        line,
        is_complete,
    })
}

/// What stands before the device's name.
struct Begin {
    id: DebugId,
    kind: Kind,
    from: Task,
    to: Task,
}

fn begin(input: &mut &str) -> Parsed<Begin> {
    seq!(Begin { id: number, _: ": ", kind: kind, _: " from ", from: task, _: " to ", to: task })
        .parse_next(input)
}

fn kind(input: &mut &str) -> Parsed<Kind> {
    alt(("call ".value(Kind::Call), "async".value(Kind::Async), "reply".value(Kind::Reply))).parse_next(input)
}

/// What stands after it.
struct End {
    node: DebugId,
    handle: i64,
    data_size: i64,
    offsets_size: i64,
    return_error: u32,
    errno: i32,
    line: u32,
    is_complete: bool,
}

fn end(input: &mut &str) -> Parsed<End> {
    seq!(End {
        _: " node ",
        node: number,
        _: " handle ",
        handle: number,
        _: " size ",
        data_size: number,
        _: ':',
        offsets_size: number,
        _: " ret ",
        return_error: dec_uint,
        _: '/',
        errno: dec_int,
        _: " l=",
        line: dec_uint,
        is_complete: opt(" (incomplete)").map(|word| word.is_none()),
    })
    .parse_next(input)
}

impl fmt::Display for TransactionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Call => "call ",
            Kind::Async => "async",
            Kind::Reply => "reply",
        };
        let Self { id, from, to, context, node, handle, data_size, offsets_size, .. } = self;
        write!(f, "{id}: {kind} from {from} to {to} context {context} node {node} handle {handle}")?;
        write!(
            f,
            " size {data_size}:{offsets_size} ret {}/{} l={}",
            self.return_error, self.errno, self.line
        )?;
        f.write_str(if self.is_complete { "" } else { " (incomplete)" })
    }
}
