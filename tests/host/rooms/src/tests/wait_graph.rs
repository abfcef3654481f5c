// SPDX-License-Identifier: GPL-2.0

//! Who waits for whom, next to a small Binder that is run on: a call can go on if and only if it ends when every thread
//! that does something replies, and nobody makes another call.

use crate::pure::call_stack::FrameId;
use crate::pure::wait_graph::{
    Activity, Call, CallKey, Found, Limits, Seen, Served, Step, Verdict, WaitGraph, LIMITS,
};
use kernel::testing::{atomic, live_allocations};
use proptest::prelude::*;

/// A frame of a thread of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Frame {
    /// A call that it has made: its number and its target.
    Made(u64, usize),
    /// A call that it serves.
    Serves(u64),
}

#[derive(Clone, Debug, Default)]
struct Thread {
    process: usize,
    is_in_pool: bool,
    stack: Vec<Frame>,
    /// A call back that it will serve next.
    pending: Option<u64>,
}

/// A small Binder. The caller of a call is found by its number.
#[derive(Clone, Debug, Default)]
struct World {
    threads: Vec<Thread>,
    callers: Vec<usize>,
    /// Calls that are queued, for which process.
    queued: Vec<(u64, usize)>,
}

impl World {
    fn new(pools: &[(usize, usize)]) -> Self {
        let mut world = Self::default();
        for (process, &(in_pool, others)) in pools.iter().enumerate() {
            for number in 0..in_pool + others {
                world.threads.push(Thread {
                    process,
                    is_in_pool: number < in_pool,
                    ..Thread::default()
                });
            }
        }
        world
    }

    fn waits(&self, thread: usize) -> bool {
        let thread = &self.threads[thread];
        thread.pending.is_none() && matches!(thread.stack.last(), Some(Frame::Made(..)))
    }

    /// Up the chain of calls from what the thread serves: who waits in this process for its outcome.
    fn waiting_thread(&self, mut thread: usize, target: usize) -> Option<usize> {
        let mut at = self.threads[thread].stack.len();
        loop {
            let &Frame::Serves(call) = self.threads[thread].stack.get(at.checked_sub(1)?)? else {
                return None;
            };
            thread = self.callers[call as usize];
            let made = |frame: &Frame| matches!(frame, Frame::Made(number, _) if *number == call);
            at = self.threads[thread].stack.iter().position(made)?;
            if self.threads[thread].process == target {
                return Some(thread);
            }
        }
    }

    /// Has a thread call, if it may. Returns whether no idle thread took the call.
    fn call(&mut self, thread: usize, target: usize) -> Option<bool> {
        let caller = &self.threads[thread];
        let busy = matches!(caller.stack.last(), Some(Frame::Made(..))) || caller.pending.is_some();
        if busy || caller.process == target {
            return None;
        }
        let route = self.waiting_thread(thread, target);
        let call = self.callers.len() as u64;
        self.callers.push(thread);
        self.threads[thread].stack.push(Frame::Made(call, target));
        if let Some(route) = route {
            assert!(self.threads[route].pending.replace(call).is_none());
            return Some(false);
        }
        self.queued.push((call, target));
        Some(!self.take_queued())
    }

    /// Has idle threads take what is queued. Returns whether any did.
    fn take_queued(&mut self) -> bool {
        let before = self.queued.len();
        let threads = &mut self.threads;
        self.queued.retain(|&(call, target)| {
            let idle = threads.iter_mut().find(|thread| {
                thread.process == target && thread.is_in_pool && thread.stack.is_empty()
            });
            idle.map(|thread| thread.stack.push(Frame::Serves(call)))
                .is_none()
        });
        self.queued.len() != before
    }

    /// Has a thread go on: take what is pending for it, or reply.
    fn go_on(&mut self, thread: usize) -> bool {
        let own = &mut self.threads[thread];
        if let Some(call) = own.pending.take() {
            own.stack.push(Frame::Serves(call));
            return true;
        }
        let Some(&Frame::Serves(call)) = own.stack.last() else {
            return false;
        };
        own.stack.pop();
        self.reply(call);
        true
    }

    /// Ends a call, if its caller still waits for it.
    fn reply(&mut self, call: u64) {
        let caller = &mut self.threads[self.callers[call as usize]].stack;
        if matches!(caller.last(), Some(Frame::Made(made, _)) if *made == call) {
            caller.pop();
        }
    }

