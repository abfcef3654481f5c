// SPDX-License-Identifier: GPL-2.0

//! Tests of the range allocator, for both backends and wherever the ranges are: rules of the
//! contract, lessons from faults of other drivers, everything that can happen to a small space, and
//! long random sequences that are compared with a model.
//!
//! One source for two places: KUnit runs it in the kernel, with the kernel's red-black trees and
//! spinlocks, and `cargo test` runs it in `tests/host`, where the time suffices for larger spaces.
//! The module that includes this file provides what is imported from `super`.

#[path = "conformance/exhaustive.rs"]
mod exhaustive;
#[path = "conformance/model.rs"]
mod model;
#[path = "conformance/walk.rs"]
mod walk;

use super::{atomic, ensure, ensure_eq, Failed};
use crate::range_alloc::{CallKind, Label, RangeAllocator, ReserveError, Reserved, Spare};
use kernel::alloc::flags::GFP_KERNEL;

pub(super) use exhaustive::explore_both;
#[cfg(test)]
pub(super) use model::{Pair, Step};
pub(super) use walk::walk;

pub(super) const SYNC: CallKind = CallKind::Sync;
const PAGE: usize = 4096;

pub(super) const fn oneway(sender: i32) -> CallKind {
    within_quota(sender, 0)
}

pub(super) const fn within_quota(sender: i32, quota: u8) -> CallKind {
    CallKind::Oneway { sender, quota }
}

type Outcome = Result<(), Failed>;
type Allocator<const FIRST: usize, const FEW: usize> = RangeAllocator<&'static str, FIRST, FEW>;

/// Reserves as a caller does: under the lock, and again after filling the spare.
pub(super) fn reserve<T, const FIRST: usize, const FEW: usize>(
    allocator: &mut RangeAllocator<T, FIRST, FEW>,
    size: usize,
    kind: CallKind,
) -> Result<Result<Reserved, ReserveError>, Failed> {
    let mut spare = Spare::new();
    loop {
        match atomic(|| allocator.reserve(size, kind, Label::NONE, &mut spare)) {
            Err(ReserveError::NeedSpare) => spare.fill(GFP_KERNEL)?,
            result => return Ok(result),
        }
    }
}

/// Reserves a range for which space has to exist.
pub(super) fn reserve_ok<T, const FIRST: usize, const FEW: usize>(
    allocator: &mut RangeAllocator<T, FIRST, FEW>,
    size: usize,
    kind: CallKind,
) -> Result<Reserved, Failed> {
    let result = reserve(allocator, size, kind)?;
    result.map_err(|error| Failed::because(&error))
}

/// Frees a reserved range.
fn abort<T, const FIRST: usize, const FEW: usize>(
    allocator: &mut RangeAllocator<T, FIRST, FEW>,
    offset: usize,
) -> Outcome {
    let leftover = atomic(|| allocator.abort(offset));
    ensure!(leftover.is_ok());
    Ok(())
}

pub(super) fn alloc_1_sizes_are_rounded_and_gaps_fit_best<const FIRST: usize, const FEW: usize>(
) -> Outcome {
    let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
    let mut ranges = [0; 6];
    for (at, size) in [100, 8, 60, 8, 200, 8].into_iter().enumerate() {
        let reserved = reserve_ok(&mut allocator, size, SYNC)?;
        ensure_eq!(reserved.size, size.next_multiple_of(8));
        ranges[at] = reserved.offset;
    }
    ensure_eq!(ranges[1], 104);
    for freed in [0, 2, 4] {
        abort(&mut allocator, ranges[freed])?;
    }
    // The smallest gap that is large enough is neither the first nor the last.
    let best = reserve_ok(&mut allocator, 61, SYNC)?;
    ensure_eq!(best.offset, ranges[2]);
    // The rest of a gap is a gap.
    let begin = reserve_ok(&mut allocator, 96, SYNC)?;
    ensure_eq!(begin.offset, ranges[0]);
    let rest = reserve_ok(&mut allocator, 8, SYNC)?;
    ensure_eq!(rest.offset, ranges[0] + 96);
    Ok(())
}

