// SPDX-License-Identifier: GPL-2.0

//! The sums of the counters of codes ([`crate::common::code_counts`]): those of a process, and
//! those of all processes since the module was loaded.
//!
//! Counters are added up while threads and processes come and go. A process that ends meanwhile is
//! in the sum once, either because the reader has come past it, or because it is added to what the
//! reader misses. A thread that ends meanwhile may be in it twice, if its process has more threads
//! than are visited at once ([`of_process`]): the next sum is smaller then.

use crate::{
    common::code_counts::CodeSum,
    kernel_ext::sched,
    lifecycle::registry::{self, Key, OpenedUntil},
    process::{Pid, Process},
    pure::visits_left::{VisitsLeft, AT_ONCE},
    thread::WaitState, //
};
use kernel::prelude::*;

/// What the threads of a process, or of all, have, added up.
#[derive(Clone)]
pub(crate) struct ThreadSums {
    pub(crate) codes: CodeSum,
    /// Threads that have not ended. Of those that have, others may keep the records.
    pub(crate) threads: u32,
    /// Threads that wait for any work of their process.
    pub(crate) idle: u32,
    /// Completions of calls and replies that are unread.
    pub(crate) completions: u32,
    /// Transactions that are kept for the next call.
    pub(crate) spare_transactions: u32,
}

impl ThreadSums {
    const fn new() -> Self {
        Self {
            codes: CodeSum::new(),
            threads: 0,
            idle: 0,
            completions: 0,
            spare_transactions: 0,
        }
    }

    fn add(&mut self, other: &Self) {
        self.codes.add(&other.codes);
        self.threads += other.threads;
        self.idle += other.idle;
        self.completions += other.completions;
        self.spare_transactions += other.spare_transactions;
    }
}

/// What has been counted by processes that have ended, and what of it a reader misses.
pub(crate) struct Ended {
    sum: CodeSum,
    /// While all processes are added up: those whose keys are less have been visited; what has been
    /// counted by others that have ended meanwhile.
    missed: Option<(Key, CodeSum)>,
}

kernel::sync::global_lock! {
    // SAFETY: `ffi::Devices::make` initialises the lock before a device exists that can be opened.
    pub(crate) unsafe(uninit) static ENDED: SpinLock<Ended> = Ended {
        sum: CodeSum::new(),
        missed: None,
    };
}

kernel::sync::global_lock! {
    // SAFETY: As above.
    pub(crate) unsafe(uninit) static READING: Mutex<()> = ();
}

/// Returns the sums of the threads of a process. If it has more threads than are visited at once,
/// one that ends meanwhile may be counted twice. No lock may be held.
pub(crate) fn of_process(process: &Process) -> ThreadSums {
    let mut sums = ThreadSums::new();
    let counts = process.code_counts.open();
    let (mut from, mut left) = (Some(Pid::MIN), None);
    while let Some(first) = from {
        let state = process.lock_state();
        let next = state.threads.visit(&first, AT_ONCE, |_, thread| {
            thread.counts.add_to(&mut sums.codes);
            let thread = thread.state_shared(&state);
            sums.threads += 1;
            sums.idle += u32::from(thread.wait_state == WaitState::ForAnyWork);
            sums.completions += thread.completions.unread();
            sums.spare_transactions += u32::from(thread.spare_transaction.is_some());
        });
        let left = left.get_or_insert_with(|| VisitsLeft::of(state.threads.len()));
        from = next.filter(|_| left.take(AT_ONCE));
        // Under the same lock as the last threads: one that ends adds its counters to these.
        if let (None, Some(counts)) = (from, &counts) {
            counts.add_to(&mut sums.codes);
        }
    }
    sums
}

/// Returns the sums of all processes that are open, and how many there are. Of processes that have
/// ended others may keep the records, which are not counted. No lock may be held.
pub(crate) fn of_all() -> (ThreadSums, u32) {
    let _one_at_a_time = READING.lock();
    let (mut sums, mut processes) = (ThreadSums::new(), 0);
    sums.codes = begin();
    let opened = OpenedUntil::now();
    let mut next = registry::FIRST_KEY;
    while let Some(process) = opened.first_from(next) {
        let of_process = of_process(&process);
        next = registry::key_behind(&process);
        if pass(&process, next) {
            sums.add(&of_process);
            processes += 1;
        }
        sched::cond_resched();
    }
    sums.codes.add(&finish());
    (sums, processes)
}

/// Begins to visit all processes. Returns what those that have ended before have counted.
fn begin() -> CodeSum {
    let mut ended = ENDED.lock();
    ended.missed = Some((registry::FIRST_KEY, CodeSum::new()));
    ended.sum.clone()
}

/// Records that all processes whose keys are less than `next` have been visited, of which `process`
/// is the last. Returns `false` if it has ended meanwhile: then it is among those that are missed.
fn pass(process: &Process, next: Key) -> bool {
    registry::with(process, |is_opened| {
        if let Some((visited, _)) = &mut ENDED.lock().missed {
            *visited = next;
        }
        is_opened
    })
}

/// Ends the visit of all processes. Returns what the processes have counted that have ended before
/// they were visited.
fn finish() -> CodeSum {
    let missed = ENDED.lock().missed.take();
    missed.map_or(CodeSum::new(), |(_, sum)| sum)
}

/// Adds what a process has counted that is removed from the registry. To be called under the lock
/// of the registry.
pub(crate) fn add_ended(process: &Process, codes: &CodeSum) {
    let mut ended = ENDED.lock();
    ended.sum.add(codes);
    if let Some((visited, missed)) = &mut ended.missed {
        if registry::key(process) >= *visited {
            missed.add(codes);
        }
    }
}
