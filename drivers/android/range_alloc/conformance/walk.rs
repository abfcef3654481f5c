// SPDX-License-Identifier: GPL-2.0

//! A long random sequence of steps for an allocator and its model, the same for the same seed.

use super::model::{Pair, Phase, Step, GRANULE};
use super::{within_quota, Failed, SYNC};

/// Pseudo-random numbers: Marsaglia's xorshift.
struct Numbers(u64);

impl Numbers {
    /// Returns a number below `end`, which must not be 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Takes `steps` steps in a space of `space` bytes with requests of up to `largest`.
pub(crate) fn walk<const FIRST: usize, const FEW: usize>(
    seed: u64,
    steps: usize,
    space: usize,
    largest: usize,
) -> Result<(), Failed> {
    let mut numbers = Numbers(seed);
    let mut pair = Pair::<FIRST, FEW>::new(space)?;
    for _ in 0..steps {
        let offset = numbers.below(space / GRANULE) * GRANULE;
        match numbers.below(16) {
            0..6 => {
                let kind = match numbers.below(4) {
                    0 => SYNC,
                    sender => within_quota(sender as i32, [0, 0, 20, 60][numbers.below(4)]),
                };
                pair.step(Step::Reserve(numbers.below(largest + 1), kind))?;
            }
            6..14 => {
                // The next range from there on; chance decides whether it is delivered or ended.
                let ends = numbers.below(2) == 0;
                let found = pair.model.used().find(|(at, _)| *at >= offset);
                if let Some((at, range)) = found {
                    pair.step(match range.phase {
                        Phase::Reserved if ends => Step::Abort(at),
                        Phase::Reserved => Step::Deliver(at),
                        Phase::Delivered(_) => Step::Take(at),
                        Phase::Freeing => Step::Release(at),
                    })?;
                }
            }
            14 => {
                let anything = [Step::Deliver, Step::Abort, Step::Take, Step::Release];
                pair.step(anything[numbers.below(4)](offset))?;
            }
            _ => {
                let end = numbers.below(space + 1);
                pair.compare_touches(offset, end)?;
                pair.compare_idle(offset, end, numbers.below(3) == 0)?;
            }
        }
    }
    pair.finish()
}
