// SPDX-License-Identifier: GPL-2.0
//! `stats`: how much there is of everything, and how often what was done.

use crate::counters::Counters;
use crate::error::{Error, Reason};
use crate::lines::{Lines, Mode, UnknownLine};
use crate::words::{name, number, pid, Parsed, Pid};
use crate::Log;
use serde::Serialize;
use std::fmt;
use winnow::combinator::{alt, preceded, seq};
use winnow::prelude::*;

const STATS: &str = "binder stats:";

/// `stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Of all processes that there are and have been.
    pub total: Counters,
    /// Of each process that there is.
    pub processes: Vec<ProcessStats>,
    /// Lines that were not understood.
    pub unknown: Vec<UnknownLine>,
}

/// How much a process has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessStats {
    /// Its number.
    pub pid: Pid,
    /// The device's name.
    pub context: String,
    /// Its threads.
    pub threads: Option<i64>,
    /// Threads that the driver asks for.
    pub requested_threads: Option<RequestedThreads>,
    /// Threads that wait for work. Upstream's driver does not say.
    pub ready_threads: Option<i64>,
    /// Bytes that oneway calls may still take.
    pub free_async_space: Option<i64>,
    /// Its nodes.
    pub nodes: Option<i64>,
    /// Its references.
    pub references: Option<ReferenceCounts>,
    /// Buffers in its space.
    pub buffers: Option<i64>,
    /// Pages of its space. Upstream's driver does not say.
    pub pages: Option<Pages>,
    /// The most pages that it ever had. Upstream's driver does not say.
    pub pages_high_watermark: Option<i64>,
    /// Transactions that wait for any of its threads. Upstream's driver does not say.
    pub pending_transactions: Option<i64>,
    /// Calls that it has not answered: upstream's driver alone says.
    pub outstanding_transactions: Option<i64>,
    /// How often what was done.
    pub counters: Counters,
}

/// Threads that the driver asks a process for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestedThreads {
    /// It has asked for them, and they have not come.
    pub outstanding: i64,
    /// They have come.
    pub started: i64,
    /// The most that may.
    pub max: i64,
}

/// How many references there are, with the sums of their counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReferenceCounts {
    /// How many.
    pub count: i64,
    /// Strong counts.
    pub strong: i64,
    /// Weak counts.
    pub weak: i64,
}

/// Pages of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// In use.
    pub active: i64,
    /// There, and of no use: they can be taken back.
    pub lru: i64,
    /// Not there.
    pub free: i64,
}

impl Log for Stats {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let strict = mode == Mode::Strict;
        let mut lines = Lines::new(file, contents, mode);
        lines.header(STATS)?;
        let mut stats = Stats::default();
        let mut next = 0;
        while let Some(text) = lines.next()? {
            if let Ok(pid) = preceded("proc ", pid).parse(text) {
                if strict && !stats.processes.is_empty() && next < FIELDS {
                    lines.refuse(text, Reason::OutOfOrder)?;
                }
                stats.processes.push(ProcessStats { pid, ..ProcessStats::default() });
                next = 0;
                continue;
            }
            let Some(process) = stats.processes.last_mut() else {
                if !stats.total.take(text, strict) {
                    lines.refuse(text, Reason::Unknown)?;
                }
                continue;
            };
            match field.parse(text) {
                Ok(field) if !strict || field.place() == Some(next) => {
                    next += 1;
                    process.take(field);
                }
                Ok(_) => lines.refuse(text, Reason::OutOfOrder)?,
                Err(_) => {
                    let counter = text.strip_prefix("  ").filter(|_| !strict || next == FIELDS);
                    if !counter.is_some_and(|counter| process.counters.take(counter, strict)) {
                        lines.refuse(text, Reason::Unknown)?;
                    }
                }
            }
        }
        if strict && !stats.processes.is_empty() && next < FIELDS {
            return Err(lines.ends("the rest of a process"));
        }
        stats.unknown = lines.unknown;
        Ok(stats)
    }
}

/// How many lines the C driver prints of each process before the counters.
const FIELDS: usize = 11;

/// A line of a process.
enum Field {
    Context(String),
    Threads(i64),
    Requested(RequestedThreads),
    Ready(i64),
    FreeAsync(i64),
    Nodes(i64),
    References(ReferenceCounts),
    Buffers(i64),
    Pages(Pages),
    HighWatermark(i64),
    Pending(i64),
    FreeOneway(i64),
    Outstanding(i64),
}

