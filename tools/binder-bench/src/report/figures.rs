// SPDX-License-Identifier: GPL-2.0
//! Times, instructions and memory, next to the base and with what yardsticks say of the machine.

use serde::Serialize;

use super::sorted::{Key, Row, Sorted, Subject};
use crate::result::{Carrier, Cell, CpuTime, Latency, Measured, Memory};
use crate::stats::{self, Figure, Ratio};

#[derive(Debug, Serialize)]
pub struct Times {
    pub boots: usize,
    pub calls: u64,
    /// Units a second, of all clients together.
    pub calls_per_second: f64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    /// CPU time of a unit, the average over boots.
    pub cpu: Option<CpuTime>,
    /// Compared with the base, where it was measured in the same cell.
    pub ratios: Option<Ratios>,
}

/// A row compared with the base, figure by figure; see [`stats::ratio`].
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    pub mean: Judged,
    pub p50: Judged,
    pub p99: Judged,
}

#[derive(Clone, Debug, Serialize)]
pub struct Judged {
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

pub fn times(sorted: &Sorted, base: &str) -> Vec<Row<Times>> {
    sorted.rows(
        base,
        |cell| Some((latency(cell)?, cell.cpu)),
        |key, seen, of_base| {
            let runs: Vec<&Latency> = seen.iter().map(|(latency, _)| *latency).collect();
            let of_base: Vec<&Latency> = of_base.iter().map(|(latency, _)| *latency).collect();
            let mut merged = stats::new_histogram();
            for run in &runs {
                stats::add_pairs(&mut merged, &run.histogram);
            }
            let blocks = || runs.iter().flat_map(|run| &run.blocks);
            let calls: u64 = blocks().map(|b| b.calls).sum();
            let wall: f64 = blocks().map(|b| b.wall_ns).sum();
            let ratio = |figure| {
                let ratio = compare(&runs, &of_base, figure)?;
                Some(Judged::new(controlled(key, ratio, figure, sorted, base), &key.1))
            };
            let ratios = || {
                Some(Ratios {
                    mean: ratio(Figure::Mean)?,
                    p50: ratio(Figure::P50)?,
                    p99: ratio(Figure::P99)?,
                })
            };
            (calls > 0).then(|| Times {
                boots: runs.len(),
                calls,
                calls_per_second: calls as f64 / wall * 1e9,
                mean_ns: blocks().map(|b| b.mean_ns * b.calls as f64).sum::<f64>() / calls as f64,
                p50_ns: merged.value_at_quantile(0.5),
                p90_ns: merged.value_at_quantile(0.9),
                p99_ns: merged.value_at_quantile(0.99),
                p999_ns: merged.value_at_quantile(0.999),
                max_ns: blocks().map(|b| b.max_ns).fold(0.0, f64::max) as u64,
                cpu: average_cpu(seen.iter().filter_map(|(_, cpu)| *cpu).collect()),
                ratios: ratios(),
            })
        },
    )
}

fn latency(cell: &Cell) -> Option<&Latency> {
    match &cell.measured {
        Measured::Latency(latency) => Some(latency),
        _ => None,
    }
}

fn average_cpu(times: Vec<CpuTime>) -> Option<CpuTime> {
    let average = |of: fn(&CpuTime) -> f64| stats::mean(&times.iter().map(of).collect::<Vec<_>>());
    (!times.is_empty())
        .then(|| CpuTime { client_ns: average(|t| t.client_ns), server_ns: average(|t| t.server_ns) })
}

fn compare(runs: &[&Latency], base: &[&Latency], figure: Figure) -> Option<Ratio> {
    stats::ratio(&stats::figures(runs, figure), &stats::figures(base, figure), figure)
}

/// Adds what the yardsticks say about the boots of a driver and those of the base.
fn controlled((point, subject): &Key, ratio: Ratio, figure: Figure, sorted: &Sorted, base: &str) -> Ratio {
    let Subject::Driver(driver) = subject else { return ratio };
    let yardstick = |carrier| {
        let of = |driver| -> Vec<&Latency> {
            sorted.control(*point, carrier, driver).into_iter().filter_map(latency).collect()
        };
        compare(&of(driver), &of(base), figure)
    };
    let ratios = [Carrier::Pipe, Carrier::Seqpacket, Carrier::Futex].into_iter().filter_map(yardstick);
    ratios.fold(ratio, |ratio, yardstick| ratio.controlled_by(&yardstick))
}

#[derive(Debug, Serialize)]
pub struct Instructions {
    pub runs: usize,
    /// Instructions of a unit: the median over the runs.
    pub instructions: f64,
    pub least: f64,
    pub most: f64,
    pub ratio: Option<f64>,
}

pub fn instructions(sorted: &Sorted, base: &str) -> Vec<Row<Instructions>> {
    let pick = |cell: &Cell| match &cell.measured {
        Measured::Count(count) => Some(count.instructions),
        _ => None,
    };
    sorted.rows(base, pick, |_, seen, of_base| {
        let runs = ascending(seen, |run| *run);
        let instructions = *middle(&runs)?;
        Some(Instructions {
            runs: runs.len(),
            instructions,
            least: *runs.first()?,
            most: *runs.last()?,
            ratio: middle(&ascending(of_base, |run| *run)).map(|base| instructions / base),
        })
    })
}

#[derive(Debug, Serialize)]
pub struct Bytes {
    pub runs: usize,
    /// Bytes: the median of the runs.
    pub bytes: f64,
    /// Two standard errors of that run.
    pub plus_minus: f64,
    /// Of the bytes, those in slabs.
    pub slab: f64,
    pub ratio: Option<f64>,
}

pub fn memory(sorted: &Sorted, base: &str) -> Vec<Row<Bytes>> {
    sorted.rows(base, memory_of, |_, seen, of_base| {
        let runs = ascending(seen, |run| run.bytes);
        let memory = middle(&runs)?;
        let base = middle(&ascending(of_base, |run| run.bytes)).map(|memory| memory.bytes);
        Some(Bytes {
            runs: runs.len(),
            bytes: memory.bytes,
            plus_minus: memory.plus_minus,
            slab: memory.slab,
            ratio: base.filter(|&base| base > 0.0).map(|base| memory.bytes / base),
        })
    })
}

fn memory_of(cell: &Cell) -> Option<&Memory> {
    match &cell.measured {
        Measured::Memory(memory) => Some(memory),
        _ => None,
    }
}

fn ascending<M: Copy>(runs: &[M], of: fn(&M) -> f64) -> Vec<M> {
    let mut runs = runs.to_vec();
    runs.sort_by(|one, other| of(one).total_cmp(&of(other)));
    runs
}

fn middle<M>(runs: &[M]) -> Option<&M> {
    runs.get(runs.len().checked_sub(1)? / 2)
}
