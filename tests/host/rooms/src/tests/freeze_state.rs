// SPDX-License-Identifier: GPL-2.0
//! Freezing a process, enumerated: every order of two freezers, one thawer, and transactions that
//! come and end, compared with a simpler model (contract FRZ-1 to FRZ-7).

use crate::pure::freeze_state::{Admission, Attempt, FreezeEvent, FreezeProgress, FreezeState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin(usize),
    /// As the driver does it: only when nothing is outstanding.
    Complete(usize),
    GiveUp(usize),
    Thaw,
    Call,
    Oneway,
    EndTransaction,
    EndProcess,
}

const STEPS: [Step; 11] = [
    Step::Begin(0),
    Step::Begin(1),
    Step::Complete(0),
    Step::Complete(1),
    Step::GiveUp(0),
    Step::GiveUp(1),
    Step::Thaw,
    Step::Call,
    Step::Oneway,
    Step::EndTransaction,
    Step::EndProcess,
];

/// The number of steps that are tried one after the other.
const DEPTH: usize = 6;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Claim {
    #[default]
    None,
    /// It still counts.
    Good,
    /// It was completed by the other.
    Done,
    /// Somebody thawed the process, or began again.
    Void,
}

/// The process as seen from outside.
#[derive(Default)]
struct Model {
    is_frozen: bool,
    claims: [Claim; 2],
    outstanding: u32,
    received: (bool, bool),
    heard: bool,
    announcements: u64,
}

impl Model {
    fn is_freezing(&self) -> bool {
        self.claims.contains(&Claim::Good)
    }

    fn void_claims(&mut self) {
        for claim in self.claims.iter_mut().filter(|claim| **claim != Claim::None) {
            *claim = Claim::Void;
        }
    }

    fn hear(&mut self, event: Option<FreezeEvent>, is_frozen: bool) {
        let is_change = self.heard != is_frozen;
        assert_eq!(event.is_some(), is_change, "an edge lost, or sent twice");
        if let Some(event) = event {
            self.announcements += 1;
            self.heard = is_frozen;
            assert_eq!(event.number, self.announcements);
            assert_eq!(event.is_frozen, is_frozen);
        }
    }
}

struct World {
    state: FreezeState,
    attempts: [Option<Attempt>; 2],
    model: Model,
    has_ended: bool,
}

impl World {
    fn new() -> Self {
        let (state, model) = (FreezeState::new(), Model::default());
        Self { state, attempts: [None, None], model, has_ended: false }
    }

    /// Takes the step, if the driver could.
    fn take(&mut self, step: Step) -> bool {
        let model = &mut self.model;
        match step {
            Step::Begin(i) if self.attempts[i].is_none() && !self.has_ended => {
                if !model.is_freezing() {
                    model.void_claims();
                }
                self.attempts[i] = Some(self.state.begin());
                (model.claims[i], model.is_frozen, model.received) = (Claim::Good, false, (false, false));
            }
            Step::Complete(i) if self.attempts[i].is_some() && model.outstanding == 0 => {
                let attempt = self.attempts[i].take().unwrap();
                let (event, wake) = self.state.complete(attempt);
                let claim = std::mem::take(&mut model.claims[i]);
                assert_eq!(wake.0, claim == Claim::Good);
                if claim == Claim::Good {
                    model.is_frozen = true;
                    for other in model.claims.iter_mut().filter(|other| **other == Claim::Good) {
                        *other = Claim::Done;
                    }
                    model.hear(event, true);
                } else {
                    assert_eq!(event, None);
                }
            }
            Step::GiveUp(i) if self.attempts[i].is_some() => {
                let event = self.state.give_up(self.attempts[i].take().unwrap());
                let claim = std::mem::take(&mut model.claims[i]);
                if claim == Claim::Good && !model.is_freezing() {
                    model.hear(event, false);
                } else {
                    assert_eq!(event, None);
                }
            }
            // A process that ends is thawed, and notifies nobody.
            Step::Thaw | Step::EndProcess if !self.has_ended => {
                self.has_ended = step == Step::EndProcess;
                let (event, wake) = self.state.thaw();
                assert_eq!(wake.0, model.is_freezing(), "a freezer sleeps on");
                model.void_claims();
                (model.is_frozen, model.received) = (false, (false, false));
                model.hear(event, false);
            }
            Step::Call | Step::Oneway if model.outstanding < 2 && !self.has_ended => self.arrive(step),
            Step::EndTransaction if model.outstanding > 0 => {
                model.outstanding -= 1;
                let wake = self.state.end_transaction();
                let is_awaited = model.outstanding == 0 && model.is_freezing();
                assert_eq!(wake.0, is_awaited);
            }
            _ => return false,
        }
        self.check();
        true
    }

    fn arrive(&mut self, step: Step) {
        let is_oneway = step == Step::Oneway;
        let model = &mut self.model;
        let is_closed = model.is_frozen || model.is_freezing();
        let expected = match (is_closed, is_oneway) {
            (false, _) => Admission::Accepted,
            (true, true) => Admission::Pending,
            (true, false) => Admission::Rejected,
        };
        assert_eq!(self.state.admit(is_oneway), expected);
        model.received.0 |= expected == Admission::Rejected;
        model.received.1 |= expected == Admission::Pending;
        if expected != Admission::Rejected {
            self.state.outstanding += 1;
            model.outstanding += 1;
        }
    }

    fn check(&self) {
        let model = &self.model;
        assert_eq!(self.state.outstanding, model.outstanding);
        let received = (self.state.has_rejected_sync, self.state.has_received_oneway);
        assert_eq!(received, model.received);
        let last = self.state.last;
        assert_eq!((last.number, last.is_frozen), (model.announcements, model.heard));
        if !model.is_freezing() && !self.has_ended {
            assert_eq!(model.heard, model.is_frozen, "what was announced last is not so");
        }
        for (attempt, claim) in self.attempts.iter().zip(model.claims) {
            let Some(attempt) = attempt else { continue };
            let expected = match claim {
                Claim::Good => FreezeProgress::Waiting { outstanding: model.outstanding },
                Claim::Done => FreezeProgress::Completed,
                Claim::Void => FreezeProgress::Superseded,
                Claim::None => unreachable!("there is an attempt"),
            };
            assert_eq!(self.state.progress(attempt), expected);
        }
    }
}

/// Tries all orders of further steps, and returns how many are possible. Each runs from its start,
/// because parts of a state cannot be copied.
fn explore<S: Copy>(steps: &[S], depth: usize, taken: &mut Vec<S>, run: &dyn Fn(&[S]) -> bool) -> u64 {
    if !run(taken) {
        return 0;
    }
    let mut orders = 1;
    if taken.len() < depth {
        for step in steps {
            taken.push(*step);
            orders += explore(steps, depth, taken, run);
            taken.pop();
        }
    }
    orders
}

#[test]
fn every_order_of_two_freezers() {
    let orders = explore(&STEPS, DEPTH, &mut Vec::new(), &|taken| {
        let mut world = World::new();
        taken.iter().all(|step| world.take(*step))
    });
    assert!(orders > 30_000, "only {orders} orders");
}
