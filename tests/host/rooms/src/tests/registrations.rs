// SPDX-License-Identifier: GPL-2.0

//! The list of notifications that wait, next to a simple model: each is in it once.

use crate::pure::registrations::{Place, Registrations};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::sync::Arc;
use kernel::testing::atomic;
use proptest::prelude::*;

/// A request, by its number.
struct Link(usize);

const LINKS: usize = 6;

impl Link {
    /// In another order than that of their numbers, and two have the same one.
    fn node_pointer(&self) -> u64 {
        [5, 0, u64::MAX, 5, 1, 9][self.0]
    }
}

fn links() -> Vec<Arc<Link>> {
    (0..LINKS)
        .map(|number| Arc::new(Link(number), GFP_KERNEL).unwrap())
        .collect()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(usize),
    Remove(usize),
    TakeAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..LINKS).prop_map(Step::Insert),
        4 => (0..LINKS).prop_map(Step::Remove),
        1 => Just(Step::TakeAll),
    ]
}

fn wait(steps: &[Step]) {
    let all = links();
    let (mut waiting, mut model) = (Registrations::new(), Vec::<usize>::new());
    for step in steps {
        match *step {
            Step::Insert(number) if model.contains(&number) => {}
            Step::Insert(number) => {
                let place = Place::new(GFP_KERNEL).unwrap();
                atomic(|| waiting.insert(all[number].node_pointer(), &all[number], place));
                model.push(number);
            }
            Step::Remove(number) => {
                let removed = atomic(|| waiting.remove(all[number].node_pointer(), &all[number]));
                assert_eq!(removed.is_some(), model.contains(&number));
                model.retain(|other| *other != number);
            }
            Step::TakeAll => {
                drop(atomic(|| waiting.take_all()));
                model.clear();
            }
        }
        // All of them, by a walk that begins behind the last one, as somebody walks who gives up the lock.
        let (mut found, mut from) = (Vec::new(), (0, 0));
        while let Some((notification, behind)) = atomic(|| waiting.first_from(from)) {
            found.push(notification.0);
            from = behind;
        }
        assert!(found.is_sorted_by_key(|number| all[*number].node_pointer()));
        found.sort_unstable();
        let mut wanted = model.clone();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
    }
}

proptest! {
    #[test]
    fn each_waits_once(steps in prop::collection::vec(step(), 0..100)) {
        super::keeps_nothing(|| wait(&steps));
    }
}
