// SPDX-License-Identifier: GPL-2.0
//! The scenes that are explored, and the faults of the driver that the model has to find in them.

use Op::*;

pub type P = usize;
pub type T = usize;
pub type N = usize;
pub type K = usize;

// The rules that hold in each scene.
pub const OUTCOME: &str = "each caller reads one outcome, behind its completion";
pub const LOST: &str = "no call is lost or served twice";
pub const ONEWAY: &str = "oneway calls arrive in order, one at a time";
pub const COUNTS: &str = "counts return to zero";
pub const FREEZE: &str = "the last freeze state is delivered";
pub const DEATH: &str = "a death is notified once";

/// What a program does between the calls that it serves. A call is for the first node, whose server calls the next one before it replies,
/// and so on.
pub enum Op { Call(&'static [N]), Oneway(&'static [N]), Request(K), Clear(K), Drop(N) }

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None, AdmitsTheDead, TrustsRoute, QueuesUnseen, IgnoresPendingCalls, KeepsCompletion, KeepsTurn, DropsWork, MissesDead, ReadsStateEarly,
}

/// What exists: the process of each thread, the owner of each node, and programs. Clients are the threads that stop with their programs.
/// Notifications have a holder, a node, and true if they are about freezing. Freezers freeze (true) and thaw a process.
/// What may happen: processes die, threads exit, and reads and freezing fail. Data may contain objects, senders may raise priorities, and
/// servers may defer the completions of their replies.
#[derive(Clone, Copy)]
pub struct Setup {
    pub name: &'static str, pub threads: &'static [P], pub nodes: &'static [P], pub scripts: &'static [(T, &'static [Op])],
    pub clients: &'static [T], pub notifications: &'static [(P, N, bool)], pub freezers: &'static [(P, &'static [bool])],
    pub dying: &'static [P], pub exiting: &'static [T], pub fails: bool, pub has_objects: bool, pub raises: bool, pub defers: bool,
    pub fault: Fault,
}

const PAIR: Setup = Setup { name: "", threads: &[0, 1], nodes: &[0, 1], scripts: &[], clients: &[], notifications: &[], freezers: &[], dying: &[],
    exiting: &[], fails: false, has_objects: false, raises: false, defers: false, fault: Fault::None };
const POOL: Setup = Setup { threads: &[0, 1, 1, 2], ..PAIR };
const CHAIN: Setup = Setup { threads: &[0, 1, 2, 0], nodes: &[0, 1, 2], clients: &[0], scripts: &[(0, &[Call(&[1, 2, 0])])], ..PAIR };
const FREEZE_NOTICES: &[(P, N, bool)] = &[(0, 1, true), (0, 1, false), (0, 1, true)];
const DEATH_NOTICES: &[(P, N, bool)] = &[(0, 0, false), (0, 1, false), (2, 0, false)];

