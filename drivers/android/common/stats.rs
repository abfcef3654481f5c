// SPDX-License-Identifier: GPL-2.0

//! Counters of objects: each object on the heap counts itself, so that a log can show how many exist
//! and have existed, and unloading the module can report what was never freed.
//!
//! Objects are allocated and freed rarely (a steady stream of calls reuses them), so the counters
//! cost the transaction path nothing.

use crate::pure::numbers::{FIRST_COUNT, FIRST_DEBUG_ID};
use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Relaxed}, //
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
        FREED[self.0 as usize].add(1, Relaxed);
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
        FREED[KIND as usize].add(1, Relaxed);
    }
}

/// How many objects of a kind exist, and have been created.
#[derive(Clone, Copy)]
pub(crate) struct Objects {
    pub(crate) alive: u32,
    pub(crate) created: u32,
}

/// Returns the number of objects of a kind.
pub(crate) fn objects(kind: Kind) -> Objects {
    // First those that were freed: an object that is created and freed meanwhile only seems to exist.
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

/// Returns the newest debug id.
pub(crate) fn newest_debug_id() -> u32 {
    LAST_DEBUG_ID.load(Relaxed) as u32
}

/// Returns the next debug id, by which logs, trace events and the extended error name a call, a reply,
/// a node or a ref: all from one counter (contract NODE-15).
pub(crate) fn next_debug_id() -> u32 {
    LAST_DEBUG_ID.fetch_add(1, Relaxed).wrapping_add(1) as u32
}
