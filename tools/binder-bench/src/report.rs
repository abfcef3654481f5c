// SPDX-License-Identifier: GPL-2.0
//! Many result files, one answer: rows that can be compared, with how sure we may be.

mod table;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::Error;
use crate::error::Result;
use crate::result::Count;
use crate::result::Latency;
use crate::result::Measured;
use crate::result::RunFile;
use crate::result::Workload;
use crate::stats;
use crate::stats::Figure;
use crate::stats::Ratio;

pub use table::render;
pub use table::Style;

/// All that the files say.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The driver that the others are compared with.
    pub base: String,
    /// Times of round trips.
    pub latency: Vec<LatencyRow>,
    /// Instructions per round trip.
    pub counts: Vec<CountRow>,
    /// What a reader should know before trusting the rows.
    pub remarks: Vec<String>,
}

/// Whom a row is about. Yardsticks come after drivers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A Binder driver, by its label.
    Driver(String),
    /// Something to compare Binder with; the same in every boot, whatever driver is loaded.
    Yardstick(Workload),
}

impl Subject {
    fn name(&self) -> &str {
        match self {
            Subject::Driver(label) => label,
            Subject::Yardstick(workload) => workload.name(),
        }
    }
}

/// Times of one subject in one cell.
#[derive(Debug, Serialize)]
pub struct LatencyRow {
    /// Payload in bytes.
    pub size: u32,
    /// Pairs at the same time.
    pub pairs: u32,
    /// Whom it is about.
    pub subject: Subject,
    /// Boots merged.
    pub boots: usize,
    /// Round trips merged.
    pub calls: u64,
    /// Round trips a second, of all pairs together.
    pub calls_per_second: f64,
    /// Average of all round trips.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Worst.
    pub max_ns: u64,
    /// Compared with the base, where it was measured in the same cell.
    pub ratios: Option<Ratios>,
}

/// A row compared with the base, figure by figure; see [`stats::ratio`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    /// Of averages.
    pub mean: Ratio,
    /// Of medians.
    pub p50: Ratio,
    /// Of 99th percentiles.
    pub p99: Ratio,
}

/// Instructions of one subject in one cell.
#[derive(Debug, Serialize)]
pub struct CountRow {
    /// Payload in bytes.
    pub size: u32,
    /// Whom it is about.
    pub subject: Subject,
    /// Files merged.
    pub runs: usize,
    /// Instructions per round trip: the median over the runs.
    pub instructions: f64,
    /// The least of all runs.
    pub least: f64,
    /// The most of all runs.
    pub most: f64,
    /// Compared with the base.
    pub ratio: Option<f64>,
}

type LatencyCells<'a> = BTreeMap<(u32, u32, Subject), Vec<&'a Latency>>;
/// Yardsticks by the driver that was loaded meanwhile, to see whether the machine treated all drivers alike.
type Controls<'a> = BTreeMap<(u32, u32, Workload, String), Vec<&'a Latency>>;
type CountCells<'a> = BTreeMap<(u32, Subject), Vec<&'a Count>>;

/// Merges files.
pub fn merge(files: &[RunFile], base: &str) -> Result<Report> {
    refuse_duplicates(files)?;
    let mut latency = LatencyCells::new();
    let mut controls = Controls::new();
    let mut counts = CountCells::new();
    for file in files {
        for cell in &file.cells {
            let subject = match cell.workload {
                Workload::Binder => Subject::Driver(file.driver.clone()),
                other => Subject::Yardstick(other),
            };
            match &cell.measured {
                Measured::Latency(l) => {
                    if let Subject::Yardstick(workload) = subject {
                        let key = (cell.size, cell.pairs, workload, file.driver.clone());
                        controls.entry(key).or_default().push(l);
                    }
                    latency.entry((cell.size, cell.pairs, subject)).or_default().push(l);
                }
                Measured::Count(c) => counts.entry((cell.size, subject)).or_default().push(c),
            }
        }
    }
    let base_subject = Subject::Driver(base.to_string());
    Ok(Report {
        base: base.to_string(),
        latency: latency
            .iter()
            .filter_map(|(key, runs)| latency_row(key, runs, &latency, &controls, base))
            .collect(),
        counts: counts
            .iter()
            .filter_map(|(key, runs)| count_row(key, runs, &counts, &base_subject))
            .collect(),
        remarks: remarks(files, base),
    })
}