pub(super) fn alloc_2_and_3_a_sync_call_may_use_all_and_oneway_calls_half<
    const FIRST: usize,
    const FEW: usize,
>() -> Outcome {
    let none = Err(ReserveError::NoSpace);
    let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
    ensure_eq!(reserve(&mut allocator, PAGE / 2 + 8, oneway(1))?, none);
    let half = reserve_ok(&mut allocator, PAGE / 2, oneway(1))?;
    ensure_eq!(allocator.free_oneway_space(), 0);
    ensure_eq!(reserve(&mut allocator, 1, oneway(2))?, none);
    let rest = reserve_ok(&mut allocator, PAGE / 2, SYNC)?;
    ensure_eq!(reserve(&mut allocator, 1, SYNC)?, none);

    ensure_eq!(allocator.deliver(half.offset, "oneway"), Ok(()));
    ensure!(allocator.take(half.offset).is_some());
    // Not credited before it is freed.
    ensure_eq!(allocator.free_oneway_space(), 0);
    ensure!(atomic(|| allocator.release(half.offset)).is_ok());
    abort(&mut allocator, rest.offset)?;
    ensure_eq!(allocator.free_oneway_space(), PAGE / 2);
    ensure_eq!(reserve_ok(&mut allocator, PAGE, SYNC)?.size, PAGE);
    Ok(())
}

pub(super) fn sizes_that_do_not_fit_into_anything_are_refused<
    const FIRST: usize,
    const FEW: usize,
>() -> Outcome {
    let none = Err(ReserveError::NoSpace);
    let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
    for size in [
        PAGE + 1,
        u32::MAX as usize,
        u32::MAX as usize + 9,
        usize::MAX,
    ] {
        ensure_eq!(reserve(&mut allocator, size, SYNC)?, none);
        ensure_eq!(reserve(&mut allocator, size, oneway(1))?, none);
    }
    // An empty buffer has an address of its own.
    ensure_eq!(reserve_ok(&mut allocator, 0, SYNC)?.size, 8);
    for offset in [u32::MAX as usize + 1, usize::MAX] {
        ensure!(allocator.abort(offset).is_err());
        ensure!(allocator.take(offset).is_none());
    }
    Ok(())
}

pub(super) fn a_space_that_is_not_mapped_yet_has_no_room<const FIRST: usize, const FEW: usize>(
) -> Outcome {
    let mut allocator = Allocator::<FIRST, FEW>::new(0);
    let none = Err(ReserveError::NoSpace);
    ensure_eq!(reserve(&mut allocator, 0, SYNC)?, none);
    ensure!(allocator.set_space(PAGE).is_ok());
    reserve_ok(&mut allocator, PAGE, SYNC)?;
    // A range is in use.
    ensure!(allocator.set_space(2 * PAGE).is_err());
    Ok(())
}

/// Reserves oneway ranges until the sender is suspected. Returns how many ranges that took.
fn until_suspected<const FIRST: usize, const FEW: usize>(
    space: usize,
    size: usize,
) -> Result<usize, Failed> {
    let mut allocator = Allocator::<FIRST, FEW>::new(space);
    let mut count = 1;
    while !reserve_ok(&mut allocator, size, oneway(1))?.oneway_spam_suspect {
        count += 1;
    }
    Ok(count)
}

