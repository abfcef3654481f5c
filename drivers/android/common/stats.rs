// SPDX-License-Identifier: GPL-2.0

//! Counters of objects and of codes, and debug ids.
//!
//! Each object on the heap counts itself, so that a log can show how many exist and have existed,
//! and unloading the module can report what was never freed. Objects are allocated and freed rarely
//! (a steady stream of calls reuses them), so the counters cost the transaction path nothing.
//!
//! The commands (`BC_*`) and return codes (`BR_*`) of calls are counted for the thread, the others
//! for the process. Only the thread itself writes its own counters, so it needs no atomic addition
//! for them. When a thread ends, its counters are added to those of the process.
//!
//! The counters of codes count what the C driver counts. A command counts before it runs, also one
//! that is cut off, or does not exist if another one has its running number. A return code counts
//! when it is added to the read buffer, a call or a reply when user space has it. The placeholder
//! `BR_NOOP` that a read begins with does not count. The counters are as wide as those of the C
//! driver, and wrap around.

use crate::{
    defs::{Command, Return},
    kernel_ext::once::{read_once, write_once},
    pure::numbers::{take_numbers, FIRST_COUNT, FIRST_DEBUG_ID}, //
};
use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Relaxed, Release}, //
};

/// The kinds of objects that are counted.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Kind {
    Context,
    Process,
    Thread,
    Node,
    Ref,
    Transaction,
    DeathNotification,
    FreezeNotification,
}

const KINDS: [(Kind, &str); 8] = [
    (Kind::Context, "contexts"),
    (Kind::Process, "processes"),
    (Kind::Thread, "threads"),
    (Kind::Node, "nodes"),
    (Kind::Ref, "refs"),
    (Kind::Transaction, "transactions"),
    (Kind::DeathNotification, "death notifications"),
    (Kind::FreezeNotification, "freeze notifications"),
];

static CREATED: [Atomic<i32>; KINDS.len()] = [const { Atomic::new(FIRST_COUNT) }; KINDS.len()];
static FREED: [Atomic<i32>; KINDS.len()] = [const { Atomic::new(FIRST_COUNT) }; KINDS.len()];

/// The presence of one object: a field of the object, counted as long as it exists.
pub(crate) struct Counted(Kind);

impl Counted {
    /// Counts an object that is being created.
    pub(crate) fn new(kind: Kind) -> Self {
        CREATED[kind as usize].add(1, Relaxed);
        Self(kind)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // ORDERING: Pairs with `objects`: a reader that counts this object as freed counts it as
        // created, too.
        FREED[self.0 as usize].fetch_add(1, Release);
    }
}

/// The numbers of objects of a kind that exist, and that have been created.
#[derive(Clone, Copy)]
pub(crate) struct Objects {
    pub(crate) alive: u32,
    pub(crate) created: u32,
}

/// Returns the number of objects of a kind.
pub(crate) fn objects(kind: Kind) -> Objects {
    // First those that were freed: an object that is created and freed in between only seems to
    // exist. ORDERING: Pairs with the drop of `Counted`.
    let freed = FREED[kind as usize].load(Acquire);
    let created = read_once(&CREATED[kind as usize]);
    Objects {
        alive: created.wrapping_sub(freed) as u32,
        created: created.wrapping_sub(FIRST_COUNT) as u32,
    }
}

/// Reports every object that still exists although nothing can use it any more.
///
/// The test runner looks for the word "leaked".
pub(crate) fn report_leaks() {
    for (kind, name) in KINDS {
        let Objects { alive, .. } = objects(kind);
        if alive != 0 {
            pr_err!("leaked {} {}\n", alive, name);
        }
    }
}

static LAST_DEBUG_ID: Atomic<i32> = Atomic::new(FIRST_DEBUG_ID);

/// Takes so many consecutive debug ids, by which logs, trace events and the extended error name
/// calls, replies, nodes and refs: all from one counter (contract NODE-15). Returns the first. None
/// is 0.
pub(crate) fn take_debug_ids(count: u32) -> u32 {
    take_numbers(count, |count| {
        // CAST: Only signs change.
        LAST_DEBUG_ID.fetch_add(count as i32, Relaxed) as u32
    })
}

/// Returns the debug id of a node or a ref.
pub(crate) fn next_debug_id() -> u32 {
    take_debug_ids(1)
}

/// The number of counters: one for each running number of a command, then one for each of a return
/// code.
const COUNTERS: usize = Command::NUMBERS + Return::NUMBERS;

const FREQUENT: usize = 8;

/// The frequent codes, which a thread counts by itself, in the order of its counters.
const COUNTED_BY_THREAD: [Counter; FREQUENT] = [
    Counter::of_command(Command::Transaction),
    Counter::of_command(Command::Reply),
    Counter::of_command(Command::FreeBuffer),
    Counter::of_command(Command::TransactionSg),
    Counter::of_command(Command::ReplySg),
    Counter::of_return(Return::Transaction),
    Counter::of_return(Return::Reply),
    Counter::of_return(Return::TransactionComplete),
];

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

/// The number of a counter: one for each command and each return code.
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
    /// Makes the counters of a thread.
    pub(crate) const fn new() -> Self {
        Self([const { Atomic::new(0) }; FREQUENT])
    }

    /// Counts a code of the thread, which is the calling one, and belongs to this process.
    #[inline(always)]
    pub(crate) fn count(&self, process: &ProcessCounts, counter: Counter) {
        match self.0.get(usize::from(PLACES[counter.0])) {
            Some(own) => write_once(own, read_once(own).wrapping_add(1)),
            None => process.0[counter.0].add(1, Relaxed),
        }
    }

    /// Adds the counters to those of the process. The thread has ended, and counts no more.
    pub(crate) fn give_to(&self, process: &ProcessCounts) {
        for (counter, own) in COUNTED_BY_THREAD.iter().zip(&self.0) {
            process.0[counter.0].add(read_once(own), Relaxed);
        }
    }

    /// Adds the counters to `sum`.
    pub(crate) fn add_to(&self, sum: &mut CodeSum) {
        for (counter, own) in COUNTED_BY_THREAD.iter().zip(&self.0) {
            let sum = &mut sum.0[counter.0];
            *sum = sum.wrapping_add(read_once(own));
        }
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

    /// Adds the counters to `sum`.
    pub(crate) fn add_to(&self, sum: &mut CodeSum) {
        for (sum, counter) in sum.0.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(read_once(counter));
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
