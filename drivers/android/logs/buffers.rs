// SPDX-License-Identifier: GPL-2.0

//! The buffers in the space of a process, and which of them have the data of calls that its threads
//! serve.

use super::{
    lines::{Data, Line},
    pause,
    snapshot::Snapshot,
    sort_by_key,
    FEW,
    FLAGS, //
};
use crate::{
    allocation::Delivered,
    process::Process,
    range_alloc::{Label, RangeAllocator, State}, //
};
use kernel::prelude::*;

/// A buffer as it is copied.
pub(super) struct Buffer {
    label: Label,
    offset: u32,
    size: u32,
    /// The node of a call whose receiver has read it, and may be serving it.
    served: Option<u32>,
    /// Whether its transaction exists.
    is_active: bool,
}

/// Copies the buffers of a process, in the order of their numbers.
pub(super) fn copy(process: &Process) -> Result<KVVec<Buffer>> {
    let mut buffers = KVVec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        pause()?;
        buffers.reserve(FEW, FLAGS)?;
        let ranges = process.buffers.lock();
        next = match &*ranges {
            Some(ranges) => copy_few(ranges, from, &mut buffers),
            None => None,
        };
        drop(ranges);
    }
    sort_by_key(&mut buffers, |buffer: &Buffer| buffer.label.id);
    Ok(buffers)
}

/// Copies a few buffers, for which there is room, from an offset on. Returns where the next ones
/// begin.
fn copy_few(
    ranges: &RangeAllocator<Delivered>,
    mut from: usize,
    buffers: &mut KVVec<Buffer>,
) -> Option<usize> {
    for _ in 0..FEW {
        let range = ranges.first_behind(from)?;
        from = range.offset + range.size;
        let served = match range.state {
            State::Delivered(delivered) => delivered.node_of_call(),
            State::Reserved | State::Freeing => None,
        };
        // There is room. CAST: All of it is within a space.
        let _ = buffers.push_within_capacity(Buffer {
            label: range.label,
            offset: range.offset as u32,
            size: range.size as u32,
            served: served.map(|node| node.debug_id),
            is_active: matches!(range.state, State::Reserved),
        });
    }
    Some(from)
}

impl Snapshot {
    /// Finds the data of the calls that the threads of a process serve, whose lines are copied from
    /// `start` on, among its buffers, which were copied before.
    pub(super) fn find_data(
        &mut self,
        process: &Process,
        start: usize,
        buffers: &mut [Buffer],
    ) -> Result {
        if !self.find_data_among(start, buffers) {
            // Those are freed, or were delivered after the buffers were copied.
            self.find_data_among(start, &mut copy(process)?);
        }
        Ok(())
    }

    /// Returns whether all are found. The buffers are in the order of their numbers.
    fn find_data_among(&mut self, start: usize, buffers: &mut [Buffer]) -> bool {
        let mut are_found = true;
        for line in &mut self.lines[start..] {
            let Line::Incoming(call) = line else {
                continue;
            };
            let found = buffers.binary_search_by_key(&call.id, |buffer| buffer.label.id);
            match found.ok().and_then(|place| buffers.get_mut(place)) {
                Some(buffer) if buffer.served.is_some() => {
                    buffer.is_active = true;
                    call.data = Some(Data {
                        node: buffer.served,
                        data_size: buffer.label.data_size,
                        offsets_size: buffer.label.offsets_size,
                        offset: buffer.offset,
                    });
                }
                _ => are_found &= call.data.is_some(),
            }
        }
        are_found
    }

    /// Adds buffers that were copied, in the order of their offsets.
    pub(super) fn buffers(&mut self, mut buffers: KVVec<Buffer>) -> Result {
        sort_by_key(&mut buffers, |buffer| buffer.offset);
        for buffer in &buffers {
            self.make_room(1)?;
            self.push(Line::Buffer {
                label: buffer.label,
                offset: buffer.offset,
                size: buffer.size,
                is_active: buffer.is_active,
            });
        }
        Ok(())
    }
}
