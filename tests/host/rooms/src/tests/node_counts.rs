// SPDX-License-Identifier: GPL-2.0
//! The counts of a node and its owner's notifications, enumerated.
//!
//! A model of the owner keeps the counts that it was notified of. The test tries every order of
//! handles, buffers and transactions that come and go, of notifications and of confirmations, up to
//! two of each kind at a time. After each step the owner's counts have to be right (contract NODE-4
//! to NODE-8).

use crate::pure::node_counts::{NodeCounts, Strength, Uncounted};
use std::collections::{BTreeSet, VecDeque};

/// The largest number of each kind at once.
const AT_ONCE: u32 = 2;

/// The counts that the owner was notified of and has not answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    strong: bool,
    weak: bool,
    owes_strong: bool,
    owes_weak: bool,
}

/// The users of the node, as the rest of the driver counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    weak_refs: u32,
    strong_refs: u32,
    local_strong: u32,
    local_weak: u32,
    pins: u32,
    owner: Owner,
}

#[derive(Clone, Copy)]
enum Step {
    AddRef,
    DropRef,
    /// A handle that is held weakly gets a strong count as well, and loses it again.
    Strengthen,
    Weaken,
    AddLocal(Strength),
    DropLocal(Strength),
    Pin,
    Unpin,
    Announce,
    Confirm(Strength),
}

const STEPS: [Step; 13] = [
    Step::AddRef,
    Step::DropRef,
    Step::Strengthen,
    Step::Weaken,
    Step::AddLocal(Strength::Strong),
    Step::AddLocal(Strength::Weak),
    Step::DropLocal(Strength::Strong),
    Step::DropLocal(Strength::Weak),
    Step::Pin,
    Step::Unpin,
    Step::Announce,
    Step::Confirm(Strength::Strong),
    Step::Confirm(Strength::Weak),
];

impl World {
    fn needs_strong(&self) -> bool {
        self.strong_refs + self.local_strong > 0
    }

    fn needs_weak(&self) -> bool {
        self.needs_strong() || self.weak_refs + self.local_weak + self.pins > 0
    }

    /// Returns whether the rest of the driver would do this now.
    fn allows(&self, step: Step) -> bool {
        match step {
            Step::AddRef => self.weak_refs < AT_ONCE,
            Step::DropRef => self.weak_refs > self.strong_refs,
            Step::Strengthen => self.strong_refs < self.weak_refs,
            Step::Weaken => self.strong_refs > 0,
            Step::AddLocal(Strength::Strong) => self.local_strong < AT_ONCE,
            Step::AddLocal(Strength::Weak) => self.local_weak < AT_ONCE,
            Step::DropLocal(Strength::Strong) => self.local_strong > 0,
            Step::DropLocal(Strength::Weak) => self.local_weak > 0,
            Step::Pin => self.pins < AT_ONCE,
            Step::Unpin => self.pins > 0,
            // Owners may confirm anything at any time.
            Step::Announce | Step::Confirm(_) => true,
        }
    }
}

/// Takes the step; true if the node was forgotten by it.
fn take(step: Step, counts: &mut NodeCounts, world: &mut World) -> bool {
    match step {
        Step::AddRef => {
            counts.raise(true, false).unwrap();
            world.weak_refs += 1;
        }
        Step::DropRef => {
            counts.lower(true, false);
            world.weak_refs -= 1;
        }
        Step::Strengthen => {
            counts.raise(false, true).unwrap();
            world.strong_refs += 1;
        }
        Step::Weaken => {
            counts.lower(false, true);
            world.strong_refs -= 1;
        }
        Step::AddLocal(strength) => {
            // The owner gets back its own pointer: after a release it has to be notified first.
            let (knows, is_needed) = match strength {
                Strength::Strong => (world.owner.strong, world.needs_strong()),
                Strength::Weak => (world.owner.weak, world.needs_weak()),
            };
            let added = counts.add_local(strength);
            assert_eq!(added.is_ok(), knows || is_needed, "lesson S20");
            *local(world, strength) += u32::from(added.is_ok());
        }
        Step::DropLocal(strength) => {
            counts.drop_local(strength);
            *local(world, strength) -= 1;
        }
        Step::Pin => {
            counts.pin().unwrap();
            world.pins += 1;
        }
        Step::Unpin => {
            counts.unpin();
            world.pins -= 1;
        }
        Step::Announce => return take_update(counts, world),
        Step::Confirm(strength) => {
            let owes = match strength {
                Strength::Strong => &mut world.owner.owes_strong,
                Strength::Weak => &mut world.owner.owes_weak,
            };
            assert_eq!(counts.confirm(strength), *owes);
            *owes = false;
        }
    }
    false
}

