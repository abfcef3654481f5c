// SPDX-License-Identifier: GPL-2.0
//! The measured loops, written once for all workloads.

use crate::clock::Clock;
use crate::error::Result;

/// The client's end of some way to call a server and wait for its answer.
pub trait Caller {
    /// From now on requests carry so many bytes.
    fn set_size(&mut self, size: u32);

    /// One round trip.
    fn call(&mut self) -> Result<()>;
}

/// What a client saw in one block.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Samples {
    /// Clock at the first start.
    pub start: u64,
    /// Clock at the last end.
    pub end: u64,
    /// Ticks of each round trip.
    pub ticks: Vec<u64>,
}

/// When a block ends: whichever comes first.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Limit {
    /// After so many round trips.
    pub calls: u64,
    /// After so many ticks.
    pub ticks: u64,
}

/// Times each round trip. One reading of the clock ends a sample and starts the next.
pub fn timed<C: Caller>(caller: &mut C, clock: &Clock, limit: Limit, samples: &mut Samples) -> Result<()> {
    samples.ticks.clear();
    let room = samples.ticks.capacity().min(limit.calls as usize);
    samples.start = clock.now();
    samples.end = samples.start;
    let deadline = samples.start.saturating_add(limit.ticks);
    while samples.ticks.len() < room && samples.end < deadline {
        caller.call()?;
        let now = clock.now();
        samples.ticks.push(now - samples.end);
        samples.end = now;
    }
    Ok(())
}

/// Counts the ticks of `calls` round trips together, with nothing else inside.
pub fn counted<C: Caller>(caller: &mut C, clock: &Clock, calls: u64) -> Result<u64> {
    let start = clock.now();
    for _ in 0..calls {
        caller.call()?;
    }
    Ok(clock.now() - start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Source;

    struct Nothing(u64);

    impl Caller for Nothing {
        fn set_size(&mut self, _size: u32) {}

        fn call(&mut self) -> Result<()> {
            self.0 += 1;
            Ok(())
        }
    }

    #[test]
    fn a_block_ends_at_either_limit_and_never_outgrows_its_room() {
        let clock = Clock::calibrated(Some(Source::Monotonic)).unwrap();
        let (mut caller, mut samples) =
            (Nothing(0), Samples { ticks: Vec::with_capacity(100), ..Default::default() });
        timed(&mut caller, &clock, Limit { calls: 7, ticks: u64::MAX }, &mut samples).unwrap();
        assert_eq!((caller.0, samples.ticks.len()), (7, 7));
        assert_eq!(samples.ticks.iter().sum::<u64>(), samples.end - samples.start);
        timed(&mut caller, &clock, Limit { calls: 1_000_000, ticks: u64::MAX }, &mut samples).unwrap();
        assert_eq!(samples.ticks.len(), 100);
        timed(&mut caller, &clock, Limit { calls: 100, ticks: 0 }, &mut samples).unwrap();
        assert!(samples.ticks.is_empty());
        counted(&mut caller, &clock, 5).unwrap();
        assert_eq!(caller.0, 112);
    }
}
