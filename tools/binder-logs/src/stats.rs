// SPDX-License-Identifier: GPL-2.0
//! `stats`: how much there is of everything, and how often what was done.

use crate::counters::Counters;
use crate::lines::{Error, Lines, Mode, UnknownLine, OUT_OF_ORDER, UNKNOWN};
use crate::scan::{Pid, Scan};
use crate::Log;
use std::fmt;

const STATS: &str = "binder stats:";

/// `stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub total: Counters,
    pub processes: Vec<ProcessStats>,
    pub unknown: Vec<UnknownLine>,
}

/// How much a process has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStats {
    pub pid: Pid,
    pub context: String,
    pub threads: Option<i64>,
    pub requested_threads: Option<RequestedThreads>,
    pub ready_threads: Option<i64>,
    /// Bytes that oneway calls may still take.
    pub free_async_space: Option<i64>,
    pub nodes: Option<i64>,
    pub references: Option<ReferenceCounts>,
    pub buffers: Option<i64>,
    pub pages: Option<Pages>,
    pub pages_high_watermark: Option<i64>,
    pub pending_transactions: Option<i64>,
    pub counters: Counters,
}

/// Threads that the driver asks a process for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedThreads {
    /// It has asked for them, and they have not come.
    pub outstanding: i64,
    pub started: i64,
    pub max: i64,
}

/// How many references there are, with the sums of their counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceCounts {
    pub count: i64,
    pub strong: i64,
    pub weak: i64,
}

/// Pages of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub active: i64,
    /// There, and of no use: they can be taken back.
    pub lru: i64,
    pub free: i64,
}

/// What the C driver's lines of a process begin with, in their order.
const FIELDS: [&str; 11] = [
    "context ",
    "  threads: ",
    "  requested threads: ",
    "  ready threads ",
    "  free async space ",
    "  nodes: ",
    "  refs: ",
    "  buffers: ",
    "  pages: ",
    "  pages high watermark: ",
    "  pending transactions: ",
];
/// What only upstream's driver prints: another name for the space, and calls that were not answered.
const UPSTREAM: [&str; 2] = ["  free oneway space: ", "  outstanding transactions: "];

impl Log for Stats {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let mut lines = Lines::new(file, contents, mode);
        lines.header(STATS)?;
        let strict = lines.strict;
        let mut stats = Stats::default();
        let mut next = 0;
        while let Some(text) = lines.next()? {
            let begins = lines.scan(text).last(|scan| scan.number("proc "));
            let is_cut = strict && !stats.processes.is_empty() && next < FIELDS.len();
            if let Some(pid) = begins {
                if is_cut {
                    lines.refuse(text, OUT_OF_ORDER)?;
                }
                stats.processes.push(ProcessStats { pid, ..ProcessStats::default() });
                next = 0;
                continue;
            }
            let Some(process) = stats.processes.last_mut() else {
                if stats.total.take(text, lines.scan(text)).is_none() {
                    lines.refuse(text, UNKNOWN)?;
                }
                continue;
            };
            let all = FIELDS.iter().chain(&UPSTREAM);
            let fits = match all.zip(0..).find(|(field, _)| text.starts_with(**field)) {
                Some((field, at)) if !strict || at == next => {
                    next += 1;
                    process.take(at, lines.scan(&text[field.len()..])).ok_or(UNKNOWN)
                }
                Some((field, at)) => {
                    let known = ProcessStats::default().take(at, lines.scan(&text[field.len()..]));
                    Err(known.map_or(UNKNOWN, |()| OUT_OF_ORDER))
                }
                None => {
                    let counter = text.strip_prefix("  ").filter(|_| !is_cut);
                    counter.and_then(|text| process.counters.take(text, lines.scan(text))).ok_or(UNKNOWN)
                }
            };
            if let Err(reason) = fits {
                lines.refuse(text, reason)?;
            }
        }
        if strict && !stats.processes.is_empty() && next < FIELDS.len() {
            return Err(lines.ends("the rest of a process"));
        }
        stats.unknown = lines.unknown;
        Ok(stats)
    }
}

impl ProcessStats {
    /// Takes what follows the words of a field.
    fn take(&mut self, field: usize, mut scan: Scan) -> Option<()> {
        match field {
            0 => self.context = std::mem::take(&mut scan.rest).to_string(),
            1 => self.threads = Some(scan.number("")?),
            2 => {
                let (outstanding, started) = (scan.number("")?, scan.number("+")?);
                self.requested_threads =
                    Some(RequestedThreads { outstanding, started, max: scan.number("/")? });
            }
            3 => self.ready_threads = Some(scan.number("")?),
            4 | 11 => self.free_async_space = Some(scan.number("")?),
            5 => self.nodes = Some(scan.number("")?),
            6 => {
                let (count, strong) = (scan.number("")?, scan.number(" s ")?);
                self.references = Some(ReferenceCounts { count, strong, weak: scan.number(" w ")? });
            }
            7 => self.buffers = Some(scan.number("")?),
            8 => {
                let (active, lru) = (scan.number("")?, scan.number(":")?);
                self.pages = Some(Pages { active, lru, free: scan.number(":")? });
            }
            9 => self.pages_high_watermark = Some(scan.number("")?),
            10 => self.pending_transactions = Some(scan.number("")?),
            _ => drop(scan.number::<i64>("")?),
        }
        scan.rest.is_empty().then_some(())
    }
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
        writeln!(f, "proc {}\n{}{}", self.pid, FIELDS[0], self.context)?;
        print_line(f, 1, self.threads)?;
        let requested = self
            .requested_threads
            .map(|RequestedThreads { outstanding, started, max }| format!("{outstanding}+{started}/{max}"));
        print_line(f, 2, requested)?;
        print_line(f, 3, self.ready_threads)?;
        print_line(f, 4, self.free_async_space)?;
        print_line(f, 5, self.nodes)?;
        let references = self
            .references
            .map(|ReferenceCounts { count, strong, weak }| format!("{count} s {strong} w {weak}"));
        print_line(f, 6, references)?;
        print_line(f, 7, self.buffers)?;
        print_line(f, 8, self.pages.map(|Pages { active, lru, free }| format!("{active}:{lru}:{free}")))?;
        print_line(f, 9, self.pages_high_watermark)?;
        print_line(f, 10, self.pending_transactions)?;
        self.counters.print(f, "  ")
    }
}

fn print_line(f: &mut fmt::Formatter<'_>, field: usize, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(f, "{}{value}", FIELDS[field]))
}
