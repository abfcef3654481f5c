// SPDX-License-Identifier: GPL-2.0

//! The KUnit suites of the driver: the range allocator's conformance suite, in smaller sizes than
//! on the host, and the rules of the module's initialisation. The suite of
//! [`page_range`](crate::kernel_ext::page_range) is in the same folder as its source.

#[path = "../range_alloc/conformance.rs"]
mod conformance;

use crate::kernel_ext::expect::{ensure, ensure_eq, Failed};
use kernel::{new_spinlock, prelude::*};

/// Calls `f` as the driver calls the allocator: under a spinlock.
fn atomic<R>(f: impl FnOnce() -> R) -> R {
    pin_init::stack_pin_init!(let lock = new_spinlock!((), "kunit::atomic"));
    let _guard = lock.lock();
    f()
}

/// Calls a test of one kind of allocator. Allocators are on the stack, which has 16 KiB: not those
/// of all kinds at once, as if the compiler made one function of the tests.
#[inline(never)]
fn apart(test: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    test()
}

/// Tests rules with an allocator that always uses a tree, with one that changes between array and
/// tree, and with ones that have room for many ranges without a tree, in the first array or in the
/// other one.
macro_rules! in_every_backend {
    ($($rule:ident)+) => { $(
        super::apart(super::conformance::$rule::<0, 0>)?;
        super::apart(super::conformance::$rule::<2, 5>)?;
        super::apart(super::conformance::$rule::<4, 64>)?;
        super::apart(super::conformance::$rule::<24, 24>)?;
    )+ };
}

#[kunit_tests(binder_range_alloc)]
mod range_alloc {
    use super::{
        conformance::{explore_both, oneway, walk, SYNC},
        Failed, //
    };

    const GRANULE: usize = size_of::<usize>();

    #[test]
    fn each_rule_holds_in_every_backend() -> Result<(), Failed> {
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
        Ok(())
    }

    #[test]
    fn all_that_can_happen_to_two_granules() -> Result<(), Failed> {
        let states = explore_both::<1>(2 * GRANULE, &[SYNC, oneway(1)])?;
        super::ensure!(states > 40);
        Ok(())
    }

    #[test]
    fn random_lives() -> Result<(), Failed> {
        for seed in 1..4 {
            super::apart(|| walk::<0, 0>(seed, 1500, 512, 24))?;
            super::apart(|| walk::<2, 5>(seed, 1500, 512, 24))?;
            super::apart(|| walk::<4, 64>(seed, 1500, 512, 24))?;
            super::apart(|| walk::<24, 24>(seed, 1500, 256, 160))?;
        }
        Ok(())
    }
}

#[kunit_tests(binder_module)]
mod module {
    use super::Failed;
    use crate::entry::ffi::Devices;
    use kernel::error::code::EBUSY;

    #[test]
    fn lesson_s16_devices_are_made_once() -> Result<(), Failed> {
        // Module init has made the devices.
        super::ensure_eq!(Devices::make(false).err(), Some(EBUSY));
        Ok(())
    }
}
