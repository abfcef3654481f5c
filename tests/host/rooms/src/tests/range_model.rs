// SPDX-License-Identifier: GPL-2.0

//! What a range allocator should do, written so simply that it can be checked by reading.
//!
//! The model keeps a sorted map of the ranges in use and looks at all of them for each question.
//! [`Pair`] runs the real one next to it and compares everything that can be seen after each step.

use crate::range_alloc::{CallKind, RangeAllocator, ReserveError, Reserved, Spare, State};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::testing::atomic;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Reserved,
    Delivered(u64),
    Freeing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Used {
    pub(super) size: usize,
    pub(super) sender: Option<i32>,
    pub(super) phase: Phase,
}

/// What has to come out of the real one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Model {
    pub(super) size: usize,
    pub(super) used: BTreeMap<usize, Used>,
    spam_reported: bool,
}

impl Model {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            used: BTreeMap::new(),
            spam_reported: false,
        }
    }

    /// Offset and size of each gap.
    fn gaps(&self) -> Vec<(usize, usize)> {
        let mut gaps = Vec::new();
        let mut start = 0;
        for (&offset, range) in &self.used {
            gaps.push((start, offset - start));
            start = offset + range.size;
        }
        gaps.push((start, self.size - start));
        gaps
    }

    pub(super) fn oneway_left(&self) -> usize {
        let oneway = self.used.values().filter(|range| range.sender.is_some());
        self.size / 2 - oneway.map(|range| range.size).sum::<usize>()
    }

    /// Contract ALLOC-1, -2, -3 and -7.
    fn reserve(&mut self, size: usize, kind: CallKind) -> Option<Reserved> {
        let size = size.max(1).next_multiple_of(8);
        let sender = match kind {
            CallKind::Sync => None,
            CallKind::Oneway { sender } => Some(sender),
        };
        if sender.is_some() && size > self.oneway_left() {
            return None;
        }
        let gaps = self.gaps();
        let fitting = gaps.iter().filter(|(_, room)| *room >= size);
        let (offset, _) = *fitting.min_by_key(|(offset, room)| (*room, *offset))?;
        self.used.insert(
            offset,
            Used {
                size,
                sender,
                phase: Phase::Reserved,
            },
        );
        Some(Reserved {
            offset,
            size,
            oneway_spam_suspect: sender.is_some_and(|sender| self.is_news_of_spam(sender)),
        })
    }

    fn is_news_of_spam(&mut self, sender: i32) -> bool {
        if self.oneway_left() >= self.size / 10 {
            self.spam_reported = false;
            return false;
        }
        let of_sender = |range: &&Used| range.sender == Some(sender);
        let count = self.used.values().filter(of_sender).count();
        let bytes: usize = self.used.values().filter(of_sender).map(|r| r.size).sum();
        let is_suspect = count > 50 || bytes > self.size / 4;
        let is_news = is_suspect && !self.spam_reported;
        self.spam_reported |= is_suspect;
        is_news
    }

    fn free(&mut self, offset: usize, phase: Phase) -> bool {
        let found = self.used.get(&offset).is_some_and(|r| r.phase == phase);
        if found {
            self.used.remove(&offset);
        }
        found
    }

    fn deliver(&mut self, offset: usize, payload: u64) -> bool {
        match self.used.get_mut(&offset) {
            Some(range) if range.phase == Phase::Reserved => {
                range.phase = Phase::Delivered(payload);
                true
            }
            _ => false,
        }
    }

    fn take(&mut self, offset: usize) -> Option<(usize, u64)> {
        let range = self.used.get_mut(&offset)?;
        let Phase::Delivered(payload) = range.phase else {
            return None;
        };
        range.phase = Phase::Freeing;
        Some((range.size, payload))
    }
}

/// One thing that can be done to an allocator. Offsets may be of any range, or of none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Reserve(usize, CallKind),
    Deliver(usize),
    Abort(usize),
    Take(usize),
    TakeAny,
    Release(usize),
}

/// A real allocator and its model.
pub(super) struct Pair<const FEW: usize> {
    real: RangeAllocator<u64, FEW>,
    pub(super) model: Model,
    next_payload: u64,
    /// Who asks for idle memory has come round so many times.
    round: u32,
    /// Where ranges ended that were reserved in this round, and in the one before.
    ends: [Vec<usize>; 2],
}

impl<const FEW: usize> Pair<FEW> {
    pub(super) fn new(size: usize) -> Self {
        Self {
            real: RangeAllocator::new(size),
            model: Model::new(size),
            next_payload: 0,
            round: 0,
            ends: Default::default(),
        }
    }

