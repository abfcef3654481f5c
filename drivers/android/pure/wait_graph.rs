// SPDX-License-Identifier: GPL-2.0

//! Which threads wait for each other: follows a call to the thread that serves it, the call that
//! this thread waits for in turn, and so on.
//!
//! A call that a thread serves waits for that thread alone. A call that is queued waits for any
//! thread that may take it. So a call can go on if any way from it leads to a thread that does
//! something else than waiting. If no way does, the calls wait for each other:
//!
//! ```text
//!   thread 1 of A waits for a call ──► queued for B, whose only thread
//!       ▲                                            │
//!   whose only thread, queued for A ◄── waits for a call
//! ```
//!
//! The graph is made of observations, one process at a time: [`WaitGraph::search`] says which one
//! it needs next. These are made at different times, under different locks. Therefore, whoever
//! reports what was found checks before that the threads [still wait](WaitGraph::reached).

use crate::pure::call_stack::FrameId;
use kernel::{alloc::AllocError, prelude::*};

/// How much of the system one search visits at most.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) processes: usize,
    pub(crate) threads: usize,
    /// Calls on the stacks of these threads.
    pub(crate) served: usize,
}

/// The limits of a search that is made for one call.
pub(crate) const LIMITS: Limits = Limits {
    processes: 64,
    threads: 1024,
    served: 4096,
};

/// A call that a thread makes: the frame on its stack, and the pid of the process that the call is
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) frame: FrameId,
    pub(crate) target: i32,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It runs outside of the driver, or has something to read.
    Free,
    /// It waits for the outcome of a call that it has made.
    Waits(Call),
}

/// Names a call, whoever serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallKey {
    /// The address of the thread that has made it, which is not used again while the graph has a
    /// reference to it: see [`Seen::thread`] and [`Served::_caller`].
    pub(crate) caller: usize,
    /// The serial number of its frame.
    pub(crate) serial: u64,
}

/// A thread that was observed; `T` is a reference to it.
pub(crate) struct Seen<T> {
    pub(crate) thread: T,
    /// The address of the thread, which is not used again while the graph has the reference.
    pub(crate) address: usize,
    /// Whether it may take a call that is queued for its process.
    pub(crate) may_take: bool,
    pub(crate) activity: Activity,
}

/// A call on the stack of a thread that serves it; `T` is a reference to a thread.
#[derive(Debug)]
pub(crate) struct Served<T> {
    pub(crate) key: CallKey,
    /// Keeps the address in `key` from being used again.
    pub(crate) _caller: T,
    /// The debug id of the call.
    pub(crate) id: u32,
    /// When it was sent, in ticks, of which only differences mean something.
    pub(crate) sent: u32,
    /// What the thread does for it.
    pub(crate) then: Activity,
}

/// Where a call has been found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The search has not come so far.
    Nowhere,
    /// A thread serves it: its index among [`WaitGraph::threads`]; the debug id of the call, and
    /// when it was sent.
    ServedBy { thread: usize, id: u32, sent: u32 },
    /// No thread serves it. Of the threads of its target, `able` may take it, of which `free` do
    /// not wait. The target may take calls only after it has been thawed.
    Queued {
        able: u32,
        free: u32,
        is_frozen: bool,
    },
}

/// A call that the search has reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// The thread that has made it.
    pub(crate) thread: usize,
    pub(crate) call: Call,
    pub(crate) found: Found,
    /// The call before it on the way from the first one.
    before: usize,
}

/// What a search needs before it can go on, or its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The process of this pid has to be added.
    Add(i32),
    Done(Verdict),
}

/// What is to be expected of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Some thread on which it depends can go on.
    Moves,
    /// All threads on which it depends wait, some of them for the call itself.
    Cycle,
    /// All threads on which it depends wait, but none of them for this call.
    Stuck,
    /// It depends on more threads than a search visits.
    Unknown,
}

struct ProcessSeen {
    pid: i32,
    /// Its threads.
    threads: core::ops::Range<usize>,
    /// The calls on the stacks of its threads, sorted by their keys.
    served: core::ops::Range<usize>,
    /// Whether it was asked for a thread that has not come yet.
    expects_thread: bool,
    is_frozen: bool,
}

