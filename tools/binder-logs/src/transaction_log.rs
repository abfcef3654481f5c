// SPDX-License-Identifier: GPL-2.0
//! `transaction_log` and `failed_transaction_log`: the last transactions, oldest first.

use crate::lines::{Error, Lines, Mode, UnknownLine, UNKNOWN};
use crate::scan::{DebugId, Task};
use crate::Log;

/// `transaction_log`, and `failed_transaction_log`, which has those that failed alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionLog {
    pub entries: Vec<LogEntry>,
    pub unknown: Vec<UnknownLine>,
}

/// The words for each kind, behind the number.
const KINDS: [(&str, Kind); 3] =
    [(": call ", Kind::Call), (": async", Kind::Async), (": reply", Kind::Reply)];

/// A transaction that a thread tried to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    pub id: DebugId,
    pub kind: Kind,
    pub from: Task,
    /// To whom; 0 where that was not yet known, or is any thread.
    pub to: Task,
    pub context: String,
    /// The node that was called; 0 for a reply.
    pub node: DebugId,
    pub handle: i64,
    pub data_size: i64,
    pub offsets_size: i64,
    /// The `BR_` code that its sender got, 0 if it did not fail.
    pub return_error: u32,
    /// The negative errno that goes with it, or 0.
    pub errno: i32,
    /// The line of the driver's source that refused it.
    pub line: u32,
    /// True if the entry was complete when the line was printed.
    pub is_complete: bool,
}

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A call that waits for a reply.
    #[default]
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
            match entry(line, &lines) {
                Some(entry) => entries.push(entry),
                None => lines.refuse(line, UNKNOWN)?,
            }
        }
        Ok(Self { entries, unknown: lines.unknown })
    }
}

/// A line. A device's name may hold anything, so it ends where the last of the words that follow it stand.
fn entry(line: &str, lines: &Lines<'_>) -> Option<LogEntry> {
    let (begin, rest) = line.split_once(" context ")?;
    let (context, end) = rest.split_at(rest.rfind(" node ")?);
    let (mut begin, mut end) = (lines.scan(begin), lines.scan(end));
    let entry = LogEntry {
        id: begin.number("")?,
        kind: begin.one_of(&KINDS)?,
        from: begin.task(" from ")?,
        to: begin.task(" to ")?,
        context: context.to_string(),
        node: end.number(" node ")?,
        handle: end.number(" handle ")?,
        data_size: end.number(" size ")?,
        offsets_size: end.number(":")?,
        return_error: end.number(" ret ")?,
        errno: end.number("/")?,
        line: end.number(" l=")?,
        is_complete: !end.has(" (incomplete)"),
    };
    (begin.rest.is_empty() && end.rest.is_empty()).then_some(entry)
}
