// SPDX-License-Identifier: GPL-2.0

//! Long random lives of a range allocator, next to its model.
//!
//! One suite for both ways to keep the books (lesson R05): `FEW` of 0 is always the tree, 64 is
//! always an array here, and what is between goes to and fro. `FIRST` says from when on there are books.

use super::range_conformance::{Pair, Step};
use crate::range_alloc::CallKind;
use kernel::testing::live_allocations;
use proptest::prelude::*;

/// What to do, before it is known which ranges there are.
#[derive(Clone, Debug)]
enum Plan {
    Reserve(usize, CallKind),
    /// To one of the ranges in use.
    Known(fn(usize) -> Step, prop::sample::Index),
    /// To wherever.
    Anywhere(fn(usize) -> Step, usize),
    Look(usize, usize),
    /// Is this idle? Perhaps as the first question of a round.
    Ask(usize, usize, bool),
}

fn kind() -> impl Strategy<Value = CallKind> {
    prop_oneof![
        Just(CallKind::Sync),
        // The quota may change at any time.
        (1..4, prop::sample::select(vec![0, 0, 20, 50, 100]))
            .prop_map(|(sender, quota)| CallKind::Oneway { sender, quota }),
    ]
}

fn action() -> impl Strategy<Value = fn(usize) -> Step> {
    let actions: [fn(usize) -> Step; 4] = [Step::Deliver, Step::Abort, Step::Take, Step::Release];
    prop::sample::select(actions.to_vec())
}

fn plan(space: usize, largest: usize) -> impl Strategy<Value = Plan> {
    prop_oneof![
        8 => (0..=largest, kind()).prop_map(|(size, kind)| Plan::Reserve(size, kind)),
        12 => (action(), any::<prop::sample::Index>()).prop_map(|(a, i)| Plan::Known(a, i)),
        1 => (action(), 0..=space).prop_map(|(a, offset)| Plan::Anywhere(a, offset)),
        2 => (0..=space, 0..=space).prop_map(|(start, end)| Plan::Look(start, end)),
        2 => (0..=space, 0..=space, prop::bool::weighted(0.3))
            .prop_map(|(start, end, first)| Plan::Ask(start, end, first)),
    ]
}

fn live<const FIRST: usize, const FEW: usize>(space: usize, plans: &[Plan]) {
    let before = live_allocations();
    let mut pair = Pair::<FIRST, FEW>::new(space).unwrap();
    for plan in plans {
        let outcome = match plan {
            Plan::Reserve(size, kind) => pair.step(Step::Reserve(*size, *kind)),
            Plan::Known(action, index) => {
                let known: Vec<_> = pair.model.used().map(|(offset, _)| offset).collect();
                if known.is_empty() {
                    Ok(())
                } else {
                    pair.step(action(*index.get(&known)))
                }
            }
            Plan::Anywhere(action, offset) => pair.step(action(*offset)),
            Plan::Look(start, end) => pair.compare_touches(*start, *end),
            Plan::Ask(start, end, first) => pair.compare_idle(*start, *end, *first),
        };
        outcome.unwrap();
    }
    pair.finish().unwrap();
    assert_eq!(live_allocations(), before, "descriptors leak");
}

fn all_backends(space: usize, plans: &[Plan]) {
    live::<0, 0>(space, plans);
    live::<1, 1>(space, plans);
    live::<0, 5>(space, plans);
    live::<2, 5>(space, plans);
    live::<4, 16>(space, plans);
    live::<4, 64>(space, plans);
    live::<64, 64>(space, plans);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Few large ranges: much is refused, gaps are tight.
    #[test]
    fn crowded(plans in prop::collection::vec(plan(256, 160), 1..300)) {
        all_backends(256, &plans);
    }

    /// Up to 64 ranges at once: the array's limits are passed in both directions.
    #[test]
    fn many_small(plans in prop::collection::vec(plan(512, 24), 1..600)) {
        all_backends(512, &plans);
    }

    /// A space whose size is no multiple of anything helpful.
    #[test]
    fn odd_space(space in 0usize..100, plans in prop::collection::vec(plan(100, 100), 1..60)) {
        let space = space - space % 8;
        all_backends(space, &plans);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// A real space and hundreds of ranges.
    #[test]
    fn roomy(plans in prop::collection::vec(plan(1 << 16, 600), 1000..3000)) {
        live::<0, 0>(1 << 16, &plans);
        live::<4, 16>(1 << 16, &plans);
    }
}
