// SPDX-License-Identifier: GPL-2.0
//! Counts of commands, returns and objects.

use crate::words::{number, Parsed};
use binder_sys::codes::{COMMANDS, RETURNS};
use serde::Serialize;
use std::fmt;
use winnow::combinator::seq;
use winnow::prelude::*;
use winnow::token::take_while;

/// The names of the objects that are counted, in the order of the lines.
pub const OBJECTS: [&str; 8] =
    ["proc", "thread", "node", "ref", "death", "transaction", "transaction_complete", "freeze"];

/// How often things were done, since the driver was loaded or a process opened the device. What was never done has
/// no line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Commands, in the order of their numbers.
    pub commands: Vec<Counter>,
    /// Returns, in the order of their numbers.
    pub returns: Vec<Counter>,
    /// Objects. Upstream's driver does not count them.
    pub objects: Vec<ObjectCount>,
}

/// How often a command was given, or a return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// How often.
    pub count: i64,
}

/// How many objects of a kind there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectCount {
    /// The kind.
    pub name: String,
    /// How many there are.
    pub active: i64,
    /// How many there have ever been.
    pub total: i64,
}

impl Counters {
    /// How often a command or a return was given, by its name.
    pub fn count(&self, name: &str) -> i64 {
        let all = self.commands.iter().chain(&self.returns);
        all.filter(|counter| counter.name == name).map(|counter| counter.count).sum()
    }

    /// How many objects of a kind there are and have been.
    pub fn objects(&self, name: &str) -> (i64, i64) {
        let found = self.objects.iter().find(|object| object.name == name);
        found.map_or((0, 0), |object| (object.active, object.total))
    }

    /// Takes a line, unless it is of another kind. If `ordered`, names that are not known and those that come before
    /// the last one are of another kind.
    pub(crate) fn take(&mut self, line: &str, ordered: bool) -> bool {
        if let Ok(object) = object.parse(line) {
            let last = self.objects.last().map(|last| last.name.as_str());
            let fits = !ordered || follows(OBJECTS, last, &object.name);
            if fits {
                self.objects.push(object);
            }
            return fits;
        }
        let Ok(counter) = counter.parse(line) else { return false };
        let (codes, list) = match counter.name.starts_with("BC_") {
            true => (COMMANDS, &mut self.commands),
            false => (RETURNS, &mut self.returns),
        };
        let last = list.last().map(|last| last.name.as_str());
        let fits = !ordered || follows(codes.iter().map(|(_, name)| *name), last, &counter.name);
        if fits {
            list.push(counter);
        }
        fits
    }
}

/// Whether a name is among these, behind the last one.
fn follows<'a>(names: impl IntoIterator<Item = &'a str>, last: Option<&str>, name: &str) -> bool {
    let mut names = names.into_iter();
    last.is_none_or(|last| names.any(|known| known == last)) && names.any(|known| known == name)
}

fn word(input: &mut &str) -> Parsed<String> {
    take_while(1.., |c: char| c.is_ascii_alphanumeric() || c == '_').map(str::to_string).parse_next(input)
}

fn counter(input: &mut &str) -> Parsed<Counter> {
    let counter = seq!(Counter { name: word, _: ": ", count: number });
    counter
        .verify(|found: &Counter| found.name.starts_with("BC_") || found.name.starts_with("BR_"))
        .parse_next(input)
}

fn object(input: &mut &str) -> Parsed<ObjectCount> {
    seq!(ObjectCount { name: word, _: ": active ", active: number, _: " total ", total: number })
        .parse_next(input)
}

impl Counters {
    /// Prints them with something before each line.
    pub(crate) fn print(&self, f: &mut fmt::Formatter<'_>, before: &str) -> fmt::Result {
        for Counter { name, count } in self.commands.iter().chain(&self.returns) {
            writeln!(f, "{before}{name}: {count}")?;
        }
        for ObjectCount { name, active, total } in &self.objects {
            writeln!(f, "{before}{name}: active {active} total {total}")?;
        }
        Ok(())
    }
}
