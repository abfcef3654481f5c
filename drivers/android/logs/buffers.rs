// SPDX-License-Identifier: GPL-2.0

//! The buffers in the space of a process.

use super::{search, slice::Slice, state::Record};
use crate::range_alloc::{Label, State};
use kernel::seq_print;

/// A buffer as it is copied.
struct Copied {
    label: Label,
    offset: usize,
    size: usize,
    stage: Stage,
}

/// How far the transaction of a buffer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its receiver has not read it.
    Queued,
    /// Its receiver has read it, and may be serving the call.
    Called,
    /// Nothing but the buffer is left of it.
    Over,
}

/// Writes the buffers from this offset on. Returns where the next ones begin.
#[inline(never)] // Or all that is written has one stack frame.
pub(super) fn show(record: &mut Record<'_>, from: usize) -> Option<usize> {
    let mut buffers = Slice::new();
    let mut next = from;
    let mut is_at_end = false;
    let ranges = record.process.buffers.lock();
    while let (Some(ranges), false) = (&*ranges, buffers.is_full()) {
        let Some(range) = ranges.first_from(next) else {
            is_at_end = true;
            break;
        };
        next = range.offset + range.size;
        let stage = match range.state {
            State::Reserved => Stage::Queued,
            State::Delivered(delivered) if delivered.node_of_call().is_some() => Stage::Called,
            State::Delivered(_) | State::Freeing => Stage::Over,
        };
        buffers.push(Copied {
            label: range.label,
            offset: range.offset,
            size: range.size,
            stage,
        });
    }
    is_at_end |= ranges.is_none();
    drop(ranges);
    for buffer in buffers.iter() {
        let label = &buffer.label;
        let is_active = match buffer.stage {
            Stage::Queued => true,
            Stage::Called => search::is_served(record.process, label.id),
            Stage::Over => false,
        };
        record.head();
        seq_print!(
            record.out,
            "  buffer {}: {:x} size {}:{}:{} {}\n",
            label.id as i32,
            buffer.offset,
            label.data_size,
            label.offsets_size,
            label.extra_size(buffer.size),
            if is_active { "active" } else { "delivered" }
        );
    }
    (!is_at_end).then_some(next)
}
