// SPDX-License-Identifier: GPL-2.0
//! Times, next to the base and with what yardsticks say of the machine.

use serde::Serialize;

use super::sorted::Place;
use super::sorted::Sorted;
use super::sorted::Subject;
use crate::result::Carrier;
use crate::result::CpuTime;
use crate::result::Label;
use crate::result::Latency;
use crate::stats;
use crate::stats::Figure;
use crate::stats::Ratio;

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

/// The rows of all points.
pub fn rows(sorted: &Sorted, base: &str) -> Vec<LatencyRow> {
    sorted.latency.keys().filter_map(|key| row(key, sorted, base)).collect()
}

fn row(key: &(Place, Subject), sorted: &Sorted, base: &str) -> Option<LatencyRow> {
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
