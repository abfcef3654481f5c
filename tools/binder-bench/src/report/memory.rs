// SPDX-License-Identifier: GPL-2.0
//! What objects cost in kernel memory, next to the base.

use serde::Serialize;

use super::sorted::Place;
use super::sorted::Sorted;
use super::sorted::Subject;
use crate::result::Label;
use crate::result::Memory;

/// Bytes of one object with one driver.
#[derive(Debug, Serialize)]
pub struct MemoryRow {
    /// What was weighed.
    #[serde(flatten)]
    pub label: Label,
    /// With which driver.
    pub subject: Subject,
    /// Files merged.
    pub runs: usize,
    /// Bytes: the median of the runs.
    pub bytes: f64,
    /// Two standard errors of that run.
    pub plus_minus: f64,
    /// Of the bytes, those in slabs.
    pub slab: f64,
    /// Compared with the base.
    pub ratio: Option<f64>,
}

/// The rows of all objects.
pub fn rows(sorted: &Sorted, base: &str) -> Vec<MemoryRow> {
    let row = |key: &(Place, Subject)| {
        let (place, subject) = key;
        let middle = |key| {
            let mut runs = sorted.memory.get(key)?.clone();
            runs.sort_by(|one, other| one.bytes.total_cmp(&other.bytes));
            Some((runs.len(), *runs.get(runs.len().checked_sub(1)? / 2)?))
        };
        let (runs, memory): (usize, &Memory) = middle(key)?;
        let base_key = (*place, Subject::Driver(base.to_string()));
        let base = middle(&base_key).filter(|_| key != &base_key).map(|(_, memory)| memory.bytes);
        Some(MemoryRow {
            label: sorted.places[*place].clone(),
            subject: subject.clone(),
            runs,
            bytes: memory.bytes,
            plus_minus: memory.plus_minus,
            slab: memory.slab,
            ratio: base.filter(|&base| base > 0.0).map(|base| memory.bytes / base),
        })
    };
    sorted.memory.keys().filter_map(row).collect()
}
