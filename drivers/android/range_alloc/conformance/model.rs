// SPDX-License-Identifier: GPL-2.0

//! A model of the range allocator, so simple that it can be checked by reading.
//!
//! The model has an entry for each granule of the space, which has the range that begins there, and
//! looks at all of them for each question. [`Pair`] runs the real allocator next to it and compares
//! everything that can be observed after each step.

use super::{atomic, ensure_eq, Failed};
use crate::range_alloc::{CallKind, Label, RangeAllocator, ReserveError, Reserved, Spare, State};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::prelude::*;

/// The unit of offsets and sizes.
pub(crate) const GRANULE: usize = size_of::<usize>();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Reserved,
    Delivered(u64),
    Freeing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) size: usize,
    pub(crate) sender: Option<i32>,
    pub(crate) phase: Phase,
}

/// The results that the real allocator has to return.
pub(crate) struct Model {
    pub(crate) size: usize,
    pub(crate) spam_reported: bool,
    starts: KVVec<Option<Used>>,
}

impl Model {
    fn new(size: usize) -> Result<Self, Failed> {
        let mut starts = KVVec::with_capacity(size / GRANULE, GFP_KERNEL)?;
        for _ in 0..size / GRANULE {
            starts.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            size,
            spam_reported: false,
            starts,
        })
    }

    /// Returns the offsets of the ranges in use, and the ranges.
    pub(crate) fn used(&self) -> impl Iterator<Item = (usize, Used)> + '_ {
        let places = self.starts.iter().enumerate();
        places.filter_map(|(at, used)| used.map(|used| (at * GRANULE, used)))
    }

    pub(crate) fn get(&self, offset: usize) -> Option<Used> {
        if offset % GRANULE != 0 {
            return None;
        }
        *self.starts.get(offset / GRANULE)?
    }

    fn set(&mut self, offset: usize, used: Option<Used>) {
        self.starts[offset / GRANULE] = used;
    }

    /// Returns the smallest gap of at least `size` bytes, and the first of several such.
    fn best_gap(&self, size: usize) -> Option<usize> {
        let mut start = 0;
        let mut best: Option<(usize, usize)> = None;
        let mut consider = |start: usize, end: usize| {
            let room = end - start;
            if room >= size && best.is_none_or(|(least, _)| room < least) {
                best = Some((room, start));
            }
        };
        for (offset, range) in self.used() {
            consider(start, offset);
            start = offset + range.size;
        }
        consider(start, self.size);
        best.map(|(_, start)| start)
    }

    fn oneway_left(&self) -> usize {
        let oneway = self.used().filter(|(_, range)| range.sender.is_some());
        self.size / 2 - oneway.map(|(_, range)| range.size).sum::<usize>()
    }

    fn held_by(&self, sender: i32) -> usize {
        let of_sender = |(_, range): &(usize, Used)| range.sender == Some(sender);
        self.used().filter(of_sender).map(|(_, r)| r.size).sum()
    }

    /// Reserves a range by the rules of contract ALLOC-1, -2, -3 and -7, and by the quota of a
    /// sender.
    fn reserve(&mut self, size: usize, kind: CallKind) -> Option<Reserved> {
        let size = size.max(1).next_multiple_of(GRANULE);
        let sender = match kind {
            CallKind::Sync => None,
            CallKind::Oneway { sender, quota } => {
                let all = self.size / 2;
                let part = match quota {
                    0 => all,
                    percent => all * usize::from(percent) / 100,
                };
                if size > self.oneway_left() || self.held_by(sender) + size > part {
                    return None;
                }
                Some(sender)
            }
        };
        let offset = self.best_gap(size)?;
        let phase = Phase::Reserved;
        self.set(
            offset,
            Some(Used {
                size,
                sender,
                phase,
            }),
        );
        Some(Reserved {
            offset,
            size,
            oneway_spam_suspect: sender.is_some_and(|sender| self.is_spam_report(sender, size)),
        })
    }

    fn is_spam_report(&mut self, sender: i32, size: usize) -> bool {
        if self.oneway_left() >= self.size / 10 {
            self.spam_reported = false;
            return false;
        }
        let of_sender = |(_, range): &(usize, Used)| range.sender == Some(sender);
        let count = self.used().filter(of_sender).count();
        let is_suspect = count - 1 > 50 || self.held_by(sender) - size > self.size / 4;
        let is_report = is_suspect && !self.spam_reported;
        self.spam_reported |= is_suspect;
        is_report
    }

    fn free(&mut self, offset: usize, phase: Phase) -> bool {
        let found = self.get(offset).is_some_and(|range| range.phase == phase);
        if found {
            self.set(offset, None);
        }
        found
    }

    fn deliver(&mut self, offset: usize, payload: u64) -> bool {
        match self.get(offset) {
            Some(range) if range.phase == Phase::Reserved => {
                let phase = Phase::Delivered(payload);
                self.set(offset, Some(Used { phase, ..range }));
                true
            }
            _ => false,
        }
    }

    fn take(&mut self, offset: usize) -> Option<(usize, u64)> {
        let range = self.get(offset)?;
        let Phase::Delivered(payload) = range.phase else {
            return None;
        };
        let phase = Phase::Freeing;
        self.set(offset, Some(Used { phase, ..range }));
        Some((range.size, payload))
    }

    fn touches(&self, start: usize, end: usize) -> bool {
        let mut used = self.used();
        start < end && used.any(|(offset, range)| offset < end && offset + range.size > start)
    }
}

