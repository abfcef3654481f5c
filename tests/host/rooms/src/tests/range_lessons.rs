// SPDX-License-Identifier: GPL-2.0

//! Rules of the contract and lessons from others' faults, one test each.

use crate::range_alloc::{CallKind, RangeAllocator, ReserveError, Reserved, Spare, FEW};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::alloc::AllocError;
use kernel::testing::{
    atomic, fail_after, failure_is_pending, live_allocations, total_allocations,
};
use std::sync::{Arc, Barrier, Mutex};

const SYNC: CallKind = CallKind::Sync;
const PAGE: usize = 4096;

fn oneway(sender: i32) -> CallKind {
    CallKind::Oneway { sender }
}

type Allocator<const N: usize = FEW> = RangeAllocator<&'static str, N>;

fn reserve<T, const N: usize>(
    allocator: &mut RangeAllocator<T, N>,
    size: usize,
    kind: CallKind,
) -> Result<Reserved, ReserveError> {
    let mut spare = Spare::new();
    loop {
        match atomic(|| allocator.reserve(size, kind, &mut spare)) {
            Err(ReserveError::NeedSpare) => spare.fill(GFP_KERNEL).unwrap(),
            result => return result,
        }
    }
}

#[test]
fn alloc_1_sizes_are_rounded_and_gaps_fit_best() {
    let mut allocator = Allocator::<16>::new(PAGE);
    let sizes = [100, 8, 60, 8, 200, 8];
    let ranges = sizes.map(|size| reserve(&mut allocator, size, SYNC).unwrap());
    assert_eq!(ranges[0].size, 104);
    assert_eq!(ranges[1].offset, 104);
    for freed in [0, 2, 4] {
        let _ = allocator.abort(ranges[freed].offset).unwrap();
    }
    // The smallest gap that is large enough is neither the first nor the last.
    let best = reserve(&mut allocator, 61, SYNC).unwrap();
    assert_eq!(best.offset, ranges[2].offset);
    // What remains of a gap is a gap.
    let begin = reserve(&mut allocator, 96, SYNC).unwrap();
    assert_eq!(begin.offset, ranges[0].offset);
    let rest = reserve(&mut allocator, 8, SYNC).unwrap();
    assert_eq!(rest.offset, ranges[0].offset + 96);
}

#[test]
fn alloc_2_and_3_a_sync_call_may_use_all_and_oneway_calls_half() {
    let mut allocator = Allocator::<16>::new(PAGE);
    let too_much = PAGE / 2 + 8;
    assert_eq!(
        reserve(&mut allocator, too_much, oneway(1)),
        Err(ReserveError::NoSpace)
    );
    let half = reserve(&mut allocator, PAGE / 2, oneway(1)).unwrap();
    assert_eq!(allocator.free_oneway_space(), 0);
    assert_eq!(
        reserve(&mut allocator, 1, oneway(2)),
        Err(ReserveError::NoSpace)
    );
    let rest = reserve(&mut allocator, PAGE / 2, SYNC).unwrap();
    assert_eq!(reserve(&mut allocator, 1, SYNC), Err(ReserveError::NoSpace));

    allocator.deliver(half.offset, "oneway").unwrap();
    allocator.take(half.offset).unwrap();
    assert_eq!(
        allocator.free_oneway_space(),
        0,
        "credited before it is free"
    );
    let _ = allocator.release(half.offset).unwrap();
    let _ = allocator.abort(rest.offset).unwrap();
    assert_eq!(allocator.free_oneway_space(), PAGE / 2);
    assert_eq!(reserve(&mut allocator, PAGE, SYNC).unwrap().size, PAGE);
}

#[test]
fn sizes_that_do_not_fit_into_anything_are_refused() {
    let mut allocator = Allocator::<16>::new(PAGE);
    for size in [
        PAGE + 1,
        u32::MAX as usize,
        u32::MAX as usize + 9,
        usize::MAX,
    ] {
        assert_eq!(
            reserve(&mut allocator, size, SYNC),
            Err(ReserveError::NoSpace)
        );
        assert_eq!(
            reserve(&mut allocator, size, oneway(1)),
            Err(ReserveError::NoSpace)
        );
    }
    let reserved = reserve(&mut allocator, 0, SYNC).unwrap();
    assert_eq!(
        reserved.size, 8,
        "an empty buffer has an address of its own"
    );
    for offset in [u32::MAX as usize + 1, usize::MAX] {
        assert!(allocator.abort(offset).is_err());
        assert!(allocator.take(offset).is_none());
    }
}

