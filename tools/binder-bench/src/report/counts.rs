// SPDX-License-Identifier: GPL-2.0
//! Instructions, next to the base.

use serde::Serialize;

use super::sorted::Place;
use super::sorted::Sorted;
use super::sorted::Subject;
use crate::result::Label;

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

/// The rows of all points.
pub fn rows(sorted: &Sorted, base: &str) -> Vec<CountRow> {
    sorted.counts.keys().filter_map(|key| row(key, sorted, base)).collect()
}

fn row(key: &(Place, Subject), sorted: &Sorted, base: &str) -> Option<CountRow> {
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
