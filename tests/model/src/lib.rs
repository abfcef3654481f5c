// SPDX-License-Identifier: GPL-2.0
//! A model of the protocol between processes. stateright takes every order of the lock rounds of calls, deaths,
//! freezing and notifications. Call stacks, freeze states, counts and the states of notifications are the driver's.

#![cfg(test)]
#![allow(private_interfaces)]

#[allow(dead_code)]
#[path = "../../../drivers/android/pure/mod.rs"]
#[rustfmt::skip]
mod pure;
// Each line of these is a round or a scene.
#[rustfmt::skip]
mod scenes;
#[rustfmt::skip]
mod world;

use scenes::*;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Instant;
use world::{Step, World};

/// What happens next: a step of a task, or what a scene permits at any time.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Step(usize, Option<Step>),
    Fail(usize),
    Exit(T),
    Die(P),
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken.is_some() {
            return;
        }
        let step = |task: usize| Action::Step(task, world.tasks[task].last().cloned());
        actions.extend((0..world.tasks.len()).filter(|task| world.may_step(self, *task)).map(step));
        let may_fail = |task: &usize| self.fails && world.may_fail(*task);
        actions.extend((0..world.tasks.len()).filter(may_fail).map(Action::Fail));
        actions.extend(self.exiting.iter().filter(|t| world.may_exit(**t)).map(|t| Action::Exit(*t)));
        actions.extend(self.dying.iter().filter(|p| world.may_die(**p)).map(|p| Action::Die(*p)));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Step(task, _) => next.step(self, task),
            Action::Fail(task) => next.fail_step(self, task),
            Action::Exit(t) => next.exit(t),
            Action::Die(p) => next.die(p),
        }
        if !(0..next.tasks.len()).any(|task| next.may_step(self, task)) {
            next.check_rest();
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(OUTCOME, |_, world: &World| world.broken != Some(OUTCOME)),
            Property::always(LOST, |_, world: &World| world.broken != Some(LOST)),
            Property::always(ONEWAY, |_, world: &World| world.broken != Some(ONEWAY)),
            Property::always(COUNTS, |_, world: &World| world.broken != Some(COUNTS)),
            Property::always(FREEZE, |_, world: &World| world.broken != Some(FREEZE)),
            Property::always(DEATH, |_, world: &World| world.broken != Some(DEATH)),
        ]
    }
}

/// Explores a scene, or finds a rule that is broken, with the steps that lead there.
fn explore(scene: Setup) -> impl Checker<Setup> {
    let began = Instant::now();
    let checker = scene.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{}, {:?}: {states} states, depth {depth}, {:?}", scene.name, scene.fault, began.elapsed());
    checker
}

#[test]
fn rules_hold() {
    SCENES.iter().for_each(|scene| explore(*scene).assert_properties());
}

#[test]
#[ignore = "takes minutes"]
fn rules_hold_in_large_scenes() {
    LARGE_SCENES.iter().for_each(|scene| explore(*scene).assert_properties());
}

#[test]
fn faults_break_rules() {
    for (fault, name, rule) in FAULTS {
        let scene = SCENES.iter().find(|scene| scene.name == name).unwrap();
        explore(Setup { fault, ..*scene }).assert_any_discovery(rule);
    }
}