    /// Does it to both, and compares.
    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Reserve(size, kind) => {
                let real = self.reserve(size, kind);
                assert_eq!(real, self.model.reserve(size, kind));
                self.ends[0].extend(real.map(|reserved| reserved.offset + reserved.size));
            }
            Step::Deliver(offset) => {
                let payload = self.next_payload;
                self.next_payload += 1;
                let real = atomic(|| self.real.deliver(offset, payload));
                let model = self.model.deliver(offset, payload);
                assert_eq!(real, if model { Ok(()) } else { Err(payload) });
            }
            Step::Abort(offset) => {
                let real = atomic(|| self.real.abort(offset));
                assert_eq!(real.is_ok(), self.model.free(offset, Phase::Reserved));
            }
            Step::Take(offset) => {
                let real = atomic(|| self.real.take(offset));
                assert_eq!(real, self.model.take(offset));
            }
            Step::TakeAny => match atomic(|| self.real.take_any()) {
                // Which one is not promised.
                Some((offset, size, payload)) => {
                    assert_eq!(self.model.take(offset), Some((size, payload)));
                }
                None => {
                    let delivered = |r: &Used| matches!(r.phase, Phase::Delivered(_));
                    assert!(!self.model.used.values().any(delivered));
                }
            },
            Step::Release(offset) => {
                let real = atomic(|| self.real.release(offset));
                assert_eq!(real.is_ok(), self.model.free(offset, Phase::Freeing));
            }
        }
        self.compare();
    }

    /// As a caller does it: under the lock, and again after filling the spare.
    fn reserve(&mut self, size: usize, kind: CallKind) -> Option<Reserved> {
        let mut spare = Spare::new();
        for _ in 0..3 {
            match atomic(|| self.real.reserve(size, kind, &mut spare)) {
                Ok(reserved) => return Some(reserved),
                Err(ReserveError::NoSpace) => return None,
                Err(ReserveError::NeedSpare) => spare.fill(GFP_KERNEL).unwrap(),
            }
        }
        panic!("a filled spare is not enough");
    }

    fn compare(&self) {
        let seen = self.real.ranges().map(|range| {
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
        let seen: Vec<_> = seen.collect();
        let wanted: Vec<_> = self.model.used.iter().map(|(o, u)| (*o, *u)).collect();
        assert_eq!(seen, wanted);
        assert_eq!(self.real.in_use(), wanted.len());
        assert_eq!(self.real.free_oneway_space(), self.model.oneway_left());
    }

    /// Asks about `start..end` and compares.
    pub(super) fn compare_touches(&self, start: usize, end: usize) {
        let wanted = self.touches(start, end);
        assert_eq!(self.real.touches(start, end), wanted, "{start}..{end}");
    }

    fn touches(&self, start: usize, end: usize) -> bool {
        let mut used = self.model.used.iter();
        start < end && used.any(|(&offset, range)| offset < end && offset + range.size > start)
    }

    /// Asks whether `start..end` is idle, perhaps as the first of a round, and compares.
    pub(super) fn compare_idle(&mut self, start: usize, end: usize, is_new_round: bool) {
        if is_new_round {
            self.round += 1;
            self.ends[1] = std::mem::take(&mut self.ends[0]);
        }
        let is_beyond = self.ends.iter().flatten().all(|reach| *reach <= start);
        let wanted = is_beyond && !self.touches(start, end);
        let real = atomic(|| self.real.is_idle(start, end, self.round));
        assert_eq!(real, wanted, "{start}..{end} in round {}", self.round);
    }

    /// Gives everything back, and checks that nothing is left.
    pub(super) fn finish(mut self) {
        let offsets: Vec<_> = self.model.used.keys().copied().collect();
        for offset in offsets {
            match self.model.used[&offset].phase {
                Phase::Reserved => self.step(Step::Abort(offset)),
                Phase::Delivered(_) => {
                    self.step(Step::Take(offset));
                    self.step(Step::Release(offset));
                }
                Phase::Freeing => self.step(Step::Release(offset)),
            }
        }
        assert_eq!(self.model.oneway_left(), self.model.size / 2);
        // The whole space is one gap again.
        if self.model.size > 0 {
            self.step(Step::Reserve(self.model.size, CallKind::Sync));
            assert_eq!(self.model.used.len(), 1);
            self.step(Step::Abort(0));
        }
    }
}