impl Field {
    /// Its place among the lines of the C driver, which does not print all of them.
    fn place(&self) -> Option<usize> {
        Some(match self {
            Field::Context(_) => 0,
            Field::Threads(_) => 1,
            Field::Requested(_) => 2,
            Field::Ready(_) => 3,
            Field::FreeAsync(_) => 4,
            Field::Nodes(_) => 5,
            Field::References(_) => 6,
            Field::Buffers(_) => 7,
            Field::Pages(_) => 8,
            Field::HighWatermark(_) => 9,
            Field::Pending(_) => 10,
            Field::FreeOneway(_) | Field::Outstanding(_) => return None,
        })
    }
}

impl ProcessStats {
    fn take(&mut self, field: Field) {
        match field {
            Field::Context(name) => self.context = name,
            Field::Threads(count) => self.threads = Some(count),
            Field::Requested(threads) => self.requested_threads = Some(threads),
            Field::Ready(count) => self.ready_threads = Some(count),
            Field::FreeAsync(bytes) | Field::FreeOneway(bytes) => self.free_async_space = Some(bytes),
            Field::Nodes(count) => self.nodes = Some(count),
            Field::References(counts) => self.references = Some(counts),
            Field::Buffers(count) => self.buffers = Some(count),
            Field::Pages(pages) => self.pages = Some(pages),
            Field::HighWatermark(pages) => self.pages_high_watermark = Some(pages),
            Field::Pending(count) => self.pending_transactions = Some(count),
            Field::Outstanding(count) => self.outstanding_transactions = Some(count),
        }
    }
}

fn field(input: &mut &str) -> Parsed<Field> {
    alt((
        preceded("context ", name).map(Field::Context),
        preceded("  requested threads: ", requested).map(Field::Requested),
        preceded("  refs: ", references).map(Field::References),
        preceded("  pages: ", pages).map(Field::Pages),
        count,
    ))
    .parse_next(input)
}

/// The lines with one number.
fn count(input: &mut &str) -> Parsed<Field> {
    let make: fn(i64) -> Field = alt((
        "  threads: ".value(Field::Threads as fn(i64) -> Field),
        "  ready threads ".value(Field::Ready as _),
        "  free async space ".value(Field::FreeAsync as _),
        "  nodes: ".value(Field::Nodes as _),
        "  buffers: ".value(Field::Buffers as _),
        "  pages high watermark: ".value(Field::HighWatermark as _),
        "  pending transactions: ".value(Field::Pending as _),
        "  free oneway space: ".value(Field::FreeOneway as _),
        "  outstanding transactions: ".value(Field::Outstanding as _),
    ))
    .parse_next(input)?;
    number.map(make).parse_next(input)
}

fn requested(input: &mut &str) -> Parsed<RequestedThreads> {
    seq!(RequestedThreads { outstanding: number, _: '+', started: number, _: '/', max: number })
        .parse_next(input)
}

fn references(input: &mut &str) -> Parsed<ReferenceCounts> {
    seq!(ReferenceCounts { count: number, _: " s ", strong: number, _: " w ", weak: number })
        .parse_next(input)
}

fn pages(input: &mut &str) -> Parsed<Pages> {
    seq!(Pages { active: number, _: ':', lru: number, _: ':', free: number }).parse_next(input)
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{STATS}")?;
        self.total.print(f, "")?;
        self.processes.iter().try_for_each(|process| process.fmt(f))
    }
}

impl fmt::Display for ProcessStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "proc {}\ncontext {}", self.pid, self.context)?;
        print_line(f, "threads:", self.threads)?;
        print_line(f, "requested threads:", self.requested_threads)?;
        print_line(f, "ready threads", self.ready_threads)?;
        print_line(f, "free async space", self.free_async_space)?;
        print_line(f, "nodes:", self.nodes)?;
        print_line(f, "refs:", self.references)?;
        print_line(f, "buffers:", self.buffers)?;
        print_line(f, "pages:", self.pages)?;
        print_line(f, "pages high watermark:", self.pages_high_watermark)?;
        print_line(f, "pending transactions:", self.pending_transactions)?;
        print_line(f, "outstanding transactions:", self.outstanding_transactions)?;
        self.counters.print(f, "  ")
    }
}

fn print_line(f: &mut fmt::Formatter<'_>, what: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(f, "  {what} {value}"))
}

impl fmt::Display for RequestedThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}/{}", self.outstanding, self.started, self.max)
    }
}

impl fmt::Display for ReferenceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s {} w {}", self.count, self.strong, self.weak)
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.active, self.lru, self.free)
    }
}
