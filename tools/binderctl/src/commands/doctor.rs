// SPDX-License-Identifier: GPL-2.0
//! `binderctl doctor`: is everything there, is anything wrong, and what is the next step for each finding.

use clap::Args;
use serde::Serialize;

use crate::checks::seen::{Finding, Limits, Seen};
use crate::checks::CHECKS;
use crate::driver::Driver;
use crate::error::Result;
use crate::options::Options;
use crate::output::{count, Output, Page, Report, Span, Style};
use crate::tasks::Names;

/// From when on something counts as wrong.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// For how many milliseconds a thread may wait for a reply.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(i64).range(0..))]
    waiting: i64,
    /// How many percent of a process's space for oneway calls have to be free.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(i64).range(0..=100))]
    free: i64,
}

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
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<bool> {
    let limits = Limits { waiting_ms: arguments.waiting, free_percent: arguments.free };
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
    output.print(&diagnosis)?;
    Ok(diagnosis.checks.iter().any(|check| matches!(check.state, State::Found { .. })))
}

impl Report for Diagnosis {
    const SCHEMA: &'static str = "binderctl.doctor/1";

    fn show(&self, page: &mut Page) {
        let (mut found, mut skipped) = (0, 0);
        for Checked { name, state } in &self.checks {
            let (style, word, note) = match state {
                State::Good { note } => (Style::Good, "good   ", note.as_str()),
                State::Skipped { why } => (Style::Dim, "skipped", why.as_str()),
                State::Found { .. } => (Style::Bad, "FOUND  ", ""),
            };
            let separator = if note.is_empty() { "" } else { ": " };
            page.line([Span::new(style, word), format!("  {name}{separator}{note}").into()]);
            skipped += usize::from(matches!(state, State::Skipped { .. }));
            let State::Found { findings } = state else { continue };
            found += findings.len();
            for finding in findings {
                page.line(["         ".into(), Span::new(Style::Warning, &finding.message)]);
                page.say(format!("         next: {}", finding.next_step));
            }
        }
        page.gap();
        let (checks, findings) = (count(self.checks.len(), "check"), count(found, "finding"));
        page.say(format!("{checks}, {findings}, {skipped} skipped"));
    }
}
