// SPDX-License-Identifier: GPL-2.0
//! `binderctl doctor`: is everything there, is anything wrong, and what is the next step for each finding.

use clap::Args;
use serde::Serialize;

use crate::checks;
use crate::checks::finding::Check;
use crate::checks::finding::State;
use crate::checks::Limits;
use crate::driver;
use crate::driver::Driver;
use crate::error::Outcome;
use crate::error::Result;
use crate::options::Options;
use crate::output::Output;
use crate::output::Page;
use crate::output::Report;
use crate::output::Span;
use crate::output::Style;
use crate::words;

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
    checks: Vec<Check>,
}

/// Makes all checks.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<Outcome> {
    let driver = driver::detect();
    let limits = Limits { waiting_ms: arguments.waiting, free_percent: arguments.free };
    let checks = checks::all(driver.as_ref(), options, limits)?;
    let found = checks.iter().any(|check| matches!(check.state, State::Found { .. }));
    output.print(&Diagnosis { driver, checks })?;
    Ok(Outcome::of(found))
}

impl Report for Diagnosis {
    const SCHEMA: &'static str = "binderctl.doctor/1";

    fn show(&self, page: &mut Page) {
        for Check { name, state } in &self.checks {
            let (style, word, note) = match state {
                State::Good { note } => (Style::Good, "good   ", note.as_str()),
                State::Skipped { why } => (Style::Dim, "skipped", why.as_str()),
                State::Found { .. } => (Style::Bad, "FOUND  ", ""),
            };
            let separator = if note.is_empty() { "" } else { ": " };
            page.line([Span::new(style, word), format!("  {name}{separator}{note}").into()]);
            let State::Found { findings } = state else { continue };
            for finding in findings {
                page.line(["         ".into(), Span::new(Style::Warning, &finding.message)]);
                page.say(format!("         next: {}", finding.next_step));
            }
        }
        let found: usize = self.checks.iter().map(|check| check.state.findings().len()).sum();
        let skipped = self.checks.iter().filter(|check| matches!(check.state, State::Skipped { .. })).count();
        page.gap();
        page.say(format!(
            "{}, {}, {skipped} skipped",
            words::count(self.checks.len(), "check"),
            words::count(found, "finding")
        ));
    }
}
