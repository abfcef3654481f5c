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
    process::Process, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// Where a record begins.
pub(super) enum Place {
    /// The first node whose pointer is not less.
    Node(u64),
    /// In the line of a node, the holders from a key on.
    Holders { ptr: u64, id: u32, holders: Holders },
    /// What waits at a node.
    Work { ptr: u64, place: queue::Place },
}

impl Place {
    pub(super) const START: Self = Self::Node(0);

    fn behind(ptr: u64) -> Option<Self> {
        ptr.checked_add(1).map(Self::Node)
    }
}

/// How many nodes, or processes, are looked at in one record.
const ROUND: usize = 32;

/// Writes a record. Returns the next one.
#[inline(never)] // Or all that is written has one stack frame.
pub(super) fn show(record: &mut Record<'_>, place: &Place) -> Option<Place> {
    match place {
        Place::Node(from) => show_first_from(record, *from),
        Place::Holders { ptr, id, holders } => {
            let node = record.process.node(*ptr);
            match node.filter(|node| node.debug_id == *id) {
                Some(node) => show_holders(record, &node, holders),
                None => {
                    // It is gone, and its line has to end.
                    seq_print!(record.out, "\n");
                    Place::behind(*ptr)
                }
            }
        }
        Place::Work { ptr, place } => match record.process.node(*ptr) {
            Some(node) => show_work(record, &node, place),
            None => Place::behind(*ptr),
        },
    }
}

fn show_first_from(record: &mut Record<'_>, from: u64) -> Option<Place> {
    let state = record.process.lock_state();
    let mut next = from;
    let mut found = None;
    for _ in 0..ROUND {
        let node = Arc::from(state.nodes.first_from(next)?);
        if record.is_complete || node.is_busy(&state) {
            found = Some(node);
            break;
        }
        match node.name.ptr.checked_add(1) {
            Some(behind) => next = behind,
            None => return None,
        }
    }
    drop(state);
    match found {
        None => Some(Place::Node(next)),
        Some(node) => {
            record.head();
            let holders = write_start(&node, record.pointer, record.out);
            show_holders(record, &node, &holders)
        }
    }
}

fn show_holders(record: &mut Record<'_>, node: &Arc<Node>, holders: &Holders) -> Option<Place> {
    let ptr = node.name.ptr;
    Some(match holders.write(node, record.out) {
        Some(holders) => Place::Holders {
            ptr,
            id: node.debug_id,
            holders,
        },
        None => Place::Work {
            ptr,
            place: queue::Place::START,
        },
    })
}

fn show_work(record: &mut Record<'_>, node: &Arc<Node>, place: &queue::Place) -> Option<Place> {
    let to = Party::pool_of(record.process);
    let state = record.process.lock_state();
    let lines = queue::Lines::of(node.waiting(&state).iter(place.after()), &state, to);
    drop(state);
    let prefixes = Prefixes {
        work: "    ",
        transaction: "    pending async transaction",
    };
    let ptr = node.name.ptr;
    match lines.write(&prefixes, record) {
        Some(place) => Some(Place::Work { ptr, place }),
        None => Place::behind(ptr),
    }
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
