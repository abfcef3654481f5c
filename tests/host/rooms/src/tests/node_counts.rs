// SPDX-License-Identifier: GPL-2.0

//! The counts of a node and what its owner hears of them, enumerated.
//!
//! An owner sits at the other end and believes what he is told. Every order of handles, buffers and
//! transactions coming and going, announcements being made and confirmations arriving is tried, up
//! to two of each kind at a time; after each step the owner's belief has to make sense
//! (contract NODE-4 to NODE-8).

use crate::defs::Strength;
use crate::node_counts::NodeCounts;
use std::collections::{BTreeSet, VecDeque};

/// How many of each kind there may be at once.
const AT_ONCE: u32 = 2;

/// What the owner has been told and has not answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    strong: bool,
    weak: bool,
    owes_strong: bool,
    owes_weak: bool,
}

/// Who needs the node, as the rest of the driver knows it.
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

    /// Whether the rest of the driver would do this now.
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
            // Owners may say anything at any time.
            Step::Announce | Step::Confirm(_) => true,
        }
    }
}

/// Takes the step; true if the node was forgotten by it.
fn take(step: Step, counts: &mut NodeCounts, world: &mut World) -> bool {
    match step {
        Step::AddRef => {
            counts.add_ref();
            world.weak_refs += 1;
        }
        Step::DropRef => {
            counts.drop_ref();
            world.weak_refs -= 1;
        }
        Step::Strengthen => {
            counts.add_strong_ref();
            world.strong_refs += 1;
        }
        Step::Weaken => {
            counts.drop_strong_ref();
            world.strong_refs -= 1;
        }
        Step::AddLocal(strength) => {
            counts.add_local(strength);
            *local(world, strength) += 1;
        }
        Step::DropLocal(strength) => {
            counts.drop_local(strength);
            *local(world, strength) -= 1;
        }
        Step::Pin => {
            counts.pin();
            world.pins += 1;
        }
        Step::Unpin => {
            counts.unpin();
            world.pins -= 1;
        }
        Step::Announce => return announce(counts, world),
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

fn announce(counts: &mut NodeCounts, world: &mut World) -> bool {
    let was_news = counts.is_news();
    let news = counts.announce();
    let owner = &mut world.owner;
    let said_something = news.increfs || news.acquire || news.release || news.decrefs;
    assert_eq!(said_something, was_news);
    // In the order in which they are written (NODE-6).
    if news.increfs {
        assert!(!owner.weak, "a second INCREFS");
        owner.weak = true;
        owner.owes_weak = true;
    }
    if news.acquire {
        assert!(!owner.strong, "a second ACQUIRE");
        assert!(owner.weak, "ACQUIRE before INCREFS");
        owner.strong = true;
        owner.owes_strong = true;
    }
    if news.release {
        assert!(owner.strong, "RELEASE of nothing");
        assert!(!owner.owes_strong, "RELEASE overtakes ACQUIRE_DONE");
        owner.strong = false;
    }
    if news.decrefs {
        assert!(owner.weak, "DECREFS of nothing");
        assert!(!owner.owes_weak, "DECREFS overtakes INCREFS_DONE");
        assert!(!owner.strong, "DECREFS before RELEASE");
        owner.weak = false;
    }
    let owner = world.owner;
    assert!(!counts.is_news(), "not all was said");
    assert!(
        owner.strong || !world.needs_strong(),
        "in use, and not told"
    );
    assert!(owner.weak || !world.needs_weak(), "named, and not told");
    assert!(!owner.strong || owner.owes_strong || world.needs_strong());
    if news.forget {
        assert!(!world.needs_weak(), "forgotten, and needed");
        assert_eq!(
            owner,
            Owner::default(),
            "forgotten, and the owner does not know"
        );
    }
    news.forget
}

fn check(counts: &NodeCounts, world: &World) {
    let owner = world.owner;
    assert_eq!(counts.told(), (owner.strong, owner.weak));
    assert_eq!(
        counts.has_strong(),
        world.needs_strong() || owner.owes_strong
    );
    assert_eq!(
        counts.has_weak(),
        world.needs_weak() || owner.owes_weak || owner.owes_strong
    );
    assert_eq!(
        counts.is_forgotten(),
        !world.needs_weak() && owner == Owner::default()
    );
}

/// Lets go of everything: the node has to be forgotten in the end.
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
        if counts.is_forgotten() || take(Step::Announce, &mut counts, &mut world) {
            return;
        }
        take(Step::Confirm(Strength::Weak), &mut counts, &mut world);
        take(Step::Confirm(Strength::Strong), &mut counts, &mut world);
    }
    panic!("never forgotten: {counts:?}");
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
            let is_forgotten = take(step, &mut counts, &mut world);
            if !is_forgotten && seen.insert(world) {
                open.push_back((counts, world));
            }
        }
    }
    assert!(seen.len() > 500, "only {} states", seen.len());
}

#[test]
fn the_context_managers_node_is_in_use_and_its_owner_never_hears_of_it() {
    let mut counts = NodeCounts::new();
    counts.become_manager();
    assert!(counts.has_strong() && counts.has_weak() && !counts.is_news());
    counts.add_ref();
    counts.add_strong_ref();
    assert!(!counts.is_news());
    counts.drop_strong_ref();
    counts.drop_ref();
    assert!(!counts.is_news() && !counts.is_forgotten());
}

#[test]
fn an_orphan_lives_as_long_as_there_are_handles_on_it() {
    let mut counts = NodeCounts::new();
    counts.add_ref();
    counts.add_strong_ref();
    counts.add_local(Strength::Strong);
    let _ = counts.announce();
    counts.orphan();
    assert!(counts.has_weak() && !counts.is_forgotten());
    counts.drop_strong_ref();
    counts.drop_ref();
    assert!(counts.is_forgotten(), "its owner is not there to be told");
}
