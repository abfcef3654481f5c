// SPDX-License-Identifier: GPL-2.0
//! `state`, `transactions` and `proc/<pid>`: blocks of processes.

use crate::error::{Error, Reason};
use crate::lines::{Lines, Mode, UnknownLine};
use crate::process::parse::{self, Line};
use crate::process::{Node, Process};
use crate::upstream;
use crate::words::{name, pid};
use crate::Log;
use serde::Serialize;
use std::fmt;
use winnow::combinator::preceded;
use winnow::Parser;

const STATE: &str = "binder state:";
const DEAD_NODES: &str = "dead nodes:";
const TRANSACTIONS: &str = "binder transactions:";
const PROCESS: &str = "binder proc state:";

/// `state` and `state_hashed`: all that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// Nodes whose process is gone and that somebody holds.
    pub dead_nodes: Vec<Node>,
    /// The processes.
    pub processes: Vec<Process>,
    /// Lines that were not understood.
    pub unknown: Vec<UnknownLine>,
}

/// `transactions` and `transactions_hashed`: the processes in which anything is under way, and of them that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transactions {
    /// The processes.
    pub processes: Vec<Process>,
    /// Lines that were not understood.
    pub unknown: Vec<UnknownLine>,
}

/// `proc/<pid>`: one process, once for each device that it has open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessState {
    /// What it has of each.
    pub processes: Vec<Process>,
    /// Lines that were not understood.
    pub unknown: Vec<UnknownLine>,
}

impl Log for State {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let mut lines = Lines::new(file, contents, mode);
        lines.header(STATE)?;
        let mut blocks = Blocks { may_have_dead_nodes: true, ..Blocks::default() };
        blocks.read(&mut lines, None)?;
        Ok(Self { dead_nodes: blocks.dead_nodes, processes: blocks.processes, unknown: lines.unknown })
    }
}

impl Log for Transactions {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let mut lines = Lines::new(file, contents, mode);
        lines.header(TRANSACTIONS)?;
        let mut blocks = Blocks::default();
        blocks.read(&mut lines, None)?;
        Ok(Self { processes: blocks.processes, unknown: lines.unknown })
    }
}

impl Log for ProcessState {
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error> {
        let mut lines = Lines::new(file, contents, mode);
        let mut blocks = Blocks::default();
        blocks.read(&mut lines, Some(PROCESS))?;
        Ok(Self { processes: blocks.processes, unknown: lines.unknown })
    }
}

/// Where in a process's block a line stands: none comes after one of a later part.
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

/// What has been read of a file's blocks.
#[derive(Default)]
struct Blocks {
    /// Whether the list of dead nodes may come, or is being read.
    may_have_dead_nodes: bool,
    in_dead_nodes: bool,
    dead_nodes: Vec<Node>,
    processes: Vec<Process>,
    part: Part,
}

