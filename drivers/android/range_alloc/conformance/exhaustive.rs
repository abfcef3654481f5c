// SPDX-License-Identifier: GPL-2.0

//! All that can happen to a very small space.
//!
//! The test visits each state that the model can reach, and tries everything in each of them: every
//! size, every kind of call, and every action on every offset, whether it is valid or not.

use super::model::{Model, Pair, Phase, Step, GRANULE};
use super::{ensure_eq, Failed};
use crate::range_alloc::CallKind;
use kernel::alloc::flags::GFP_KERNEL;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};

fn steps(space: usize, kinds: &[CallKind]) -> Result<KVVec<Step>, Failed> {
    let mut steps = KVVec::new();
    for size in 1..=space / GRANULE + 1 {
        for kind in kinds {
            steps.push(Step::Reserve(size * GRANULE, *kind), GFP_KERNEL)?;
        }
    }
    for offset in (0..space).step_by(GRANULE) {
        for action in [Step::Deliver, Step::Abort, Step::Take, Step::Release] {
            steps.push(action(offset), GFP_KERNEL)?;
        }
    }
    Ok(steps)
}

/// Returns the state as a number, without the payloads, which only count the deliveries. Spaces
/// have at most 8 granules and senders are 1 to 3, so each range takes 8 of the bits.
fn essence(model: &Model) -> u128 {
    let of_range = |(offset, range): (usize, super::model::Used)| {
        let phase = match range.phase {
            Phase::Reserved => 1,
            Phase::Delivered(_) => 2,
            Phase::Freeing => 3,
        };
        let size = (range.size / GRANULE - 1) as u128;
        let sender = range.sender.unwrap_or(0) as u128;
        (size << 4 | sender << 2 | phase) << (8 * offset / GRANULE + 8)
    };
    let ranges = model.used().map(of_range).sum::<u128>();
    ranges | u128::from(model.spam_reported)
}

/// A state that was reached, and the step from an earlier state that led to it.
struct Reached {
    from: usize,
    step: Step,
}

/// Reaches a state again, from the beginning.
fn replay<const FIRST: usize, const FEW: usize>(
    space: usize,
    reached: &[Reached],
    state: usize,
) -> Result<Pair<FIRST, FEW>, Failed> {
    let mut path = KVVec::new();
    let mut at = state;
    while at > 0 {
        path.push(reached[at - 1].step, GFP_KERNEL)?;
        at = reached[at - 1].from;
    }
    let mut pair = Pair::new(space)?;
    for step in path.iter().rev() {
        pair.step(*step)?;
    }
    Ok(pair)
}

/// Visits all states, and returns their number. State 0 is the empty space.
pub(crate) fn explore<const FIRST: usize, const FEW: usize>(
    space: usize,
    kinds: &[CallKind],
) -> Result<usize, Failed> {
    let steps = steps(space, kinds)?;
    let mut seen = RBTree::new();
    let mut is_new = |essence: u128| -> Result<bool, Failed> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?.into_node(essence, ());
        Ok(seen.insert(node).is_none())
    };
    is_new(0)?;
    let mut reached = KVVec::new();
    let mut here = 0;
    while here <= reached.len() {
        let pair = replay::<FIRST, FEW>(space, &reached, here)?;
        for start in 0..space {
            pair.compare_touches(start, start + 1)?;
            pair.compare_touches(start, start + GRANULE + 1)?;
        }
        for &step in steps.iter() {
            let mut pair = replay::<FIRST, FEW>(space, &reached, here)?;
            pair.step(step)?;
            if is_new(essence(&pair.model))? {
                reached.push(Reached { from: here, step }, GFP_KERNEL)?;
            }
            pair.finish()?;
        }
        here += 1;
    }
    Ok(reached.len() + 1)
}

/// Visits all states with each backend alone, with both, and with all of the three places, and
/// checks that their number is the same.
pub(crate) fn explore_both<const FEW: usize>(
    space: usize,
    kinds: &[CallKind],
) -> Result<usize, Failed> {
    let states = explore::<0, 0>(space, kinds)?;
    ensure_eq!(explore::<FEW, FEW>(space, kinds)?, states);
    ensure_eq!(explore::<1, FEW>(space, kinds)?, states);
    ensure_eq!(explore::<16, 16>(space, kinds)?, states);
    Ok(states)
}