fn local(world: &mut World, strength: Strength) -> &mut u32 {
    match strength {
        Strength::Strong => &mut world.local_strong,
        Strength::Weak => &mut world.local_weak,
    }
}

fn take_update(counts: &mut NodeCounts, world: &mut World) -> bool {
    let had_update = counts.has_update();
    assert!(!(counts.is_known_to_be_held() && (had_update || counts.is_unreferenced())));
    let node_update = counts.take_update();
    let owner = &mut world.owner;
    let said_something =
        node_update.increfs || node_update.acquire || node_update.release || node_update.decrefs;
    assert_eq!(said_something, had_update);
    // In the order in which they are written (NODE-6).
    if node_update.increfs {
        assert!(!owner.weak, "a second INCREFS");
        owner.weak = true;
        owner.owes_weak = true;
    }
    if node_update.acquire {
        assert!(!owner.strong, "a second ACQUIRE");
        assert!(owner.weak, "ACQUIRE before INCREFS");
        owner.strong = true;
        owner.owes_strong = true;
    }
    if node_update.release {
        assert!(owner.strong, "RELEASE of nothing");
        assert!(!owner.owes_strong, "RELEASE overtakes ACQUIRE_DONE");
        owner.strong = false;
    }
    if node_update.decrefs {
        assert!(owner.weak, "DECREFS of nothing");
        assert!(!owner.owes_weak, "DECREFS overtakes INCREFS_DONE");
        assert!(!owner.strong, "DECREFS before RELEASE");
        owner.weak = false;
    }
    let owner = world.owner;
    assert!(!counts.has_update(), "an update is left");
    assert!(owner.strong || !world.needs_strong(), "in use, and not read");
    assert!(owner.weak || !world.needs_weak(), "named, and not read");
    assert!(!owner.strong || owner.owes_strong || world.needs_strong());
    if node_update.forget {
        assert!(!world.needs_weak(), "freed, and needed");
        assert_eq!(owner, Owner::default(), "freed, and the owner was not notified");
    }
    node_update.forget
}

fn check(counts: &NodeCounts, world: &World) {
    let owner = world.owner;
    assert_eq!(counts.owner_refs(), (owner.strong, owner.weak));
    assert_eq!(counts.has_strong(), world.needs_strong() || owner.owes_strong);
    assert_eq!(counts.has_weak(), world.needs_weak() || owner.owes_weak || owner.owes_strong);
    assert_eq!(counts.is_unreferenced(), !world.needs_weak() && owner == Owner::default());
}

/// Drops everything: the node has to be freed in the end.
fn wind_up(mut counts: NodeCounts, mut world: World) {
    let order = [
        Step::Weaken,
        Step::DropRef,
        Step::DropLocal(Strength::Strong),
        Step::DropLocal(Strength::Weak),
        Step::Unpin,
    ];
    for step in order {
        while world.allows(step) {
            take(step, &mut counts, &mut world);
        }
    }
    for _ in 0..3 {
        if counts.is_unreferenced() || take(Step::Announce, &mut counts, &mut world) {
            return;
        }
        take(Step::Confirm(Strength::Weak), &mut counts, &mut world);
        take(Step::Confirm(Strength::Strong), &mut counts, &mut world);
    }
    panic!("never freed: {counts:?}");
}

#[test]
fn every_order_of_counts_and_announcements() {
    let start = (NodeCounts::new(), World::default());
    let mut seen = BTreeSet::from([World::default()]);
    let mut open = VecDeque::from([start]);
    while let Some((counts, world)) = open.pop_front() {
        check(&counts, &world);
        wind_up(counts.clone(), world);
        for step in STEPS.into_iter().filter(|step| world.allows(*step)) {
            let (mut counts, mut world) = (counts.clone(), world);
            let is_unreferenced = take(step, &mut counts, &mut world);
            if !is_unreferenced && seen.insert(world) {
                open.push_back((counts, world));
            }
        }
    }
    assert!(seen.len() > 500, "only {} states", seen.len());
}

