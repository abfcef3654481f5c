// SPDX-License-Identifier: GPL-2.0

//! Counters of the commands (`BC_*`) that threads run and the return codes (`BR_*`) that they read.
//!
//! The most frequent codes are counted for the thread, the others for the process, whose counters
//! each thread knows. Only the thread itself writes its own counters, so it needs no atomic
//! addition for them and shares no cache line. When a thread ends, its counters are added to those
//! of the process.
//!
//! They count what the C driver counts: a command before it runs, also one that is cut off or does
//! not exist if another one has its running number; a return code when it is added to the read
//! buffer, a call or a reply when user space has it; and not the placeholder `BR_NOOP` that a read
//! begins with. They are as wide as those of the C driver, and come round.

use crate::defs::{Command, Return};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, //
    }, //
};

/// The number of counters: one for each running number of a command, then one for each of a return
/// code.
const COUNTERS: usize = Command::NUMBERS + Return::NUMBERS;

/// The commands that a thread counts by itself.
const FREQUENT_COMMANDS: [Command; 9] = [
    Command::Transaction,
    Command::Reply,
    Command::FreeBuffer,
    Command::Acquire,
    Command::Release,
    Command::IncRefsDone,
    Command::AcquireDone,
    Command::TransactionSg,
    Command::ReplySg,
];

/// The return codes that a thread counts by itself.
const FREQUENT_RETURNS: [Return; 5] = [
    Return::Transaction,
    Return::Reply,
    Return::TransactionComplete,
    Return::IncRefs,
    Return::Acquire,
];

const FREQUENT: usize = FREQUENT_COMMANDS.len() + FREQUENT_RETURNS.len();

// A cache line, and a size that the kernel's allocator has.
const _: () = assert!(size_of::<ThreadCounts>() == 64);

/// What each counter of a thread counts.
const COUNTED_BY_THREAD: [Counter; FREQUENT] = {
    let mut counters = [Counter(0); FREQUENT];
    let mut place = 0;
    while place < FREQUENT_COMMANDS.len() {
        counters[place] = Counter::of_command(FREQUENT_COMMANDS[place]);
        place += 1;
    }
    while place < FREQUENT {
        let code = FREQUENT_RETURNS[place - FREQUENT_COMMANDS.len()];
        counters[place] = Counter::of_return(code);
        place += 1;
    }
    counters
};

/// For each counter of a process its place among those of a thread, or [`FREQUENT`] if a thread has
/// none.
const PLACES: [u8; COUNTERS] = {
    // CAST: There are few.
    let mut places = [FREQUENT as u8; COUNTERS];
    let mut place = 0;
    while place < FREQUENT {
        places[COUNTED_BY_THREAD[place].0] = place as u8;
        place += 1;
    }
    places
};

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) struct Counter(usize);

impl Counter {
    #[inline(always)]
    pub(crate) const fn of_command(command: Command) -> Self {
        Self(command.number())
    }

    #[inline(always)]
    pub(crate) const fn of_return(code: Return) -> Self {
        Self(Command::NUMBERS + code.number())
    }

    /// Returns the counter of a code that is no command, or is that of one that is cut off.
    pub(crate) fn of_refused(code: u32) -> Option<Self> {
        let number = (code & 0xff) as usize;
        (number < Command::NUMBERS).then_some(Self(number))
    }
}

/// The counters of a thread.
pub(crate) struct ThreadCounts {
    own: [Atomic<u32>; FREQUENT],
    process: Arc<ProcessCounts>,
}

impl ThreadCounts {
    /// Makes the counters of a thread, with those of its process.
    pub(crate) fn new(process: Arc<ProcessCounts>) -> Result<KBox<Self>> {
        let own = [const { Atomic::new(0) }; FREQUENT];
        Ok(KBox::new(Self { own, process }, GFP_KERNEL)?)
    }

    /// Counts a code of the thread, which is the calling one.
    #[inline(always)]
    pub(crate) fn count(&self, counter: Counter) {
        match self.own.get(usize::from(PLACES[counter.0])) {
            Some(own) => own.store(own.load(Relaxed).wrapping_add(1), Relaxed),
            None => self.process.0[counter.0].add(1, Relaxed),
        }
    }

    /// Adds the counters to those of the process. The thread has ended, and counts no more.
    pub(crate) fn give_to_process(&self) {
        for (counter, own) in COUNTED_BY_THREAD.iter().zip(&self.own) {
            self.process.0[counter.0].add(own.load(Relaxed), Relaxed);
        }
    }

    /// Adds the counters to `sum`.
    pub(crate) fn add_to(&self, sum: &mut CodeSum) {
        for (counter, own) in COUNTED_BY_THREAD.iter().zip(&self.own) {
            let sum = &mut sum.0[counter.0];
            *sum = sum.wrapping_add(own.load(Relaxed));
        }
    }
}

/// The counters of a process. They have the codes that threads do not count by themselves, and all
/// codes of threads that have ended.
pub(crate) struct ProcessCounts([Atomic<u32>; COUNTERS]);

impl ProcessCounts {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let counters = [const { Atomic::new(0) }; COUNTERS];
        Ok(Arc::new(Self(counters), GFP_KERNEL)?)
    }

    /// Adds the counters to `sum`.
    pub(crate) fn add_to(&self, sum: &mut CodeSum) {
        for (sum, counter) in sum.0.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(counter.load(Relaxed));
        }
    }
}

/// A sum of counters.
#[derive(Clone)]
pub(crate) struct CodeSum([u32; COUNTERS]);

impl CodeSum {
    pub(crate) const fn new() -> Self {
        Self([0; COUNTERS])
    }

    /// Adds another sum.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, other) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(other);
        }
    }

    /// Returns the sums of the commands, by running number.
    pub(crate) fn commands(&self) -> &[u32] {
        &self.0[..Command::NUMBERS]
    }

    /// Returns the sums of the return codes, by running number.
    pub(crate) fn returns(&self) -> &[u32] {
        &self.0[Command::NUMBERS..]
    }
}
