// SPDX-License-Identifier: GPL-2.0
//! `binderctl doctor`: is everything there, is anything wrong, and what is the next step for each finding.

use serde::Serialize;

use crate::checks;
use crate::checks::finding::Check;
use crate::checks::finding::State;
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

#[derive(Serialize)]
struct Diagnosis {
    driver: Option<Driver>,
    checks: Vec<Check>,
}

/// Makes all checks.
pub fn run(options: &Options, output: Output) -> Result<Outcome> {
    let driver = driver::detect();
    let checks = checks::all(driver.as_ref(), options)?;
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
        page.say(format!("{} checks, {found} findings, {skipped} skipped", self.checks.len()));
    }
}