#[test]
fn a_space_that_is_not_mapped_yet_has_no_room() {
    let mut allocator = Allocator::<16>::new(0);
    assert_eq!(reserve(&mut allocator, 0, SYNC), Err(ReserveError::NoSpace));
    allocator.set_space(PAGE).unwrap();
    reserve(&mut allocator, PAGE, SYNC).unwrap();
    assert!(allocator.set_space(2 * PAGE).is_err(), "a range is in use");
}

/// Sends until the sender is suspected. Gives how many ranges that took.
fn until_suspected<const N: usize>(space: usize, size: usize) -> usize {
    let mut allocator = Allocator::<N>::new(space);
    for count in 1.. {
        match reserve(&mut allocator, size, oneway(1)) {
            Ok(reserved) if reserved.oneway_spam_suspect => return count,
            Ok(_) => {}
            Err(error) => panic!("{error:?} after {count} without any suspicion"),
        }
    }
    unreachable!()
}

fn lesson_r05_in<const N: usize>() {
    // By count: the space is low from the first range on, so the count alone decides.
    let space = 112 * 8;
    let mut allocator = Allocator::<N>::new(space);
    for sender in 100..150 {
        let other = reserve(&mut allocator, 1, oneway(sender));
        assert!(!other.unwrap().oneway_spam_suspect);
    }
    assert!(allocator.free_oneway_space() < space / 10);
    // By size: a quarter of the space, the request itself included.
    let mut allocator = Allocator::<N>::new(1000 * 8);
    reserve(&mut allocator, 211 * 8, oneway(2)).unwrap();
    let quarter = reserve(&mut allocator, 250 * 8, oneway(1)).unwrap();
    assert!(
        !quarter.oneway_spam_suspect,
        "a quarter is not more than a quarter"
    );
    let more = reserve(&mut allocator, 8, oneway(1)).unwrap();
    assert!(more.oneway_spam_suspect);

    // The contract's observed case: 128 KiB, 1000 bytes each.
    assert_eq!(until_suspected::<N>(128 << 10, 1000), 53);
}

#[test]
fn lesson_r05_the_request_itself_counts_in_every_backend() {
    lesson_r05_in::<0>();
    lesson_r05_in::<16>();
    lesson_r05_in::<64>();
}

/// Ranges of one sender until it is suspected, when another has made the space scarce.
fn count_when_low<const N: usize>() -> usize {
    // 100 granules of budget, of which the other takes 39; fewer than 20 left means low.
    let mut allocator = Allocator::<N>::new(200 * 8);
    reserve(&mut allocator, 39 * 8, oneway(2)).unwrap();
    for count in 1..=61 {
        if reserve(&mut allocator, 8, oneway(1))
            .unwrap()
            .oneway_spam_suspect
        {
            return count;
        }
    }
    0
}

#[test]
fn alloc_7_the_fifty_first_range_is_one_too_many() {
    assert_eq!(count_when_low::<0>(), 51);
    assert_eq!(count_when_low::<16>(), 51);
    assert_eq!(count_when_low::<64>(), 51);
}

fn suspicion_fires_once_until_there_is_space_again_in<const N: usize>() {
    let mut allocator = Allocator::<N>::new(1000 * 8);
    let big = reserve(&mut allocator, 410 * 8, oneway(1)).unwrap();
    assert!(big.oneway_spam_suspect);
    let more = reserve(&mut allocator, 8, oneway(1)).unwrap();
    assert!(!more.oneway_spam_suspect, "told twice");
    let _ = allocator.abort(big.offset).unwrap();
    let small = reserve(&mut allocator, 8, oneway(1)).unwrap();
    assert!(!small.oneway_spam_suspect, "there is space");
    let again = reserve(&mut allocator, 410 * 8, oneway(1)).unwrap();
    assert!(again.oneway_spam_suspect, "not armed again");
}

#[test]
fn alloc_7_suspicion_fires_once_until_there_is_space_again() {
    suspicion_fires_once_until_there_is_space_again_in::<0>();
    suspicion_fires_once_until_there_is_space_again_in::<16>();
    suspicion_fires_once_until_there_is_space_again_in::<64>();
}

#[test]
fn lesson_c02_of_two_threads_that_free_a_range_one_gets_it() {
    for round in 0..200 {
        let mut allocator = RangeAllocator::<u32, 4>::new(PAGE);
        let mut spare = Spare::new();
        let reserved = allocator.reserve(8, SYNC, &mut spare).unwrap();
        allocator.deliver(reserved.offset, round).unwrap();
        let shared = Arc::new((Mutex::new(allocator), Barrier::new(2)));
        let free = |shared: Arc<(Mutex<RangeAllocator<u32, 4>>, Barrier)>| {
            move || {
                shared.1.wait();
                let mut guard = shared.0.lock().unwrap();
                guard.take(reserved.offset).map(|(_, payload)| payload)
            }
        };
        let wins: Vec<_> = std::thread::scope(|scope| {
            let threads = [0, 1].map(|_| scope.spawn(free(shared.clone())));
            threads
                .map(|thread| thread.join().unwrap())
                .into_iter()
                .flatten()
                .collect()
        });
        assert_eq!(wins, [round]);
    }
}

