// SPDX-License-Identifier: GPL-2.0
//! `state`, `transactions` and `proc/<pid>`: blocks of processes.

use crate::lines::{Error, Lines, Mode, UnknownLine, OUT_OF_ORDER, UNKNOWN};
use crate::process::{self, Node, Process};
use crate::scan::Scan;
use crate::Log;

const STATE: &str = "binder state:";
const DEAD_NODES: &str = "dead nodes:";
const TRANSACTIONS: &str = "binder transactions:";
const PROCESS: &str = "binder proc state:";

/// `state` and `state_hashed`: all that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Nodes whose process is gone and that others hold.
    pub dead_nodes: Vec<Node>,
    pub processes: Vec<Process>,
    pub unknown: Vec<UnknownLine>,
}

/// `transactions` and `transactions_hashed`: the processes in which anything is under way, and of them that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    pub processes: Vec<Process>,
    pub unknown: Vec<UnknownLine>,
}

/// `proc/<pid>`: one process, once for each device that it has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessState {
    pub processes: Vec<Process>,
    pub unknown: Vec<UnknownLine>,
}

impl Log for State {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let (Blocks { dead_nodes, processes, .. }, unknown) = Blocks::of(file, contents, mode, STATE)?;
        Ok(Self { dead_nodes, processes, unknown })
    }
}

impl Log for Transactions {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let (Blocks { processes, .. }, unknown) = Blocks::of(file, contents, mode, TRANSACTIONS)?;
        Ok(Self { processes, unknown })
    }
}

impl Log for ProcessState {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let (Blocks { processes, .. }, unknown) = Blocks::of(file, contents, mode, PROCESS)?;
        Ok(Self { processes, unknown })
    }
}

/// The part of a process's block that a line belongs to: no line of an earlier part follows it.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
enum Part {
    #[default]
    Start,
    Threads,
    Nodes,
    References,
    Buffers,
    Work,
    DeliveredDeath,
    DeliveredFreeze,
}

/// The blocks of a file that have been read.
#[derive(Default)]
struct Blocks {
    /// True if the list of dead nodes may follow, or is being read.
    may_have_dead_nodes: bool,
    in_dead_nodes: bool,
    dead_nodes: Vec<Node>,
    processes: Vec<Process>,
    part: Part,
}

impl Blocks {
    /// Reads a file that begins with a header, or has it before each block.
    fn of(file: &str, contents: &[u8], mode: Mode, header: &str) -> Result<(Self, Vec<UnknownLine>), Error> {
        let mut lines = Lines::new(file, contents, mode);
        let mut blocks = Self { may_have_dead_nodes: header == STATE, ..Self::default() };
        let before_each = Some(header).filter(|header| *header == PROCESS);
        if before_each.is_none() {
            lines.header(header)?;
        }
        blocks.read(&mut lines, before_each)?;
        Ok((blocks, lines.unknown))
    }

    /// Reads all blocks, each after a header of its own if there is one.
    fn read(&mut self, lines: &mut Lines<'_>, header: Option<&str>) -> Result<(), Error> {
        // With headers, a process comes after one, and nothing else does.
        let mut may_begin = header.is_none();
        while let Some(line) = lines.next()? {
            if header == Some(line) && !may_begin {
                may_begin = true;
            } else if let Some(pid) = lines.scan(line).last(|scan| scan.number("proc ")) {
                if !std::mem::replace(&mut may_begin, header.is_none()) {
                    lines.refuse(line, OUT_OF_ORDER)?;
                }
                let context = context(lines)?;
                (self.may_have_dead_nodes, self.in_dead_nodes) = (false, false);
                self.part = Part::Start;
                self.processes.push(Process { pid, context, ..Process::default() });
            } else if self.may_have_dead_nodes && line == DEAD_NODES {
                (self.may_have_dead_nodes, self.in_dead_nodes) = (false, true);
            } else if let Err(reason) = self.line(lines.scan(line)) {
                lines.refuse(line, reason)?;
            }
        }
        match header {
            Some(_) if may_begin && lines.strict => Err(lines.ends("a process")),
            _ => Ok(()),
        }
    }

