// SPDX-License-Identifier: GPL-2.0

//! The handles of a process.

use super::{slice::Slice, state::Record};
use crate::kernel_ext::hashed;
use kernel::{
    seq_print,
    sync::{atomic::Relaxed, Arc}, //
};

pub(super) use crate::handles::HandlePlace as Place;

/// A handle as it is copied.
struct Copied {
    id: u32,
    handle: u32,
    node: u32,
    is_dead: bool,
    strong: u32,
    weak: u32,
    /// The address of the request to be told of the node's death; 0 if there is none.
    death: usize,
}

/// Writes the handles at a place. Returns where the next ones begin.
#[inline(never)] // Or all that is written has one stack frame.
pub(super) fn show(record: &mut Record<'_>, mut place: Place) -> Option<Place> {
    let mut refs = Slice::new();
    let handles = record.process.handles.lock();
    let few = handles.few_from(&mut place)?;
    for (handle, reference) in few {
        if refs.is_full() {
            place.return_to(handle);
            break;
        }
        let (strong, weak) = reference.counts();
        refs.push(Copied {
            id: handles.debug_id(reference),
            handle,
            node: reference.node.debug_id,
            is_dead: reference.node.owner().has_ended.load(Relaxed),
            strong,
            weak,
            death: reference
                .death
                .as_ref()
                .map_or(0, |death| Arc::as_ptr(death).addr()),
        });
    }
    drop(handles);
    for line in refs.iter() {
        record.head();
        seq_print!(
            record.out,
            "  ref {}: desc {} {}node {} s {} w {} d ",
            line.id as i32,
            line.handle as i32,
            if line.is_dead { "dead " } else { "" },
            line.node as i32,
            line.strong,
            line.weak
        );
        hashed::write_restricted(record.out, line.death);
        seq_print!(record.out, "\n");
    }
    Some(place)
}
