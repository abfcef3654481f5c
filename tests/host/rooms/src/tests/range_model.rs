// SPDX-License-Identifier: GPL-2.0
//! The range allocator, compared with a model that can be checked by reading: an entry for each
//! granule of the space, with the range that begins there. After each step all observable values
//! are compared: in all that can happen to a very small space, and in long random sequences.

use super::range_rules::{oneway, try_reserve, within_quota, SYNC};
use crate::range_alloc::{CallKind, RangeAllocator, Reserved, State};
use kernel::testing::{atomic, live_allocations};
use std::collections::HashSet;

const GRANULE: usize = size_of::<usize>();

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Reserved,
    Delivered(u64),
    Freeing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Used {
    size: usize,
    sender: Option<i32>,
    phase: Phase,
}

/// One operation. Offsets may be of any range, or of none.
#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve(usize, CallKind),
    Deliver(usize),
    Take(usize),
    Release(usize),
}

const AT: [fn(usize) -> Step; 3] = [Step::Deliver, Step::Take, Step::Release];

struct Model {
    size: usize,
    spam_reported: bool,
    starts: Vec<Option<Used>>,
}

impl Model {
    /// The ranges in use, and their offsets.
    fn used(&self) -> impl Iterator<Item = (usize, Used)> + '_ {
        let places = self.starts.iter().enumerate();
        places.filter_map(|(at, used)| used.map(|used| (at * GRANULE, used)))
    }

    fn at(&mut self, offset: usize) -> &mut Option<Used> {
        &mut self.starts[offset / GRANULE]
    }

    /// The smallest gap of at least `size` bytes, and the first of several such.
    fn best_gap(&self, size: usize) -> Option<usize> {
        let mut start = 0;
        let mut gaps = Vec::new();
        for (offset, range) in self.used() {
            gaps.push((offset - start, start));
            start = offset + range.size;
        }
        gaps.push((self.size - start, start));
        gaps.retain(|(room, _)| *room >= size);
        gaps.into_iter().min().map(|(_, start)| start)
    }

    fn oneway_left(&self) -> usize {
        let oneway = self.used().filter(|(_, range)| range.sender.is_some());
        self.size / 2 - oneway.map(|(_, range)| range.size).sum::<usize>()
    }

    /// The number of oneway ranges of a sender, and their sum.
    fn held_by(&self, sender: i32) -> (usize, usize) {
        let its = self.used().filter(|(_, range)| range.sender == Some(sender));
        its.fold((0, 0), |(count, sum), (_, range)| (count + 1, sum + range.size))
    }

    /// By the rules of contract ALLOC-1, -2, -3 and -7, and by the quota of a sender.
    fn reserve(&mut self, size: usize, kind: CallKind) -> Option<Reserved> {
        let size = size.max(1).next_multiple_of(GRANULE);
        let mut sender = None;
        if let CallKind::Oneway { sender: from, quota } = kind {
            let percent = if quota == 0 { 100 } else { usize::from(quota) };
            let part = self.size / 2 * percent / 100;
            if size > self.oneway_left() || quota != 0 && self.held_by(from).1 + size > part {
                return None;
            }
            sender = Some(from);
        }
        let offset = self.best_gap(size)?;
        let phase = Phase::Reserved;
        *self.at(offset) = Some(Used { size, sender, phase });
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
        let (count, sum) = self.held_by(sender);
        let is_suspect = count - 1 > 50 || sum - size > self.size / 4;
        let is_report = is_suspect && !self.spam_reported;
        self.spam_reported |= is_suspect;
        is_report
    }

    /// Changes the phase of the range at an offset, if there is one. Returns the previous phase.
    fn step(&mut self, offset: usize, from: impl Fn(Phase) -> bool, to: Option<Phase>) -> Option<Used> {
        let was = self.at(offset).filter(|used| from(used.phase))?;
        *self.at(offset) = to.map(|phase| Used { phase, ..was });
        Some(was)
    }

    fn touches(&self, start: usize, end: usize) -> bool {
        let mut used = self.used();
        start < end && used.any(|(offset, range)| offset < end && offset + range.size > start)
    }
}

/// A real allocator and its model.
struct Both<const FIRST: usize, const FEW: usize> {
    real: RangeAllocator<u64, FIRST, FEW>,
    model: Model,
    next_payload: u64,
    /// The number of times that reclaim has begun again.
    round: u32,
    /// The highest end of the ranges that were reserved in this round, and in the one before.
    reach: [usize; 2],
}

impl<const FIRST: usize, const FEW: usize> Both<FIRST, FEW> {
    fn new(size: usize) -> Self {
        Self {
            real: RangeAllocator::new(size),
            model: Model { size, spam_reported: false, starts: vec![None; size / GRANULE] },
            next_payload: 0,
            round: 0,
            reach: [0; 2],
        }
    }

