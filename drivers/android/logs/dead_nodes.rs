// SPDX-License-Identifier: GPL-2.0

//! The nodes whose owners have ended and that others still hold.
//!
//! The driver has no list of them: nothing needs one but this, and every death would pay for it.
//! They are found by the handles of those who hold them; the first holder of a node is where its
//! line is.

use super::{
    nodes::{self, Holders},
    pointers::Pointer,
    processes::{self, Key, OpenedUntil}, //
};
use crate::{
    handles::HandlePlace,
    kernel_ext::sched,
    node::Node,
    process::Process, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print,
    sync::{atomic::Relaxed, Arc}, //
};

/// Where a record begins.
pub(super) struct Place {
    /// Where to look for the next node: in the first process whose key is not less.
    process: Key,
    /// Where it begins among the handles there.
    handles: HandlePlace,
    /// Whether a node has been found.
    is_headed: bool,
    /// The rest of the line of the node behind the handle before that, by its debug id.
    line: Option<(u32, u32, Holders)>,
}

impl Place {
    pub(super) const START: Self = Self {
        process: processes::FIRST,
        handles: HandlePlace::START,
        is_headed: false,
        line: None,
    };

    fn of_process(&self, process: Key) -> Self {
        Self {
            process,
            handles: HandlePlace::START,
            is_headed: self.is_headed,
            line: None,
        }
    }
}

/// Writes a record. Returns the next one.
pub(super) fn show(
    place: &Place,
    opened: OpenedUntil,
    pointer: Pointer,
    out: &SeqFile,
) -> Option<Place> {
    if let Some((handle, id, holders)) = &place.line {
        let holder = processes::of_key(place.process);
        let node = holder.and_then(|holder| node_of(&holder, *handle, *id));
        let rest = match &node {
            Some(node) => holders.write(node, out),
            None => {
                // The holder has let go of it, and its line has to end.
                seq_print!(out, "\n");
                None
            }
        };
        return Some(Place {
            line: rest.map(|rest| (*handle, *id, rest)),
            ..*place
        });
    }
    let holder = opened.first_from(place.process)?;
    let key = processes::key(&holder);
    let mut handles = if key == place.process {
        place.handles
    } else {
        HandlePlace::START
    };
    let Some(found) = first_dead(&holder, &mut handles) else {
        return Some(place.of_process(processes::behind(key)));
    };
    let mut after = Place {
        handles,
        ..place.of_process(key)
    };
    if let Some((handle, node)) = found.filter(|(_, node)| is_first_holder(key, node, opened)) {
        if !after.is_headed {
            seq_print!(out, "dead nodes:\n");
            after.is_headed = true;
        }
        let holders = nodes::write_start(&node, pointer, out);
        if let Some(rest) = holders.write(&node, out) {
            after.line = Some((handle, node.debug_id, rest));
        }
    }
    Some(after)
}

/// A dead node and the handle on it.
type Found = Option<(u32, Arc<Node>)>;

/// Looks at a few handles of a process, from this place on, for a dead node, and moves the place to
/// where to go on. Returns nothing if there are no more handles.
fn first_dead(holder: &Process, place: &mut HandlePlace) -> Option<Found> {
    let handles = holder.handles.lock();
    let mut few = handles.few_from(place)?;
    let dead = few.find(|(_, reference)| reference.node.owner().has_ended.load(Relaxed));
    Some(dead.map(|(handle, reference)| {
        place.go_behind(handle);
        (handle, reference.node.clone())
    }))
}

/// Returns the node behind a handle, if it is the one of this debug id.
fn node_of(holder: &Process, handle: u32, id: u32) -> Option<Arc<Node>> {
    let mut handles = holder.handles.lock();
    let node = handles.get_mut(handle)?.node.clone();
    (node.debug_id == id).then_some(node)
}

/// Whether no process before this one, of those that were `opened`, has a handle on a node.
fn is_first_holder(holder: Key, node: &Arc<Node>, opened: OpenedUntil) -> bool {
    let mut key = processes::FIRST;
    while let Some(process) = opened.first_from(key) {
        key = processes::key(&process);
        if key >= holder {
            break;
        }
        if nodes::is_holder(&process, node) {
            return false;
        }
        key = processes::behind(key);
        sched::cond_resched();
    }
    true
}
