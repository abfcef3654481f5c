// SPDX-License-Identifier: GPL-2.0
//! Time: all points of a workload in short blocks that take turns.
//!
//! What a machine does to a measurement (another load, a warmer CPU, a timer) comes and goes. In short blocks
//! that take turns it meets all points alike, and a block is the unit that the report resamples.

use std::io::IsTerminal;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::caller::ROOM;
use crate::cli::Common;
use crate::clock::Clock;
use crate::error::Error;
use crate::error::Result;
use crate::order::Answer;
use crate::order::Limit;
use crate::order::Order;
use crate::order::Samples;
use crate::result::Block;
use crate::result::Cell;
use crate::result::CpuTime;
use crate::result::Latency;
use crate::result::Measured;
use crate::result::Ran;
use crate::stage::Point;
use crate::stage::Stage;
use crate::stage::TIMEOUT;
use crate::stats;

/// Calls at the start of each block that only warm caches.
const WARMUP: u64 = 32;

/// Any fixed number: each run visits the points in the same shuffled orders.
const SEED: u64 = 0x5eed;

/// What has been seen of a point.
struct Seen {
    blocks: Vec<Block>,
    histogram: Histogram<u64>,
    /// CPU time in all, and units behind it, of the clients and of the servers.
    client: Option<(u64, u64)>,
    server: (u64, u64),
    ran: Ran,
}

/// Measures all points.
pub fn measure(stage: &mut Stage, points: &[Point], common: &Common) -> Result<Vec<Cell>> {
    let (rounds, limit) = rounds(common, &stage.clock);
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut seen: Vec<Seen> = points.iter().map(|_| Seen::new()).collect();
    let mut order: Vec<usize> = (0..points.len()).collect();
    // Round 0 is for training: page tables, slabs, the pages of receive spaces.
    for round in 0..=rounds {
        rng.shuffle(&mut order);
        for (done, &index) in order.iter().enumerate() {
            let point = &points[index];
            progress(common, point, (round, rounds), (done, points.len()));
            let block = run_block(stage, point, limit)?;
            if round > 0 {
                seen[index].add(&block, point, &stage.clock);
                stage.seen_on(&point.clients, &mut seen[index].ran.client);
                stage.seen_on(&point.servers, &mut seen[index].ran.server);
            }
        }
    }
    clear_progress(common);
    Ok(points.iter().zip(seen).map(|(point, seen)| seen.into_cell(point)).collect())
}

fn rounds(common: &Common, clock: &Clock) -> (u64, Limit) {
    let block = Duration::from_millis(common.conditions.block_ms);
    match common.iterations {
        Some(calls) => {
            let rounds = calls.div_ceil(1000).clamp(1, 20);
            (rounds, Limit { calls: calls.div_ceil(rounds), ticks: u64::MAX })
        }
        None => {
            let rounds = (common.seconds / block.as_secs_f64()).ceil().max(1.0) as u64;
            (rounds, Limit { calls: ROOM as u64, ticks: clock.ticks(block) })
        }
    }
}

/// What the clients and servers of a point did in one block.
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
        other => Err(Error::Protocol(format!("a client answered {other:?} to a block"))),
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

fn progress(common: &Common, point: &Point, (round, rounds): (u64, u64), (done, points): (usize, usize)) {
    if common.run.quiet || !std::io::stderr().is_terminal() {
        return;
    }
    let share = (round as f64 * points as f64 + done as f64) / ((rounds + 1) as f64 * points as f64);
    eprint!("\r\x1b[K{}: {} {:.0} %", common.run.driver, point.label.title(), share * 100.0);
}

fn clear_progress(common: &Common) {
    if !common.run.quiet && std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Source;
    use crate::result::Label;

    #[test]
    fn a_block_of_batches_is_summed_up_by_unit() {
        let clock = Clock::calibrated(Some(Source::Monotonic)).unwrap();
        let mut label = Label::new("oneway", "");
        label.batch = 4;
        let point = Point::new(label);
        let client =
            |start, cpu_ns| Samples { start, end: start + 800, ticks: vec![400, 400], calls: 3, cpu_ns };
        let mut seen = Seen::new();
        seen.add(
            &Ended { clients: vec![client(0, Some(80)), client(100, Some(80))], server_ns: 240 },
            &point,
            &clock,
        );
        let cell = seen.into_cell(&point);
        let Measured::Latency(latency) = &cell.measured else { panic!("time was measured") };
        let block = latency.blocks[0];
        assert_eq!((block.calls, block.mean_ns, block.wall_ns), (16, 100.0, 900.0));
        assert_eq!(cell.cpu, Some(CpuTime { client_ns: 10.0, server_ns: 10.0 }));
    }

    #[test]
    fn cpu_time_is_missing_rather_than_wrong() {
        let clock = Clock::calibrated(Some(Source::Monotonic)).unwrap();
        let point = Point::new(Label::new("death", ""));
        let samples = Samples { start: 0, end: 10, ticks: vec![10], calls: 1, cpu_ns: None };
        let mut seen = Seen::new();
        seen.add(&Ended { clients: vec![samples], server_ns: 5 }, &point, &clock);
        assert_eq!(seen.into_cell(&point).cpu, None);
    }
}
