// SPDX-License-Identifier: GPL-2.0
//! A handle table next to a map, in long random lives and at sizes that matter (lesson C20).

use super::*;
use crate::pure::handle_table::{HandleTable, RoomForLeaf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// As a caller does it: under the lock, and again with room for a leaf.
fn insert<R>(table: &mut HandleTable<R>, min: u32, value: R) -> u32 {
    let mut value = Some(value);
    let mut room = None;
    for _ in 0..2 {
        let inserted = atomic(|| {
            let handle = table.lowest_free(min, &mut room).unwrap()?;
            table.insert(handle, value.take()?);
            Some(handle)
        });
        match inserted {
            Some(handle) => return handle,
            None => room = Some(RoomForLeaf::new().unwrap()),
        }
    }
    panic!("room for a leaf is not enough");
}

fn remove<R>(table: &mut HandleTable<R>, handle: u32) -> Option<R> {
    let mut outgrown = None;
    atomic(|| table.remove(handle, &mut outgrown))
}

fn all(table: &HandleTable<u64>, from: u32) -> Vec<(u32, u64)> {
    let mut seen = Vec::new();
    let mut next = Some(from);
    while let Some(first) = next {
        let before = seen.len();
        next = table.visit_leaf(first, |handle, value| seen.push((handle, *value)));
        let behind = next.unwrap_or(u32::MAX);
        let leaf = &seen[before..];
        assert!(leaf.iter().all(|(handle, _)| (first..behind).contains(handle)));
    }
    seen
}

fn compare(table: &HandleTable<u64>, model: &BTreeMap<u32, u64>) {
    assert_eq!(table.len as usize, model.len());
    for from in [0, model.len() as u32] {
        let rest = model.range(from..).map(|(k, v)| (*k, *v));
        assert!(all(table, from).into_iter().eq(rest));
        let leaf = from / 64 * 64;
        let first = model.range(leaf..).next().map(|(k, _)| *k);
        assert_eq!(table.first_from(from), first);
    }
}

#[derive(Clone, Debug)]
enum Plan {
    Insert(u32),
    /// Many at once, so that leaves fill up.
    InsertMany(u32),
    RemoveKnown(prop::sample::Index),
    RemoveAnything(u32),
    /// All in a range, so that leaves become empty.
    RemoveMany(u32, u32),
    Change(prop::sample::Index),
}

fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        8 => (0u32..2).prop_map(Plan::Insert),
        1 => (0u32..64).prop_map(Plan::Insert),
        2 => (1u32..200).prop_map(Plan::InsertMany),
        8 => any::<prop::sample::Index>().prop_map(Plan::RemoveKnown),
        1 => any::<u32>().prop_map(Plan::RemoveAnything),
        1 => (0u32..600, 1u32..300).prop_map(|(from, count)| Plan::RemoveMany(from, count)),
        1 => any::<prop::sample::Index>().prop_map(Plan::Change),
    ]
}

fn lowest_free(model: &BTreeMap<u32, u64>, min: u32) -> u32 {
    (min..).find(|handle| !model.contains_key(handle)).unwrap()
}

