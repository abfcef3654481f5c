// SPDX-License-Identifier: GPL-2.0

//! The small Binder that the search is compared with, and each search of it next to what it does.

use crate::pure::call_stack::FrameId;
use crate::pure::wait_graph::{
    Activity, Call, CallKey, Found, Limits, Seen, Served, Step, Verdict, WaitGraph, LIMITS,
};
use kernel::testing::atomic;

/// A frame of a thread of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Frame {
    /// A call that it has made: its number and its target.
    Made(u64, usize),
    /// A call that it serves.
    Serves(u64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    pub(super) process: usize,
    pub(super) is_in_pool: bool,
    pub(super) stack: Vec<Frame>,
    /// A call back that it will serve next.
    pub(super) pending: Option<u64>,
}

/// A small Binder. The caller of a call is found by its number.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) threads: Vec<Thread>,
    pub(super) callers: Vec<usize>,
    /// Calls that are queued, for which process.
    pub(super) queued: Vec<(u64, usize)>,
    /// Calls that have ended while their callers served others, whose ends they read first.
    kept: Vec<u64>,
}

impl World {
    pub(super) fn new(pools: &[(usize, usize)]) -> Self {
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

    pub(super) fn waits(&self, thread: usize) -> bool {
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
    pub(super) fn call(&mut self, thread: usize, target: usize) -> Option<bool> {
        let caller = &self.threads[thread];
        let busy = matches!(caller.stack.last(), Some(Frame::Made(..))) || caller.pending.is_some();
        if busy || caller.process == target {
            return None;
        }
        let route = self.waiting_thread(thread, target);
        let call = self.queue(thread, target);
        if let Some(route) = route {
            self.queued.pop();
            assert!(self.threads[route].pending.replace(call).is_none());
            return Some(false);
        }
        Some(!self.take_queued())
    }

    /// Queues a call of a thread for a process. Returns its number.
    pub(super) fn queue(&mut self, thread: usize, target: usize) -> u64 {
        let call = self.callers.len() as u64;
        self.callers.push(thread);
        self.threads[thread].stack.push(Frame::Made(call, target));
        self.queued.push((call, target));
        call
    }

    /// Has idle threads take what is queued. Returns whether any did.
    pub(super) fn take_queued(&mut self) -> bool {
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
    pub(super) fn go_on(&mut self, thread: usize) -> bool {
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

    /// Ends a call, as soon as its caller waits for it and for nothing else.
    fn reply(&mut self, call: u64) {
        self.kept.push(call);
        self.end_kept();
    }

    /// Ends the calls that need not be kept any longer. Returns whether there are any.
    fn end_kept(&mut self) -> bool {
        let before = self.kept.len();
        let Self {
            threads,
            callers,
            kept,
            ..
        } = self;
        kept.retain(|&call| {
            let caller = &mut threads[callers[call as usize]].stack;
            let waits = matches!(caller.last(), Some(&Frame::Made(made, _)) if made == call);
            if waits {
                caller.pop();
            }
            !waits
        });
        kept.len() != before
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
            let mut moved = world.take_queued() | world.end_kept();
            for thread in 0..world.threads.len() {
                moved |= world.go_on(thread);
            }
            if !moved {
                return false;
            }
        }
    }

    pub(super) fn pid(process: usize) -> i32 {
        100 + process as i32
    }

    pub(super) fn activity(&self, thread: usize, place: usize) -> Activity {
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
    pub(super) fn add(&self, graph: &mut WaitGraph<usize>, pid: i32) {
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
                        _caller: self.callers[call as usize],
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
    pub(super) fn search(&self, thread: usize, limits: Limits) -> (WaitGraph<usize>, Verdict) {
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
    pub(super) fn expected(&self, thread: usize) -> Verdict {
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
    pub(super) fn check_chain(&self, graph: &WaitGraph<usize>, verdict: Verdict) {
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

    pub(super) fn check(&self) {
        for thread in 0..self.threads.len() {
            if !self.waits(thread) {
                continue;
            }
            let (graph, verdict) = self.search(thread, LIMITS);
            let expected = self.expected(thread);
            // A thread that has a call back to take may be one that takes others, too: that is not looked into.
            let is_unclear = self.threads.iter().any(|it| it.pending.is_some());
            // Where threads behind it wait for each other, too, it would not help them if this one were free; but it is in a
            // cycle, each step of which is looked at below.
            let is_in_two = (verdict, expected) == (Verdict::Cycle, Verdict::Stuck);
            let is_not_looked_into = is_unclear && verdict == Verdict::Moves;
            if !(is_in_two || is_not_looked_into) {
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
