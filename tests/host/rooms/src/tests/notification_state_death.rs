// SPDX-License-Identifier: GPL-2.0

//! The returns that a process reads of a node's death, enumerated.
//!
//! Around the state machine stands a model of everything else: a handle, which may be given up and
//! come anew, the node's list, the queue, the deaths that await confirmation, and a user who may
//! write any command at any time. Steps that the driver takes under two locks are two steps here,
//! and any step may come in between. Every order is tried, with up to three requests for one
//! handle. The user's returns are compared with the contract (DN-1 to DN-6, NODE-10).

use crate::pure::notification_state::{DeathState, Message};
use std::collections::{BTreeSet, VecDeque};

/// The number of requests in the course of one run.
const REQUESTS: usize = 3;

/// The commands and the returns of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct History {
    cleared: bool,
    told_dead: bool,
    confirmed: bool,
    told_clear_done: bool,
    /// The handle went with the request still on it.
    dropped: bool,
    /// The node was dead before the user cleared the request or dropped the handle.
    died_before: bool,
    /// The death was queued when the user cleared the request.
    queued_before: bool,
}

#[derive(Clone, Debug)]
struct Link {
    state: DeathState,
    history: History,
    /// On the node's list, on which its ending owner finds it.
    is_on_node: bool,
    /// Off that list, and its death not yet announced.
    is_being_announced: bool,
}

#[derive(Clone, Debug, Default)]
struct World {
    node_is_dead: bool,
    links: Vec<Link>,
    /// The request that belongs to the handle.
    of_handle: Option<usize>,
    queue: VecDeque<usize>,
    delivered_deaths: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Request,
    Clear,
    DropHandle,
    /// The owner ends: no link is added to the node's list any more.
    NodeDies,
    /// The owner takes a link off the list of the dead node.
    TakeOff(usize),
    /// The owner announces the death to the link's holder.
    Announce(usize),
    Read,
    /// The user confirms the first unconfirmed death with this number.
    Confirm(usize),
}

fn steps() -> impl Iterator<Item = Step> {
    let common = [Step::Request, Step::Clear, Step::DropHandle, Step::NodeDies, Step::Read];
    let each = |at| [Step::TakeOff(at), Step::Announce(at), Step::Confirm(at)];
    common.into_iter().chain((0..REQUESTS).flat_map(each))
}

impl World {
    /// Returns whether the rest of the driver would do this now. The user may write any command,
    /// but one without a request never reaches the state machine.
    fn allows(&self, step: Step) -> bool {
        let link = |at: usize| self.links.get(at);
        match step {
            Step::Request => self.of_handle.is_none() && self.links.len() < REQUESTS,
            Step::Clear | Step::DropHandle => self.of_handle.is_some(),
            Step::NodeDies => !self.node_is_dead,
            Step::TakeOff(at) => self.node_is_dead && link(at).is_some_and(|link| link.is_on_node),
            Step::Announce(at) => link(at).is_some_and(|link| link.is_being_announced),
            Step::Read => !self.queue.is_empty(),
            Step::Confirm(at) => self.delivered_deaths.contains(&at),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Request => self.request(),
            Step::Clear => self.clear(),
            Step::DropHandle => self.drop_handle(),
            Step::NodeDies => self.node_is_dead = true,
            Step::TakeOff(at) => {
                self.links[at].is_on_node = false;
                self.links[at].is_being_announced = true;
            }
            Step::Announce(at) => {
                self.links[at].is_being_announced = false;
                self.run(at, DeathState::node_died);
            }
            Step::Read => self.read(),
            Step::Confirm(at) => {
                self.delivered_deaths.retain(|delivered_deaths| *delivered_deaths != at);
                self.links[at].history.confirmed = true;
                self.run(at, DeathState::confirm);
            }
        }
    }

    fn run(&mut self, at: usize, step: impl FnOnce(&mut DeathState) -> bool) {
        if step(&mut self.links[at].state) {
            assert!(!self.queue.contains(&at), "queued twice");
            self.queue.push_back(at);
        }
    }

    fn request(&mut self) {
        let at = self.links.len();
        self.links.push(Link {
            state: DeathState::Registered,
            history: History::default(),
            is_on_node: !self.node_is_dead,
            is_being_announced: false,
        });
        self.of_handle = Some(at);
        if self.node_is_dead {
            self.run(at, DeathState::node_died);
        }
    }

    /// In one step, for the driver does it under the lock of the handles.
    fn clear(&mut self) {
        let at = self.of_handle.take().expect("a request");
        self.links[at].is_on_node = false;
        self.links[at].history.cleared = true;
        self.links[at].history.died_before = self.node_is_dead;
        self.links[at].history.queued_before = self.queue.contains(&at);
        self.run(at, DeathState::clear);
    }