fn live(plans: &[Plan]) {
    let mut table = HandleTable::new();
    let mut model = BTreeMap::new();
    let mut serial = 0;
    for plan in plans {
        serial += 1;
        match *plan {
            Plan::Insert(min) => {
                let wanted = lowest_free(&model, min);
                assert_eq!(insert(&mut table, min, serial), wanted);
                model.insert(wanted, serial);
            }
            Plan::InsertMany(count) => {
                for _ in 0..count {
                    let wanted = lowest_free(&model, 1);
                    assert_eq!(insert(&mut table, 1, serial), wanted);
                    model.insert(wanted, serial);
                }
            }
            Plan::RemoveKnown(ref index) => {
                if !model.is_empty() {
                    let known: Vec<_> = model.keys().copied().collect();
                    let handle = *index.get(&known);
                    assert_eq!(remove(&mut table, handle), model.remove(&handle));
                    assert_eq!(remove(&mut table, handle), None);
                    assert_eq!(table.get(handle), None);
                }
            }
            Plan::RemoveAnything(handle) => {
                assert_eq!(remove(&mut table, handle), model.remove(&handle));
            }
            Plan::RemoveMany(from, count) => {
                for handle in from..from + count {
                    assert_eq!(remove(&mut table, handle), model.remove(&handle));
                }
            }
            Plan::Change(ref index) => {
                if !model.is_empty() {
                    let known: Vec<_> = model.keys().copied().collect();
                    let handle = *index.get(&known);
                    *table.get_mut(handle).unwrap() = serial;
                    model.insert(handle, serial);
                }
            }
        }
        compare(&table, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn like_a_map(plans in prop::collection::vec(plan(), 1..200)) {
        keeps_nothing(|| live(&plans));
    }
}

#[test]
fn the_context_managers_handle_is_for_those_who_ask_for_it() {
    let mut table = HandleTable::new();
    assert_eq!(insert(&mut table, 1, "a"), 1);
    assert_eq!(insert(&mut table, 0, "manager"), 0);
    assert_eq!(insert(&mut table, 0, "b"), 2);
    assert_eq!(remove(&mut table, 0), Some("manager"));
    assert_eq!(insert(&mut table, 1, "c"), 3);
    assert_eq!(insert(&mut table, 0, "manager"), 0);
}

#[test]
fn a_closed_table_stays_closed_and_gives_its_handles_away() {
    let mut table = HandleTable::new();
    let handle = insert(&mut table, 1, 7);
    assert!(!table.is_closed);
    let mut taken = table.close();
    assert!(table.is_closed && table.len == 0);
    assert!(!taken.is_closed);
    assert_eq!(remove(&mut taken, handle), Some(7));
}

#[test]
fn handle_0_alone_does_not_make_a_leaf_full() {
    let mut table = HandleTable::new();
    let handles: Vec<_> = (0..64).map(|value| insert(&mut table, 1, value)).collect();
    assert!(handles.into_iter().eq(1..65));
    assert_eq!(insert(&mut table, 0, 64), 0);
    assert_eq!(insert(&mut table, 0, 65), 65);
}

#[test]
fn nothing_is_in_a_new_table() {
    let mut table = HandleTable::<u8>::new();
    for handle in [0, 1, 63, 64, u32::MAX] {
        assert_eq!(table.get(handle), None);
        assert_eq!(table.get_mut(handle), None);
        assert!(remove(&mut table, handle).is_none());
    }
    assert_eq!(table.first_from(0), None);
    assert_eq!(table.visit_leaf(0, |_, _| unreachable!()), None);
}

const MANY: u32 = 100_000;

#[test]
fn lesson_c20_a_hundred_thousand_handles() {
    let mut table = HandleTable::new();
    for wanted in 1..=MANY {
        assert_eq!(insert(&mut table, 1, wanted), wanted);
    }
    assert!((1..=MANY).all(|handle| table.get(handle) == Some(&handle)));

    // In a fixed order that jumps about, one goes and the lowest free comes.
    let mut free = BTreeSet::new();
    let mut at = 1u64;
    for round in 0..MANY {
        at = at * 48_271 % 0x7fff_ffff;
        let handle = (at % u64::from(MANY)) as u32 + 1;
        if let Some(value) = remove(&mut table, handle) {
            assert_eq!(value, handle);
            free.insert(handle);
        }
        if round % 3 == 0 {
            let wanted = free.pop_first().unwrap_or(MANY + 1);
            assert_eq!(insert(&mut table, 1, wanted), wanted);
        }
    }
    assert_eq!(table.len as usize + free.len(), MANY as usize);
    while let Some(wanted) = free.pop_first() {
        assert_eq!(insert(&mut table, 1, wanted), wanted);
    }

    let mut removed = 0;
    while let Some(handle) = table.first_from(removed) {
        removed += 1;
        assert_eq!(handle, removed);
        assert_eq!(remove(&mut table, handle), Some(handle));
    }
    assert_eq!(removed, MANY);
}

/// A build for tests has few enough leaves for all handles to be in use.
#[test]
fn behind_the_last_handle_there_is_none() {
    const COUNT: u32 = 640_000;
    let mut table = HandleTable::new();
    for wanted in 0..COUNT {
        assert_eq!(insert(&mut table, 0, ()), wanted);
    }
    assert!(table.lowest_free(0, &mut None).is_err());
    assert_eq!(table.first_from(0), Some(0));
    for handle in [COUNT - 1, 262_208, 262_207, 320, 319, 64, 63, 0] {
        assert_eq!(remove(&mut table, handle), Some(()));
        assert_eq!(insert(&mut table, 0, ()), handle);
    }
    for handle in [300_000, COUNT - 1] {
        assert_eq!(remove(&mut table, handle), Some(()));
    }
    for handle in [300_000, COUNT - 1] {
        assert_eq!(insert(&mut table, 0, ()), handle);
    }
}

#[test]
fn a_handle_that_comes_and_goes_at_the_edge_of_a_leaf_does_not_allocate() {
    for edge in [64, 128, 5 * 64] {
        let mut table = HandleTable::new();
        for _ in 0..edge {
            insert(&mut table, 0, ());
        }
        assert_eq!(insert(&mut table, 0, ()), edge);
        remove(&mut table, edge);
        let before = total_allocations();
        for _ in 0..100 {
            assert_eq!(insert(&mut table, 0, ()), edge);
            remove(&mut table, edge);
        }
        assert_eq!(total_allocations(), before);
    }
}

/// `make growth` counts what this comes to: at no size does a handle take a step for each of the others.
#[test]
fn what_is_in_the_table_is_not_moved_when_it_grows() {
    let mut table = HandleTable::new();
    let mut places = Vec::new();
    for handle in 0..70_000 {
        insert(&mut table, 0, handle);
        places.push(table.get(handle).unwrap() as *const u32);
    }
    assert!((0..70_000).all(|handle| core::ptr::eq(table.get(handle).unwrap(), places[handle as usize])));
}

#[test]
fn a_table_that_was_large_does_not_keep_its_entries() {
    let mut table = HandleTable::new();
    let empty = live_allocations();
    for value in 0..MANY {
        insert(&mut table, 0, value);
    }
    assert!(live_allocations() - empty > 1000);
    for handle in 1..MANY {
        remove(&mut table, handle);
    }
    // The entries of the first leaf, and idle ones.
    assert_eq!(live_allocations() - empty, 2);
    assert_eq!(table.get(0), Some(&0));
}

#[test]
fn handles_that_are_all_closed_free_no_memory_under_the_lock() {
    let mut table = HandleTable::new();
    for value in 0..3 * 64 {
        insert(&mut table, 0, value);
    }
    let full = live_allocations();
    for handle in 0..3 * 64 {
        let before = live_allocations();
        let mut outgrown = None;
        let removed = atomic(|| table.remove(handle, &mut outgrown));
        assert_eq!(live_allocations(), before);
        assert_eq!(removed, Some(handle));
    }
    // Of the entries of three leaves, one stays for the next that is needed. Two leaves had a place.
    assert_eq!(full - live_allocations(), 4);
}

#[test]
fn lesson_c11_a_failed_growth_leaves_the_table_as_it_was() {
    let before = live_allocations();
    let mut failures = 0;
    for start in [0, 64, 5 * 64, 65 * 64] {
        for allowed in 0.. {
            let value = Arc::new(());
            let mut table = HandleTable::new();
            for _ in 0..start {
                insert(&mut table, 0, value.clone());
            }
            assert_eq!(table.lowest_free(0, &mut None), Ok(None));
            fail_after(allowed);
            let result = RoomForLeaf::<Arc<()>>::new();
            let was_enough = failure_is_pending();
            assert_eq!(result.is_ok(), was_enough);
            failures += usize::from(!was_enough);
            assert_eq!(table.len as usize, start);
            drop(result);
            assert_eq!(insert(&mut table, 0, value.clone()), start as u32);
            assert_eq!(Arc::strong_count(&value), start + 2);
            drop(table);
            assert_eq!(Arc::strong_count(&value), 1);
            assert_eq!(live_allocations(), before);
            if was_enough {
                break;
            }
        }
    }
    assert!(failures > 5, "the sweep met {failures} failures");
}
