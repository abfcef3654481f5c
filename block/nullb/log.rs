// SPDX-License-Identifier: GPL-2.0

//! A log of writes, by which a device goes back to any of its states, and forth again.

use crate::edge::{Operation, Pages, Started, PAGE};
use core::ops::Range;
use kernel::{new_mutex, prelude::*, sync::Mutex};

/// A write or a discard.
struct Change {
    range: Range<u64>,
    /// Nothing if the range was discarded.
    data: Option<KVVec<u8>>,
}

struct Changes {
    all: KVVec<Change>,
    /// The number of those that are in the data. A new one removes the others.
    applied: usize,
}

/// All changes of the data of a device, from the time on when they were empty.
#[pin_data]
pub(crate) struct Log {
    #[pin]
    changes: Mutex<Changes>,
}

impl Log {
    /// Makes an empty log.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            changes <- new_mutex!(Changes {
                all: KVVec::new(),
                applied: 0,
            }),
        })
    }

    /// Adds a request, of which the bytes of a range are transferred, if it changes data. Sleeps.
    /// `ENOMEM`.
    pub(crate) fn add(
        &self,
        request: &Started,
        operation: &Operation,
        range: Range<u64>,
    ) -> Result {
        let data = match operation {
            Operation::Write { .. } => Some(data_of(request, (range.end - range.start) as usize)?),
            Operation::Discard => None,
            Operation::Read | Operation::Flush | Operation::Other => return Ok(()),
        };
        let mut changes = self.changes.lock();
        let applied = changes.applied;
        changes.all.truncate(applied);
        changes.all.push(Change { range, data }, GFP_KERNEL)?;
        changes.applied += 1;
        Ok(())
    }

    /// Returns the number of changes.
    pub(crate) fn count(&self) -> usize {
        self.changes.lock().all.len()
    }

    /// Gives data the state behind the first `count` changes. Sleeps. `EINVAL` if there are fewer.
    /// `ENOMEM`; then the data have the state of an earlier one.
    pub(crate) fn replay(&self, count: usize, pages: &Pages) -> Result {
        let mut changes = self.changes.lock();
        if count > changes.all.len() {
            return Err(EINVAL);
        }
        pages.discard(0..u64::MAX / PAGE as u64 * PAGE as u64);
        changes.applied = 0;
        for at in 0..count {
            let change = &changes.all[at];
            match &change.data {
                Some(data) => put(pages, change.range.start, data)?,
                None => pages.discard(change.range.clone()),
            }
            changes.applied += 1;
        }
        Ok(())
    }
}

/// Copies the first bytes of a request.
fn data_of(request: &Started, size: usize) -> Result<KVVec<u8>> {
    let mut data = KVVec::from_elem(0, size, GFP_KERNEL)?;
    let mut done = 0;
    for segment in request.segments() {
        let (segment, _) = segment.split(size - done);
        segment.get(&mut data[done..done + segment.size()]);
        done += segment.size();
    }
    Ok(data)
}

/// Writes data to a position.
fn put(pages: &Pages, mut position: u64, mut data: &[u8]) -> Result {
    while !data.is_empty() {
        let size = usize::min(data.len(), PAGE - position as usize % PAGE);
        let (part, rest) = data.split_at(size);
        pages.cursor().put(position, part)?;
        position += size as u64;
        data = rest;
    }
    Ok(())
}