pub const SCENES: &[Setup] = &[
    Setup { name: "chain of two", scripts: &[(0, &[Call(&[1, 0])])], dying: &[0, 1], fails: true, ..PAIR },
    Setup { name: "chain, exit", scripts: &[(0, &[Call(&[1, 0, 1])])], dying: &[0], exiting: &[1], has_objects: true, defers: true, ..POOL },
    Setup { name: "chain of three", dying: &[0, 1], ..CHAIN },
    Setup { name: "chain of three, raised", dying: &[1], raises: true, has_objects: true, ..CHAIN },
    Setup { name: "pool", scripts: &[(0, &[Call(&[1])]), (3, &[Call(&[1])])], dying: &[0], exiting: &[1], defers: true, ..POOL },
    Setup { name: "oneway", threads: &[0, 1, 2], dying: &[1], fails: true, defers: true,
        scripts: &[(0, &[Oneway(&[1]), Oneway(&[1])]), (2, &[Oneway(&[1]), Call(&[1])])], ..PAIR },
    Setup { name: "oneway, raised, exit", dying: &[1], exiting: &[1], raises: true,
        scripts: &[(0, &[Oneway(&[1]), Oneway(&[1]), Call(&[1])])], ..POOL },
    Setup { name: "frozen", freezers: &[(1, &[true, false])], dying: &[1], fails: true,
        scripts: &[(0, &[Oneway(&[1]), Call(&[1, 0])])], ..PAIR },
    Setup { name: "freeze notices", notifications: FREEZE_NOTICES, scripts: &[(0, &[Request(0), Request(1)])], dying: &[1],
        freezers: &[(1, &[true, false]), (1, &[true])], ..PAIR },
    Setup { name: "cleared notices", notifications: FREEZE_NOTICES, scripts: &[(0, &[Request(0), Clear(0), Request(2), Drop(1)])], dying: &[1],
        freezers: &[(1, &[true, false])], ..PAIR },
    Setup { name: "death notices", threads: &[0, 0, 1], nodes: &[1, 1], notifications: DEATH_NOTICES, dying: &[1], exiting: &[0],
        scripts: &[(0, &[Request(0), Request(1), Clear(0), Drop(1)])], ..PAIR },
    Setup { name: "handles", threads: &[0, 0, 1], dying: &[0], scripts: &[(0, &[Call(&[1, 0]), Oneway(&[1])]), (1, &[Drop(1)])], ..PAIR },
];

/// Those of `make torture`.
pub const LARGE_SCENES: &[Setup] = &[
    Setup { name: "chain of three, all die", dying: &[0, 1, 2], fails: true, ..CHAIN },
    Setup { name: "chain of three, all die, raised", dying: &[0, 1, 2], raises: true, has_objects: true, ..CHAIN },
    Setup { name: "pool of two, chains", scripts: &[(0, &[Call(&[1, 0])]), (3, &[Call(&[1])])], dying: &[0, 2], exiting: &[1], fails: true, defers: true, ..POOL },
    Setup { name: "oneway and frozen", threads: &[0, 1, 1, 2], dying: &[1], fails: true, freezers: &[(1, &[true, false])],
        scripts: &[(0, &[Oneway(&[1]), Call(&[1])]), (3, &[Oneway(&[1]), Oneway(&[1])])], ..PAIR },
    Setup { name: "frozen chains", freezers: &[(1, &[true, false]), (1, &[true])], dying: &[0, 1], fails: true, defers: true,
        scripts: &[(0, &[Call(&[1]), Oneway(&[1]), Call(&[1, 0])])], ..PAIR },
    Setup { name: "freeze notices, two freezers", notifications: FREEZE_NOTICES, scripts: &[(0, &[Request(0), Request(1), Clear(0), Request(2)])],
        dying: &[0, 1], freezers: &[(1, &[true, false]), (1, &[true, false])], ..PAIR },
    Setup { name: "death notices, two holders", threads: &[0, 0, 1, 2], nodes: &[1, 1], notifications: DEATH_NOTICES, dying: &[1, 2], exiting: &[0],
        scripts: &[(0, &[Request(0), Request(1), Clear(0), Drop(1)]), (3, &[Request(2)])], ..PAIR },
];

/// Each fault, a scene in which the model finds it, and the rule that it breaks there.
pub const FAULTS: [(Fault, &str, &str); 9] = [
    (Fault::AdmitsTheDead, "chain of two", LOST),
    (Fault::TrustsRoute, "chain of three", LOST),
    (Fault::QueuesUnseen, "chain, exit", OUTCOME),
    (Fault::IgnoresPendingCalls, "chain of two", OUTCOME),
    (Fault::KeepsCompletion, "oneway", OUTCOME),
    (Fault::KeepsTurn, "oneway", COUNTS),
    (Fault::DropsWork, "death notices", DEATH),
    (Fault::MissesDead, "death notices", DEATH),
    (Fault::ReadsStateEarly, "freeze notices", FREEZE),
];