    /// Whether a call ends if everybody replies and nobody calls. `freed` does not wait any more.
    fn ends(&self, call: u64, freed: Option<usize>) -> bool {
        let mut world = self.clone();
        if let Some(freed) = freed {
            // It replies to all that it serves, and comes back to the pool.
            while let Some(frame) = world.threads[freed].stack.pop() {
                if let Frame::Serves(call) = frame {
                    world.reply(call);
                }
            }
        }
        // Somebody may yet come to a process that nobody serves.
        let has_pool = |it: &Self, target| {
            it.threads
                .iter()
                .any(|thread| thread.process == target && thread.is_in_pool)
        };
        loop {
            let ownerless = |&&(_, target): &&(u64, usize)| !has_pool(&world, target);
            if let Some(&(queued, _)) = world.queued.iter().find(ownerless) {
                world.queued.retain(|&(other, _)| other != queued);
                let caller = &mut world.threads[world.callers[queued as usize]].stack;
                if matches!(caller.last(), Some(Frame::Made(made, _)) if *made == queued) {
                    caller.pop();
                }
                continue;
            }
            let taken = !world.queued.iter().any(|&(queued, _)| queued == call);
            let serves = |thread: &Thread| thread.stack.contains(&Frame::Serves(call));
            let pending = |thread: &Thread| thread.pending == Some(call);
            let runs = world.threads.iter().any(|it| serves(it) || pending(it));
            if taken && !runs {
                return true;
            }
            let mut moved = world.take_queued();
            for thread in 0..world.threads.len() {
                moved |= world.go_on(thread);
            }
            if !moved {
                return false;
            }
        }
    }

    fn pid(process: usize) -> i32 {
        100 + process as i32
    }

    fn activity(&self, thread: usize, place: usize) -> Activity {
        match self.threads[thread].stack.get(place) {
            Some(&Frame::Made(serial, target)) => Activity::Waits(Call {
                frame: FrameId {
                    place: place as u32,
                    serial,
                },
                target: Self::pid(target),
            }),
            _ => Activity::Free,
        }
    }

    /// What the driver would observe of a process.
    fn add(&self, graph: &mut WaitGraph<usize>, pid: i32) {
        graph.begin_process(pid).unwrap();
        graph.add_process(false, false);
        for (number, thread) in self.threads.iter().enumerate() {
            if Self::pid(thread.process) != pid {
                continue;
            }
            graph.reserve(1 + thread.stack.len()).unwrap();
            let innermost = match self.waits(number) {
                true => self.activity(number, thread.stack.len() - 1),
                false => Activity::Free,
            };
            atomic(|| {
                graph.add_thread(Seen {
                    thread: number,
                    address: number * 8,
                    may_take: thread.is_in_pool || thread.pending.is_some(),
                    activity: innermost,
                });
                for (place, frame) in thread.stack.iter().enumerate() {
                    let &Frame::Serves(call) = frame else {
                        continue;
                    };
                    let is_last = place + 2 == thread.stack.len();
                    graph.add_served(Served {
                        key: CallKey {
                            caller: self.callers[call as usize] * 8,
                            serial: call,
                        },
                        id: call as u32,
                        sent: 0,
                        then: match thread.pending {
                            Some(_) if is_last => Activity::Free,
                            _ => self.activity(number, place + 1),
                        },
                    });
                }
            });
        }
        graph.end_process();
    }

    /// Searches from the call that a thread waits for.
    fn search(&self, thread: usize, limits: Limits) -> (WaitGraph<usize>, Verdict) {
        let place = self.threads[thread].stack.len() - 1;
        let Activity::Waits(call) = self.activity(thread, place) else {
            panic!("thread {thread} does not wait");
        };
        let mut graph = WaitGraph::new(limits, thread, thread * 8, call).unwrap();
        loop {
            match graph.search().unwrap() {
                Step::Add(pid) => self.add(&mut graph, pid),
                Step::Done(verdict) => return (graph, verdict),
            }
        }
    }

    /// What the search must find.
    fn expected(&self, thread: usize) -> Verdict {
        let Some(&Frame::Made(call, _)) = self.threads[thread].stack.last() else {
            panic!("thread {thread} does not wait");
        };
        if self.ends(call, None) {
            Verdict::Moves
        } else if self.ends(call, Some(thread)) {
            Verdict::Cycle
        } else {
            Verdict::Stuck
        }
    }

