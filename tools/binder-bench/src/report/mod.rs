// SPDX-License-Identifier: GPL-2.0
//! Many result files, one answer: rows that can be compared, with how sure we may be.

mod growth;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::result::RunFile;
use rows::{Row, Sorted};
use table::table;

#[derive(Debug, Serialize)]
pub struct Report {
    pub base: String,
    pub latency: Vec<Row<rows::Times>>,
    pub counts: Vec<Row<rows::Amounts>>,
    pub memory: Vec<Row<rows::Amounts>>,
    pub growth: Vec<Row<growth::Grows>>,
    /// Warnings about the rows.
    pub remarks: Vec<String>,
}

pub fn merge(files: &[RunFile], base: &str) -> Report {
    let mut sorted = Sorted::default();
    files.iter().for_each(|file| sorted.add(file));
    Report {
        base: base.to_string(),
        latency: rows::times(&sorted, base),
        counts: rows::amounts(&sorted, base, rows::instructions),
        memory: rows::amounts(&sorted, base, rows::bytes),
        growth: growth::rows(&sorted, base),
        remarks: remarks(files, base),
    }
}

fn remarks(files: &[RunFile], base: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut facts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, fact) in files.iter().flat_map(|file| &file.environment) {
        facts.entry(name).or_default().insert(fact);
    }
    for (name, facts) in facts.into_iter().filter(|(_, facts)| facts.len() > 1) {
        let list: Vec<&str> = facts.into_iter().collect();
        remarks.push(format!("the results differ in {name}: {}", list.join(" / ")));
    }
    if !files.iter().any(|f| f.driver == base) {
        remarks.push(format!("no result of {base}, so there are no ratios"));
    }
    remarks
}

/// The whole report as text.
pub fn render(report: &Report) -> String {
    let base = &report.base;
    let growth = "Guest instructions of each, the fewest and the most of them, and how all grow";
    let tables = [
        table("Microseconds", &report.latency, table::TIMES, base),
        table("Guest instructions", &report.counts, table::AMOUNTS, base),
        table("Bytes of kernel memory", &report.memory, table::AMOUNTS, base),
        table(growth, &report.growth, table::GROWS, base),
    ];
    let remarks: Vec<String> = report.remarks.iter().map(|remark| format!("note: {remark}")).collect();
    let parts = tables.into_iter().flatten().chain((!remarks.is_empty()).then(|| remarks.join("\n")));
    parts.collect::<Vec<_>>().join("\n\n") + "\n"
}