/// What a search has observed and found.
pub(crate) struct WaitGraph<T> {
    limits: Limits,
    processes: KVVec<ProcessSeen>,
    /// How many processes these are.
    openings: usize,
    threads: KVVec<Seen<T>>,
    /// For each of `threads`, whether the call that it waits for is among `reached`.
    is_reached: KVVec<bool>,
    /// The calls that `threads` serve, and the index of the thread.
    served: KVVec<(Served<T>, usize)>,
    reached: KVVec<Reached>,
    /// How many of `reached` have been followed.
    followed: usize,
    /// The first of `reached` that waits for the first one.
    closing: Option<usize>,
    is_full: bool,
}

impl<T> WaitGraph<T> {
    /// Returns a graph that only has a thread that waits for a call, of which the search begins.
    pub(crate) fn new(limits: Limits, thread: T, address: usize, call: Call) -> Result<Self> {
        let mut graph = Self {
            limits,
            processes: KVVec::new(),
            openings: 0,
            threads: KVVec::new(),
            is_reached: KVVec::new(),
            served: KVVec::new(),
            reached: KVVec::new(),
            followed: 0,
            closing: None,
            is_full: false,
        };
        let activity = Activity::Waits(call);
        graph.reserve(1)?;
        graph.add_thread(Seen {
            thread,
            address,
            may_take: false,
            activity,
        });
        graph.reach(0, call, 0)?;
        Ok(graph)
    }

    /// Begins to add all processes of one pid: threads of any of them may take a call that is for
    /// that pid.
    pub(crate) fn begin_process(&mut self, pid: i32) -> Result {
        let process = ProcessSeen {
            pid,
            threads: self.threads.len()..self.threads.len(),
            served: self.served.len()..self.served.len(),
            expects_thread: false,
            is_frozen: false,
        };
        Ok(self.processes.push(process, GFP_KERNEL)?)
    }

