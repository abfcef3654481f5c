// SPDX-License-Identifier: GPL-2.0
//! `binderctl doctor`: is everything there, is anything wrong, and what is the next step for each finding.

use crate::checks::seen::{Finding, Limits, Seen};
use crate::checks::CHECKS;
use crate::driver::Driver;
use crate::prelude::*;

#[derive(Serialize)]
struct Diagnosis {
    driver: Option<Driver>,
    checks: Vec<Checked>,
}

#[derive(Serialize)]
struct Checked {
    name: &'static str,
    #[serde(flatten)]
    state: State,
}

#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum State {
    Good { note: String },
    Skipped { why: String },
    Found { findings: Vec<Finding> },
}

/// Makes all checks, and returns whether one has found something.
pub fn run(limits: Limits, options: &Options) -> Result<bool> {
    let seen = Seen::now(options, limits)?;
    let mut names = Names::new();
    let checks = CHECKS.map(|(name, check)| {
        let state = match check(&seen, &mut names) {
            Ok((findings, note)) if findings.is_empty() => State::Good { note },
            Ok((findings, _)) => State::Found { findings },
            Err(why) => State::Skipped { why },
        };
        Checked { name, state }
    });
    let diagnosis = Diagnosis { driver: seen.driver, checks: checks.into() };
    options.print(&diagnosis)?;
    Ok(diagnosis.checks.iter().any(|check| matches!(check.state, State::Found { .. })))
}

impl Report for Diagnosis {
    const SCHEMA: &'static str = "binderctl.doctor/1";

    fn show(&self, page: &mut Page) {
        let (mut found, mut skipped) = (0, 0);
        for Checked { name, state } in &self.checks {
            let (word, note) = match state {
                State::Good { note } => ("good   ", note.as_str()),
                State::Skipped { why } => ("skipped", why.as_str()),
                State::Found { .. } => ("FOUND  ", ""),
            };
            let separator = if note.is_empty() { "" } else { ": " };
            page.say(format!("{word}  {name}{separator}{note}"));
            skipped += usize::from(matches!(state, State::Skipped { .. }));
            let State::Found { findings } = state else { continue };
            found += findings.len();
            for finding in findings {
                page.say(format!("         {}", finding.message));
                page.say(format!("         next: {}", finding.next_step));
            }
        }
        page.gap();
        let (checks, findings) = (count(self.checks.len(), "check"), count(found, "finding"));
        page.say(format!("{checks}, {findings}, {skipped} skipped"));
    }
}
