// SPDX-License-Identifier: GPL-2.0

//! The nodes of a process, who holds each of them, and the oneway calls that wait for others.

use super::{
    pointers::Pointer,
    processes::{self, Key, OpenedUntil},
    queue,
    state::Record,
    transactions::Party,
    work::Prefixes,
};
use crate::{
    node::Node,
    process::Process,
    pure::visits_left::VisitsLeft, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// Where a record begins.
pub(super) struct Place {
    /// The first node whose pointer is not less, or this one, if its line has begun.
    ptr: u64,
    /// How many nodes are left to visit, once the first one has been.
    left: Option<VisitsLeft>,
    part: Part,
}

/// What of a node is written next.
enum Part {
    /// Its line.
    Line,
    /// The rest of its line, if it is the node of this debug id.
    Holders(u32, Holders),
    /// What waits at it.
    Work(queue::Place),
}

impl Place {
    pub(super) const START: Self = Self {
        ptr: 0,
        left: None,
        part: Part::Line,
    };

    /// Whether a line has begun, and not ended.
    pub(super) fn is_in_line(&self) -> bool {
        matches!(self.part, Part::Holders(..))
    }

    /// Returns this part of the node at a pointer.
    fn at(&self, ptr: u64, part: Part) -> Self {
        Self {
            ptr,
            left: self.left,
            part,
        }
    }

    fn behind(&self, ptr: u64) -> Option<Self> {
        Some(self.at(ptr.checked_add(1)?, Part::Line))
    }
}

/// How many nodes, or processes, are looked at in one record.
const ROUND: usize = 32;

/// Writes a record. Returns the next one.
#[inline(never)] // Or all that is written has one stack frame.
pub(super) fn show(record: &mut Record<'_>, place: &Place) -> Option<Place> {
    let ptr = place.ptr;
    let next = match &place.part {
        Part::Line => return show_first_from(record, place),
        Part::Holders(id, holders) => {
            let node = record.process.node(ptr);
            match node.filter(|node| node.debug_id == *id) {
                Some(node) => Some(show_holders(record, &node, holders)),
                None => {
                    // It is gone, and its line has to end.
                    seq_print!(record.out, "\n");
                    None
                }
            }
        }
        Part::Work(work) => {
            let node = record.process.node(ptr);
            node.and_then(|node| show_work(record, &node, work))
                .map(Part::Work)
        }
    };
    match next {
        Some(part) => Some(place.at(ptr, part)),
        None => place.behind(ptr),
    }
}

fn show_first_from(record: &mut Record<'_>, place: &Place) -> Option<Place> {
    let state = record.process.lock_state();
    let mut left = place
        .left
        .unwrap_or_else(|| VisitsLeft::of(state.nodes.len()));
    let mut ptr = place.ptr;
    let mut found = None;
    for _ in 0..ROUND {
        if !left.take(1) {
            return None;
        }
        let node = state.nodes.first_from(ptr)?;
        if record.is_complete || node.is_busy(&state) {
            found = Some(Arc::from(node));
            break;
        }
        ptr = node.name.ptr.checked_add(1)?;
    }
    drop(state);
    let next = Place {
        ptr,
        left: Some(left),
        part: Part::Line,
    };
    let Some(node) = found else {
        return Some(next);
    };
    record.head();
    let holders = write_start(&node, record.pointer, record.out);
    Some(next.at(node.name.ptr, show_holders(record, &node, &holders)))
}

fn show_holders(record: &mut Record<'_>, node: &Arc<Node>, holders: &Holders) -> Part {
    match holders.write(node, record.out) {
        Some(holders) => Part::Holders(node.debug_id, holders),
        None => Part::Work(queue::Place::START),
    }
}

fn show_work(
    record: &mut Record<'_>,
    node: &Arc<Node>,
    place: &queue::Place,
) -> Option<queue::Place> {
    let to = Party::pool_of(record.process);
    let left = place.left(|| most_calls_to(record.process));
    let state = record.process.lock_state();
    let works = node.waiting(&state).iter(place.position());
    let lines = queue::Lines::of(works, left, &state, to);
    drop(state);
    let prefixes = Prefixes {
        work: "    ",
        transaction: "    pending async transaction",
    };
    lines.write(&prefixes, record)
}

/// Returns the number of buffers of a process, of which each call that waits has one. No lock may
/// be held.
fn most_calls_to(process: &Process) -> usize {
    let buffers = process.buffers.lock();
    buffers.as_ref().map_or(0, |ranges| ranges.in_use())
}

/// Writes the line of a node, up to its holders. Returns how these begin.
pub(super) fn write_start(node: &Node, pointer: Pointer, out: &SeqFile) -> Holders {
    let state = node.owner().lock_state();
    let counts = node.counts(&state);
    drop(state);
    let (knows_strong, knows_weak) = counts.owner_refs();
    let (local_strong, local_weak) = counts.locals();
    let (strong_refs, refs) = counts.refs();
    seq_print!(out, "  node {}: ", node.debug_id as i32);
    pointer.write_name(&node.name, out);
    seq_print!(
        out,
        " hs {} hw {} ls {local_strong} lw {local_weak} is {strong_refs} iw {refs} tr {}",
        u8::from(knows_strong),
        u8::from(knows_weak),
        counts.pins()
    );
    Holders {
        opened: OpenedUntil::now(),
        from: processes::FIRST,
        missing: refs,
        is_begun: false,
    }
}

/// The rest of the line of a node: the processes that hold it.
#[derive(Clone, Copy)]
pub(super) struct Holders {
    opened: OpenedUntil,
    /// The first process that may be one.
    from: Key,
    /// How many are yet to be found, as far as the node knows.
    missing: u32,
    /// Whether one has been written.
    is_begun: bool,
}

impl Holders {
    /// Writes some of them, or ends the line. Returns the rest.
    ///
    /// The driver has no list of them, because nothing but this needs one: each process is asked.
    pub(super) fn write(&self, node: &Arc<Node>, out: &SeqFile) -> Option<Self> {
        let mut rest = *self;
        for _ in 0..ROUND {
            let next = if rest.missing == 0 {
                None
            } else {
                rest.opened.first_from(rest.from)
            };
            let Some(process) = next else {
                seq_print!(out, "\n");
                return None;
            };
            rest.from = processes::behind(processes::key(&process));
            if is_holder(&process, node) {
                if !rest.is_begun {
                    seq_print!(out, " proc");
                }
                seq_print!(out, " {}", process.pid());
                rest.is_begun = true;
                rest.missing -= 1;
            }
        }
        Some(rest)
    }
}

/// Whether a process has a handle on a node.
pub(super) fn is_holder(process: &Process, node: &Arc<Node>) -> bool {
    process.handles.lock().has(node)
}
