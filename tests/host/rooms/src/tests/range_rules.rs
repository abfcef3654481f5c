// SPDX-License-Identifier: GPL-2.0
//! Rules of the contract, and lessons from faults of other drivers, for each place of the ranges:
//! the tree alone (`FEW` of 0), the larger array, the first array alone (64), and mixtures.

use super::*;
use crate::range_alloc::{CallKind, Label, RangeAllocator, ReserveError, Reserved, SpareMemory};

const PAGE: usize = 4096;
pub(super) const SYNC: CallKind = CallKind::Sync;

pub(super) const fn oneway(sender: i32) -> CallKind {
    within_quota(sender, 0)
}

pub(super) const fn within_quota(sender: i32, quota: u8) -> CallKind {
    CallKind::Oneway { sender, quota }
}

type Allocator<const FIRST: usize, const FEW: usize> = RangeAllocator<&'static str, FIRST, FEW>;

/// Reserves as a caller does: under the lock, and again after filling the spare.
pub(super) fn try_reserve<T, const FIRST: usize, const FEW: usize>(
    allocator: &mut RangeAllocator<T, FIRST, FEW>,
    size: usize,
    kind: CallKind,
) -> Option<Reserved> {
    let mut spare = SpareMemory::EMPTY;
    for _ in 0..4 {
        match atomic(|| allocator.reserve(size, kind, Label::NONE, Some(&mut spare))) {
            Ok(reserved) => return Some(reserved),
            Err(ReserveError::NoSpace) => return None,
            Err(ReserveError::NeedSpare) => spare.fill().unwrap(),
        }
    }
    panic!("a filled spare is not enough");
}

/// Reserves a range for which space has to exist.
pub(super) fn reserve<T, const FIRST: usize, const FEW: usize>(
    allocator: &mut RangeAllocator<T, FIRST, FEW>,
    size: usize,
    kind: CallKind,
) -> Reserved {
    try_reserve(allocator, size, kind).unwrap()
}

/// Returns whether a oneway range of sender 1 makes it a suspect.
fn is_suspect<const FIRST: usize, const FEW: usize>(
    allocator: &mut Allocator<FIRST, FEW>,
    size: usize,
) -> bool {
    reserve(allocator, size, oneway(1)).oneway_spam_suspect
}

/// Frees a range.
pub(super) fn release<T, const FIRST: usize, const FEW: usize>(
    allocator: &mut RangeAllocator<T, FIRST, FEW>,
    offset: usize,
) {
    drop(atomic(|| allocator.release(offset)).unwrap());
}