    /// Each call of a chain waits for the thread that makes the next one; the last of a cycle for that of the first.
    fn check_chain(&self, graph: &WaitGraph<usize>, verdict: Verdict) {
        let chain = graph.chain().unwrap();
        assert_eq!(chain[0].call, graph.reached()[0].call);
        for (at, reached) in chain.iter().enumerate() {
            let next = match chain.get(at + 1) {
                Some(next) => next.thread,
                None if verdict == Verdict::Cycle => chain[0].thread,
                None => continue,
            };
            let next = graph.threads()[next].thread;
            match reached.found {
                Found::Nowhere => panic!("the chain goes on behind a call that was not found"),
                Found::ServedBy { thread, .. } => assert_eq!(graph.threads()[thread].thread, next),
                Found::Queued { free, able, .. } => {
                    assert_eq!(free, 0);
                    assert!(able > 0);
                    let next = &self.threads[next];
                    assert_eq!(Self::pid(next.process), reached.call.target);
                    assert!(next.is_in_pool);
                }
            }
        }
    }

    fn check(&self) {
        for thread in 0..self.threads.len() {
            if !self.waits(thread) {
                continue;
            }
            let (graph, verdict) = self.search(thread, LIMITS);
            let expected = self.expected(thread);
            // A thread that has a call back to take may be one that takes others, too: that is not looked into.
            let is_unclear = self.threads.iter().any(|it| it.pending.is_some());
            if !(is_unclear && verdict == Verdict::Moves) {
                assert_eq!(verdict, expected, "thread {thread} of {self:?}");
            }
            self.check_chain(&graph, verdict);
            if verdict != Verdict::Moves {
                for reached in graph.reached() {
                    assert!(self.waits(graph.threads()[reached.thread].thread));
                }
            }
        }
    }
}

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
        let call = world.callers.len() as u64;
        world.callers.push(from);
        world.threads[from].stack.push(Frame::Made(call, target));
        world.queued.push((call, target));
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
        let mut world = World::new(&pools);
        prop_assume!(!world.threads.is_empty());
        for (is_call, one, other) in steps {
            let thread = one % world.threads.len();
            let in_cycles = |it: &World| {
                let waiting = (0..it.threads.len()).filter(|&thread| it.waits(thread));
                waiting.filter(|&thread| it.expected(thread) == Verdict::Cycle).count()
            };
            let before = in_cycles(&world);
            if is_call {
                let queued = world.call(thread, other % pools.len()).unwrap_or(false);
                let closes = queued && world.search(thread, LIMITS).1 == Verdict::Cycle;
                let is_clear = world.threads.iter().all(|it| it.pending.is_none());
                prop_assert!(closes || !is_clear || in_cycles(&world) <= before);
                prop_assert!(!closes || in_cycles(&world) > before);
            } else {
                world.go_on(thread);
                world.take_queued();
                prop_assert!(in_cycles(&world) <= before);
            }
            world.check();
        }
    }
}

/// Threads of one process each, of which each waits for a call that is queued for the next one.
fn ring(threads: usize) -> World {
    let mut world = World::new(&vec![(1, 0); threads]);
    for thread in 0..threads {
        world.threads[thread]
            .stack
            .push(Frame::Made(thread as u64, (thread + 1) % threads));
        world.callers.push(thread);
        world.queued.push((thread as u64, (thread + 1) % threads));
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
            let target = usize::from(thread == 0);
            world.threads[thread]
                .stack
                .push(Frame::Made(thread as u64, target));
            world.callers.push(thread);
            world.queued.push((thread as u64, target));
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
        assert_eq!(
            world
                .search(
                    0,
                    Limits {
                        threads: 99,
                        ..limits
                    }
                )
                .1,
            expected
        );
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
        let expected = if expects {
            Verdict::Moves
        } else {
            Verdict::Cycle
        };
        assert_eq!(verdict, expected);
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
    let expected = Found::Queued {
        able: 0,
        free: 0,
        is_frozen: false,
    };
    assert_eq!(graph.reached()[0].found, expected);
}

#[test]
fn nothing_is_kept() {
    let before = live_allocations();
    let (graph, _) = ring(3).search(0, LIMITS);
    drop(graph);
    assert_eq!(live_allocations(), before);
}
