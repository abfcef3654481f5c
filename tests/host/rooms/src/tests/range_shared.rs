// SPDX-License-Identifier: GPL-2.0

//! The conformance suite that KUnit runs in the kernel, on the host: in more sizes, as there is time.

use super::range_conformance::{self as suite, explore_both, oneway, walk, within_quota, SYNC};
use super::Failed;
use kernel::testing::live_allocations;

const GRANULE: usize = 8;

/// Each of them for the tree alone (0), for what is between, for the larger array, and for the first
/// array alone (64).
macro_rules! in_every_backend {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() -> Result<(), Failed> {
                suite::$name::<0, 0>()?;
                suite::$name::<1, 1>()?;
                suite::$name::<4, 16>()?;
                suite::$name::<4, 64>()?;
                suite::$name::<64, 64>()
            }
        )*
    };
}

in_every_backend! {
    alloc_1_sizes_are_rounded_and_gaps_fit_best
    alloc_2_and_3_a_sync_call_may_use_all_and_oneway_calls_half
    sizes_that_do_not_fit_into_anything_are_refused
    a_space_that_is_not_mapped_yet_has_no_room
    lesson_r05_the_request_itself_does_not_count
    alloc_7_fifty_one_ranges_are_one_too_many
    alloc_7_suspicion_fires_once_until_there_is_space_again
    a_quota_is_for_each_sender
    a_quota_may_be_too_small_for_anything
    each_state_refuses_what_belongs_to_others
    books_change_hands_without_losing_a_range
}

fn enough(states: usize) {
    assert!(
        states > 1000,
        "{states} states are too few to mean anything"
    );
}

#[test]
fn four_granules_two_senders() -> Result<(), Failed> {
    enough(explore_both::<2>(
        4 * GRANULE,
        &[SYNC, oneway(1), oneway(2)],
    )?);
    Ok(())
}

/// Half of four granules are for oneway calls, and half of those for one sender.
#[test]
fn four_granules_two_senders_with_a_quota() -> Result<(), Failed> {
    let kinds = [SYNC, within_quota(1, 50), within_quota(2, 50), oneway(2)];
    enough(explore_both::<1>(4 * GRANULE, &kinds)?);
    Ok(())
}

#[test]
fn five_granules_without_oneway() -> Result<(), Failed> {
    enough(explore_both::<3>(5 * GRANULE, &[SYNC])?);
    Ok(())
}

/// A walk in each of the ways to keep the books (lesson R05): `FEW` of 0 is always the tree, 64 is always an array here, and what is
/// between goes to and fro. `FIRST` says from when on there are books.
fn walk_in_every_backend(
    seed: u64,
    steps: usize,
    space: usize,
    largest: usize,
) -> Result<(), Failed> {
    walk::<0, 0>(seed, steps, space, largest)?;
    walk::<1, 1>(seed, steps, space, largest)?;
    walk::<0, 5>(seed, steps, space, largest)?;
    walk::<2, 5>(seed, steps, space, largest)?;
    walk::<4, 16>(seed, steps, space, largest)?;
    walk::<4, 64>(seed, steps, space, largest)?;
    walk::<64, 64>(seed, steps, space, largest)
}

#[test]
fn long_walks() -> Result<(), Failed> {
    let before = live_allocations();
    for seed in 1..50 {
        // Few large ranges: much is refused, gaps are tight. Then many small ones: the limits of arrays are passed in both directions.
        walk_in_every_backend(seed, 3000, 256, 160)?;
        walk_in_every_backend(seed, 5000, 512, 24)?;
        // A space whose size is no multiple of anything helpful.
        walk_in_every_backend(seed, 300, 8 * (1 + seed as usize % 12), 100)?;
    }
    // A real space and hundreds of ranges.
    walk::<0, 0>(1, 50_000, 1 << 16, 600)?;
    walk::<4, 16>(1, 50_000, 1 << 16, 600)?;
    assert_eq!(live_allocations(), before, "descriptors leak");
    Ok(())
}
