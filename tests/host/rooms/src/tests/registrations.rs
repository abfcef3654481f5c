// SPDX-License-Identifier: GPL-2.0

//! Lists of notifications next to simple models: what waits is there once, and of those that were told a cookie means
//! the one that was told first.

use crate::pure::registrations::{DeliveredNotifications, Place, Registrations};
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

#[derive(Clone, Copy, Debug)]
enum OwnerRef {
    Tell(usize, u64),
    Confirm(u64),
    GiveUp(usize),
}

fn told() -> impl Strategy<Value = OwnerRef> {
    prop_oneof![
        3 => (0..LINKS, 0..3u64).prop_map(|(number, cookie)| OwnerRef::Tell(number, cookie)),
        2 => (0..3u64).prop_map(OwnerRef::Confirm),
        1 => (0..LINKS).prop_map(OwnerRef::GiveUp),
    ]
}

fn tell(steps: &[OwnerRef]) {
    let all = links();
    // In the order in which they were told: who, by which cookie, under which number.
    let (mut delivered_deaths, mut model) = (
        DeliveredNotifications::new(),
        Vec::<(usize, u64, u64)>::new(),
    );
    for step in steps {
        match *step {
            OwnerRef::Tell(number, cookie) => {
                let place = Place::new(GFP_KERNEL).unwrap();
                let under = atomic(|| delivered_deaths.insert(&all[number], cookie, place));
                model.push((number, cookie, under));
            }
            OwnerRef::Confirm(cookie) => {
                let taken = atomic(|| delivered_deaths.take(cookie));
                let first = model.iter().position(|told| told.1 == cookie);
                let wanted = first.map(|at| model.remove(at).0);
                assert_eq!(taken.map(|(notification, _)| notification.0), wanted);
            }
            OwnerRef::GiveUp(number) => {
                let Some(at) = model.iter().position(|told| told.0 == number) else {
                    continue;
                };
                let (_, cookie, under) = model.remove(at);
                assert!(atomic(|| delivered_deaths.remove(cookie, under)).is_some());
                assert!(atomic(|| delivered_deaths.remove(cookie, under)).is_none());
            }
        }
    }
    drop(atomic(|| delivered_deaths.take_all()));
}

proptest! {
    #[test]
    fn each_waits_once(steps in prop::collection::vec(step(), 0..100)) {
        super::keeps_nothing(|| wait(&steps));
    }

    #[test]
    fn a_cookie_means_the_first_that_was_told(steps in prop::collection::vec(told(), 0..100)) {
        super::keeps_nothing(|| tell(&steps));
    }
}
