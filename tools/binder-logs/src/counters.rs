// SPDX-License-Identifier: GPL-2.0
//! Counts of commands, returns and objects.

use crate::words::{number, Parsed};
use serde::Serialize;
use std::fmt;
use winnow::combinator::seq;
use winnow::prelude::*;
use winnow::token::take_while;

/// The names of commands, in the order of their numbers.
pub const COMMANDS: [&str; 22] = [
    "BC_TRANSACTION",
    "BC_REPLY",
    "BC_ACQUIRE_RESULT",
    "BC_FREE_BUFFER",
    "BC_INCREFS",
    "BC_ACQUIRE",
    "BC_RELEASE",
    "BC_DECREFS",
    "BC_INCREFS_DONE",
    "BC_ACQUIRE_DONE",
    "BC_ATTEMPT_ACQUIRE",
    "BC_REGISTER_LOOPER",
    "BC_ENTER_LOOPER",
    "BC_EXIT_LOOPER",
    "BC_REQUEST_DEATH_NOTIFICATION",
    "BC_CLEAR_DEATH_NOTIFICATION",
    "BC_DEAD_BINDER_DONE",
    "BC_TRANSACTION_SG",
    "BC_REPLY_SG",
    "BC_REQUEST_FREEZE_NOTIFICATION",
    "BC_CLEAR_FREEZE_NOTIFICATION",
    "BC_FREEZE_NOTIFICATION_DONE",
];

/// The names of returns, in the order of their numbers.
pub const RETURNS: [&str; 23] = [
    "BR_ERROR",
    "BR_OK",
    "BR_TRANSACTION",
    "BR_REPLY",
    "BR_ACQUIRE_RESULT",
    "BR_DEAD_REPLY",
    "BR_TRANSACTION_COMPLETE",
    "BR_INCREFS",
    "BR_ACQUIRE",
    "BR_RELEASE",
    "BR_DECREFS",
    "BR_ATTEMPT_ACQUIRE",
    "BR_NOOP",
    "BR_SPAWN_LOOPER",
    "BR_FINISHED",
    "BR_DEAD_BINDER",
    "BR_CLEAR_DEATH_NOTIFICATION_DONE",
    "BR_FAILED_REPLY",
    "BR_FROZEN_REPLY",
    "BR_ONEWAY_SPAM_SUSPECT",
    "BR_TRANSACTION_PENDING_FROZEN",
    "BR_FROZEN_BINDER",
    "BR_CLEAR_FREEZE_NOTIFICATION_DONE",
];

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
            let fits = !ordered || follows(&OBJECTS, last, &object.name);
            if fits {
                self.objects.push(object);
            }
            return fits;
        }
        let Ok(counter) = counter.parse(line) else { return false };
        let names: &[&str] = if counter.name.starts_with("BC_") { &COMMANDS } else { &RETURNS };
        let list = if counter.name.starts_with("BC_") { &mut self.commands } else { &mut self.returns };
        let last = list.last().map(|last| last.name.as_str());
        let fits = !ordered || follows(names, last, &counter.name);
        if fits {
            list.push(counter);
        }
        fits
    }
}

/// Whether a name is in the list, behind the last one.
fn follows(names: &[&str], last: Option<&str>, name: &str) -> bool {
    let place = |wanted: &str| names.iter().position(|known| *known == wanted);
    place(name).is_some_and(|here| last.and_then(place).is_none_or(|last| last < here))
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
