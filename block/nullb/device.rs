// SPDX-License-Identifier: GPL-2.0

//! What a device does with requests.

use crate::{
    cache::Cache,
    edge::{BadBlocks, Context, Handled, Operation, Pages, Started, Status},
    log::Log,
};
use core::ops::Range;
use kernel::{prelude::*, sync::Arc};

/// The shift between bytes and sectors.
pub(crate) const SECTOR_SHIFT: u32 = 9;

/// When and where requests end.
#[derive(Clone, Copy)]
pub(crate) enum Completion {
    /// At once, in the caller.
    Here,
    /// As by an interrupt of a device.
    Interrupt,
    /// By a timer, so many nanoseconds later.
    Timer(u64),
}

/// The place of the data.
pub(crate) enum Data {
    /// Nowhere: reads leave memory as it is.
    Nowhere,
    Memory(Arc<Pages>),
    Cached(Pin<KBox<Cache>>),
}

/// What happens to accesses of bad sectors.
#[derive(Clone, Copy)]
pub(crate) struct Failures {
    /// The first access makes the sectors good.
    pub(crate) are_once: bool,
    /// The part before the first bad block is transferred.
    pub(crate) are_partial: bool,
    pub(crate) block_size: u32,
}

/// A device that is on.
pub(crate) struct Device {
    pub(crate) data: Data,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) bad: Arc<BadBlocks>,
    pub(crate) failures: Failures,
    pub(crate) completion: Completion,
    pub(crate) context: Context,
}

impl Device {
    /// Handles a request. May sleep if that is its context.
    #[inline(always)]
    pub(crate) fn handle(&self, request: Started) -> Handled {
        let operation = request.operation();
        let start = request.sector() << SECTOR_SHIFT;
        let end = start + u64::from(request.bytes());
        let (end, status) = match operation {
            Operation::Flush => (end, Status::Done),
            _ => match self.first_bad(start..end) {
                None => (end, Status::Done),
                Some(end) => (end, Status::Failed),
            },
        };
        match self.transfer(&request, operation, start..end) {
            Ok(()) => self.complete(request, status),
            Err(error) if error == ENOMEM => request.put_back(),
            Err(error) if error == EOPNOTSUPP => self.complete(request, Status::NotSupported),
            Err(_) => self.complete(request, Status::Failed),
        }
    }

    /// Returns where the transfer of bytes ends if some of them are bad.
    #[inline(always)]
    fn first_bad(&self, bytes: Range<u64>) -> Option<u64> {
        let sectors = bytes.start >> SECTOR_SHIFT..bytes.end >> SECTOR_SHIFT;
        let bad = self.bad.first_in(sectors)?;
        if self.failures.are_once {
            // Fails only if the list is full; then the sectors stay bad.
            let _ = self.bad.remove(bad.clone());
        }
        let block = u64::from(self.failures.block_size);
        Some(match self.failures.are_partial {
            true => ((bad.start << SECTOR_SHIFT) / block * block).max(bytes.start),
            false => bytes.start,
        })
    }

    /// Transfers the bytes of a request that are in a range, which begins with its first one.
    #[inline(always)]
    fn transfer(&self, request: &Started, operation: Operation, range: Range<u64>) -> Result {
        if let Some(log) = &self.log {
            log.add(request, &operation, range.clone())?;
        }
        match &self.data {
            Data::Nowhere => Ok(()),
            Data::Memory(pages) => self.transfer_pages(pages, request, operation, range),
            Data::Cached(cache) => cache.transfer(request, operation, range),
        }
    }

    #[inline(always)]
    fn transfer_pages(
        &self,
        pages: &Pages,
        request: &Started,
        operation: Operation,
        range: Range<u64>,
    ) -> Result {
        let mut position = range.start;
        match operation {
            Operation::Read => {
                let mut cursor = pages.cursor();
                for segment in request.segments() {
                    // CAST: A part of a page is never cut.
                    let (segment, _) = segment.split((range.end - position) as usize);
                    cursor.read(position, segment);
                    position += segment.size() as u64;
                }
            }
            Operation::Write { .. } => {
                let mut cursor = pages.cursor();
                for segment in request.segments() {
                    // CAST: As above.
                    let (segment, _) = segment.split((range.end - position) as usize);
                    cursor.write(position, segment, self.context)?;
                    position += segment.size() as u64;
                }
            }
            Operation::Discard => pages.discard(range),
            Operation::Flush => {}
            Operation::Other => return Err(EOPNOTSUPP),
        }
        Ok(())
    }

    #[inline(always)]
    fn complete(&self, request: Started, status: Status) -> Handled {
        match self.completion {
            Completion::Here => request.end(status),
            Completion::Interrupt => request.complete(status),
            Completion::Timer(nanoseconds) => request.complete_after(nanoseconds, status),
        }
    }
}
