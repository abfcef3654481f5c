// SPDX-License-Identifier: GPL-2.0
//! All results, sorted by the point and the driver or yardstick that they are about; and times, instructions and memory, next to the
//! base and with the yardstick's figures for the machine.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::result::{Carrier, Cell, Label, Latency, Measured, RunFile};
use crate::stats::{self, Ratio};
use crate::yardstick;

/// The driver or the yardstick of a row. Yardsticks come after drivers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Driver(String),
    /// Something to compare Binder with; the same in every boot, whatever driver is loaded.
    Yardstick(Carrier),
}

impl Subject {
    pub fn name(&self) -> &str {
        match self {
            Subject::Driver(label) => label,
            Subject::Yardstick(carrier) => carrier.name(),
        }
    }
}

/// A measured point, by the order in which points are met first, and whom it is about.
pub type Key = (usize, Subject);

/// The figures of one point with one driver or yardstick, next to the base.
#[derive(Debug, Serialize)]
pub struct Row<T> {
    /// The measured point; its carrier is not used here.
    #[serde(flatten)]
    pub label: Label,
    pub subject: Subject,
    #[serde(flatten)]
    pub figures: T,
}

#[derive(Default)]
pub struct Sorted<'a> {
    /// The points: labels without the carrier.
    points: Vec<Label>,
    /// Cells with the driver that was loaded.
    cells: BTreeMap<Key, Vec<(&'a str, &'a Cell)>>,
}

impl<'a> Sorted<'a> {
    pub fn add(&mut self, file: &'a RunFile) {
        for cell in &file.cells {
            let carrier = cell.label.carrier;
            let label = Label { carrier: Carrier::Binder, ..cell.label.clone() };
            let point = self.points.iter().position(|known| *known == label).unwrap_or_else(|| {
                self.points.push(label);
                self.points.len() - 1
            });
            let subject = match carrier {
                Carrier::Binder => Subject::Driver(file.driver.clone()),
                yardstick => Subject::Yardstick(yardstick),
            };
            self.cells.entry((point, subject)).or_default().push((&file.driver, cell));
        }
    }

    /// A row for each key with measurements of one kind: `pick` selects them, `figures` computes the row from them and
    /// from those of the base, if any.
    pub fn rows<M, T>(
        &self,
        base: &str,
        pick: impl Fn(&'a Cell) -> Option<M>,
        figures: impl Fn(&Key, &[M], &[M]) -> Option<T>,
    ) -> Vec<Row<T>> {
        let row = |key: &Key| {
            let base_key = (key.0, Subject::Driver(base.to_string()));
            let of = |key: &Key| -> Vec<M> {
                self.cells.get(key).into_iter().flatten().filter_map(|(_, cell)| pick(cell)).collect()
            };
            let (seen, of_base) = (of(key), if *key == base_key { Vec::new() } else { of(&base_key) });
            let figures = if seen.is_empty() { None } else { figures(key, &seen, &of_base) }?;
            Some(Row { label: self.points[key.0].clone(), subject: key.1.clone(), figures })
        };
        self.cells.keys().filter_map(row).collect()
    }

    /// The yardstick's cells while a driver was loaded: at the same point, or else for the same workload.
    pub fn control(&self, point: usize, driver: &str) -> Vec<&'a Cell> {
        let at = |point: usize| -> Vec<&'a Cell> {
            let cells =
                self.cells.get(&(point, Subject::Yardstick(Carrier::Seqpacket))).into_iter().flatten();
            cells.filter(|(loaded, _)| *loaded == driver).map(|(_, cell)| *cell).collect()
        };
        let found = at(point);
        if !found.is_empty() {
            return found;
        }
        let workload = &self.points[point].workload;
        let general = |p: &Label| &p.workload == workload && p.case == yardstick::CASE;
        self.points.iter().position(general).map(at).unwrap_or_default()
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
    sorted.rows(base, latency, |key, runs, of_base| {
        let mut merged = stats::new_histogram();
        for run in runs {
            stats::add_pairs(&mut merged, &run.histogram);
        }
        let blocks = || runs.iter().flat_map(|run| &run.blocks);
        let calls: u64 = blocks().map(|b| b.calls).sum();
        let wall: f64 = blocks().map(|b| b.wall_ns).sum();
        let ratios = compare(runs, of_base)
            .map(|ratio| Ratios { p50: Judged::new(controlled(key, ratio, sorted, base), &key.1) });
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

fn compare(runs: &[&Latency], base: &[&Latency]) -> Option<Ratio> {
    stats::ratio(&stats::medians(runs), &stats::medians(base))
}

/// Adds the yardstick's ratio for the boots of a driver and those of the base.
fn controlled((point, subject): &Key, ratio: Ratio, sorted: &Sorted, base: &str) -> Ratio {
    let Subject::Driver(driver) = subject else { return ratio };
    let of = |driver| -> Vec<&Latency> {
        sorted.control(*point, driver).into_iter().filter_map(latency).collect()
    };
    Ratio { control: compare(&of(driver), &of(base)).map(|yardstick| yardstick.point), ..ratio }
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
        |_, runs, of_base| {
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
