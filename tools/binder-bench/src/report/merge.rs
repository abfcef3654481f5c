// SPDX-License-Identifier: GPL-2.0
//! Many result files, one answer: rows that can be compared, with how sure we may be.

mod growth;
mod memory;
mod pressure;
pub mod rfc;
mod table;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::Error;
use crate::error::Result;
use crate::result::Carrier;
use crate::result::Cell;
use crate::result::Count;
use crate::result::CpuTime;
use crate::result::Growth;
use crate::result::Label;
use crate::result::Latency;
use crate::result::Measured;
use crate::result::Memory;
use crate::result::Pressure;
use crate::result::RunFile;
use crate::stats;
use crate::stats::Figure;
use crate::stats::Ratio;
use crate::yardstick;

pub use growth::GrowthRow;
pub use memory::MemoryRow;
pub use pressure::PressureRow;
pub use table::render;
pub use table::Style;

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

/// Whom a row is about. Yardsticks come after drivers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A Binder driver, by its label.
    Driver(String),
    /// Something to compare Binder with; the same in every boot, whatever driver is loaded.
    Yardstick(Carrier),
}

impl Subject {
    fn name(&self) -> &str {
        match self {
            Subject::Driver(label) => label,
            Subject::Yardstick(carrier) => carrier.name(),
        }
    }
}

/// Times of one subject at one point.
#[derive(Debug, Serialize)]
pub struct LatencyRow {
    /// What was measured; its carrier says nothing here.
    #[serde(flatten)]
    pub label: Label,
    /// Whom it is about.
    pub subject: Subject,
    /// Boots merged.
    pub boots: usize,
    /// Units merged.
    pub calls: u64,
    /// Units a second, of all clients together.
    pub calls_per_second: f64,
    /// Average.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Worst.
    pub max_ns: u64,
    /// CPU time of a unit, the average over boots.
    pub cpu: Option<CpuTime>,
    /// Compared with the base, where it was measured in the same cell.
    pub ratios: Option<Ratios>,
}

/// A row compared with the base, figure by figure; see [`stats::ratio`].
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    /// Of averages.
    pub mean: Judged,
    /// Of medians.
    pub p50: Judged,
    /// Of 99th percentiles.
    pub p99: Judged,
}

/// A ratio and what may be said of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The ratio.
    #[serde(flatten)]
    pub ratio: Ratio,
    /// A winner only where the interval allows one. Empty for yardsticks, which are no contestants.
    pub verdict: String,
}

impl Judged {
    fn new(ratio: Ratio, subject: &Subject) -> Judged {
        let verdict = match subject {
            Subject::Yardstick(_) => String::new(),
            Subject::Driver(_) if ratio.boots < stats::MIN_BOOTS => "too few boots".into(),
            Subject::Driver(_) if ratio.excludes_one() && ratio.disturbed() => "machine disturbed".into(),
            Subject::Driver(_) if !ratio.decides() => "no difference shown".into(),
            Subject::Driver(_) if ratio.point < 1.0 => format!("{:.1} % faster", (1.0 - ratio.point) * 100.0),
            Subject::Driver(_) => format!("{:.1} % slower", (ratio.point - 1.0) * 100.0),
        };
        Judged { ratio, verdict }
    }
}

/// Instructions of one subject at one point.
#[derive(Debug, Serialize)]
pub struct CountRow {
    /// What was counted; its carrier says nothing here.
    #[serde(flatten)]
    pub label: Label,
    /// Whom it is about.
    pub subject: Subject,
    /// Files merged.
    pub runs: usize,
    /// Instructions of a unit: the median over the runs.
    pub instructions: f64,
    /// The least of all runs.
    pub least: f64,
    /// The most of all runs.
    pub most: f64,
    /// Compared with the base.
    pub ratio: Option<f64>,
}

/// What one boot says of one place.
type Timed<'a> = (&'a Latency, Option<CpuTime>);

/// A measured point, by the order in which points are met first.
type Place = usize;

/// All results, sorted by what they are about.
#[derive(Default)]
struct Sorted<'a> {
    /// What each place is: a label that leaves the carrier open.
    places: Vec<Label>,
    latency: BTreeMap<(Place, Subject), Vec<Timed<'a>>>,
    counts: BTreeMap<(Place, Subject), Vec<&'a Count>>,
    memory: BTreeMap<(Place, Subject), Vec<&'a Memory>>,
    pressure: BTreeMap<(Place, Subject), Vec<&'a Pressure>>,
    growth: BTreeMap<(Place, Subject), Vec<&'a Growth>>,
    /// Yardsticks by the driver that was loaded meanwhile, to see whether the machine treated all drivers alike.
    controls: BTreeMap<(Place, Carrier, String), Vec<&'a Latency>>,
}

impl<'a> Sorted<'a> {
    fn add(&mut self, driver: &str, cell: &'a Cell) {
        let carrier = cell.label.carrier;
        let label = Label { carrier: Carrier::Binder, ..cell.label.clone() };
        let known = self.places.iter().position(|p| *p == label);
        let place = known.unwrap_or_else(|| {
            self.places.push(label);
            self.places.len() - 1
        });
        let subject = match carrier {
            Carrier::Binder => Subject::Driver(driver.to_string()),
            other => Subject::Yardstick(other),
        };
        match &cell.measured {
            Measured::Latency(latency) => {
                if carrier != Carrier::Binder {
                    self.controls.entry((place, carrier, driver.to_string())).or_default().push(latency);
                }
                self.latency.entry((place, subject)).or_default().push((latency, cell.cpu));
            }
            Measured::Count(count) => self.counts.entry((place, subject)).or_default().push(count),
            Measured::Pressure(pressure) => self.pressure.entry((place, subject)).or_default().push(pressure),
            Measured::Growth(growth) => self.growth.entry((place, subject)).or_default().push(growth),
            Measured::Memory(memory) => self.memory.entry((place, subject)).or_default().push(memory),
        }
    }

