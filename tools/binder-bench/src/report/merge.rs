// SPDX-License-Identifier: GPL-2.0
//! Result files merged into one report.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Serialize;

use super::counts;
use super::counts::CountRow;
use super::growth;
use super::growth::GrowthRow;
use super::latency;
use super::latency::LatencyRow;
use super::memory;
use super::memory::MemoryRow;
use super::pressure;
use super::pressure::PressureRow;
use super::sorted::Sorted;
use crate::error::Error;
use crate::error::Result;
use crate::result::Measured;
use crate::result::RunFile;
use crate::stats;

/// All that the files say.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The driver that the others are compared with.
    pub base: String,
    /// Times.
    pub latency: Vec<LatencyRow>,
    /// Instructions.
    pub counts: Vec<CountRow>,
    /// Kernel memory.
    pub memory: Vec<MemoryRow>,
    /// Calls under pressure.
    pub pressure: Vec<PressureRow>,
    /// Instructions with more and more of something.
    pub growth: Vec<GrowthRow>,
    /// What a reader should know before trusting the rows.
    pub remarks: Vec<String>,
}

/// Merges files.
pub fn merge(files: &[RunFile], base: &str) -> Result<Report> {
    refuse_duplicates(files)?;
    let mut sorted = Sorted::default();
    for file in files {
        for cell in &file.cells {
            sorted.add(&file.driver, cell);
        }
    }
    Ok(Report {
        base: base.to_string(),
        latency: latency::rows(&sorted, base),
        counts: counts::rows(&sorted, base),
        memory: memory::rows(&sorted, base),
        pressure: pressure::rows(&sorted),
        growth: growth::rows(&sorted, base),
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