    /// Makes room for this number of threads and served calls, so that adding them allocates
    /// nothing.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), AllocError> {
        self.threads.reserve(count, GFP_KERNEL)?;
        self.is_reached.reserve(count, GFP_KERNEL)?;
        self.served.reserve(count, GFP_KERNEL)
    }

    /// Whether nothing more can be added: the search has come to its limits.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds a thread of the process that was begun last. Room must be reserved.
    pub(crate) fn add_thread(&mut self, seen: Seen<T>) {
        self.is_full |= self.threads.len() >= self.limits.threads;
        if !self.is_full {
            let _ = self.is_reached.push_within_capacity(false);
            let _ = self.threads.push_within_capacity(seen);
        }
    }

    /// Adds a call that the thread serves that was added last. Room must be reserved.
    pub(crate) fn add_served(&mut self, served: Served<T>) {
        self.is_full |= self.served.len() >= self.limits.served;
        if !self.is_full {
            let by = self.threads.len() - 1;
            let _ = self.served.push_within_capacity((served, by));
        }
    }

    /// Adds a process of the pid that was begun last: whether it was asked for another thread, and
    /// whether it is frozen.
    pub(crate) fn add_process(&mut self, expects_thread: bool, is_frozen: bool) {
        self.openings += 1;
        self.is_full |= self.openings > self.limits.processes;
        if let Some(process) = self.processes.last_mut() {
            process.expects_thread |= expects_thread;
            process.is_frozen |= is_frozen;
        }
    }

    /// Ends the pid that was begun last.
    pub(crate) fn end_process(&mut self) {
        if let Some(process) = self.processes.last_mut() {
            process.threads.end = self.threads.len();
            process.served.end = self.served.len();
            sort(&mut self.served[process.served.clone()]);
        }
    }

    /// Follows the calls until another process has to be added, or the result is known.
    pub(crate) fn search(&mut self) -> Result<Step> {
        while let Some(&Reached { thread, call, .. }) = self.reached.get(self.followed) {
            if self.is_full {
                return Ok(Step::Done(Verdict::Unknown));
            }
            // Few processes are visited, so there is no need for a tree.
            let process = self.processes.iter().position(|it| it.pid == call.target);
            let Some(process) = process else {
                return Ok(Step::Add(call.target));
            };
            if self.follow(process, thread, call)? {
                return Ok(Step::Done(Verdict::Moves));
            }
        }
        Ok(Step::Done(match self.closing {
            Some(_) => Verdict::Cycle,
            None => Verdict::Stuck,
        }))
    }

    /// Finds the call that is to be followed next, and reaches what it waits for. Returns whether
    /// it can go on.
    fn follow(&mut self, process: usize, thread: usize, call: Call) -> Result<bool> {
        let at = self.followed;
        self.followed += 1;
        let key = CallKey {
            caller: self.threads[thread].address,
            serial: call.frame.serial,
        };
        let process = &self.processes[process];
        let served = &self.served[process.served.clone()];
        if let Ok(index) = served.binary_search_by_key(&key, |(served, _)| served.key) {
            let (it, thread) = (&served[index].0, served[index].1);
            let (id, sent) = (it.id, it.sent);
            self.reached[at].found = Found::ServedBy { thread, id, sent };
            return match it.then {
                Activity::Free => Ok(true),
                Activity::Waits(next) => self.reach(thread, next, at).map(|()| false),
            };
        }
        let threads = process.threads.clone();
        let all = &self.threads[threads.clone()];
        let able = all.iter().filter(|thread| thread.may_take);
        let free = able.clone().filter(|it| it.activity == Activity::Free);
        let (free, able) = (free.count() as u32, able.count() as u32);
        let may_come = process.expects_thread || able == 0;
        self.reached[at].found = Found::Queued {
            able,
            free,
            is_frozen: process.is_frozen,
        };
        if free > 0 || may_come {
            return Ok(true);
        }
        for thread in threads {
            if let (true, Activity::Waits(next)) =
                (self.threads[thread].may_take, self.threads[thread].activity)
            {
                self.reach(thread, next, at)?;
            }
        }
        Ok(false)
    }

    /// Adds a call to those that have been reached, unless it is one of them.
    fn reach(&mut self, thread: usize, call: Call, before: usize) -> Result {
        if let Some(first) = self.reached.first() {
            let is_first = self.threads[thread].address == self.threads[0].address
                && call.frame.serial == first.call.frame.serial;
            if is_first {
                self.closing = self.closing.or(Some(before));
                return Ok(());
            }
        }
        // Any other call of the thread than the one that it waits for now is reached only from the
        // call that it serves at that place, which is followed once.
        if self.threads[thread].activity == Activity::Waits(call)
            && core::mem::replace(&mut self.is_reached[thread], true)
        {
            return Ok(());
        }
        let reached = Reached {
            thread,
            call,
            found: Found::Nowhere,
            before,
        };
        Ok(self.reached.push(reached, GFP_KERNEL)?)
    }

    /// Returns the threads that were observed. The first one is that from which the search began.
    pub(crate) fn threads(&self) -> &[Seen<T>] {
        &self.threads
    }

    /// Returns all calls that the search has reached, the first call first. If that is
    /// [stuck](Verdict), these are the calls of all threads on which it depends.
    pub(crate) fn reached(&self) -> &[Reached] {
        &self.reached
    }

    /// Returns the chain of calls to be told: those of a cycle that the first call is part of, or
    /// else the first call and those for which it waits, up to one for which there is more than one
    /// way on.
    pub(crate) fn chain(&self) -> Result<KVVec<Reached>> {
        let mut chain = KVVec::new();
        let Some(mut at) = self.closing else {
            for reached in &*self.reached {
                chain.push(*reached, GFP_KERNEL)?;
                if !matches!(reached.found, Found::ServedBy { .. }) {
                    break;
                }
            }
            return Ok(chain);
        };
        loop {
            chain.push(self.reached[at], GFP_KERNEL)?;
            if at == 0 {
                break;
            }
            at = self.reached[at].before;
        }
        chain.reverse();
        Ok(chain)
    }
}

/// Sorts by the keys, in place. That of the core library takes more of the stack than the kernel
/// has to spare.
fn sort<T>(served: &mut [(Served<T>, usize)]) {
    for parent in (0..served.len() / 2).rev() {
        sift_down(served, parent);
    }
    for end in (1..served.len()).rev() {
        served.swap(0, end);
        sift_down(&mut served[..end], 0);
    }
}

/// Moves an item down in a heap whose largest item is to be the first, until it is in its place.
fn sift_down<T>(heap: &mut [(Served<T>, usize)], mut at: usize) {
    loop {
        let children = 2 * at + 1..(2 * at + 3).min(heap.len());
        let Some(largest) = children.max_by_key(|child| heap[*child].0.key) else {
            return;
        };
        if heap[at].0.key >= heap[largest].0.key {
            return;
        }
        heap.swap(at, largest);
        at = largest;
    }
}
