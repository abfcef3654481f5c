// SPDX-License-Identifier: GPL-2.0
//! Calls under pressure next to quiet ones, for each driver.

use serde::Serialize;

use super::sorted::Place;
use super::sorted::Sorted;
use super::sorted::Subject;
use crate::result::Label;
use crate::result::Times;
use crate::stats;

/// What one kind of pressure did to the calls through one driver; all runs together.
#[derive(Debug, Serialize)]
pub struct PressureRow {
    /// What was measured.
    #[serde(flatten)]
    pub label: Label,
    /// With which driver.
    pub subject: Subject,
    /// Files merged.
    pub runs: usize,
    /// Whether figures are instructions, and not nanoseconds.
    pub instructions: bool,
    /// Calls of each kind that were answered.
    pub calls: u64,
    /// Calls that were refused, or answered wrongly.
    pub failed: u64,
    /// Medians of the quiet and of the squeezed.
    pub p50: [u64; 2],
    /// Their 99th percentiles.
    pub p99: [u64; 2],
    /// The worst of each.
    pub max: [u64; 2],
    /// How often memory was asked for.
    pub squeezes: u64,
    /// Bytes that the driver gave up in all.
    pub taken_back: u64,
}

/// The rows of all kinds of pressure. Instructions and times are not merged: the first file decides.
pub fn rows(sorted: &Sorted) -> Vec<PressureRow> {
    let row = |key: &(Place, Subject)| {
        let (place, subject) = key;
        let all = sorted.pressure.get(key)?;
        let instructions = all.first()?.instructions;
        let runs: Vec<_> = all.iter().filter(|run| run.instructions == instructions).collect();
        let quiet = merged(runs.iter().map(|run| &run.quiet));
        let squeezed = merged(runs.iter().map(|run| &run.squeezed));
        let both = |quantile| [quiet.0.value_at_quantile(quantile), squeezed.0.value_at_quantile(quantile)];
        Some(PressureRow {
            label: sorted.places[*place].clone(),
            subject: subject.clone(),
            runs: runs.len(),
            instructions,
            calls: quiet.0.len().min(squeezed.0.len()),
            failed: quiet.1 + squeezed.1 + runs.iter().map(|run| run.large_failed).sum::<u64>(),
            p50: both(0.5),
            p99: both(0.99),
            max: both(1.0),
            squeezes: runs.iter().map(|run| run.squeezes).sum(),
            taken_back: runs.iter().map(|run| run.taken_back).sum(),
        })
    };
    sorted.pressure.keys().filter_map(row).collect()
}

fn merged<'a>(times: impl Iterator<Item = &'a Times>) -> (hdrhistogram::Histogram<u64>, u64) {
    let mut histogram = stats::new_histogram();
    let mut failed = 0;
    for times in times {
        stats::add_pairs(&mut histogram, &times.histogram);
        failed += times.failed;
    }
    (histogram, failed)
}