#[test]
fn the_context_managers_node_is_in_use_and_its_owner_never_hears_of_it() {
    let mut counts = NodeCounts::new();
    counts.become_manager().unwrap();
    assert!(counts.has_strong() && counts.has_weak() && !counts.has_update());
    counts.raise(true, true).unwrap();
    assert!(!counts.has_update());
    counts.lower(true, true);
    assert!(!counts.has_update() && !counts.is_unreferenced());
}

/// One thread sends the node, and another one has failed to.
#[test]
fn nobody_hears_of_a_node_that_is_on_its_way_because_another_one_is_not() {
    let mut counts = NodeCounts::new();
    counts.pin().unwrap();
    counts.pin().unwrap();
    counts.unpin();
    assert!(!counts.is_unreferenced() && !counts.has_update_after_fall());
    counts.raise(true, false).unwrap();
    counts.unpin();
    assert!(!counts.has_update_after_fall() && counts.has_update());
    assert!(counts.take_update().increfs);
    counts.confirm(Strength::Weak);
    counts.lower(true, false);
    assert!(counts.has_update_after_fall());
}

#[test]
fn an_orphan_lives_as_long_as_there_are_handles_on_it() {
    let mut counts = NodeCounts::new();
    counts.raise(true, true).unwrap();
    counts.add_local(Strength::Strong).unwrap();
    let _ = counts.take_update();
    counts.orphan();
    assert!(counts.has_weak() && !counts.is_unreferenced());
    assert_eq!(counts.totals(), (1, 0), "nothing of the owner's counts");
    counts.drop_local(Strength::Strong);
    counts.add_local(Strength::Weak).unwrap();
    assert_eq!(counts.totals(), (1, 0), "nor do they begin or end any more");
    for _ in 0..3 {
        counts.raise(true, true).unwrap();
        assert_eq!(counts.totals(), (2, 0));
        counts.lower(true, true);
    }
    assert_eq!(counts.totals(), (1, 0), "lesson S10");
    counts.lower(true, true);
    assert!(counts.is_unreferenced(), "its owner is not there to be notified");
}

/// A handle that goes home while the last strong count behind it is released (S20).
#[test]
fn lesson_s20_after_a_release_nobody_brings_the_node_home() {
    let mut counts = NodeCounts::new();
    counts.raise(true, true).unwrap();
    let _ = counts.take_update();
    counts.confirm(Strength::Strong);
    counts.confirm(Strength::Weak);
    counts.lower(false, true);
    // The owner has not read the release yet, and never will.
    counts.add_local(Strength::Strong).unwrap();
    assert!(!counts.has_update());
    counts.drop_local(Strength::Strong);
    assert!(counts.take_update().release);
    assert_eq!(counts.add_local(Strength::Strong), Err(Uncounted));
    assert!(!counts.has_strong(), "refused, and counted");
    // By its name it is known as long as there is a handle.
    counts.add_local(Strength::Weak).unwrap();
    counts.drop_local(Strength::Weak);
    counts.lower(true, false);
    assert!(counts.take_update().decrefs);
    assert_eq!(counts.add_local(Strength::Weak), Err(Uncounted));
}

/// At its largest each count refuses to grow, and nothing has changed then (S10).
#[test]
fn lesson_s10_counts_that_are_full_refuse() {
    type Raise = fn(&mut NodeCounts) -> Result<(), Uncounted>;
    let raises: [Raise; 6] = [
        |counts| counts.raise(true, false),
        |counts| counts.raise(true, true),
        |counts| counts.add_local(Strength::Strong),
        |counts| counts.add_local(Strength::Weak),
        |counts| counts.pin(),
        |counts| counts.become_manager(),
    ];
    for raise in raises {
        let mut counts = NodeCounts::nearly_full();
        raise(&mut counts).expect("room for one more");
        let before = format!("{counts:?}");
        assert_eq!(raise(&mut counts), Err(Uncounted));
        assert_eq!(format!("{counts:?}"), before, "refused, and counted");
        let _ = counts.totals();
    }
    let mut counts = NodeCounts::nearly_full();
    counts.raise(false, true).unwrap();
    let before = format!("{counts:?}");
    assert_eq!(counts.raise(true, true), Err(Uncounted), "one of two counts is full");
    assert_eq!(format!("{counts:?}"), before);
}