    /// Puts a line of a block where it belongs, or returns what is wrong with it.
    fn line(&mut self, mut scan: Scan) -> Result<(), &'static str> {
        if self.in_dead_nodes {
            let node = scan.last(|scan| scan.word("  ").and_then(|()| process::node(scan)));
            return node.map(|node| self.dead_nodes.push(node)).ok_or_else(|| reason(scan));
        }
        let Some(process) = self.processes.last_mut() else { return Err(reason(scan)) };
        let strict = !scan.lenient;
        let mut at = |part: Part| {
            let before = std::mem::replace(&mut self.part, part);
            (before <= part || !strict).then_some(()).ok_or(OUT_OF_ORDER)
        };
        let (threads, nodes) = (&mut process.threads, &mut process.nodes);
        if scan.has("    ") {
            if let Some(work) = scan.last(process::queued) {
                at(Part::Nodes)?;
                nodes.last_mut().ok_or(OUT_OF_ORDER)?.work.push(work);
            } else if let Some(entry) = scan.last(process::stack_entry) {
                at(Part::Threads)?;
                let thread = threads.last_mut().filter(|thread| thread.work.is_empty());
                thread.ok_or(OUT_OF_ORDER)?.stack.push(entry);
            } else {
                let work = scan.last(process::work).ok_or(UNKNOWN)?;
                at(Part::Threads)?;
                threads.last_mut().ok_or(OUT_OF_ORDER)?.work.push(work);
            }
            return Ok(());
        }
        scan.word("  ").ok_or(UNKNOWN)?;
        if let Some(thread) = scan.last(process::thread) {
            at(Part::Threads)?;
            threads.push(thread);
        } else if let Some(node) = scan.last(process::node) {
            at(Part::Nodes)?;
            nodes.push(node);
        } else if let Some(reference) = scan.maybe(process::reference) {
            at(Part::References)?;
            process.references.push(reference);
            if !strict {
                // Upstream's driver does not end these lines.
                let more = || scan.maybe(|scan| scan.word("  ").and_then(|()| process::reference(scan)));
                process.references.extend(std::iter::from_fn(more));
            }
            return match scan.rest {
                "" => Ok(()),
                _ if strict => Err(UNKNOWN),
                _ => self.line(scan),
            };
        } else if let Some(buffer) = scan.last(process::buffer) {
            at(Part::Buffers)?;
            process.buffers.push(buffer);
        } else if scan.rest == "has delivered dead binder" {
            at(Part::DeliveredDeath)?;
            told_once(&mut process.has_delivered_death, strict)?;
        } else if scan.rest == "has delivered freeze binder" {
            at(Part::DeliveredFreeze)?;
            told_once(&mut process.has_delivered_freeze, strict)?;
        } else {
            let work = scan.last(process::work).ok_or(UNKNOWN)?;
            at(Part::Work)?;
            process.work.push(work);
        }
        Ok(())
    }
}

/// The line after the one with a process's number.
fn context(lines: &mut Lines<'_>) -> Result<String, Error> {
    let Some(line) = lines.next()? else { return Err(lines.ends("the context of a process")) };
    match line.strip_prefix("context ") {
        Some(context) => Ok(context.to_string()),
        None => lines.refuse(line, UNKNOWN).map(|()| String::new()),
    }
}

/// The error of a line that belongs to no process.
fn reason(scan: Scan) -> &'static str {
    let mut anywhere = Blocks { processes: vec![Process::default()], ..Blocks::default() };
    match anywhere.line(scan) {
        Err(UNKNOWN) => UNKNOWN,
        _ => OUT_OF_ORDER,
    }
}

fn told_once(told: &mut bool, strict: bool) -> Result<(), &'static str> {
    match std::mem::replace(told, true) && strict {
        true => Err(OUT_OF_ORDER),
        false => Ok(()),
    }
}