/// The same boot counted twice would look like agreement. Counts repeat exactly, so there it does not matter.
fn refuse_duplicates(files: &[RunFile]) -> Result<()> {
    for (index, file) in files.iter().enumerate() {
        let text = |f: &RunFile| serde_json::to_string(f).unwrap_or_default();
        let is_latency = file.cells.iter().any(|c| matches!(c.measured, Measured::Latency(_)));
        if is_latency && files[..index].iter().any(|earlier| text(earlier) == text(file)) {
            return Err(Error::BadInput(format!(
                "result {} (driver {}) is given twice",
                index + 1,
                file.driver
            )));
        }
    }
    Ok(())
}

fn latency_row(
    key: &(u32, u32, Subject),
    runs: &[&Latency],
    all: &LatencyCells,
    controls: &Controls,
    base: &str,
) -> Option<LatencyRow> {
    let (size, pairs, subject) = key;
    let mut merged = stats::new_histogram();
    for run in runs {
        stats::add_pairs(&mut merged, &run.histogram);
    }
    let blocks = || runs.iter().flat_map(|run| &run.blocks);
    let calls: u64 = blocks().map(|b| b.calls).sum();
    let wall: f64 = blocks().map(|b| b.wall_ns).sum();
    if calls == 0 {
        return None;
    }
    let base_key = (*size, *pairs, Subject::Driver(base.to_string()));
    let ratios = all.get(&base_key).filter(|_| key != &base_key).and_then(|base_runs| {
        let of = |figure| controlled(key, compare(runs, base_runs, figure)?, figure, controls, base);
        Some(Ratios { mean: of(Figure::Mean)?, p50: of(Figure::P50)?, p99: of(Figure::P99)? })
    });
    Some(LatencyRow {
        size: *size,
        pairs: *pairs,
        subject: subject.clone(),
        boots: runs.len(),
        calls,
        calls_per_second: calls as f64 / wall * 1e9,
        mean_ns: blocks().map(|b| b.mean_ns * b.calls as f64).sum::<f64>() / calls as f64,
        p50_ns: merged.value_at_quantile(0.5),
        p99_ns: merged.value_at_quantile(0.99),
        max_ns: blocks().map(|b| b.max_ns).fold(0.0, f64::max) as u64,
        ratios,
    })
}

fn compare(runs: &[&Latency], base_runs: &[&Latency], figure: Figure) -> Option<Ratio> {
    stats::ratio(&stats::figures(runs, figure), &stats::figures(base_runs, figure), figure)
}

/// Adds what the yardsticks say about the boots of a driver and those of the base.
fn controlled(
    (size, pairs, subject): &(u32, u32, Subject),
    ratio: Ratio,
    figure: Figure,
    controls: &Controls,
    base: &str,
) -> Option<Ratio> {
    let Subject::Driver(driver) = subject else { return Some(ratio) };
    let of = |workload, driver: &str| controls.get(&(*size, *pairs, workload, driver.to_string()));
    let ratios = [Workload::Pipe, Workload::Seqpacket]
        .into_iter()
        .filter_map(|workload| compare(of(workload, driver)?, of(workload, base)?, figure));
    Some(ratios.fold(ratio, |ratio, yardstick| ratio.controlled_by(&yardstick)))
}

fn count_row(key: &(u32, Subject), runs: &[&Count], all: &CountCells, base: &Subject) -> Option<CountRow> {
    let (size, subject) = key;
    let middle = |runs: &[&Count]| {
        let mut values: Vec<f64> = runs.iter().map(|c| c.instructions).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().checked_sub(1)? / 2).copied()
    };
    let instructions = middle(runs)?;
    let ratio = all.get(&(*size, base.clone())).filter(|_| subject != base).and_then(|b| middle(b));
    Some(CountRow {
        size: *size,
        subject: subject.clone(),
        runs: runs.len(),
        instructions,
        least: runs.iter().map(|c| c.instructions).fold(f64::INFINITY, f64::min),
        most: runs.iter().map(|c| c.instructions).fold(0.0, f64::max),
        ratio: ratio.map(|base| instructions / base),
    })
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
    for file in files.iter().filter(|f| f.cells.iter().any(|c| matches!(c.measured, Measured::Latency(_)))) {
        *boots.entry(&file.driver).or_default() += 1;
    }
    for (driver, boots) in boots.iter().filter(|(_, &boots)| boots < stats::MIN_BOOTS) {
        remarks.push(format!("{driver} has {boots} boot(s); no winner is named below {}", stats::MIN_BOOTS));
    }
    remarks
}

#[cfg(test)]
mod tests;
