// SPDX-License-Identifier: GPL-2.0

//! Counters of objects: each object on the heap counts itself, so that a log can show how many
//! exist and have existed, and unloading the module can report what was never freed.
//!
//! Objects are allocated and freed rarely (a steady stream of calls reuses them), so the counters
//! cost the transaction path nothing.

use crate::pure::numbers::{take_numbers, NumberBlock, FIRST_COUNT, FIRST_DEBUG_ID};
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
        count_freed(self.0 as usize);
    }
}

/// The same in no room, for objects whose size matters; `KIND` is the number of a [`Kind`].
pub(crate) struct CountedAs<const KIND: u8>(());

impl<const KIND: u8> CountedAs<KIND> {
    /// Counts an object that is being created.
    pub(crate) fn new() -> Self {
        CREATED[KIND as usize].add(1, Relaxed);
        Self(())
    }
}

impl<const KIND: u8> Drop for CountedAs<KIND> {
    fn drop(&mut self) {
        count_freed(usize::from(KIND));
    }
}

/// Counts an object of a kind that is being freed.
fn count_freed(kind: usize) {
    // ORDERING: Pairs with `objects`: whoever counts that this object was freed counts that it was
    // created, too.
    FREED[kind].fetch_add(1, Release);
}

/// How many objects of a kind exist, and have been created.
#[derive(Clone, Copy)]
pub(crate) struct Objects {
    pub(crate) alive: u32,
    pub(crate) created: u32,
}

/// Returns the number of objects of a kind.
pub(crate) fn objects(kind: Kind) -> Objects {
    // First those that were freed: an object that is created and freed meanwhile only seems to
    // exist. ORDERING: Pairs with `count_freed`.
    let freed = FREED[kind as usize].load(Acquire);
    let created = CREATED[kind as usize].load(Relaxed);
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
fn take_debug_ids(count: u32) -> u32 {
    take_numbers(count, |count| {
        // CAST: Only signs change.
        LAST_DEBUG_ID.fetch_add(count as i32, Relaxed) as u32
    })
}

/// Returns the debug id of a node or a ref.
pub(crate) fn next_debug_id() -> u32 {
    take_debug_ids(1)
}

/// The debug ids that a process has for its next calls and replies.
///
/// A call and its reply each take one, so a counter that all processes write would be a cache line
/// that moves between the CPUs of all calls, also of those that have nothing else to do with each
/// other.
pub(crate) struct DebugIds(NumberBlock);

impl DebugIds {
    /// Returns none.
    pub(crate) fn new() -> Self {
        Self(NumberBlock::new())
    }

    /// Returns the debug id of a call or a reply.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u32 {
        self.0.next(take_debug_ids)
    }
}
