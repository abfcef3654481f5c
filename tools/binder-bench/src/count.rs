// SPDX-License-Identifier: GPL-2.0
//! Exact instructions, for a guest whose clock counts instructions.
//!
//! A window of `n` calls costs `a + n·b` instructions: `a` is the price of reading the clock and of the first, colder
//! call, `b` is the result. Two lengths of window give `b` without `a`. A timer interrupt or deferred work of the
//! kernel falls into a window now and then. Windows are shorter than a tick, and the mean leaves out the highest
//! quarter of them, so it hardly contains such work. If both sides run at once, as with oneway calls, windows differ by
//! how often the sides take turns, and the mean is that of the mixture.
//!
//! Several clients start together, and the clock measures the slowest one. That is no count of instructions: a plugin
//! of QEMU counts those of all clients.

use crate::error::{Error, Result};
use crate::marks::{self, mark};
use crate::result::{Cell, Count, Measured};
use crate::stage::{Point, Stage, TIMEOUT};
use crate::stats::undisturbed_mean;
use crate::workers::{Answer, Order};
use crate::workload::death::NODES_DIE;

const REPEATS: usize = 31;

/// Units before the first window: by then every cache and free list is as it stays.
const WARMUP: u64 = 200;

/// Measures all points, one after the other: in a deterministic guest there is nothing to average out.
pub fn measure(stage: &mut Stage, points: &[Point], windows: Option<(u64, u64)>) -> Result<Vec<Cell>> {
    points.iter().map(|point| measure_point(stage, point, windows.unwrap_or_else(|| usual(point)))).collect()
}

/// Window lengths: the long one stays below a million instructions or so, a quarter of a tick at 250 Hz. It is the
/// shortest for files that end: RCU frees many of them at once, which falls into too many longer windows.
fn usual(point: &Point) -> (u64, u64) {
    match (point.label.batch, point.label.size.max(point.label.reply)) {
        _ if point.label.case == NODES_DIE => (1, 4),
        (16.., _) | (_, 262_145..) => (1, 4),
        (2.., _) | (_, 16_385..) => (4, 16),
        _ => (10, 40),
    }
}

fn measure_point(stage: &mut Stage, point: &Point, (n1, n2): (u64, u64)) -> Result<Cell> {
    let mut window = |calls: u64| -> Result<u64> {
        let gathered = stage.gathered(&point.clients);
        for &client in &point.clients {
            stage.workers.order(client, &Order::Window { setting: point.setting, calls, gathered })?;
        }
        let ticks = |answer| match answer {
            Answer::Ticks(ticks) => Ok(ticks),
            other => Err(Error::failed(format!("a client answered {other:?} to a window"))),
        };
        let answers = stage.workers.collect(&point.clients, TIMEOUT)?;
        Ok(answers.into_iter().map(ticks).collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0))
    };
    let large = if point.label.size > 262_144 { 10 } else { 1 };
    window(WARMUP.div_ceil(u64::from(point.label.batch) * large))?;
    let (mut t1, mut t2) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        mark::<{ marks::SHORT_WINDOW }>();
        t1.push(window(n1)?);
        mark::<{ marks::LONG_WINDOW }>();
        t2.push(window(n2)?);
    }
    mark::<{ marks::WINDOWS_END }>();
    let instructions = per_call((n1, &t1), (n2, &t2)) / f64::from(point.label.batch);
    let measured = Measured::Count(Count { n1, n2, t1, t2, instructions });
    Ok(Cell { label: point.label.clone(), measured })
}

fn per_call((n1, t1): (u64, &[u64]), (n2, t2): (u64, &[u64])) -> f64 {
    let usual = |t: &[u64]| undisturbed_mean(t).expect("there are REPEATS windows");
    (usual(t2) - usual(t1)) / (n2 - n1) as f64
}