pub(super) fn lesson_r05_the_request_itself_does_not_count<const FIRST: usize, const FEW: usize>(
) -> Outcome {
    // By count: the space is low from the first range on, so the count alone decides.
    let space = 112 * 8;
    let mut allocator = Allocator::<FIRST, FEW>::new(space);
    for sender in 100..150 {
        let other = reserve_ok(&mut allocator, 1, oneway(sender))?;
        ensure!(!other.oneway_spam_suspect);
    }
    ensure!(allocator.free_oneway_space() < space / 10);
    // By size: a quarter of the space, without the request itself.
    let mut allocator = Allocator::<FIRST, FEW>::new(1000 * 8);
    reserve_ok(&mut allocator, 211 * 8, oneway(2))?;
    let quarter = reserve_ok(&mut allocator, 250 * 8, oneway(1))?;
    ensure!(!quarter.oneway_spam_suspect);
    // A quarter is not more than a quarter.
    let more = reserve_ok(&mut allocator, 8, oneway(1))?;
    ensure!(!more.oneway_spam_suspect);
    let behind = reserve_ok(&mut allocator, 8, oneway(1))?;
    ensure!(behind.oneway_spam_suspect);

    // The contract's observed case: 128 KiB, 1000 bytes each.
    ensure_eq!(until_suspected::<FIRST, FEW>(128 << 10, 1000)?, 53);
    Ok(())
}

pub(super) fn alloc_7_fifty_one_ranges_are_one_too_many<const FIRST: usize, const FEW: usize>(
) -> Outcome {
    // The budget is 120 granules, of which the other sender takes 47; fewer than 24 left means low.
    // A quarter of the space is 60 granules, so that the number of ranges decides.
    let mut allocator = Allocator::<FIRST, FEW>::new(240 * 8);
    reserve_ok(&mut allocator, 47 * 8, oneway(2))?;
    for _ in 1..=51 {
        let more = reserve_ok(&mut allocator, 8, oneway(1))?;
        ensure!(!more.oneway_spam_suspect);
    }
    ensure!(reserve_ok(&mut allocator, 8, oneway(1))?.oneway_spam_suspect);
    Ok(())
}

pub(super) fn alloc_7_suspicion_fires_once_until_there_is_space_again<
    const FIRST: usize,
    const FEW: usize,
>() -> Outcome {
    let mut allocator = Allocator::<FIRST, FEW>::new(1000 * 8);
    let big = reserve_ok(&mut allocator, 410 * 8, oneway(1))?;
    ensure!(!big.oneway_spam_suspect);
    ensure!(reserve_ok(&mut allocator, 8, oneway(1))?.oneway_spam_suspect);
    // Not reported twice.
    let more = reserve_ok(&mut allocator, 8, oneway(1))?;
    ensure!(!more.oneway_spam_suspect);
    abort(&mut allocator, big.offset)?;
    // The space is not low any more.
    let small = reserve_ok(&mut allocator, 8, oneway(1))?;
    ensure!(!small.oneway_spam_suspect);
    // A suspect is reported again.
    reserve_ok(&mut allocator, 410 * 8, oneway(1))?;
    let again = reserve_ok(&mut allocator, 8, oneway(1))?;
    ensure!(again.oneway_spam_suspect);
    Ok(())
}

pub(super) fn a_quota_is_for_each_sender<const FIRST: usize, const FEW: usize>() -> Outcome {
    let none = Err(ReserveError::NoSpace);
    // The budget is 1000 granules, of which a sender may have 250.
    let mut allocator = Allocator::<FIRST, FEW>::new(2000 * 8);
    let quarter = |sender| within_quota(sender, 25);
    let mut first = [0; 25];
    for offset in &mut first {
        *offset = reserve_ok(&mut allocator, 80, quarter(1))?.offset;
    }
    ensure_eq!(reserve(&mut allocator, 8, quarter(1))?, none);
    // A sender without a quota is not limited; what it has counts as soon as it has one. A
    // synchronous call does not count.
    let more = reserve_ok(&mut allocator, 8, oneway(1))?.offset;
    let sync = reserve_ok(&mut allocator, 8, SYNC)?.offset;
    ensure_eq!(reserve(&mut allocator, 251 * 8, quarter(2))?, none);
    let other = reserve_ok(&mut allocator, 250 * 8, quarter(2))?.offset;

    abort(&mut allocator, first[0])?;
    ensure_eq!(reserve(&mut allocator, 80, quarter(1))?, none);
    let last = reserve_ok(&mut allocator, 72, quarter(1))?.offset;
    // While it is delivered or being freed, the range counts for its sender until it is released.
    ensure_eq!(allocator.deliver(more, ""), Ok(()));
    ensure!(allocator.take(more).is_some());
    ensure_eq!(reserve(&mut allocator, 8, quarter(1))?, none);
    ensure!(atomic(|| allocator.release(more)).is_ok());
    let again = reserve_ok(&mut allocator, 8, quarter(1))?.offset;

    for &offset in [sync, other, last, again].iter().chain(&first[1..]) {
        abort(&mut allocator, offset)?;
    }
    ensure_eq!(allocator.free_oneway_space(), 1000 * 8);
    reserve_ok(&mut allocator, 250 * 8, quarter(1))?;
    Ok(())
}