    /// Runs a step on both, and compares the results and the ranges.
    fn step(&mut self, step: Step) {
        let (real, model) = (&mut self.real, &mut self.model);
        match step {
            Step::Reserve(size, kind) => {
                let reserved = try_reserve(real, size, kind);
                assert_eq!(reserved, model.reserve(size, kind));
                let end = reserved.map_or(0, |range| range.offset + range.size);
                self.reach[0] = self.reach[0].max(end);
            }
            Step::Deliver(offset) => {
                let payload = self.next_payload;
                self.next_payload += 1;
                let to = Some(Phase::Delivered(payload));
                let wanted = model.step(offset, |phase| phase == Phase::Reserved, to);
                let real = atomic(|| real.deliver(offset, payload));
                assert_eq!(real, wanted.map(|_| ()).ok_or(payload));
            }
            Step::Take(offset) => {
                let is_delivered = |phase| matches!(phase, Phase::Delivered(_));
                let taken = model.step(offset, is_delivered, Some(Phase::Freeing));
                let wanted = taken.and_then(|used| match used.phase {
                    Phase::Delivered(payload) => Some((used.size, payload)),
                    _ => None,
                });
                assert_eq!(atomic(|| real.take(offset)), wanted);
            }
            Step::Release(offset) => {
                let is_owned = |phase| !matches!(phase, Phase::Delivered(_));
                let wanted = model.step(offset, is_owned, None);
                assert_eq!(atomic(|| real.release(offset)).is_some(), wanted.is_some());
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let seen = self.real.ranges().map(|range| {
            let phase = match range.state {
                State::Reserved => Phase::Reserved,
                State::Delivered(payload) => Phase::Delivered(*payload),
                State::Freeing => Phase::Freeing,
            };
            let (size, sender) = (range.size, range.oneway_sender);
            (range.offset, Used { size, sender, phase })
        });
        let wanted: Vec<_> = self.model.used().collect();
        assert_eq!(seen.collect::<Vec<_>>(), wanted);
        assert_eq!(self.real.in_use(), wanted.len());
        assert_eq!(self.real.free_oneway_space(), self.model.oneway_left());
        // A walk by the end of each.
        let mut from = 0;
        for (offset, used) in wanted {
            let behind = atomic(|| self.real.first_behind(from)).map(|range| range.offset);
            assert_eq!(behind, Some(offset));
            from = offset + used.size;
        }
        assert!(self.real.first_behind(from).is_none());
    }

    fn compare_touches(&self, start: usize, end: usize) {
        let wanted = self.model.touches(start, end);
        assert_eq!(self.real.touches(start, end), wanted, "{start}..{end}");
    }

    /// Compares whether `start..end` is idle, perhaps as the first question of a round.
    fn compare_idle(&mut self, start: usize, end: usize, is_new_round: bool) {
        if is_new_round {
            self.round += 1;
            self.reach = [0, self.reach[0]];
        }
        let is_beyond = self.reach.iter().all(|reach| *reach <= start);
        let wanted = is_beyond && !self.model.touches(start, end);
        let real = atomic(|| self.real.is_idle(start, end, self.round));
        assert_eq!(real, wanted, "{start}..{end}");
    }

    /// Frees everything, after which the whole space is one gap again.
    fn finish(mut self) {
        for offset in (0..self.model.size).step_by(GRANULE) {
            self.step(Step::Take(offset));
            self.step(Step::Release(offset));
        }
        self.step(Step::Reserve(self.model.size, SYNC));
        self.step(Step::Release(0));
        assert!(self.model.used().next().is_none());
    }
}

/// Runs some steps from the beginning.
fn run<const FIRST: usize, const FEW: usize>(space: usize, steps: &[Step]) -> Both<FIRST, FEW> {
    let mut both = Both::new(space);
    steps.iter().for_each(|step| both.step(*step));
    both
}

/// Visits each state of the model, tries everything in it, valid or not, and returns their number.
fn explore<const FIRST: usize, const FEW: usize>(space: usize, kinds: &[CallKind]) -> usize {
    let sizes = (1..=space / GRANULE + 1).map(|size| size * GRANULE);
    let mut steps: Vec<_> =
        sizes.flat_map(|size| kinds.iter().map(move |kind| Step::Reserve(size, *kind))).collect();
    let offsets = (0..space).step_by(GRANULE);
    steps.extend(offsets.flat_map(|offset| AT.map(|step| step(offset))));

    // Payloads only count the deliveries.
    let essence = |model: &Model| {
        let mut starts = model.starts.clone();
        for used in starts.iter_mut().flatten() {
            if let Phase::Delivered(payload) = &mut used.phase {
                *payload = 0;
            }
        }
        (starts, model.spam_reported)
    };
    let mut seen = HashSet::from([essence(&Both::<FIRST, FEW>::new(space).model)]);
    let mut paths = vec![Vec::new()];
    let mut here = 0;
    while let Some(path) = paths.get(here).cloned() {
        let both = run::<FIRST, FEW>(space, &path);
        for start in 0..space {
            both.compare_touches(start, start + 1);
            both.compare_touches(start, start + GRANULE + 1);
        }
        for &step in &steps {
            let mut both = run::<FIRST, FEW>(space, &path);
            both.step(step);
            if seen.insert(essence(&both.model)) {
                paths.push([&path[..], &[step]].concat());
            }
            both.finish();
        }
        here += 1;
    }
    paths.len()
}

/// Explores a space for each place of the ranges: all have the same number of states, and enough.
fn explore_all<const FEW: usize>(space: usize, kinds: &[CallKind]) {
    let states = explore::<0, 0>(space, kinds);
    assert!(states > 1000, "{states} states");
    assert_eq!(explore::<FEW, FEW>(space, kinds), states);
    assert_eq!(explore::<1, FEW>(space, kinds), states);
    assert_eq!(explore::<16, 16>(space, kinds), states);
}

#[test]
fn four_granules_two_senders() {
    explore_all::<2>(4 * GRANULE, &[SYNC, oneway(1), oneway(2)]);
}

/// Half of four granules are for oneway calls, and half of those for one sender.
#[test]
fn four_granules_two_senders_with_a_quota() {
    let kinds = [SYNC, within_quota(1, 50), within_quota(2, 50), oneway(2)];
    explore_all::<1>(4 * GRANULE, &kinds);
}

#[test]
fn five_granules_without_oneway() {
    explore_all::<3>(5 * GRANULE, &[SYNC]);
}

/// Pseudo-random numbers: Marsaglia's xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Takes `steps` steps in a space of `space` bytes with requests of up to `largest`.
fn walk<const FIRST: usize, const FEW: usize>(seed: u64, steps: usize, space: usize, largest: usize) {
    let mut numbers = Numbers(seed);
    let mut both = Both::<FIRST, FEW>::new(space);
    for _ in 0..steps {
        let offset = numbers.below(space / GRANULE) * GRANULE;
        match numbers.below(16) {
            0..6 => {
                let kind = match numbers.below(4) {
                    0 => SYNC,
                    sender => within_quota(sender as i32, [0, 0, 20, 60][numbers.below(4)]),
                };
                both.step(Step::Reserve(numbers.below(largest + 1), kind));
            }
            6..14 => {
                // The next range from there on; chance decides whether it is delivered or freed.
                let is_freed = numbers.below(2) == 0;
                let found = both.model.used().find(|(at, _)| *at >= offset);
                if let Some((at, range)) = found {
                    both.step(match range.phase {
                        Phase::Reserved if !is_freed => Step::Deliver(at),
                        Phase::Delivered(_) => Step::Take(at),
                        Phase::Reserved | Phase::Freeing => Step::Release(at),
                    });
                }
            }
            14 => both.step(AT[numbers.below(3)](offset)),
            _ => {
                let end = numbers.below(space + 1);
                both.compare_touches(offset, end);
                both.compare_idle(offset, end, numbers.below(3) == 0);
            }
        }
    }
    both.finish();
}

/// A walk for each way to keep the ranges (lesson R05): with `FEW` of 0 always the tree, with 64
/// always an array, in between both in turn. The allocator itself has `FIRST` ranges.
fn walk_everywhere(seed: u64, steps: usize, space: usize, largest: usize) {
    walk::<0, 0>(seed, steps, space, largest);
    walk::<1, 1>(seed, steps, space, largest);
    walk::<0, 5>(seed, steps, space, largest);
    walk::<2, 5>(seed, steps, space, largest);
    walk::<4, 16>(seed, steps, space, largest);
    walk::<4, 64>(seed, steps, space, largest);
    walk::<64, 64>(seed, steps, space, largest);
}

#[test]
fn long_walks() {
    let before = live_allocations();
    for seed in 1..50 {
        // Few large ranges: many refusals, tight gaps. Many small ones: arrays fill and empty.
        walk_everywhere(seed, 3000, 256, 160);
        walk_everywhere(seed, 5000, 512, 24);
        // A space whose size is no multiple of anything helpful.
        walk_everywhere(seed, 300, 8 * (1 + seed as usize % 12), 100);
    }
    // A real space and hundreds of ranges.
    walk::<0, 0>(1, 50_000, 1 << 16, 600);
    walk::<4, 16>(1, 50_000, 1 << 16, 600);
    assert_eq!(live_allocations(), before, "memory leaks");
}
