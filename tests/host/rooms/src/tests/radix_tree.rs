// SPDX-License-Identifier: GPL-2.0

//! A radix tree next to a map: all contents of a few numbers that matter, and long random lives.

use crate::pure::radix_tree::{Pieces, RadixTree, NUMBERS};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::testing::{atomic, live_allocations};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A tree, the pieces that it does not use, and a map of what it contains: values, and whether they are
/// full.
struct Pair {
    tree: RadixTree<u64>,
    unused: Pieces<u64>,
    model: BTreeMap<usize, (u64, bool)>,
}

impl Pair {
    fn new() -> Self {
        Self {
            tree: RadixTree::new(),
            unused: Pieces::new(),
            model: BTreeMap::new(),
        }
    }

    fn insert(&mut self, number: usize, value: u64) {
        let missing = self.tree.missing(number);
        assert!(missing <= 13);
        while self.unused.len() > 0 {
            let mut others = Pieces::new();
            self.unused.give(1, &mut others);
        }
        if missing > 0 {
            let inserted = atomic(|| self.tree.insert(number, value, &mut self.unused).is_some());
            assert!(!inserted, "there are no pieces");
        }
        for _ in 0..missing {
            self.unused.allocate(GFP_KERNEL).unwrap();
        }
        let inserted = atomic(|| self.tree.insert(number, value, &mut self.unused).copied());
        assert_eq!(inserted, Some(value));
        assert_eq!(
            self.unused.len(),
            0,
            "missing pieces are those that it takes"
        );
        self.model.insert(number, (value, false));
        assert_eq!(self.tree.missing(number), 0);
    }

    fn remove(&mut self, number: usize) {
        let removed = atomic(|| self.tree.remove(number, &mut self.unused));
        assert_eq!(removed, self.model.remove(&number).map(|(value, _)| value));
    }

    fn set_full(&mut self, number: usize, is_full: bool) {
        atomic(|| self.tree.set_full(number, is_full));
        self.model.get_mut(&number).unwrap().1 = is_full;
    }

    /// Compares what there is, and what comes first from each of these on.
    fn compare(&mut self, from: &[usize]) {
        for &number in from {
            let value = self.model.get(&number).map(|(value, _)| *value);
            assert_eq!(self.tree.get(number).copied(), value);
            assert_eq!(self.tree.get_mut(number).copied(), value);
            let first = self.model.range(number..).next().map(|(number, _)| *number);
            assert_eq!(self.tree.first_from(number), first);
            let is_full = |number: &usize| matches!(self.model.get(number), Some((_, true)));
            let not_full = (number..).find(|number| !is_full(number));
            assert_eq!(Some(self.tree.first_not_full(number)), not_full);
        }
    }
}

/// Numbers at the edges of what a piece of each of three levels contains, and some between them.
const EDGES: [usize; 7] = [0, 3, 4, 63, 64, 1023, 1024];

/// Each number is absent, present or full. From all such states each number is removed, and each that is
/// present is marked as the other thing; whatever the order in which they came.
#[test]
fn all_states_of_a_few_numbers() {
    let mut probes = Vec::from(EDGES);
    probes.extend([1, 2, 5, 15, 62, 65, 255, 256, 1022, 1025, 70_000]);
    for state in 0..3_usize.pow(EDGES.len() as u32) {
        for (at, number) in EDGES.into_iter().enumerate() {
            let mut pair = Pair::new();
            for turn in 0..EDGES.len() {
                // Beginning with another one each time.
                let one = (turn + at) % EDGES.len();
                let is = state / 3_usize.pow(one as u32) % 3;
                if is > 0 {
                    pair.insert(EDGES[one], one as u64);
                    pair.set_full(EDGES[one], is == 2);
                }
            }
            pair.compare(&probes);
            if let Some((_, is_full)) = pair.model.get(&number) {
                let is_full = *is_full;
                pair.set_full(number, !is_full);
                pair.compare(&probes);
            }
            pair.remove(number);
            pair.compare(&probes);
        }
    }
}

#[derive(Clone, Debug)]
enum Plan {
    /// So many from a number on, and whether they are full.
    Insert(usize, usize, bool),
    Remove(usize, usize),
    SetFull(prop::sample::Index, bool),
}

fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        4 => (0_usize..3000, 1_usize..100, any::<bool>())
            .prop_map(|(from, count, full)| Plan::Insert(from, count, full)),
        1 => (0_usize..300_000, any::<bool>()).prop_map(|(from, full)| Plan::Insert(from, 1, full)),
        4 => (0_usize..3000, 1_usize..300).prop_map(|(from, count)| Plan::Remove(from, count)),
        4 => (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(index, full)| Plan::SetFull(index, full)),
    ]
}

fn live(plans: &[Plan]) {
    let before = live_allocations();
    let mut pair = Pair::new();
    for (serial, plan) in plans.iter().enumerate() {
        let mut probes = vec![0, 1, 4, 64, 1024, 300_000];
        match *plan {
            Plan::Insert(from, count, is_full) => {
                for number in from..from + count {
                    if !pair.model.contains_key(&number) {
                        pair.insert(number, serial as u64);
                    }
                    pair.set_full(number, is_full);
                }
                probes.extend([from.saturating_sub(1), from, from + count]);
            }
            Plan::Remove(from, count) => {
                for number in from..from + count {
                    pair.remove(number);
                }
                probes.extend([from.saturating_sub(1), from, from + count]);
            }
            Plan::SetFull(ref index, is_full) => {
                if !pair.model.is_empty() {
                    let all: Vec<_> = pair.model.keys().copied().collect();
                    pair.set_full(*index.get(&all), is_full);
                }
            }
        }
        pair.compare(&probes);
    }
    let all: Vec<_> = pair.model.keys().copied().collect();
    for number in all {
        pair.remove(number);
    }
    drop(pair.unused);
    assert_eq!(live_allocations(), before, "an empty tree keeps nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn like_a_map(plans in prop::collection::vec(plan(), 1..40)) {
        live(&plans);
    }
}

#[test]
fn the_highest_number_has_its_place_with_seven_levels() {
    let mut pair = Pair::new();
    pair.insert(NUMBERS - 1, 1);
    pair.set_full(NUMBERS - 1, true);
    assert_eq!(pair.tree.first_not_full(NUMBERS - 1), NUMBERS);
    pair.remove(NUMBERS - 1);
    assert_eq!(pair.unused.len(), 7);
    pair.insert(0, 2);
    assert_eq!(pair.tree.missing(NUMBERS - 1), 12);
    pair.insert(NUMBERS - 1, 3);
    pair.remove(NUMBERS - 1);
    assert_eq!(
        pair.unused.len(),
        12,
        "the levels that nothing needs are gone"
    );
    pair.compare(&[0, 1, NUMBERS - 1]);
}

/// What is copied when a collection grows takes longer the more there is, under the lock that guards it.
#[test]
fn items_stay_where_they_are() {
    let mut pair = Pair::new();
    pair.insert(0, 1);
    let place: *const u64 = pair.tree.get(0).unwrap();
    for number in 1..20_000 {
        pair.insert(number, 1);
    }
    assert!(core::ptr::eq(pair.tree.get(0).unwrap(), place));
}
