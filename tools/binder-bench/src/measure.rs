// SPDX-License-Identifier: GPL-2.0
//! Time: all points of a workload in short blocks that take turns.
//!
//! Disturbances of a measurement (another load, a warmer CPU, a timer) come and go. In short blocks
//! that take turns they affect all points alike, and a block is the unit that the report resamples.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::result::{Block, Cell, Latency, Measured};
use crate::stage::{Point, Stage, TIMEOUT};
use crate::stats;
use crate::workers::{Answer, Order, Samples};

/// Calls at the start of each block that only warm caches.
const WARMUP: u64 = 32;

const BLOCK: Duration = Duration::from_millis(25);

/// Any fixed number: each run visits the points in the same shuffled orders.
const SEED: u64 = 0x5eed;

struct Seen {
    blocks: Vec<Block>,
    histogram: Histogram<u64>,
}

pub fn measure(stage: &mut Stage, points: &[Point], seconds: f64) -> Result<Vec<Cell>> {
    let rounds = (seconds / BLOCK.as_secs_f64()).ceil().max(1.0) as u64;
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut seen: Vec<Seen> = points.iter().map(|_| Seen::new()).collect();
    let mut order: Vec<usize> = (0..points.len()).collect();
    // Round 0 is for training: page tables, slabs, the pages of receive spaces.
    for round in 0..=rounds {
        rng.shuffle(&mut order);
        for &index in &order {
            let point = &points[index];
            let clients = run_block(stage, point)?;
            if round > 0 {
                seen[index].add(&clients, point, &stage.clock);
            }
        }
    }
    Ok(points.iter().zip(seen).map(|(point, seen)| seen.into_cell(point)).collect())
}

/// The samples of each client of a point in one block.
fn run_block(stage: &mut Stage, point: &Point) -> Result<Vec<Samples>> {
    let warmup = (WARMUP / u64::from(point.label.batch)).max(1);
    let ticks = stage.clock.ticks(BLOCK);
    for &client in &point.clients {
        stage.workers.order(client, &Order::Block { setting: point.setting, warmup, ticks })?;
    }
    let answers = stage.workers.collect(&point.clients, TIMEOUT)?;
    let samples = |answer| match answer {
        Answer::Samples(samples) => Ok(samples),
        other => Err(Error::failed(format!("a client answered {other:?} to a block"))),
    };
    answers.into_iter().map(samples).collect()
}

impl Seen {
    fn new() -> Seen {
        Seen { blocks: Vec::new(), histogram: stats::new_histogram() }
    }

    fn add(&mut self, clients: &[Samples], point: &Point, clock: &Clock) {
        let batch = point.label.batch;
        let (Some(start), Some(end)) =
            (clients.iter().map(|s| s.start).min(), clients.iter().map(|s| s.end).max())
        else {
            return;
        };
        let ns = |ticks: u64| (clock.ns(ticks) / f64::from(batch)).round() as u64;
        let samples: Vec<u64> = clients.iter().flat_map(|s| &s.ticks).map(|&ticks| ns(ticks)).collect();
        self.blocks.extend(stats::summarise(&samples, batch, clock.ns(end - start), &mut self.histogram));
    }

    fn into_cell(self, point: &Point) -> Cell {
        let latency = Latency { blocks: self.blocks, histogram: stats::to_pairs(&self.histogram) };
        Cell { label: point.label.clone(), measured: Measured::Latency(latency) }
    }
}