    fn drop_handle(&mut self) {
        let at = self.of_handle.take().expect("a request");
        self.links[at].is_on_node = false;
        self.links[at].history.dropped = true;
        self.delivered_deaths.retain(|delivered_deaths| *delivered_deaths != at);
        self.links[at].state = DeathState::Over;
    }

    fn read(&mut self) {
        let at = self.queue.pop_front().expect("something queued");
        let link = &mut self.links[at];
        let history = &mut link.history;
        match link.state.read() {
            None => assert!(history.dropped, "swallowed"),
            Some(Message::Event) => {
                assert!(self.node_is_dead, "read of a death that has not happened");
                assert!(!history.told_dead, "read twice (DN-5)");
                assert!(!history.dropped, "read after the handle was gone (NODE-10)");
                assert!(!history.told_clear_done, "read after the clear was done");
                history.told_dead = true;
                self.delivered_deaths.push(at);
            }
            Some(Message::ClearDone) => {
                assert!(history.cleared, "a clear without a request");
                assert!(!history.told_clear_done, "cleared twice");
                assert!(!history.told_dead || history.confirmed, "CLEAR_DONE before DONE (DN-3)");
                history.told_clear_done = true;
            }
        }
    }

    /// Checks the relation between the state of a link and its place.
    fn check(&self) {
        for (at, link) in self.links.iter().enumerate() {
            let is_queued = self.queue.contains(&at);
            let is_delivered = self.delivered_deaths.contains(&at);
            let (queued, delivered_deaths) = match link.state {
                DeathState::Registered | DeathState::Done => (false, false),
                DeathState::Cleared => {
                    assert!(link.history.told_clear_done);
                    (false, false)
                }
                DeathState::Queued { is_cleared } => {
                    assert_eq!(is_cleared, link.history.cleared);
                    (true, false)
                }
                DeathState::Delivered { is_cleared } => {
                    assert_eq!(is_cleared, link.history.cleared);
                    (false, true)
                }
                DeathState::Clearing => (true, false),
                // Queued still, perhaps: it will be skipped.
                DeathState::Over => (is_queued, false),
            };
            assert_eq!((is_queued, is_delivered), (queued, delivered_deaths), "{link:?}");
        }
    }

    /// Takes all steps that are due, with the user's answers, and checks that no return is missing.
    fn wind_up(mut self) {
        loop {
            let at_once = steps().find(|step| {
                !matches!(step, Step::Request | Step::Clear | Step::DropHandle | Step::NodeDies)
                    && self.allows(*step)
            });
            let Some(step) = at_once else { break };
            self.take(step);
            self.check();
        }
        for link in &self.links {
            let history = link.history;
            assert_eq!(history.told_clear_done, history.cleared, "{history:?}");
            assert!(history.confirmed || history.dropped || !history.told_dead);
            let is_held = !history.cleared && !history.dropped;
            if is_held {
                assert_eq!(history.told_dead, self.node_is_dead, "{history:?}");
            }
            assert!(history.told_dead || !history.queued_before, "{history:?}");
            if history.cleared && !history.died_before {
                assert!(!history.told_dead, "withdrawn before the death: {history:?}");
            }
        }
    }
}

#[test]
fn every_order_of_request_death_clear_done_and_drop() {
    let mut seen = BTreeSet::new();
    let mut open = VecDeque::from([World::default()]);
    let mut steps_taken = 0;
    while let Some(world) = open.pop_front() {
        world.check();
        world.clone().wind_up();
        for step in steps().filter(|step| world.allows(*step)) {
            let mut next = world.clone();
            next.take(step);
            steps_taken += 1;
            if seen.insert(format!("{next:?}")) {
                open.push_back(next);
            }
        }
    }
    println!("{} states, {steps_taken} steps", seen.len());
    assert!(seen.len() > 1000, "only {} states", seen.len());
}

#[test]
fn what_comes_too_late_changes_nothing() {
    use DeathState::{Cleared, Clearing, Delivered, Done, Over, Queued};
    let is_cleared = false;
    let unchanged = |before: DeathState, step: fn(&mut DeathState) -> bool| {
        let mut state = before;
        assert!(!step(&mut state), "queued: {before:?}");
        assert_eq!(state, before);
    };
    // A node dies once; a second announcement changes nothing.
    for state in [Queued { is_cleared }, Delivered { is_cleared }, Done, Clearing, Cleared, Over] {
        unchanged(state, DeathState::node_died);
    }
    for state in [Clearing, Cleared, Over] {
        unchanged(state, DeathState::clear);
        unchanged(state, DeathState::confirm);
    }
    for state in [Cleared, Over] {
        unchanged(state, |state| state.read().is_some());
    }
}