macro_rules! in_every_backend {
    ($($(#[$doc:meta])* fn $name:ident<FIRST, FEW>() $body:block)*) => {
        $(
            $(#[$doc])*
            #[test]
            fn $name() {
                fn with<const FIRST: usize, const FEW: usize>() $body
                with::<0, 0>();
                with::<1, 1>();
                with::<4, 16>();
                with::<4, 64>();
                with::<64, 64>();
            }
        )*
    };
}

in_every_backend! {
    fn alloc_1_sizes_are_rounded_and_gaps_fit_best<FIRST, FEW>() {
        let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
        let ranges = [100, 8, 60, 8, 200, 8].map(|size| reserve(&mut allocator, size, SYNC));
        assert_eq!(ranges.map(|range| range.size), [104, 8, 64, 8, 200, 8]);
        for freed in [0, 2, 4] {
            release(&mut allocator, ranges[freed].offset);
        }
        // The smallest gap that is large enough is neither the first nor the last; the rest of a gap is a gap.
        for (size, offset) in [(61, ranges[2].offset), (96, 0), (8, 96)] {
            assert_eq!(reserve(&mut allocator, size, SYNC).offset, offset);
        }
    }

    fn alloc_2_and_3_a_sync_call_may_use_all_and_oneway_calls_half<FIRST, FEW>() {
        let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
        assert_eq!(try_reserve(&mut allocator, PAGE / 2 + 8, oneway(1)), None);
        let half = reserve(&mut allocator, PAGE / 2, oneway(1)).offset;
        assert_eq!(try_reserve(&mut allocator, 1, oneway(2)), None);
        let rest = reserve(&mut allocator, PAGE / 2, SYNC).offset;
        assert_eq!(try_reserve(&mut allocator, 1, SYNC), None);
        // Not credited before it is freed.
        assert_eq!(allocator.deliver(half, "oneway"), Ok(()));
        assert!(allocator.take(half).is_some());
        assert_eq!(allocator.free_oneway_space(), 0);
        release(&mut allocator, half);
        release(&mut allocator, rest);
        assert_eq!(allocator.free_oneway_space(), PAGE / 2);
        assert_eq!(reserve(&mut allocator, PAGE, SYNC).size, PAGE);
    }

    fn sizes_that_do_not_fit_into_anything_are_refused<FIRST, FEW>() {
        let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
        let most = u32::MAX as usize;
        for size in [PAGE + 1, most, most + 9, usize::MAX] {
            assert_eq!(try_reserve(&mut allocator, size, SYNC), None);
            assert_eq!(try_reserve(&mut allocator, size, oneway(1)), None);
        }
        // An empty buffer has an address of its own.
        assert_eq!(reserve(&mut allocator, 0, SYNC).size, 8);
        for offset in [most, most + 1, usize::MAX] {
            assert!(allocator.release(offset).is_none());
            assert!(allocator.take(offset).is_none());
            assert!(allocator.first_behind(offset).is_none());
        }
    }

    fn a_space_has_whole_granules<FIRST, FEW>() {
        let mut allocator = Allocator::<FIRST, FEW>::new(7);
        assert_eq!(try_reserve(&mut allocator, 0, SYNC), None);
        let mut allocator = Allocator::<FIRST, FEW>::new(PAGE + 7);
        reserve(&mut allocator, PAGE, SYNC);
        assert_eq!(try_reserve(&mut allocator, 0, SYNC), None);
    }

    fn lesson_r05_the_request_itself_does_not_count<FIRST, FEW>() {
        // By number: the space is low from the first range on, so the number alone decides.
        let mut allocator = Allocator::<FIRST, FEW>::new(112 * 8);
        for sender in 100..150 {
            assert!(!reserve(&mut allocator, 1, oneway(sender)).oneway_spam_suspect);
        }
        assert!(allocator.free_oneway_space() < 112 * 8 / 10);
        // By size: a quarter of the space, without the request itself, is not more than a quarter.
        let mut allocator = Allocator::<FIRST, FEW>::new(1000 * 8);
        reserve(&mut allocator, 211 * 8, oneway(2));
        let suspected = [250 * 8, 8, 8].map(|size| is_suspect(&mut allocator, size));
        assert_eq!(suspected, [false, false, true]);
        // The contract's observed case: 128 KiB, 1000 bytes each.
        let mut allocator = Allocator::<FIRST, FEW>::new(128 << 10);
        let before = (0..).take_while(|_| !is_suspect(&mut allocator, 1000)).count();
        assert_eq!(before, 52);
    }

    fn alloc_7_fifty_one_ranges_are_one_too_many<FIRST, FEW>() {
        // The budget is 120 granules. The other sender takes 47; fewer than 24 left means low. A
        // quarter of the space is 60 granules, so that the number of ranges decides.
        let mut allocator = Allocator::<FIRST, FEW>::new(240 * 8);
        reserve(&mut allocator, 47 * 8, oneway(2));
        let before = (0..).take_while(|_| !is_suspect(&mut allocator, 8)).count();
        assert_eq!(before, 51);
    }

    fn alloc_7_suspicion_fires_once_until_there_is_space_again<FIRST, FEW>() {
        let mut allocator = Allocator::<FIRST, FEW>::new(1000 * 8);
        let big = reserve(&mut allocator, 410 * 8, oneway(1));
        assert!(!big.oneway_spam_suspect);
        assert_eq!([8, 8].map(|size| is_suspect(&mut allocator, size)), [true, false]);
        release(&mut allocator, big.offset);
        // The space is not low any more; a suspect is reported again when it is.
        let again = [8, 410 * 8, 8].map(|size| is_suspect(&mut allocator, size));
        assert_eq!(again, [false, false, true]);
    }

    /// More bytes than 32 bits can count are in use one after the other.
    fn sizes_of_freed_ranges_do_not_add_up<FIRST, FEW>() {
        let space = 4 << 20;
        let mut allocator = Allocator::<FIRST, FEW>::new(space);
        for _ in 0..=u32::MAX as usize / space {
            let range = reserve(&mut allocator, space, SYNC);
            release(&mut allocator, range.offset);
        }
    }

    /// A tree is made of the array, and an array of the tree, without a change of the ranges.
    fn ranges_move_without_losing_one<FIRST, FEW>() {
        let mut allocator = Allocator::<FIRST, FEW>::new(1 << 20);
        for _ in 0..3 {
            for at in 0..200 {
                assert_eq!(reserve(&mut allocator, 64, SYNC).offset, at * 64);
            }
            assert_eq!(allocator.in_use(), 200);
            let offsets = allocator.ranges().map(|range| range.offset);
            assert!(offsets.eq((0..200).map(|at| at * 64)));
            for at in (0..200).rev() {
                release(&mut allocator, at * 64);
            }
            assert_eq!(allocator.in_use(), 0);
        }
    }
}
