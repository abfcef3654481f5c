// SPDX-License-Identifier: GPL-2.0
//! `stats`: how much there is of everything, and how often what was done.

use crate::lines::{Error, Lines, Mode, UnknownLine, OUT_OF_ORDER, UNKNOWN};
use crate::scan::{Pid, Scan};
use crate::Log;
use binder_sys::codes::{COMMANDS, RETURNS};

const STATS: &str = "binder stats:";

/// `stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub total: Counters,
    pub processes: Vec<ProcessStats>,
    pub unknown: Vec<UnknownLine>,
}

/// The counts of a process.
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

/// Threads that the driver requests from a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedThreads {
    /// Requested, and not started yet.
    pub outstanding: i64,
    pub started: i64,
    pub max: i64,
}

/// The number of references, with the sums of their counts.
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

/// The first words of the lines of a process: those of the C driver in their order, and those that only upstream's
/// driver prints, another name for the space and unanswered calls.
const FIELDS: [&str; 13] = [
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
    "  free oneway space: ",
    "  outstanding transactions: ",
];
/// The number of fields that the C driver prints.
const OF_C: usize = 11;

impl Log for Stats {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let mut lines = Lines::new(file, contents, mode);
        lines.header(STATS)?;
        let strict = lines.strict;
        let mut stats = Stats::default();
        let mut next = 0;
        while let Some(text) = lines.next()? {
            let begins = lines.scan(text).last(|scan| scan.number("proc "));
            let is_cut = strict && !stats.processes.is_empty() && next < OF_C;
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
            let known = if strict { &FIELDS[..OF_C] } else { &FIELDS };
            let fits = match known.iter().position(|field| text.starts_with(field)) {
                Some(at) if strict && at != next => Err(OUT_OF_ORDER),
                Some(at) => {
                    next += 1;
                    process.take(at, lines.scan(&text[FIELDS[at].len()..])).ok_or(UNKNOWN)
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
        if strict && !stats.processes.is_empty() && next < OF_C {
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

/// The names of the objects that are counted, in the order of the lines.
pub const OBJECTS: [&str; 8] =
    ["proc", "thread", "node", "ref", "death", "transaction", "transaction_complete", "freeze"];

/// The counters since the driver was loaded or a process opened the device. A counter of 0 has no line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub commands: Vec<Counter>,
    pub returns: Vec<Counter>,
    pub objects: Vec<ObjectCount>,
}

/// The count of a command or a return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub name: String,
    pub count: i64,
}

/// The count of objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCount {
    pub name: String,
    pub active: i64,
    pub total: i64,
}

impl Counters {
    /// The count of a command or a return, by its name.
    pub fn count(&self, name: &str) -> i64 {
        let all = self.commands.iter().chain(&self.returns);
        all.filter(|counter| counter.name == name).map(|counter| counter.count).sum()
    }

    /// The counts of objects of a kind that exist and have existed.
    pub fn objects(&self, name: &str) -> (i64, i64) {
        let found = self.objects.iter().find(|object| object.name == name);
        found.map_or((0, 0), |object| (object.active, object.total))
    }

    /// Takes a line, unless it is of another kind. In a strict reader names that are not known and those that come
    /// before the last one are of another kind.
    pub(crate) fn take(&mut self, line: &str, mut scan: Scan) -> Option<()> {
        let (name, _) = line.split_once(": ")?;
        scan.word(name)?;
        let strict = !scan.lenient;
        if scan.has(": active ") {
            let (name, active) = (name.to_string(), scan.number("")?);
            let object = ObjectCount { name, active, total: scan.last(|scan| scan.number(" total "))? };
            let last = self.objects.last().map(|last| last.name.as_str());
            (!strict || follows(OBJECTS, last, &object.name)).then(|| self.objects.push(object))
        } else {
            let (codes, list) = match name.split_at_checked(3)?.0 {
                "BC_" => (COMMANDS, &mut self.commands),
                "BR_" => (RETURNS, &mut self.returns),
                _ => return None,
            };
            let counter = Counter { name: name.to_string(), count: scan.last(|scan| scan.number(": "))? };
            let last = list.last().map(|last| last.name.as_str());
            let fits = !strict || follows(codes.iter().map(|(_, name)| *name), last, name);
            fits.then(|| list.push(counter))
        }
    }
}

/// Returns true if `names` contains `name` behind `last`.
fn follows<'a>(names: impl IntoIterator<Item = &'a str>, last: Option<&str>, name: &str) -> bool {
    let mut names = names.into_iter();
    last.is_none_or(|last| names.any(|known| known == last)) && names.any(|known| known == name)
}
