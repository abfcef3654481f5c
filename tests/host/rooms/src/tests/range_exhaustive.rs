// SPDX-License-Identifier: GPL-2.0

//! All that can happen to a very small space.
//!
//! Each state that the model can reach is visited, and from each everything is tried: every size,
//! every kind of call, and every action on every offset, whether it makes sense or not.

use super::range_model::{Model, Pair, Phase, Step};
use crate::range_alloc::CallKind;
use std::collections::{BTreeSet, VecDeque};

const GRANULE: usize = 8;

fn steps(space: usize, kinds: &[CallKind]) -> Vec<Step> {
    let mut steps = vec![Step::TakeAny];
    for size in 1..=space / GRANULE + 1 {
        steps.extend(
            kinds
                .iter()
                .map(|kind| Step::Reserve(size * GRANULE, *kind)),
        );
    }
    for at in 0..space / GRANULE {
        let offset = at * GRANULE;
        steps.push(Step::Deliver(offset));
        steps.push(Step::Abort(offset));
        steps.push(Step::Take(offset));
        steps.push(Step::Release(offset));
    }
    steps
}

/// The state without the payloads, which only number the deliveries.
fn essence(model: &Model) -> Model {
    let mut essence = model.clone();
    for range in essence.used.values_mut() {
        if let Phase::Delivered(payload) = &mut range.phase {
            *payload = 0;
        }
    }
    essence
}

fn replay<const FEW: usize>(space: usize, path: &[Step]) -> Pair<FEW> {
    let mut pair = Pair::new(space);
    for step in path {
        pair.step(*step);
    }
    pair
}

/// Gives how many states there are.
fn explore<const FEW: usize>(space: usize, kinds: &[CallKind]) -> usize {
    let steps = steps(space, kinds);
    let mut seen = BTreeSet::from([Model::new(space)]);
    let mut open = VecDeque::from([Vec::new()]);
    while let Some(path) = open.pop_front() {
        let here = replay::<FEW>(space, &path);
        for start in 0..space {
            here.compare_touches(start, start + 1);
            here.compare_touches(start, start + GRANULE + 1);
        }
        for step in &steps {
            let mut pair = replay::<FEW>(space, &path);
            pair.step(*step);
            if seen.insert(essence(&pair.model)) {
                let mut path = path.clone();
                path.push(*step);
                open.push_back(path);
            }
            pair.finish();
        }
    }
    seen.len()
}

const SYNC: CallKind = CallKind::Sync;
const ONE: CallKind = CallKind::Oneway { sender: 1 };
const TWO: CallKind = CallKind::Oneway { sender: 2 };

#[test]
fn four_granules_two_senders() {
    let states = explore::<0>(4 * GRANULE, &[SYNC, ONE, TWO]);
    assert_eq!(states, explore::<2>(4 * GRANULE, &[SYNC, ONE, TWO]));
    assert_eq!(states, explore::<16>(4 * GRANULE, &[SYNC, ONE, TWO]));
    assert!(
        states > 1000,
        "{states} states are too few to mean anything"
    );
}

#[test]
fn five_granules_without_oneway() {
    let states = explore::<0>(5 * GRANULE, &[SYNC]);
    assert_eq!(states, explore::<3>(5 * GRANULE, &[SYNC]));
    assert_eq!(states, explore::<16>(5 * GRANULE, &[SYNC]));
    assert!(
        states > 1000,
        "{states} states are too few to mean anything"
    );
}
