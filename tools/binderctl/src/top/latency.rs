// SPDX-License-Identifier: GPL-2.0
//! How long calls take, by server and by pair of caller and server, over the last seconds.

use std::collections::HashMap;

use hdrhistogram::Histogram;

use crate::trace::calls::Call;
use crate::trace::calls::End;
use crate::trace::event::Pid;

/// Two digits of a duration are shown, and two are kept.
const DIGITS: u8 = 2;

/// Longer calls count as this long: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// As many servers and pairs are told apart.
const MOST: usize = 256;

/// Durations of calls.
#[derive(Debug, Default)]
pub struct Latencies {
    now: Window,
    before: Window,
}

#[derive(Debug, Default)]
struct Window {
    servers: HashMap<Pid, Durations>,
    pairs: HashMap<(Pid, Pid), Durations>,
}

#[derive(Debug)]
struct Durations {
    count: u64,
    histogram: Histogram<u32>,
}

/// What is said of some durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many there are.
    pub count: u64,
    /// Half of them are no longer, in nanoseconds.
    pub median: u64,
    /// 99 % of them are no longer.
    pub p99: u64,
}

impl Latencies {
    /// Takes a call that has ended. Those that fail and those without a reply have no latency.
    pub fn take(&mut self, call: &Call) {
        if call.end != End::Replied {
            return;
        }
        let (caller, server) = (call.caller.process, call.server.process);
        record(&mut self.now.servers, server, call.total());
        record(&mut self.now.pairs, (caller, server), call.total());
    }

    /// Forgets what is older than the last time this was done.
    pub fn turn(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// The calls that a process has served.
    pub fn of_server(&self, server: Pid) -> Option<Summary> {
        summary([&self.before.servers, &self.now.servers].map(|durations| durations.get(&server)))
    }

    /// The calls from one process to another.
    pub fn of_pair(&self, pair: (Pid, Pid)) -> Option<Summary> {
        summary([&self.before.pairs, &self.now.pairs].map(|durations| durations.get(&pair)))
    }

    /// All pairs of which a process is one side, those with more calls first.
    pub fn pairs_with(&self, process: Pid) -> Vec<(Pid, Pid)> {
        let all = self.before.pairs.keys().chain(self.now.pairs.keys());
        let mut pairs: Vec<_> =
            all.filter(|(one, other)| *one == process || *other == process).copied().collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.sort_by_key(|pair| std::cmp::Reverse(self.of_pair(*pair).map(|summary| summary.count)));
        pairs
    }
}

fn record<K: std::hash::Hash + Eq>(all: &mut HashMap<K, Durations>, key: K, nanoseconds: u64) {
    if all.len() >= MOST && !all.contains_key(&key) {
        return;
    }
    let durations = all.entry(key).or_insert_with(|| Durations {
        count: 0,
        histogram: Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are possible"),
    });
    durations.count += 1;
    durations.histogram.saturating_record(nanoseconds.max(1));
}

fn summary(parts: [Option<&Durations>; 2]) -> Option<Summary> {
    let mut parts = parts.into_iter().flatten();
    let first = parts.next()?;
    let (mut count, mut all) = (first.count, first.histogram.clone());
    for part in parts {
        count += part.count;
        all.add(&part.histogram).ok()?;
    }
    Some(Summary { count, median: all.value_at_quantile(0.5), p99: all.value_at_quantile(0.99) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded;

    #[test]
    fn quantiles_are_those_of_the_last_two_turns() {
        let mut latencies = Latencies::default();
        let mut replied: Vec<_> = recorded::of_c().0.into_iter().flatten().collect();
        replied.retain(|call| call.end == End::Replied && call.server.process == 90);
        replied.iter().for_each(|call| latencies.take(call));
        // 51.8 ms, 152 ms, 190 ms, 279 ms and 623 ms.
        let summary = latencies.of_server(90).unwrap();
        assert_eq!((summary.count, summary.median / 1_000_000, summary.p99 / 1_000_000), (5, 190, 624));
        assert_eq!(latencies.pairs_with(90), [(92, 90), (91, 90)]);
        assert_eq!(latencies.of_pair((91, 90)).unwrap().count, 2);
        latencies.turn();
        assert_eq!(latencies.of_server(90), Some(summary));
        latencies.turn();
        assert_eq!(latencies.of_server(90), None);
    }
}
