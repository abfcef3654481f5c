// SPDX-License-Identifier: GPL-2.0

//! What is queued for a process, a thread or a node.

use super::{
    slice::Slice,
    state::Record,
    transactions::Party,
    work::{Prefixes, WorkLine},
};
use crate::{
    kernel_ext::{box_queue::Iter, sched},
    process::{Process, ProcessState},
    thread::Thread,
    work::{Work, WorkPosition, WorkQueue}, //
};

/// Where a record begins in a queue.
pub(super) enum Place {
    Front,
    /// Between what has been shown and what was queued behind it then.
    Behind {
        position: WorkPosition,
        /// How many lines are left to show: as many as were queued when the first one was shown,
        /// for what is queued later is behind those. So a queue that never becomes empty has an
        /// end.
        left: usize,
    },
}

impl Place {
    pub(super) const START: Self = Self::Front;

    /// Returns where in the queue it is, if it is not at the front.
    pub(super) fn position(&self) -> Option<&WorkPosition> {
        match self {
            Self::Front => None,
            Self::Behind { position, .. } => Some(position),
        }
    }

    /// Returns how many lines are left to show of a queue that has as many works as `count`
    /// returns, or fewer.
    pub(super) fn left(&self, count: impl FnOnce() -> usize) -> usize {
        match self {
            Self::Front => count(),
            Self::Behind { left, .. } => *left,
        }
    }
}

/// The lines of one record, and where the next one begins, if there is one.
pub(super) struct Lines {
    lines: Slice<WorkLine>,
    next: Option<Place>,
}

impl Lines {
    /// Copies lines of a queue, whose work is for `to`, of which so many are `left` to show. The
    /// caller holds the state lock.
    pub(super) fn of(
        mut works: Iter<'_, Work>,
        mut left: usize,
        process: &ProcessState,
        to: Party,
    ) -> Self {
        let mut lines = Slice::new();
        while left > 0 && !lines.is_full() {
            let Some(work) = works.next() else {
                return Self { lines, next: None };
            };
            lines.push(WorkLine::of(&work, process, to));
            left -= 1;
        }
        if left == 0 {
            return Self { lines, next: None };
        }
        let position = works.position();
        Self {
            lines,
            next: position.map(|position| Place::Behind { position, left }),
        }
    }

    /// Writes the lines. Returns where the next ones are. No lock may be held.
    pub(super) fn write(self, prefixes: &Prefixes, record: &mut Record<'_>) -> Option<Place> {
        for line in self.lines.iter() {
            record.head();
            line.write(prefixes, record.pointer, record.out);
        }
        self.next
    }
}

/// Returns the queue of a thread of the process, or that of the process.
pub(super) fn of<'a>(state: &'a ProcessState, thread: Option<&'a Thread>) -> &'a WorkQueue {
    match thread {
        Some(thread) => &thread.state_shared(state).work,
        None => &state.work,
    }
}

/// How many works are counted under one lock.
const ROUND: usize = 16;

/// How many rounds are counted: what two readers come to at once, and is queued again between them,
/// leads the first one back to the end of the queue, each time that somebody does so.
const MOST_ROUNDS: usize = 65536;

/// Counts the works of [that](of) queue, but no more than a million. No lock may be held.
pub(super) fn count(process: &Process, thread: Option<&Thread>) -> usize {
    let mut total = 0;
    let mut position: Option<WorkPosition> = None;
    for _ in 0..MOST_ROUNDS {
        let state = process.lock_state();
        let (few, next) = of(&state, thread).count_back(position.as_ref(), ROUND);
        drop(state);
        total += few;
        position = next;
        if position.is_none() {
            break;
        }
        sched::cond_resched();
    }
    total
}

/// Writes what is queued for any thread of the process.
pub(super) fn show_of_process(record: &mut Record<'_>, place: &Place) -> Option<Place> {
    let to = Party::pool_of(record.process);
    let left = place.left(|| count(record.process, None));
    let state = record.process.lock_state();
    let works = of(&state, None).iter(place.position());
    let lines = Lines::of(works, left, &state, to);
    drop(state);
    let prefixes = Prefixes {
        work: "  ",
        transaction: "  pending transaction",
    };
    lines.write(&prefixes, record)
}