/// One operation on an allocator. Offsets may be of any range, or of none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Reserve(usize, CallKind),
    Deliver(usize),
    Abort(usize),
    Take(usize),
    Release(usize),
}

/// A real allocator and its model.
pub(crate) struct Pair<const FIRST: usize, const FEW: usize> {
    real: RangeAllocator<u64, FIRST, FEW>,
    pub(crate) model: Model,
    next_payload: u64,
    /// The number of times that reclaim has begun again.
    round: u32,
    /// The highest end of the ranges that were reserved in this round, and in the one before.
    reach: [usize; 2],
}

impl<const FIRST: usize, const FEW: usize> Pair<FIRST, FEW> {
    /// Returns a pair for a space of `size` bytes, a multiple of [`GRANULE`].
    pub(crate) fn new(size: usize) -> Result<Self, Failed> {
        Ok(Self {
            real: RangeAllocator::new(size),
            model: Model::new(size)?,
            next_payload: 0,
            round: 0,
            reach: [0; 2],
        })
    }

    /// Runs a step on both, and compares the results.
    pub(crate) fn step(&mut self, step: Step) -> Result<(), Failed> {
        match step {
            Step::Reserve(size, kind) => {
                let real = self.reserve(size, kind)?;
                ensure_eq!(real, self.model.reserve(size, kind));
                if let Some(reserved) = real {
                    let end = reserved.offset + reserved.size;
                    self.reach[0] = self.reach[0].max(end);
                }
            }
            Step::Deliver(offset) => {
                let payload = self.next_payload;
                self.next_payload += 1;
                let real = atomic(|| self.real.deliver(offset, payload));
                let model = self.model.deliver(offset, payload);
                ensure_eq!(real, if model { Ok(()) } else { Err(payload) });
            }
            Step::Abort(offset) => {
                let real = atomic(|| self.real.abort(offset));
                ensure_eq!(real.is_ok(), self.model.free(offset, Phase::Reserved));
            }
            Step::Take(offset) => {
                let real = atomic(|| self.real.take(offset));
                ensure_eq!(real, self.model.take(offset));
            }
            Step::Release(offset) => {
                let real = atomic(|| self.real.release(offset));
                ensure_eq!(real.is_ok(), self.model.free(offset, Phase::Freeing));
            }
        }
        self.compare()
    }

