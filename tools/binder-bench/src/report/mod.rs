// SPDX-License-Identifier: GPL-2.0
//! Many result files, one answer: rows that can be compared, with how sure we may be.

mod figures;
mod growth;
mod sorted;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::{Kind, Result};
use crate::result::{Measured, RunFile};
use crate::stats;
use sorted::{Row, Sorted};
use table::table;

pub use table::Style;

#[derive(Debug, Serialize)]
pub struct Report {
    pub base: String,
    pub latency: Vec<Row<figures::Times>>,
    pub counts: Vec<Row<figures::Instructions>>,
    pub memory: Vec<Row<figures::Bytes>>,
    pub growth: Vec<Row<growth::Grows>>,
    /// What a reader should know before trusting the rows.
    pub remarks: Vec<String>,
}

pub fn merge(files: &[RunFile], base: &str) -> Result<Report> {
    refuse_duplicates(files)?;
    let mut sorted = Sorted::default();
    files.iter().for_each(|file| sorted.add(file));
    Ok(Report {
        base: base.to_string(),
        latency: figures::times(&sorted, base),
        counts: figures::instructions(&sorted, base),
        memory: figures::memory(&sorted, base),
        growth: growth::rows(&sorted, base),
        remarks: remarks(files, base),
    })
}

fn is_timed(file: &RunFile) -> bool {
    file.cells.iter().any(|cell| matches!(cell.measured, Measured::Latency(_)))
}

/// The same boot counted twice would look like agreement. Counts repeat exactly, so there it does not matter.
fn refuse_duplicates(files: &[RunFile]) -> Result<()> {
    let text = |file: &RunFile| serde_json::to_string(file).unwrap_or_default();
    for (index, file) in files.iter().enumerate().filter(|(_, file)| is_timed(file)) {
        if files[..index].iter().any(|earlier| text(earlier) == text(file)) {
            let (number, driver) = (index + 1, &file.driver);
            return Err(Kind::BadInput.error(format!("result {number} (driver {driver}) is given twice")));
        }
    }
    Ok(())
}

fn remarks(files: &[RunFile], base: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut differs = |what: &str, of: fn(&RunFile) -> &str| {
        let values: BTreeSet<&str> = files.iter().map(of).collect();
        if values.len() > 1 {
            let list: Vec<&str> = values.into_iter().collect();
            remarks.push(format!("the results differ in {what}: {}", list.join(" / ")));
        }
    };
    differs("kernel", |f| &f.environment.kernel);
    differs("machine", |f| &f.environment.machine);
    differs("clock", |f| &f.environment.clock);
    differs("placement", |f| &f.environment.placement);
    differs("version of binder-bench", |f| &f.environment.tool);
    if !files.iter().any(|f| f.driver == base) {
        remarks.push(format!("no result of {base}, so there are no ratios"));
    }
    let mut boots: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| is_timed(file)) {
        *boots.entry(&file.driver).or_default() += 1;
    }
    for (driver, boots) in boots.iter().filter(|(_, &boots)| boots < stats::MIN_BOOTS) {
        remarks.push(format!("{driver} has {boots} boot(s); no winner is named below {}", stats::MIN_BOOTS));
    }
    remarks
}

/// The whole report as text.
pub fn render(report: &Report, style: Style) -> String {
    let base = &report.base;
    let mut parts = Vec::new();
    parts.extend(table("Microseconds", &report.latency, table::TIMES, base, style));
    parts.extend(table("Guest instructions", &report.counts, table::INSTRUCTIONS, base, style));
    parts.extend(table("Bytes of kernel memory", &report.memory, table::BYTES, base, style));
    let growth = "Guest instructions of each, the fewest and the most of them, and how all grow";
    parts.extend(table(growth, &report.growth, table::GROWS, base, style));
    let mark = if style == Style::Markdown { "- " } else { "note: " };
    let remarks: Vec<String> = report.remarks.iter().map(|r| format!("{mark}{r}")).collect();
    if !remarks.is_empty() {
        parts.push(remarks.join("\n"));
    }
    parts.join("\n\n") + "\n"
}
