// SPDX-License-Identifier: GPL-2.0

//! Counters of the commands (`BC_*`) that threads run and the return codes (`BR_*`) that they read.
//!
//! The most frequent codes are counted for the thread, the others for the process. Only the thread
//! itself writes its counters, so it needs no atomic addition and shares no cache line. When a thread
//! ends, its counters are added to those of the process.
//!
//! They count what the C driver counts: a command before it runs, also one that is cut off or does
//! not exist if another one has its running number; a return code when it is added to the read
//! buffer; and not the placeholder `BR_NOOP` that a read begins with. They are as wide as those of
//! the C driver, and come round.

use crate::defs::{Command, Return};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed}, //
};

/// The number of counters: one for each running number of a command, then one for each of a return
/// code.
const COUNTERS: usize = Command::NUMBERS + Return::NUMBERS;

/// The commands that a thread counts by itself.
const FREQUENT_COMMANDS: [Command; 11] = [
    Command::Transaction,
    Command::Reply,
    Command::FreeBuffer,
    Command::IncRefs,
    Command::Acquire,
    Command::Release,
    Command::DecRefs,
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

/// For each counter of a process its place among those of a thread, or [`FREQUENT`] if a thread has
/// none.
const PLACES: [u8; COUNTERS] = {
    // CAST: There are few.
    let mut places = [FREQUENT as u8; COUNTERS];
    let mut place = 0;
    while place < FREQUENT_COMMANDS.len() {
        places[FREQUENT_COMMANDS[place].number()] = place as u8;
        place += 1;
    }
    while place < FREQUENT {
        let code = FREQUENT_RETURNS[place - FREQUENT_COMMANDS.len()];
        places[Command::NUMBERS + code.number()] = place as u8;
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
pub(crate) struct ThreadCounts([Atomic<u32>; FREQUENT]);

impl ThreadCounts {
    pub(crate) fn new() -> Result<KBox<Self>> {
        let counters = [const { Atomic::new(0) }; FREQUENT];
        Ok(KBox::new(Self(counters), GFP_KERNEL)?)
    }

    /// Counts for the thread, which is the calling one. Returns `false` if its process has to count.
    #[inline(always)]
    pub(crate) fn count(&self, counter: Counter) -> bool {
        match self.0.get(usize::from(PLACES[counter.0])) {
            Some(own) => {
                own.store(own.load(Relaxed).wrapping_add(1), Relaxed);
                true
            }
            None => false,
        }
    }

    /// Adds the counters to `sum`.
    pub(crate) fn add_to(&self, sum: &mut FrequentSum) {
        for (sum, own) in sum.0.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(own.load(Relaxed));
        }
    }
}

/// A sum of the counters of threads.
pub(crate) struct FrequentSum([u32; FREQUENT]);

impl FrequentSum {
    pub(crate) const fn new() -> Self {
        Self([0; FREQUENT])
    }
}

/// The counters of a process. They have the codes that threads do not count by themselves, and all
/// codes of threads that have ended.
pub(crate) struct ProcessCounts([Atomic<u32>; COUNTERS]);

impl ProcessCounts {
    pub(crate) fn new() -> Result<KBox<Self>> {
        let counters = [const { Atomic::new(0) }; COUNTERS];
        Ok(KBox::new(Self(counters), GFP_KERNEL)?)
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.0[counter.0].add(1, Relaxed);
    }

    /// Adds the counters of a thread that has ended.
    pub(crate) fn add(&self, thread: &ThreadCounts) {
        for (sum, place) in self.0.iter().zip(PLACES) {
            if let Some(own) = thread.0.get(usize::from(place)) {
                sum.add(own.load(Relaxed), Relaxed);
            }
        }
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

    /// Adds a sum of the counters of threads.
    pub(crate) fn add_frequent(&mut self, frequent: &FrequentSum) {
        for (sum, place) in self.0.iter_mut().zip(PLACES) {
            if let Some(frequent) = frequent.0.get(usize::from(place)) {
                *sum = sum.wrapping_add(*frequent);
            }
        }
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
