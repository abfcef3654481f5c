// SPDX-License-Identifier: GPL-2.0
//! Time: all points of a workload in short blocks that take turns.
//!
//! What a machine does to a measurement (another load, a warmer CPU, a timer) comes and goes. In short blocks
//! that take turns it meets all points alike, and a block is the unit that the report resamples.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::caller::ROOM;
use crate::cli::Common;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::result::{Block, Cell, CpuTime, Latency, Measured, Ran};
use crate::stage::{Point, Stage, TIMEOUT};
use crate::stats;
use crate::workers::{Answer, Limit, Order, Samples};

/// Calls at the start of each block that only warm caches.
const WARMUP: u64 = 32;

const BLOCK: Duration = Duration::from_millis(25);

/// Any fixed number: each run visits the points in the same shuffled orders.
const SEED: u64 = 0x5eed;

struct Seen {
    blocks: Vec<Block>,
    histogram: Histogram<u64>,
    /// CPU time in all, and units behind it, of the clients and of the servers.
    client: Option<(u64, u64)>,
    server: (u64, u64),
    ran: Ran,
}

pub fn measure(stage: &mut Stage, points: &[Point], common: &Common) -> Result<Vec<Cell>> {
    let (rounds, limit) = rounds(common, &stage.clock);
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut seen: Vec<Seen> = points.iter().map(|_| Seen::new()).collect();
    let mut order: Vec<usize> = (0..points.len()).collect();
    // Round 0 is for training: page tables, slabs, the pages of receive spaces.
    for round in 0..=rounds {
        rng.shuffle(&mut order);
        for &index in &order {
            let point = &points[index];
            let block = run_block(stage, point, limit)?;
            if round > 0 {
                seen[index].add(&block, point, &stage.clock);
                stage.seen_on(&point.clients, &mut seen[index].ran.client);
                stage.seen_on(&point.servers, &mut seen[index].ran.server);
            }
        }
    }
    Ok(points.iter().zip(seen).map(|(point, seen)| seen.into_cell(point)).collect())
}

fn rounds(common: &Common, clock: &Clock) -> (u64, Limit) {
    match common.iterations {
        Some(calls) => {
            let rounds = calls.div_ceil(1000).clamp(1, 20);
            (rounds, Limit { calls: calls.div_ceil(rounds), ticks: u64::MAX })
        }
        None => {
            let rounds = (common.seconds / BLOCK.as_secs_f64()).ceil().max(1.0) as u64;
            (rounds, Limit { calls: ROOM as u64, ticks: clock.ticks(BLOCK) })
        }
    }
}

struct Ended {
    clients: Vec<Samples>,
    server_ns: u64,
}

fn run_block(stage: &mut Stage, point: &Point, limit: Limit) -> Result<Ended> {
    let before = stage.cpu_ns(&point.servers);
    let warmup = (WARMUP / u64::from(point.label.batch)).max(1);
    for &client in &point.clients {
        stage.workers.order(client, &Order::Block { setting: point.setting, warmup, limit })?;
    }
    let answers = stage.workers.collect(&point.clients, timeout(limit))?;
    let server_ns = stage.cpu_ns(&point.servers).saturating_sub(before);
    let samples = |answer| match answer {
        Answer::Samples(samples) => Ok(samples),
        other => Err(Error::failed(format!("a client answered {other:?} to a block"))),
    };
    Ok(Ended { clients: answers.into_iter().map(samples).collect::<Result<_>>()?, server_ns })
}

/// How long a block may take: a block without a time limit gets 100 ms for each call, many ticks.
fn timeout(limit: Limit) -> Duration {
    if limit.ticks == u64::MAX {
        TIMEOUT + Duration::from_millis(100) * u32::try_from(limit.calls).unwrap_or(u32::MAX)
    } else {
        TIMEOUT
    }
}

impl Seen {
    fn new() -> Seen {
        Seen {
            blocks: Vec::new(),
            histogram: stats::new_histogram(),
            client: Some((0, 0)),
            server: (0, 0),
            ran: Ran::default(),
        }
    }

    fn add(&mut self, ended: &Ended, point: &Point, clock: &Clock) {
        let batch = point.label.batch;
        let clients = &ended.clients;
        let all = |of: fn(&Samples) -> u64| clients.iter().map(of).sum::<u64>() * u64::from(batch);
        self.server.0 += ended.server_ns;
        self.server.1 += all(|s| s.calls);
        let cpu: Option<u64> = clients.iter().map(|s| s.cpu_ns).sum();
        self.client = self
            .client
            .zip(cpu)
            .map(|((ns, units), more)| (ns + more, units + all(|s| s.ticks.len() as u64)));
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
        let each = |(ns, units): (u64, u64)| (units > 0).then(|| ns as f64 / units as f64);
        let cpu = self.client.and_then(each).zip(each(self.server));
        let histogram = stats::to_pairs(&self.histogram);
        Cell {
            label: point.label.clone(),
            measured: Measured::Latency(Latency { blocks: self.blocks, histogram }),
            cpu: cpu.map(|(client_ns, server_ns)| CpuTime { client_ns, server_ns }),
            ran: self.ran,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Label;

    #[test]
    fn a_block_of_batches_is_summed_up_by_unit() {
        let clock = Clock::calibrated();
        let mut label = Label::new("oneway", "");
        label.batch = 4;
        let point = Point::new(label, 0, &[], &[]);
        let ns = |ns| clock.ticks(Duration::from_nanos(ns));
        let client = |start, cpu_ns| Samples {
            start: ns(start),
            end: ns(start + 800_000),
            ticks: vec![ns(400_000); 2],
            calls: 3,
            cpu_ns,
        };
        let mut seen = Seen::new();
        let clients = vec![client(0, Some(80)), client(100_000, Some(80))];
        seen.add(&Ended { clients, server_ns: 240 }, &point, &clock);
        let cell = seen.into_cell(&point);
        let Measured::Latency(latency) = &cell.measured else { panic!("time was measured") };
        let block = latency.blocks[0];
        assert_eq!((block.calls, block.mean_ns.round()), (16, 100_000.0));
        assert!((block.wall_ns - 900_000.0).abs() < 2.0, "{block:?}");
        assert_eq!(cell.cpu, Some(CpuTime { client_ns: 10.0, server_ns: 10.0 }));
    }

    #[test]
    fn cpu_time_is_missing_rather_than_wrong() {
        let point = Point::new(Label::new("death", ""), 0, &[], &[]);
        let samples = Samples { start: 0, end: 10, ticks: vec![10], calls: 1, cpu_ns: None };
        let mut seen = Seen::new();
        seen.add(&Ended { clients: vec![samples], server_ns: 5 }, &point, &Clock::calibrated());
        assert_eq!(seen.into_cell(&point).cpu, None);
    }
}