    /// Reserves as a caller does: under the lock, and again after filling the spare.
    fn reserve(&mut self, size: usize, kind: CallKind) -> Result<Option<Reserved>, Failed> {
        let mut spare = Spare::new();
        for _ in 0..4 {
            match atomic(|| self.real.reserve(size, kind, Label::NONE, &mut spare)) {
                Ok(reserved) => return Ok(Some(reserved)),
                Err(ReserveError::NoSpace) => return Ok(None),
                Err(ReserveError::NeedSpare) => spare.fill(GFP_KERNEL)?,
            }
        }
        Err(Failed::because(&"a filled spare is enough"))
    }

    fn compare(&self) -> Result<(), Failed> {
        let mut seen = self.real.ranges().map(|range| {
            let phase = match range.state {
                State::Reserved => Phase::Reserved,
                State::Delivered(payload) => Phase::Delivered(*payload),
                State::Freeing => Phase::Freeing,
            };
            let used = Used {
                size: range.size,
                sender: range.oneway_sender,
                phase,
            };
            (range.offset, used)
        });
        let mut count = 0;
        for wanted in self.model.used() {
            ensure_eq!(seen.next(), Some(wanted));
            count += 1;
        }
        ensure_eq!(seen.next(), None);
        self.compare_way()?;
        ensure_eq!(self.real.in_use(), count);
        ensure_eq!(self.real.free_oneway_space(), self.model.oneway_left());
        Ok(())
    }

    /// Compares the way through all ranges by the end of each, from every granule on that none has.
    fn compare_way(&self) -> Result<(), Failed> {
        let mut from = 0;
        for (offset, used) in self.model.used() {
            let range = atomic(|| {
                self.real
                    .first_from(from)
                    .map(|range| (range.offset, range.size))
            });
            ensure_eq!(range, Some((offset, used.size)));
            from = offset + 1;
        }
        ensure_eq!(self.real.first_from(from).map(|range| range.offset), None);
        Ok(())
    }

    /// Compares the answers for `start..end`.
    pub(crate) fn compare_touches(&self, start: usize, end: usize) -> Result<(), Failed> {
        let wanted = self.model.touches(start, end);
        ensure_eq!(
            (self.real.touches(start, end), start, end),
            (wanted, start, end)
        );
        Ok(())
    }

    /// Compares whether `start..end` is idle, perhaps as the first question of a round.
    pub(crate) fn compare_idle(
        &mut self,
        start: usize,
        end: usize,
        is_new_round: bool,
    ) -> Result<(), Failed> {
        if is_new_round {
            self.round += 1;
            self.reach = [0, self.reach[0]];
        }
        let is_beyond = self.reach.iter().all(|reach| *reach <= start);
        let wanted = is_beyond && !self.model.touches(start, end);
        let real = atomic(|| self.real.is_idle(start, end, self.round));
        ensure_eq!((real, start, end), (wanted, start, end));
        Ok(())
    }

    /// Frees everything, and checks that nothing is left in use.
    pub(crate) fn finish(mut self) -> Result<(), Failed> {
        for offset in (0..self.model.size).step_by(GRANULE) {
            let Some(range) = self.model.get(offset) else {
                continue;
            };
            match range.phase {
                Phase::Reserved => self.step(Step::Abort(offset))?,
                Phase::Delivered(_) => {
                    self.step(Step::Take(offset))?;
                    self.step(Step::Release(offset))?;
                }
                Phase::Freeing => self.step(Step::Release(offset))?,
            }
        }
        ensure_eq!(self.model.oneway_left(), self.model.size / 2);
        // The whole space is one gap again.
        if self.model.size > 0 {
            self.step(Step::Reserve(self.model.size, CallKind::Sync))?;
            ensure_eq!(self.model.used().count(), 1);
            self.step(Step::Abort(0))?;
        }
        Ok(())
    }
}
