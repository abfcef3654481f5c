// SPDX-License-Identifier: GPL-2.0

//! Who waits for whom, next to a small Binder that is run on: a call can go on if and only if it ends when every thread
//! that does something replies, and nobody makes another call.

mod world;

use crate::pure::wait_graph::{Activity, Found, Limits, Step, Verdict, WaitGraph, LIMITS};
use proptest::prelude::*;
use world::{Frame, World};

/// Every state of two processes, and of three, of which each thread is idle, runs, or waits for one of the others.
fn every_state(pools: &[(usize, usize)], from: usize, world: &mut World) -> usize {
    let threads = world.threads.len();
    if from == threads {
        let mut world = world.clone();
        if world.take_queued() {
            return 0; // An idle thread would have taken it before.
        }
        world.check();
        return 1;
    }
    let mut states = every_state(pools, from + 1, world);
    for target in 0..pools.len() {
        if target == world.threads[from].process {
            continue;
        }
        let call = world.queue(from, target);
        states += every_state(pools, from + 1, world);
        world.queued.pop();
        for server in 0..threads {
            let serves = |frame: &Frame| matches!(frame, Frame::Serves(_));
            let own = &world.threads[server];
            if own.process != target || !own.is_in_pool || own.stack.iter().any(serves) {
                continue;
            }
            world.threads[server].stack.insert(0, Frame::Serves(call));
            states += every_state(pools, from + 1, world);
            world.threads[server].stack.remove(0);
        }
        world.threads[from].stack.pop();
        world.callers.pop();
    }
    states
}