impl Blocks {
    /// Reads all blocks, each after a header of its own if there is one.
    fn read(&mut self, lines: &mut Lines<'_>, header: Option<&'static str>) -> Result<(), Error> {
        // With headers, a process comes after one, and nothing else does.
        let mut may_begin = header.is_none();
        while let Some(line) = lines.next()? {
            if header == Some(line) && !may_begin {
                may_begin = true;
            } else if let Ok(pid) = preceded("proc ", pid).parse(line) {
                if !std::mem::replace(&mut may_begin, header.is_none()) {
                    lines.refuse(line, Reason::OutOfOrder)?;
                }
                let context = self.context(lines)?;
                self.begin(Process::new(pid, context));
            } else if self.may_have_dead_nodes && line == DEAD_NODES {
                (self.may_have_dead_nodes, self.in_dead_nodes) = (false, true);
            } else {
                self.line_of_block(lines, line)?;
            }
        }
        match header {
            Some(_) if may_begin && lines.mode == Mode::Strict => Err(lines.ends("a process")),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, process: Process) {
        (self.may_have_dead_nodes, self.in_dead_nodes) = (false, false);
        self.part = Part::Start;
        self.processes.push(process);
    }

    /// The line after the one with a process's number.
    fn context(&self, lines: &mut Lines<'_>) -> Result<String, Error> {
        let Some(line) = lines.next()? else { return Err(lines.ends("the context of a process")) };
        match preceded("context ", name).parse(line) {
            Ok(context) => Ok(context),
            Err(_) => lines.refuse(line, Reason::Unknown).map(|()| String::new()),
        }
    }

    fn line_of_block(&mut self, lines: &mut Lines<'_>, mut text: &str) -> Result<(), Error> {
        let whole = text;
        while !text.is_empty() || whole.is_empty() {
            let found = match parse::line.parse(text) {
                Ok(line) => Some((line, "")),
                Err(_) if lines.mode == Mode::Lenient => upstream::line(text),
                Err(_) => None,
            };
            let Some((line, rest)) = found else { return lines.refuse(text, Reason::Unknown) };
            if let Err(reason) = self.take(line, lines.mode) {
                return lines.refuse(whole, reason);
            }
            text = rest;
        }
        Ok(())
    }

    /// Puts a line where it belongs.
    fn take(&mut self, line: Line, mode: Mode) -> Result<(), Reason> {
        if self.in_dead_nodes {
            let Line::Node(node) = line else { return Err(Reason::OutOfOrder) };
            self.dead_nodes.push(node);
            return Ok(());
        }
        let process = self.processes.last_mut().ok_or(Reason::OutOfOrder)?;
        let part = part_of(&line);
        if part < self.part && mode == Mode::Strict {
            return Err(Reason::OutOfOrder);
        }
        self.part = part;
        process.take(line, mode)
    }
}

fn part_of(line: &Line) -> Part {
    match line {
        Line::Thread(_) | Line::Stack(_) | Line::ThreadWork(_) => Part::Threads,
        Line::Node(_) | Line::NodeWork(_) => Part::Nodes,
        Line::Reference(_) => Part::References,
        Line::Buffer(_) => Part::Buffers,
        Line::Work(_) => Part::Work,
        Line::DeliveredDeath => Part::DeliveredDeath,
        Line::DeliveredFreeze => Part::DeliveredFreeze,
    }
}

impl Process {
    fn new(pid: i32, context: String) -> Self {
        Self {
            pid,
            context,
            threads: Vec::new(),
            nodes: Vec::new(),
            references: Vec::new(),
            buffers: Vec::new(),
            work: Vec::new(),
            has_delivered_death: false,
            has_delivered_freeze: false,
        }
    }

    fn take(&mut self, line: Line, mode: Mode) -> Result<(), Reason> {
        let again = Reason::OutOfOrder;
        match line {
            Line::Thread(thread) => self.threads.push(thread),
            Line::Stack(entry) => {
                let thread = self.threads.last_mut().ok_or(again)?;
                if !thread.work.is_empty() {
                    return Err(again);
                }
                thread.stack.push(entry);
            }
            Line::ThreadWork(work) => self.threads.last_mut().ok_or(again)?.work.push(work),
            Line::Node(node) => self.nodes.push(node),
            Line::NodeWork(work) => self.nodes.last_mut().ok_or(again)?.work.push(work),
            Line::Reference(reference) => self.references.push(reference),
            Line::Buffer(buffer) => self.buffers.push(buffer),
            Line::Work(work) => self.work.push(work),
            Line::DeliveredDeath if self.has_delivered_death && mode == Mode::Strict => return Err(again),
            Line::DeliveredDeath => self.has_delivered_death = true,
            Line::DeliveredFreeze if self.has_delivered_freeze && mode == Mode::Strict => return Err(again),
            Line::DeliveredFreeze => self.has_delivered_freeze = true,
        }
        Ok(())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{STATE}")?;
        if !self.dead_nodes.is_empty() {
            writeln!(f, "{DEAD_NODES}")?;
        }
        self.dead_nodes.iter().try_for_each(|node| node.fmt(f))?;
        self.processes.iter().try_for_each(|process| process.fmt(f))
    }
}

impl fmt::Display for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TRANSACTIONS}")?;
        self.processes.iter().try_for_each(|process| process.fmt(f))
    }
}

impl fmt::Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.processes.iter().try_for_each(|process| write!(f, "{PROCESS}\n{process}"))
    }
}
