// SPDX-License-Identifier: GPL-2.0

//! The switch: which of the faults are there at the moment.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

extern "C" {
    static rust_binder_present: [AtomicU8; 1 << 16];
    static rust_binder_reached: [AtomicU8; 1 << 16];
}

/// Whether this fault is there; takes note that its place was reached.
#[inline(always)]
pub(crate) fn is(number: u32) -> bool {
    // SAFETY: `rust_binder_mutant.c` defines both, large enough for every number in use.
    unsafe {
        rust_binder_reached[number as usize].store(1, Relaxed);
        rust_binder_present[number as usize].load(Relaxed) != 0
    }
}
