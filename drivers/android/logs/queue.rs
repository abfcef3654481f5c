// SPDX-License-Identifier: GPL-2.0

//! What is queued for a process, a thread or a node.

use super::{
    slice::Slice,
    state::Record,
    transactions::Party,
    work::{Prefixes, WorkLine},
};
use crate::{
    kernel_ext::box_queue::Iter,
    process::ProcessState,
    work::{Work, WorkPosition}, //
};

/// Where a record begins in a queue.
pub(super) enum Place {
    /// At the front.
    Front,
    /// Behind this work, or at the front, if it is not in the queue any more.
    Behind(WorkPosition),
}

impl Place {
    pub(super) const START: Self = Self::Front;

    /// Returns the work behind which it is, if it is not at the front.
    pub(super) fn after(&self) -> Option<&WorkPosition> {
        match self {
            Self::Front => None,
            Self::Behind(position) => Some(position),
        }
    }
}

/// The lines of one record, and where the next one begins, if there is one.
pub(super) struct Lines {
    lines: Slice<WorkLine>,
    next: Option<WorkPosition>,
}

impl Lines {
    /// Copies lines of a queue, whose work is for `to`. The caller holds the state lock.
    pub(super) fn of(mut works: Iter<'_, Work>, process: &ProcessState, to: Party) -> Self {
        let mut lines = Slice::new();
        while !lines.is_full() {
            let Some(work) = works.next() else {
                return Self { lines, next: None };
            };
            lines.push(WorkLine::of(&work, process, to));
        }
        Self {
            lines,
            next: works.position(),
        }
    }

    /// Writes the lines. Returns where the next ones are. No lock may be held.
    pub(super) fn write(self, prefixes: &Prefixes, record: &mut Record<'_>) -> Option<Place> {
        for line in self.lines.iter() {
            record.head();
            line.write(prefixes, record.pointer, record.out);
        }
        self.next.map(Place::Behind)
    }
}

/// Writes what is queued for any thread of the process.
pub(super) fn show_of_process(record: &mut Record<'_>, place: &Place) -> Option<Place> {
    let to = Party::pool_of(record.process);
    let state = record.process.lock_state();
    let lines = Lines::of(state.work.iter(place.after()), &state, to);
    drop(state);
    let prefixes = Prefixes {
        work: "  ",
        transaction: "  pending transaction",
    };
    lines.write(&prefixes, record)
}