#[test]
fn each_state_refuses_what_belongs_to_others() {
    let mut allocator = Allocator::<16>::new(PAGE);
    let at = reserve(&mut allocator, 64, SYNC).unwrap().offset;
    assert!(allocator.take(at).is_none(), "a sender is still writing");
    assert!(allocator.take_any().is_none());
    assert!(allocator.release(at).is_err());
    assert!(allocator.payload_mut(at).is_none());

    allocator.deliver(at, "first").unwrap();
    assert_eq!(allocator.deliver(at, "second"), Err("second"));
    assert!(allocator.abort(at).is_err(), "the receiver has it");
    assert!(allocator.release(at).is_err(), "nobody took it");
    assert!(allocator.take(at + 8).is_none(), "not the start");
    assert_eq!(allocator.payload_mut(at), Some(&mut "first"));

    assert_eq!(allocator.take(at), Some((64, "first")));
    assert_eq!(allocator.take(at), None, "freed twice");
    assert!(allocator.abort(at).is_err());
    assert_eq!(allocator.deliver(at, "third"), Err("third"));
    assert_eq!(allocator.in_use(), 1, "not free before the release");
    let _ = allocator.release(at).unwrap();
    assert!(allocator.release(at).is_err());
    assert_eq!(allocator.in_use(), 0);
}

#[test]
fn a_few_ranges_never_allocate() {
    let before = total_allocations();
    let mut allocator = Allocator::<FEW>::new(PAGE);
    for round in 0..100 {
        let reserved: Vec<_> = (0..FEW)
            .map(|i| reserve(&mut allocator, 8 + (round * i) % 100, SYNC).unwrap())
            .collect();
        for range in reserved {
            allocator.deliver(range.offset, "").unwrap();
            allocator.take(range.offset).unwrap();
            assert!(allocator.release(range.offset).unwrap().is_empty());
        }
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn many_ranges_in_a_steady_state_never_allocate() {
    let mut allocator = Allocator::<4>::new(1 << 20);
    for _ in 0..100 {
        reserve(&mut allocator, 8, SYNC).unwrap();
    }
    let one = reserve(&mut allocator, 100, SYNC).unwrap();
    let _ = allocator.abort(one.offset).unwrap();
    let before = total_allocations();
    for _ in 0..1000 {
        let one = reserve(&mut allocator, 100, SYNC).unwrap();
        assert!(allocator.abort(one.offset).unwrap().is_empty());
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn a_failed_allocation_changes_nothing() {
    let before = live_allocations();
    let mut failures = 0;
    for allowed in 0.. {
        let mut allocator = Allocator::<4>::new(PAGE);
        let mut offsets: Vec<_> = (0..4)
            .map(|_| reserve(&mut allocator, 8, SYNC).unwrap().offset)
            .collect();
        let mut spare = Spare::new();
        assert_eq!(
            allocator.reserve(8, SYNC, &mut spare),
            Err(ReserveError::NeedSpare)
        );
        fail_after(allowed);
        let result = spare.fill(GFP_KERNEL);
        let was_enough = failure_is_pending();
        assert_eq!(result, if was_enough { Ok(()) } else { Err(AllocError) });
        failures += usize::from(result.is_err());
        // With or without the failure, the next attempt goes on from here.
        offsets.push(reserve(&mut allocator, 8, SYNC).unwrap().offset);
        assert_eq!(offsets, [0, 8, 16, 24, 32]);
        for offset in offsets {
            let _ = allocator.abort(offset).unwrap();
        }
        if was_enough {
            break;
        }
    }
    assert!(failures > 10, "the sweep met {failures} failures");
    assert_eq!(live_allocations(), before);
}

#[test]
fn an_allocator_that_is_dropped_in_use_frees_its_descriptors_and_payloads() {
    let before = live_allocations();
    let payload = Arc::new(());
    let mut allocator = RangeAllocator::<_, 4>::new(PAGE);
    for _ in 0..50 {
        let offset = reserve(&mut allocator, 8, SYNC).unwrap().offset;
        allocator.deliver(offset, payload.clone()).unwrap();
    }
    assert_eq!(Arc::strong_count(&payload), 51);
    drop(allocator);
    assert_eq!(Arc::strong_count(&payload), 1);
    assert_eq!(live_allocations(), before);
}
