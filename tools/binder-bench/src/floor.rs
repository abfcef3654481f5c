// SPDX-License-Identifier: GPL-2.0
//! What a call takes that no driver can save: two switches between the same two processes, and the system calls from which
//! they start. What a driver adds is the rest of its round trip.
//!
//! A round trip through Binder is three system calls. Two processes that hand over by futexes make four, so the time of one
//! that does nothing (`getppid`) is taken off theirs. What a futex itself does stays in, which is in favour of neither driver.

use serde::Serialize;

use crate::caller::Caller;
use crate::error::Result;
use crate::order::Setting;
use crate::result::Block;
use crate::stats;
use crate::stats::Middle;

/// System calls that do nothing in one of [`Nothing`]'s calls.
const SYSTEM_CALLS: u32 = 4;

/// A client that makes system calls that do nothing.
pub struct Nothing;

impl Caller for Nothing {
    fn set(&mut self, _setting: Setting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn call(&mut self) -> Result<()> {
        for _ in 0..SYSTEM_CALLS {
            std::hint::black_box(nix::unistd::getppid());
        }
        Ok(())
    }
}

/// What two drivers add to the floor.
#[derive(Debug, PartialEq, Serialize)]
pub struct Added {
    /// Microseconds of the floor, the middle of all rounds.
    pub floor_us: f64,
    /// What the base and the other driver add to it, in the same way.
    pub added_us: [f64; 2],
    /// The other driver's share next to the base's: of each round, and the middle of all.
    pub ratio: Middle,
}

/// Blocks that took turns: of both drivers, of processes that hand over by futexes, and of system calls that do nothing. None if
/// there are fewer than two rounds, or if a driver adds nothing in most of them.
pub fn added(drivers: [&[Block]; 2], handover: &[Block], nothing: &[Block]) -> Option<Added> {
    let us = |block: &Block| block.p50_ns / 1000.0;
    let floors: Vec<f64> =
        handover.iter().zip(nothing).map(|(a, b)| us(a) - us(b) / f64::from(SYSTEM_CALLS)).collect();
    let above = |blocks: &[Block]| -> Vec<f64> {
        blocks.iter().zip(&floors).map(|(block, floor)| us(block) - floor).collect()
    };
    let [base, other] = drivers.map(above);
    // A round that the machine disturbed may have any ratio; the middle one of all does not notice.
    let ratio = stats::middle_of(base.iter().zip(&other).map(|(a, b)| b / a).collect())?;
    let [base, other, floor] = [base, other, floors].map(stats::middle_of);
    let added_us = [base?.point, other?.point];
    let has_seen_all = added_us.iter().all(|&us| us > 0.0);
    has_seen_all.then_some(Added { floor_us: floor?.point, added_us, ratio })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(us: &[f64]) -> Vec<Block> {
        us.iter()
            .map(|&us| stats::summarise(&[(us * 1000.0) as u64], 1, us, &mut stats::new_histogram()).unwrap())
            .collect()
    }

    #[test]
    fn the_floor_is_taken_off_in_each_round() {
        // The machine is half as fast in the second round, and the floor with it.
        let (base, other) = (blocks(&[30.0, 60.0, 30.0]), blocks(&[25.0, 50.0, 25.0]));
        let (handover, nothing) = (blocks(&[21.0, 42.0, 21.0]), blocks(&[4.0, 8.0, 4.0]));
        let seen = added([&base, &other], &handover, &nothing).unwrap();
        // A block's quantiles have three digits.
        let is_about = |seen: f64, us: f64| (seen - us).abs() < 0.05;
        assert!(
            is_about(seen.floor_us, 20.0)
                && is_about(seen.added_us[0], 10.0)
                && is_about(seen.added_us[1], 5.0),
            "{seen:?}"
        );
        assert!(is_about(seen.ratio.low, 0.5) && is_about(seen.ratio.high, 0.5), "{seen:?}");
    }

    #[test]
    fn a_driver_that_adds_nothing_was_not_measured() {
        let (base, other) = (blocks(&[30.0, 30.0]), blocks(&[20.0, 19.0]));
        assert_eq!(added([&base, &other], &blocks(&[21.0, 21.0]), &blocks(&[4.0, 4.0])), None);
        assert_eq!(added([&base[..1], &base[..1]], &other[..1], &other[..1]), None);
    }
}
