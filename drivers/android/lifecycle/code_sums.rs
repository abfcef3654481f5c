// SPDX-License-Identifier: GPL-2.0

//! The sums of the counters of codes ([`crate::common::stats`]): those of a process, and
//! those of all processes since the module was loaded.
//!
//! Counters are added up while threads and processes come and go, and each is in the sum once, so
//! no sum is less than one that was read before. A reader first collects the threads of a process,
//! and leaves those out that have ended before it reads the counters of the process. Processes that
//! end are numbered: a reader that has visited one leaves it out if it is among those whose sum it
//! reads at last.

use crate::{
    common::stats::CodeSum,
    kernel_ext::sched,
    process::{Pid, Process},
    pure::counted_tree::AT_ONCE,
    thread::{Thread, WaitState}, //
};
use kernel::{
    alloc::flags::GFP_KERNEL_ACCOUNT,
    prelude::*,
    sync::{atomic::Relaxed, Arc}, //
};

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

/// What has been counted by processes that have ended, and how many have.
pub(crate) struct Ended {
    sum: CodeSum,
    number: u64,
}

kernel::sync::global_lock! {
    // SAFETY: `ffi::Devices::make` initialises the lock before a device exists that can be opened.
    pub(crate) unsafe(uninit) static ENDED: SpinLock<Ended> = Ended {
        sum: CodeSum::new(),
        number: 0,
    };
}

/// Returns the sums of the threads of a process. Fails with `ENOMEM`. No lock may be held.
pub(crate) fn of_process(process: &Process) -> Result<ThreadSums> {
    let mut sums = ThreadSums::new();
    let mut threads = KVVec::new();
    let mut from = Some(Pid::MIN);
    while let Some(first) = from {
        threads.reserve(AT_ONCE, GFP_KERNEL_ACCOUNT)?;
        let state = process.lock_state();
        from = state.threads.visit(&first, |_, thread| {
            // There is room.
            let _ = threads.push_within_capacity(thread.clone());
            let thread = thread.state_shared(&state);
            sums.threads += 1;
            sums.idle += u32::from(thread.wait_state == WaitState::ForAnyWork);
            sums.completions += thread.completions.unread;
            sums.spare_transactions += u32::from(thread.spare_transaction.is_some());
        });
        drop(state);
        sched::cond_resched();
    }
    sums.codes = codes_of(process, &mut threads);
    Ok(sums)
}

/// Returns what a process and these threads of it have counted. Those of them that have ended have
/// given their counters to the process, and are removed.
fn codes_of(process: &Process, threads: &mut KVVec<Arc<Thread>>) -> CodeSum {
    loop {
        // Of a thread that is removed here, the process has the counters when its lock is taken.
        threads.retain(|thread| !thread.has_ended.load(Relaxed));
        let state = process.lock_state();
        let mut codes = CodeSum::new();
        if let Some(counts) = process.code_counts.open() {
            counts.add_to(&mut codes);
        }
        drop(state);
        // Each turn has fewer threads than the one before.
        if !threads.iter().any(|thread| thread.has_ended.load(Relaxed)) {
            for thread in &*threads {
                thread.counts.add_to(&mut codes);
            }
            return codes;
        }
    }
}

/// Returns the sums of all processes since the module was loaded, of which these, which were opened
/// before, have been visited, and the number of those that are still open.
pub(crate) fn of_all<'a>(
    visited: impl Iterator<Item = (&'a Arc<Process>, &'a ThreadSums)>,
) -> (ThreadSums, u32) {
    let (mut sums, mut processes) = (ThreadSums::new(), 0);
    let ended = ENDED.lock();
    sums.codes = ended.sum.clone();
    let number = ended.number;
    drop(ended);
    for (process, of_process) in visited {
        // The sum already includes the counters of processes that had ended.
        if !(1..=number).contains(&process.ended.load(Relaxed)) {
            sums.add(of_process);
            processes += 1;
        }
    }
    (sums, processes)
}

/// Adds what a process has counted that ends: no thread of it is in the driver any more. To be
/// called before it is removed from the registry, so that a reader who does not find it there finds
/// it here.
pub(crate) fn add_ended(process: &Process) {
    let mut codes = codes_of(process, &mut KVVec::new());
    let mut from = Some(Pid::MIN);
    while let Some(first) = from {
        let state = process.lock_state();
        from = state.threads.visit(&first, |_, thread| {
            thread.counts.add_to(&mut codes);
        });
    }
    let mut ended = ENDED.lock();
    ended.number += 1;
    ended.sum.add(&codes);
    process.ended.store(ended.number, Relaxed);
}
