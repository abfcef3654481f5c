// SPDX-License-Identifier: GPL-2.0
//! What came of the calls of a mesh: counters that all its processes share.

use crate::arena::Arena;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Steps of the histogram between one power of two and the next.
const STEPS: u64 = 8;

/// Enough for any number of nanoseconds.
const BUCKETS: usize = 64 * STEPS as usize;

/// A number that all processes change.
#[derive(Clone, Copy)]
pub struct Shared(&'static AtomicU64);

impl Shared {
    pub fn add(self, count: u64) {
        self.0.fetch_add(count, Ordering::SeqCst);
    }

    pub fn counter(self) -> &'static AtomicU64 {
        self.0
    }

    pub fn get(self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// All that is counted.
pub struct Tally {
    /// Processes that know all others.
    pub ready: Shared,
    /// Not zero once calls may begin.
    pub go: Shared,
    /// Not zero once no more are to begin.
    pub stop: Shared,
    /// Threads that have made their last call.
    pub finished: Shared,
    /// Calls that were answered.
    pub answered: Shared,
    /// Calls that were not, because they were refused.
    pub sync_refused: Shared,
    /// Oneway calls that the driver took.
    pub accepted: Shared,
    /// Those that it did not take.
    pub oneway_refused: Shared,
    /// Oneway calls that have arrived.
    pub delivered: Shared,
    /// Not zero once all log files are read meanwhile.
    pub is_read: Shared,
    /// How often that was done.
    pub passes: Shared,
    /// How many answered calls took how long, before they are read and then.
    times: [Vec<Shared>; 2],
}

impl Tally {
    pub fn new(arena: &Arena) -> Self {
        let counter = || Shared(arena.counter());
        Self {
            ready: counter(),
            go: counter(),
            stop: counter(),
            finished: counter(),
            answered: counter(),
            sync_refused: counter(),
            accepted: counter(),
            oneway_refused: counter(),
            delivered: counter(),
            is_read: counter(),
            passes: counter(),
            times: [0; 2].map(|_| (0..BUCKETS).map(|_| counter()).collect()),
        }
    }

    /// A call was answered after this time.
    pub fn answered_after(&self, time: Duration) {
        self.answered.add(1);
        let times = &self.times[usize::from(self.is_read.get() != 0)];
        times[bucket(time.as_nanos().min(u64::MAX.into()) as u64)].add(1);
    }

    pub fn is_delivered(&self) -> bool {
        self.delivered.get() == self.accepted.get()
    }

    /// The time that so many of a thousand answered calls did not exceed, in microseconds: of those while log
    /// files were read, or of those before.
    fn quantile(&self, is_read: bool, per_mille: u64) -> f64 {
        let times = &self.times[usize::from(is_read)];
        let all: u64 = times.iter().map(|count| count.get()).sum();
        let wanted = (all * per_mille).div_ceil(1000);
        let mut seen = 0;
        let reached = |count: &Shared| {
            seen += count.get();
            seen >= wanted
        };
        let at = times.iter().position(reached).unwrap_or(BUCKETS - 1);
        upper_bound(at) as f64 / 1000.0
    }
}

/// What came of a load, in numbers.
#[derive(Serialize)]
pub struct Outcome {
    answered: u64,
    sync_refused: u64,
    accepted: u64,
    delivered: u64,
    oneway_refused: u64,
    /// What half of the answers did not exceed, 99 % of them, and all, in microseconds.
    p50: f64,
    p99: f64,
    most: f64,
    /// The same while all log files were read, and how often they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Read>,
}

/// What is different while all log files are read.
#[derive(Serialize)]
pub struct Read {
    passes: u64,
    p50: f64,
    p99: f64,
    /// Their 99 % by that before.
    p99_ratio: f64,
}

impl Tally {
    /// The numbers of now.
    pub fn outcome(&self) -> Outcome {
        Outcome {
            answered: self.answered.get(),
            sync_refused: self.sync_refused.get(),
            accepted: self.accepted.get(),
            delivered: self.delivered.get(),
            oneway_refused: self.oneway_refused.get(),
            p50: self.quantile(false, 500),
            p99: self.quantile(false, 990),
            most: self.quantile(false, 1000),
            read: (self.is_read.get() != 0).then(|| Read {
                passes: self.passes.get(),
                p50: self.quantile(true, 500),
                p99: self.quantile(true, 990),
                p99_ratio: self.quantile(true, 990) / self.quantile(false, 990),
            }),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { answered, sync_refused, accepted, delivered, oneway_refused, p50, p99, most, read } =
            self.outcome();
        write!(
            out,
            "{answered} calls answered, {sync_refused} refused; {delivered} oneway calls delivered of \
             {accepted} accepted, {oneway_refused} refused; an answer took at most {p50:.0} µs in half of the \
             calls, {p99:.0} µs in 99 %, {most:.0} µs in all",
        )?;
        let Some(Read { passes, p50, p99, p99_ratio }) = read else { return Ok(()) };
        write!(
            out,
            "; while all log files were read, {passes} times: {p50:.0} µs in half, {p99:.0} µs in 99 %, which is \
             {p99_ratio:.2} times as long"
        )
    }
}

/// Where a time is counted: eight buckets for each power of two.
fn bucket(time: u64) -> usize {
    let power = u64::from(time.max(STEPS).ilog2());
    let step = (time.max(STEPS) >> (power - STEPS.ilog2() as u64)) - STEPS;
    (power * STEPS + step) as usize
}

/// The longest time that is counted there.
fn upper_bound(bucket: usize) -> u64 {
    let (power, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    let shift = power.saturating_sub(STEPS.ilog2() as u64);
    ((STEPS + step + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_just_above_it() {
        for time in (8..5000).chain([u64::from(u32::MAX), 1 << 40, (1 << 62) - 1]) {
            let at = bucket(time);
            assert!(upper_bound(at) >= time, "{time}");
            assert!(upper_bound(at - 1) < time || time == 8, "{time}");
            assert!(upper_bound(at) - time <= time / STEPS, "{time}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_those_of_the_calls_that_were_counted() {
        let tally = Tally::new(&Arena::new());
        for microseconds in 1..=1000 {
            tally.answered_after(Duration::from_micros(microseconds));
        }
        for (per_mille, microseconds) in [(500, 500.0), (990, 990.0), (1000, 1000.0)] {
            let said = tally.quantile(false, per_mille);
            assert!((microseconds..microseconds * 1.13).contains(&said), "{per_mille}: {said}");
        }
    }
}
