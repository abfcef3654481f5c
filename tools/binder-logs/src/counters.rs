// SPDX-License-Identifier: GPL-2.0
//! Counts of commands, returns and objects.

use crate::scan::Scan;
use binder_sys::codes::{COMMANDS, RETURNS};
use std::fmt;

/// The names of the objects that are counted, in the order of the lines.
pub const OBJECTS: [&str; 8] =
    ["proc", "thread", "node", "ref", "death", "transaction", "transaction_complete", "freeze"];

/// How often things were done, since the driver was loaded or a process opened the device. What was never done has
/// no line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub commands: Vec<Counter>,
    pub returns: Vec<Counter>,
    pub objects: Vec<ObjectCount>,
}

/// How often a command was given, or a return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub name: String,
    pub count: i64,
}

/// How many objects of a kind there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCount {
    pub name: String,
    pub active: i64,
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

/// Whether a name is among these, behind the last one.
fn follows<'a>(names: impl IntoIterator<Item = &'a str>, last: Option<&str>, name: &str) -> bool {
    let mut names = names.into_iter();
    last.is_none_or(|last| names.any(|known| known == last)) && names.any(|known| known == name)
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
