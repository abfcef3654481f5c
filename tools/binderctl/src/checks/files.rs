// SPDX-License-Identifier: GPL-2.0
//! Whether the driver's log files can be read, and every line of them be understood.

use crate::checks::finding::Finding;
use crate::checks::finding::State;
use crate::checks::read::Read;
use crate::driver::Driver;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Result;
use crate::logs::Logs;
use crate::logs::Unknown;
use crate::words;

/// Whether all files that are needed are there. What a driver does not have is no fault of the machine.
pub fn readable(logs: &Result<Logs>, read: &Read, driver: Option<&Driver>) -> State {
    let logs = match logs {
        Ok(logs) => logs,
        Err(error) if driver.is_none() => return State::Skipped { why: error.message.clone() },
        Err(error) => return State::of(vec![missing(error)], ""),
    };
    let mut findings = Vec::new();
    let mut not_offered = Vec::new();
    for (name, file) in
        [("state", of(&read.state)), ("stats", of(&read.stats)), ("transaction_log", of(&read.log))]
    {
        match file {
            Ok(0) => {}
            Ok(lines) => findings.push(Finding {
                message: format!(
                    "of {name} {} cannot be understood, and will be left out",
                    words::count(lines, "line")
                ),
                next_step: "is the name of a device strange? Else a newer binderctl may know more".into(),
                ..Default::default()
            }),
            Err(error) if error.kind == Kind::NotOffered => not_offered.push(name),
            Err(error) => findings.push(missing(error)),
        }
    }
    let without = match not_offered.is_empty() {
        true => String::new(),
        false => format!("; the driver does not offer {}", not_offered.join(", ")),
    };
    State::of(findings, format!("in {}{without}", logs.directory().display()))
}

/// How many lines were not understood.
fn of<T: Unknown>(file: &Result<T>) -> std::result::Result<usize, &Error> {
    file.as_ref().map(|file| file.unknown().len())
}

fn missing(error: &Error) -> Finding {
    Finding {
        message: error.message.clone(),
        next_step: error.hint.clone().unwrap_or_else(|| "look at it as root".into()),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::Log;
    use binder_logs::Mode;

    #[test]
    fn what_is_missing_comes_with_its_next_step() {
        let error = Error::new(Kind::NotThere, "no logs").hint("mount some");
        let finding = missing(&error);
        assert_eq!((finding.message.as_str(), finding.next_step.as_str()), ("no logs", "mount some"));
    }

    #[test]
    fn lines_that_are_not_understood_are_counted() {
        let state = binder_logs::State::parse("state", b"binder state:\nwhat\n", Mode::Lenient).unwrap();
        assert_eq!(of(&Ok(state)).unwrap(), 1);
    }
}