pub(super) fn a_quota_may_be_too_small_for_anything<const FIRST: usize, const FEW: usize>(
) -> Outcome {
    let none = Err(ReserveError::NoSpace);
    let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
    let hundredth = within_quota(1, 1);
    ensure_eq!(reserve(&mut allocator, 24, hundredth)?, none);
    reserve_ok(&mut allocator, 16, hundredth)?;
    let mut allocator = Allocator::<FIRST, FEW>::new(8);
    ensure_eq!(reserve(&mut allocator, 0, within_quota(1, 100))?, none);
    Ok(())
}

pub(super) fn each_state_refuses_what_belongs_to_others<const FIRST: usize, const FEW: usize>(
) -> Outcome {
    let mut allocator = Allocator::<FIRST, FEW>::new(PAGE);
    let at = reserve_ok(&mut allocator, 64, SYNC)?.offset;
    // A sender is still writing.
    ensure!(allocator.take(at).is_none());
    ensure!(allocator.release(at).is_err());
    ensure!(allocator.payload_mut(at).is_none());

    ensure_eq!(allocator.deliver(at, "first"), Ok(()));
    ensure_eq!(allocator.deliver(at, "second"), Err("second"));
    // It is delivered, but not taken.
    ensure!(allocator.abort(at).is_err());
    ensure!(allocator.release(at).is_err());
    ensure!(allocator.take(at + 8).is_none());
    ensure_eq!(
        allocator.payload_mut(at).map(|payload| *payload),
        Some("first")
    );

    ensure_eq!(allocator.take(at), Some((64, "first")));
    // Not twice.
    ensure_eq!(allocator.take(at), None);
    ensure!(allocator.abort(at).is_err());
    ensure_eq!(allocator.deliver(at, "third"), Err("third"));
    // Not freed before the release.
    ensure_eq!(allocator.in_use(), 1);
    ensure!(atomic(|| allocator.release(at)).is_ok());
    ensure!(allocator.release(at).is_err());
    ensure_eq!(allocator.in_use(), 0);
    Ok(())
}

/// A tree is made of the array and moved back to it as ranges are reserved and freed, with the same
/// ranges before and after.
pub(super) fn books_change_hands_without_losing_a_range<const FIRST: usize, const FEW: usize>(
) -> Outcome {
    let mut allocator = Allocator::<FIRST, FEW>::new(1 << 20);
    for _ in 0..3 {
        for at in 0..200 {
            let reserved = reserve_ok(&mut allocator, 64, SYNC)?;
            ensure_eq!(reserved.offset, at * 64);
        }
        ensure_eq!(allocator.in_use(), 200);
        ensure!(allocator
            .ranges()
            .map(|r| r.offset)
            .eq((0..200).map(|at| at * 64)));
        for at in (0..200).rev() {
            abort(&mut allocator, at * 64)?;
        }
        ensure_eq!(allocator.in_use(), 0);
    }
    Ok(())
}