#[test]
fn every_state_of_few_threads() {
    let mut states = 0;
    for pools in [
        &[(1, 0), (1, 0)][..],
        &[(1, 1), (1, 1)],
        &[(2, 0), (1, 1)],
        &[(2, 0), (2, 0)],
        &[(1, 0), (1, 0), (1, 0)],
        &[(2, 0), (1, 1), (1, 0)],
        &[(2, 0), (2, 0), (1, 0)],
        &[(1, 0), (0, 1), (1, 0), (1, 0)],
    ] {
        states += every_state(pools, 0, &mut World::new(pools));
    }
    assert!(states > 1000, "only {states}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Calls and replies at random, nested ones among them; and what is found when a call is queued is all that there
    /// is to find: a cycle never comes about otherwise.
    #[test]
    fn next_to_a_binder_that_runs_on(
        pools in proptest::collection::vec((0usize..3, 0usize..2), 2..5),
        steps in proptest::collection::vec((any::<bool>(), 0usize..64, 0usize..64), 1..60),
    ) {
        prop_assume!(pools.iter().any(|&(in_pool, others)| in_pool + others > 0));
        run_on(&pools, &steps);
    }
}

/// Has threads of these processes call, where the first part of a step says so, and go on otherwise.
fn run_on(pools: &[(usize, usize)], steps: &[(bool, usize, usize)]) {
    let mut world = World::new(pools);
    for &(is_call, one, other) in steps {
        let thread = one % world.threads.len();
        let in_cycles = |it: &World| {
            let waiting = (0..it.threads.len()).filter(|&thread| it.waits(thread));
            waiting
                .filter(|&thread| it.expected(thread) == Verdict::Cycle)
                .count()
        };
        let before = in_cycles(&world);
        if is_call {
            let queued = world.call(thread, other % pools.len()).unwrap_or(false);
            let closes = queued && world.search(thread, LIMITS).1 == Verdict::Cycle;
            let is_clear = world.threads.iter().all(|it| it.pending.is_none());
            assert!(closes || !is_clear || in_cycles(&world) <= before);
            let is_in_two = closes && world.expected(thread) == Verdict::Stuck;
            assert!(!closes || is_in_two || in_cycles(&world) > before);
        } else {
            world.go_on(thread);
            world.take_queued();
            assert!(in_cycles(&world) <= before);
        }
        world.check();
    }
}

/// The only thread of a process serves two calls of another one, each of which came back to that one in between: were it free,
/// it would end the outer call while its caller still served.
#[test]
fn a_cycle_of_calls_back_and_forth() {
    let steps = [
        (true, 27, 17),
        (true, 5, 10),
        (false, 27, 0),
        (true, 63, 20),
        (true, 30, 10),
        (true, 19, 19),
        (false, 5, 0),
        (true, 17, 15),
    ];
    run_on(&[(2, 1), (1, 1), (1, 0)], &steps);
}

/// A thread waits in a cycle, and behind it others wait in one of their own.
#[test]
fn a_cycle_behind_another() {
    let steps = [
        (true, 39, 10),
        (true, 44, 20),
        (true, 52, 33),
        (true, 21, 3),
        (true, 12, 4),
        (false, 7, 0),
        (true, 63, 46),
    ];
    run_on(&[(2, 0), (1, 0), (1, 0), (2, 1)], &steps);
}

/// Threads of one process each, of which each waits for a call that is queued for the next one.
fn ring(threads: usize) -> World {
    let mut world = World::new(&vec![(1, 0); threads]);
    for thread in 0..threads {
        world.queue(thread, (thread + 1) % threads);
    }
    world
}

#[test]
fn a_ring_up_to_the_limits() {
    let limits = Limits {
        processes: 10,
        threads: 100,
        served: 100,
    };
    for threads in 2..12 {
        let world = ring(threads);
        let (graph, verdict) = world.search(0, limits);
        if threads <= limits.processes {
            assert_eq!(verdict, Verdict::Cycle);
            assert_eq!(graph.chain().unwrap().len(), threads);
            world.check_chain(&graph, verdict);
        } else {
            assert_eq!(verdict, Verdict::Unknown);
            // What has been found is told, up to the limit.
            assert_eq!(graph.chain().unwrap().len(), 1);
        }
    }
}

#[test]
fn many_threads_and_deep_stacks_are_not_all_visited() {
    let limits = Limits {
        processes: 4,
        threads: 8,
        served: 8,
    };
    // The first thread is there twice: as that from which the search begins, and in its process.
    for (in_pool, expected) in [(6, Verdict::Cycle), (7, Verdict::Unknown)] {
        let mut world = World::new(&[(1, 0), (in_pool, 0)]);
        for thread in 0..=in_pool {
            world.queue(thread, usize::from(thread == 0));
        }
        assert_eq!(world.search(0, limits).1, expected);
    }
    for (depth, expected) in [(8, Verdict::Moves), (9, Verdict::Unknown)] {
        let mut world = World::new(&[(0, 1), (1, 0)]);
        for level in 0..2 * depth - 1 {
            let (thread, other) = (level % 2, 1 - level % 2);
            world.call(thread, other).unwrap();
            if level > 0 {
                world.go_on(other);
            }
        }
        // Each process has one thread, which the other one calls back.
        assert_eq!(world.threads[1].stack.len(), 2 * depth - 1);
        let (threads, limits) = (99, limits);
        let (_, verdict) = world.search(0, Limits { threads, ..limits });
        assert_eq!(verdict, expected);
    }
}

#[test]
fn a_process_that_was_asked_for_a_thread_may_go_on() {
    let world = ring(2);
    for expects in [false, true] {
        let Activity::Waits(call) = world.activity(0, 0) else {
            unreachable!()
        };
        let mut graph = WaitGraph::new(LIMITS, 0, 0, call).unwrap();
        let verdict = loop {
            match graph.search().unwrap() {
                Step::Add(pid) => {
                    world.add(&mut graph, pid);
                    graph.add_process(expects && pid == World::pid(0), false);
                }
                Step::Done(verdict) => break verdict,
            }
        };
        assert_eq!(verdict == Verdict::Moves, expects);
        assert_eq!(verdict == Verdict::Cycle, !expects);
    }
}

#[test]
fn a_process_without_a_pool_is_no_cycle() {
    let mut world = World::new(&[(0, 1), (0, 1)]);
    for thread in 0..2 {
        world.call(thread, 1 - thread).unwrap();
    }
    let (graph, verdict) = world.search(0, LIMITS);
    assert_eq!(verdict, Verdict::Moves);
    let (able, free, is_frozen) = (0, 0, false);
    let expected = Found::Queued {
        able,
        free,
        is_frozen,
    };
    assert_eq!(graph.reached()[0].found, expected);
}

#[test]
fn nothing_is_kept() {
    super::keeps_nothing(|| drop(ring(3).search(0, LIMITS)));
}
