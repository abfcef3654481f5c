// SPDX-License-Identifier: GPL-2.0
//! The measured loops, written once for all workloads.

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::marks::{self, mark};
use crate::workers::{Answer, Control, Order, Samples, Setting};

/// Room for the samples of one block: more than a block of ten seconds has.
const ROOM: usize = 1 << 20;

/// The client's end of a workload.
pub trait Caller {
    /// True if [`Caller::prepare`] has an effect.
    const PREPARES: bool = false;

    /// From now on calls are like this.
    fn set(&mut self, _setting: Setting) -> Result<()> {
        Ok(())
    }

    /// Prepares each call; this is not measured.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// One call: as many units as the workload's batch.
    fn call(&mut self) -> Result<()>;
}

/// Runs a client in a loop: waits for an order, calls, reports.
pub fn run_client<C: Caller>(control: &mut Control, mut caller: C, clock: &Clock) -> Result<()> {
    let mut samples = Samples { ticks: Vec::with_capacity(ROOM), ..Default::default() };
    control.ready()?;
    loop {
        match control.order()? {
            Order::Block { setting, warmup, ticks } => {
                caller.set(setting)?;
                counted(&mut caller, clock, warmup)?;
                timed(&mut caller, clock, ticks, &mut samples)?;
                let answer = Answer::Samples(samples);
                control.answer(&answer)?;
                let Answer::Samples(kept) = answer else { unreachable!("it was made two lines above") };
                samples = kept;
            }
            Order::Window { setting, calls, gathered } => {
                caller.set(setting)?;
                control.gather(gathered);
                let ticks = counted(&mut caller, clock, calls)?;
                control.answer(&Answer::Ticks(ticks))?;
            }
            order => return Err(Error::failed(format!("a client got the order {order:?}"))),
        }
    }
}

/// Times each call for `ticks`, or until `samples` is full. Without preparations, one reading of the clock ends a sample and starts the next.
fn timed<C: Caller>(caller: &mut C, clock: &Clock, ticks: u64, samples: &mut Samples) -> Result<()> {
    samples.ticks.clear();
    samples.start = clock.now();
    let mut now = samples.start;
    let deadline = samples.start.saturating_add(ticks);
    while samples.ticks.len() < samples.ticks.capacity() && now < deadline {
        let mut start = now;
        if C::PREPARES {
            caller.prepare()?;
            start = clock.now();
        }
        caller.call()?;
        now = clock.now();
        samples.ticks.push(now - start);
    }
    samples.end = if C::PREPARES { samples.start + samples.ticks.iter().sum::<u64>() } else { now };
    Ok(())
}

/// Counts the ticks of `calls` calls together, with nothing else inside but what must be.
fn counted<C: Caller>(caller: &mut C, clock: &Clock, calls: u64) -> Result<u64> {
    let mut ticks = 0;
    mark::<{ marks::START }>();
    let mut start = clock.now();
    for _ in 0..calls {
        if C::PREPARES {
            mark::<{ marks::END }>();
            caller.prepare()?;
            mark::<{ marks::START }>();
            start = clock.now();
        }
        caller.call()?;
        if C::PREPARES {
            ticks += clock.now() - start;
        }
    }
    let all = clock.now() - start;
    mark::<{ marks::END }>();
    Ok(if C::PREPARES { ticks } else { all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Nothing(u64);

    impl Caller for Nothing {
        fn call(&mut self) -> Result<()> {
            self.0 += 1;
            Ok(())
        }
    }

    /// Its preparations take long, its calls do not.
    struct Prepared;

    impl Caller for Prepared {
        const PREPARES: bool = true;

        fn prepare(&mut self) -> Result<()> {
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(())
        }

        fn call(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_block_ends_at_either_limit_and_never_outgrows_its_room() {
        let clock = Clock::calibrated();
        let mut caller = Nothing::default();
        let mut samples = Samples { ticks: Vec::with_capacity(100), ..Default::default() };
        timed(&mut caller, &clock, u64::MAX, &mut samples).unwrap();
        assert_eq!((caller.0, samples.ticks.len()), (100, 100));
        assert_eq!(samples.ticks.iter().sum::<u64>(), samples.end - samples.start);
        timed(&mut caller, &clock, 0, &mut samples).unwrap();
        assert!(samples.ticks.is_empty());
        counted(&mut caller, &clock, 5).unwrap();
        assert_eq!(caller.0, 105);
    }

    #[test]
    fn preparations_are_not_measured() {
        let clock = Clock::calibrated();
        let mut samples = Samples { ticks: Vec::with_capacity(3), ..Default::default() };
        timed(&mut Prepared, &clock, u64::MAX, &mut samples).unwrap();
        assert!(clock.ns(samples.end - samples.start) < 20e6, "{samples:?}");
        assert!(clock.ns(counted(&mut Prepared, &clock, 3).unwrap()) < 20e6);
    }
}