    /// What a yardstick showed while a driver was loaded: at the same place, or else for the same workload.
    fn control(&self, place: Place, carrier: Carrier, driver: &str) -> Option<&[&'a Latency]> {
        let workload = &self.places[place].workload;
        let general =
            || self.places.iter().position(|p| &p.workload == workload && p.case == yardstick::CASE);
        let at = |place| self.controls.get(&(place, carrier, driver.to_string())).map(Vec::as_slice);
        at(place).or_else(|| at(general()?))
    }
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
    let (latency, counts) = (sorted.latency.keys(), sorted.counts.keys());
    Ok(Report {
        base: base.to_string(),
        latency: latency.filter_map(|key| latency_row(key, &sorted, base)).collect(),
        counts: counts.filter_map(|key| count_row(key, &sorted, base)).collect(),
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

fn latency_row(key: &(Place, Subject), sorted: &Sorted, base: &str) -> Option<LatencyRow> {
    let (place, subject) = key;
    let runs: Vec<&Latency> = sorted.latency[key].iter().map(|(latency, _)| *latency).collect();
    let mut merged = stats::new_histogram();
    for run in &runs {
        stats::add_pairs(&mut merged, &run.histogram);
    }
    let blocks = || runs.iter().flat_map(|run| &run.blocks);
    let calls: u64 = blocks().map(|b| b.calls).sum();
    let wall: f64 = blocks().map(|b| b.wall_ns).sum();
    if calls == 0 {
        return None;
    }
    let base_key = (*place, Subject::Driver(base.to_string()));
    let ratios = sorted.latency.get(&base_key).filter(|_| key != &base_key).and_then(|base_runs| {
        let base_runs: Vec<&Latency> = base_runs.iter().map(|(latency, _)| *latency).collect();
        let of = |figure| {
            let ratio = controlled(key, compare(&runs, &base_runs, figure)?, figure, sorted, base);
            Some(Judged::new(ratio, subject))
        };
        Some(Ratios { mean: of(Figure::Mean)?, p50: of(Figure::P50)?, p99: of(Figure::P99)? })
    });
    Some(LatencyRow {
        label: sorted.places[*place].clone(),
        subject: subject.clone(),
        boots: runs.len(),
        calls,
        calls_per_second: calls as f64 / wall * 1e9,
        mean_ns: blocks().map(|b| b.mean_ns * b.calls as f64).sum::<f64>() / calls as f64,
        p50_ns: merged.value_at_quantile(0.5),
        p90_ns: merged.value_at_quantile(0.9),
        p99_ns: merged.value_at_quantile(0.99),
        p999_ns: merged.value_at_quantile(0.999),
        max_ns: blocks().map(|b| b.max_ns).fold(0.0, f64::max) as u64,
        cpu: average_cpu(sorted.latency[key].iter().filter_map(|(_, cpu)| *cpu)),
        ratios,
    })
}

fn average_cpu(times: impl Iterator<Item = CpuTime>) -> Option<CpuTime> {
    let times: Vec<CpuTime> = times.collect();
    let average = |of: fn(&CpuTime) -> f64| times.iter().map(of).sum::<f64>() / times.len() as f64;
    (!times.is_empty())
        .then(|| CpuTime { client_ns: average(|t| t.client_ns), server_ns: average(|t| t.server_ns) })
}

fn compare(runs: &[&Latency], base_runs: &[&Latency], figure: Figure) -> Option<Ratio> {
    stats::ratio(&stats::figures(runs, figure), &stats::figures(base_runs, figure), figure)
}

/// Adds what the yardsticks say about the boots of a driver and those of the base.
fn controlled(
    (place, subject): &(Place, Subject),
    ratio: Ratio,
    figure: Figure,
    sorted: &Sorted,
    base: &str,
) -> Ratio {
    let Subject::Driver(driver) = subject else { return ratio };
    let of = |carrier, driver: &str| sorted.control(*place, carrier, driver);
    let ratios = [Carrier::Pipe, Carrier::Seqpacket, Carrier::Futex, Carrier::Eventfd]
        .into_iter()
        .filter_map(|carrier| compare(of(carrier, driver)?, of(carrier, base)?, figure));
    ratios.fold(ratio, |ratio, yardstick| ratio.controlled_by(&yardstick))
}

fn count_row(key: &(Place, Subject), sorted: &Sorted, base: &str) -> Option<CountRow> {
    let (place, subject) = key;
    let values = |key| {
        let mut values: Vec<f64> = sorted.counts.get(key)?.iter().map(|c| c.instructions).collect();
        values.sort_by(f64::total_cmp);
        Some(values)
    };
    let middle = |values: &[f64]| values.get(values.len().checked_sub(1)? / 2).copied();
    let runs = values(key)?;
    let instructions = middle(&runs)?;
    let base_key = (*place, Subject::Driver(base.to_string()));
    let ratio = values(&base_key).filter(|_| key != &base_key).and_then(|b| middle(&b));
    Some(CountRow {
        label: sorted.places[*place].clone(),
        subject: subject.clone(),
        runs: runs.len(),
        instructions,
        least: *runs.first()?,
        most: *runs.last()?,
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
pub mod samples;
#[cfg(test)]
mod tests;
