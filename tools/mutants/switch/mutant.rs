// SPDX-License-Identifier: GPL-2.0
//! The switch: selects the active faults.

use core::sync::atomic::{AtomicU16, AtomicU8, Ordering::Relaxed};

extern "C" {
    static rust_binder_mutant: [AtomicU16; 2];
    static rust_binder_reached: [AtomicU8; 1 << 16];
}

/// Returns true if this fault is active, and records that its place was reached.
#[inline(always)]
pub(crate) fn is(number: u32) -> bool {
    // SAFETY: `rust_binder_mutant.c` defines both, the array large enough for every number in use.
    unsafe {
        rust_binder_reached[number as usize].store(1, Relaxed);
        rust_binder_mutant.iter().any(|active| u32::from(active.load(Relaxed)) == number)
    }
}
