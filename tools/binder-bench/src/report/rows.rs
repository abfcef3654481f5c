// SPDX-License-Identifier: GPL-2.0
//! All results, sorted by point and driver; and times, instructions and memory, next to the base.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::result::{Cell, Label, Latency, Measured, RunFile};
use crate::stats::{self, Ratio};

/// The figures of one point with one driver, next to the base.
#[derive(Debug, Serialize)]
pub struct Row<T> {
    #[serde(flatten)]
    pub label: Label,
    pub driver: String,
    #[serde(flatten)]
    pub figures: T,
}

#[derive(Default)]
pub struct Sorted<'a> {
    /// The points, in the order of their first results.
    points: Vec<&'a Label>,
    /// The cells of each point and driver.
    cells: BTreeMap<(usize, &'a str), Vec<&'a Cell>>,
}

impl<'a> Sorted<'a> {
    pub fn add(&mut self, file: &'a RunFile) {
        for cell in &file.cells {
            let point = self.points.iter().position(|known| **known == cell.label).unwrap_or_else(|| {
                self.points.push(&cell.label);
                self.points.len() - 1
            });
            self.cells.entry((point, &file.driver)).or_default().push(cell);
        }
    }

    /// A row for each key with measurements of one kind: `pick` selects them, `figures` computes the row from them and
    /// from those of the base, if any.
    pub fn rows<M, T>(
        &self,
        base: &str,
        pick: impl Fn(&'a Cell) -> Option<M>,
        figures: impl Fn(&[M], &[M]) -> Option<T>,
    ) -> Vec<Row<T>> {
        let row = |&(point, driver): &(usize, &'a str)| {
            let of = |driver| -> Vec<M> {
                self.cells.get(&(point, driver)).into_iter().flatten().filter_map(|cell| pick(cell)).collect()
            };
            let (seen, of_base) = (of(driver), if driver == base { Vec::new() } else { of(base) });
            let figures = if seen.is_empty() { None } else { figures(&seen, &of_base) }?;
            Some(Row { label: self.points[point].clone(), driver: driver.to_string(), figures })
        };
        self.cells.keys().filter_map(row).collect()
    }
}

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
    /// Compared with the base, where it was measured in the same cell.
    pub ratios: Option<Ratios>,
}

/// A row compared with the base; see [`stats::ratio`].
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    pub p50: Judged,
}

#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub ratio: Ratio,
    /// A winner only where the interval allows one.
    pub verdict: String,
}

impl Judged {
    fn new(ratio: Ratio) -> Judged {
        let verdict = match ratio.point {
            _ if ratio.boots < stats::MIN_BOOTS => "too few boots".into(),
            _ if !ratio.decides() => "no difference shown".into(),
            point if point < 1.0 => format!("{:.1} % faster", (1.0 - point) * 100.0),
            point => format!("{:.1} % slower", (point - 1.0) * 100.0),
        };
        Judged { ratio, verdict }
    }
}

pub fn times(sorted: &Sorted, base: &str) -> Vec<Row<Times>> {
    sorted.rows(base, latency, |runs, of_base| {
        let mut merged = stats::new_histogram();
        for run in runs {
            stats::add_pairs(&mut merged, &run.histogram);
        }
        let blocks = || runs.iter().flat_map(|run| &run.blocks);
        let calls: u64 = blocks().map(|b| b.calls).sum();
        let wall: f64 = blocks().map(|b| b.wall_ns).sum();
        let ratios = stats::ratio(&stats::medians(runs), &stats::medians(of_base))
            .map(|ratio| Ratios { p50: Judged::new(ratio) });
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
            ratios,
        })
    })
}

fn latency(cell: &Cell) -> Option<&Latency> {
    let Measured::Latency(latency) = &cell.measured else { return None };
    Some(latency)
}

/// Instructions, or bytes of kernel memory.
#[derive(Debug, Serialize)]
pub struct Amounts {
    pub runs: usize,
    /// The cost of one: the middle run.
    pub amount: f64,
    /// The least of all runs, and the most; of bytes less and more what they may be wrong by.
    pub least: f64,
    pub most: f64,
    pub ratio: Option<f64>,
}

/// Rows of what `pick` finds: an amount, and what it may be wrong by.
pub fn amounts(sorted: &Sorted, base: &str, pick: fn(&Measured) -> Option<(f64, f64)>) -> Vec<Row<Amounts>> {
    let middle = |runs: &[(f64, f64)]| {
        let mut amounts: Vec<f64> = runs.iter().map(|run| run.0).collect();
        amounts.sort_by(f64::total_cmp);
        Some(amounts[amounts.len().checked_sub(1)? / 2])
    };
    sorted.rows(
        base,
        |cell| pick(&cell.measured),
        |runs, of_base| {
            let amount = middle(runs)?;
            Some(Amounts {
                runs: runs.len(),
                amount,
                least: runs.iter().map(|run| run.0 - run.1).fold(f64::INFINITY, f64::min),
                most: runs.iter().map(|run| run.0 + run.1).fold(f64::NEG_INFINITY, f64::max),
                ratio: middle(of_base).filter(|&base| base > 0.0).map(|base| amount / base),
            })
        },
    )
}

pub fn instructions(measured: &Measured) -> Option<(f64, f64)> {
    let Measured::Count(count) = measured else { return None };
    Some((count.instructions, 0.0))
}

pub fn bytes(measured: &Measured) -> Option<(f64, f64)> {
    let Measured::Memory(memory) = measured else { return None };
    Some((memory.bytes, memory.plus_minus))
}
