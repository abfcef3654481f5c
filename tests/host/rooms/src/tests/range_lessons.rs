// SPDX-License-Identifier: GPL-2.0
//! Properties of the range allocator that only the host can check: allocations, their failures, and
//! real threads.

use super::range_rules::{oneway, release, reserve, SYNC};
use super::*;
use crate::range_alloc::{Label, RangeAllocator, ReserveError, SpareMemory, FEW, FIRST};
use kernel::error::code::ENOMEM;
use kernel::testing::freed_in_atomic;
use std::sync::{Arc, Barrier, Mutex};

const PAGE: usize = 4096;

type Allocator<const FIRST: usize, const FEW: usize> = RangeAllocator<&'static str, FIRST, FEW>;

/// Senders come and go, each with a range or two: their accounts go with them.
#[test]
fn accounts_of_senders_go_with_them() {
    let before = live_allocations();
    let mut allocator = Allocator::<0, 0>::new(1 << 20);
    let keeps = reserve(&mut allocator, 8, SYNC);
    for sender in 0..1000 {
        let two = [0, 0].map(|_| reserve(&mut allocator, 8, oneway(sender)));
        for range in two {
            release(&mut allocator, range.offset);
        }
        let kept = live_allocations() - before;
        assert!(kept < 20, "{kept} allocations after {sender} senders");
    }
    release(&mut allocator, keeps.offset);
    drop(allocator);
    assert_eq!(live_allocations(), before);
}

/// Freed memory goes out with the value that the caller drops later, also when the ranges move back
/// to the array while there is more to give back.
#[test]
fn lesson_s12_nothing_is_freed_under_the_lock() {
    let mut allocator = Allocator::<FIRST, FEW>::new(1 << 20);
    for step in 1..8 {
        let mut reserved: Vec<_> =
            (0..3 * FEW as i32).map(|sender| reserve(&mut allocator, 8, oneway(sender))).collect();
        while !reserved.is_empty() {
            let next = reserved.swap_remove(step * 7 % reserved.len());
            let leftover = atomic(|| allocator.release(next.offset)).unwrap();
            assert_eq!(freed_in_atomic(), 0, "with {} left", reserved.len());
            drop(leftover);
        }
    }
}

#[test]
fn lesson_c02_of_two_threads_that_free_a_range_one_gets_it() {
    for round in 0..200 {
        let mut allocator = RangeAllocator::<u32, 4, 4>::new(PAGE);
        let reserved = allocator.reserve(8, SYNC, Label::NONE, None).unwrap();
        allocator.deliver(reserved.offset, round).unwrap();
        let shared = Arc::new((Mutex::new(allocator), Barrier::new(2)));
        let free = |shared: Arc<(Mutex<RangeAllocator<u32, 4, 4>>, Barrier)>| {
            move || {
                shared.1.wait();
                let mut guard = shared.0.lock().unwrap();
                guard.take(reserved.offset).map(|(_, payload)| payload)
            }
        };
        let wins: Vec<_> = std::thread::scope(|scope| {
            let threads = [0, 1].map(|_| scope.spawn(free(shared.clone())));
            threads.map(|thread| thread.join().unwrap()).into_iter().flatten().collect()
        });
        assert_eq!(wins, [round]);
    }
}

/// Has so many ranges at once, again and again. Returns how much memory was allocated.
fn allocated_by(allocator: &mut Allocator<FIRST, FEW>, at_once: usize) -> usize {
    let before = total_allocations();
    for round in 0..100 {
        let reserved: Vec<_> =
            (0..at_once).map(|i| reserve(allocator, 8 + (round * i) % 100, SYNC)).collect();
        for range in reserved {
            allocator.deliver(range.offset, "").unwrap();
            allocator.take(range.offset).unwrap();
            frees_nothing(allocator, range.offset);
        }
    }
    total_allocations() - before
}

/// Releases a range, which leaves no memory unused.
fn frees_nothing<const FIRST: usize, const FEW: usize>(allocator: &mut Allocator<FIRST, FEW>, offset: usize) {
    let before = live_allocations();
    drop(allocator.release(offset).unwrap());
    assert_eq!(live_allocations(), before);
}

#[test]
fn a_few_ranges_never_allocate() {
    let before = live_allocations();
    let mut allocator = Allocator::new(PAGE);
    assert_eq!(allocated_by(&mut allocator, FIRST), 0);
    // The larger array.
    assert_eq!(allocated_by(&mut allocator, FIRST + 1), 1);
    assert_eq!(live_allocations() - before, 1);
    assert_eq!(allocated_by(&mut allocator, FEW), 0);
    drop(allocator);
    assert_eq!(live_allocations(), before);
}

#[test]
fn many_ranges_in_a_steady_state_never_allocate() {
    let mut allocator = Allocator::<4, 4>::new(1 << 20);
    for _ in 0..100 {
        reserve(&mut allocator, 8, SYNC);
    }
    let one = reserve(&mut allocator, 100, SYNC);
    release(&mut allocator, one.offset);
    let before = total_allocations();
    for _ in 0..1000 {
        let one = reserve(&mut allocator, 100, SYNC);
        frees_nothing(&mut allocator, one.offset);
    }
    assert_eq!(total_allocations(), before);
}

/// Makes one after the other of the allocations fail that a fifth range needs. Returns how many
/// there were.
fn failures_before_a_fifth<const FIRST: usize, const FEW: usize>() -> usize {
    let before = live_allocations();
    let mut failures = 0;
    for allowed in 0.. {
        let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
        let mut offsets: Vec<_> =
            (0..4).map(|sender| reserve(&mut allocator, 8, oneway(sender)).offset).collect();
        let mut spare = SpareMemory::EMPTY;
        let reserved = allocator.reserve(8, oneway(4), Label::NONE, Some(&mut spare));
        assert_eq!(reserved, Err(ReserveError::NeedSpare));
        fail_after(allowed);
        let result = spare.fill();
        let was_enough = failure_is_pending();
        assert_eq!(result, if was_enough { Ok(()) } else { Err(ENOMEM) });
        failures += usize::from(result.is_err());
        // With or without the failure, the next attempt continues from here.
        offsets.push(reserve(&mut allocator, 8, SYNC).offset);
        assert_eq!(offsets, [0, 8, 16, 24, 32]);
        for offset in offsets {
            release(&mut allocator, offset);
        }
        if was_enough {
            break;
        }
    }
    assert_eq!(live_allocations(), before);
    failures
}

#[test]
fn a_failed_allocation_changes_nothing() {
    assert_eq!(failures_before_a_fifth::<4, 64>(), 1, "the larger array");
    let failures = failures_before_a_fifth::<3, 4>();
    assert!(failures > 10, "the sweep met {failures} failures");
}

#[test]
fn an_allocator_that_is_dropped_in_use_frees_its_descriptors_and_payloads() {
    let before = live_allocations();
    let payload = Arc::new(());
    let mut allocator = RangeAllocator::<_, 4, 4>::new(PAGE);
    for _ in 0..50 {
        let offset = reserve(&mut allocator, 8, SYNC).offset;
        allocator.deliver(offset, payload.clone()).unwrap();
    }
    assert_eq!(Arc::strong_count(&payload), 51);
    drop(allocator);
    assert_eq!(Arc::strong_count(&payload), 1);
    assert_eq!(live_allocations(), before);
}
