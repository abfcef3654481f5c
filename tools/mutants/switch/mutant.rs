// SPDX-License-Identifier: GPL-2.0

//! The switch: which of the faults is there.

use core::sync::atomic::{AtomicU16, AtomicU8, Ordering::Relaxed};

extern "C" {
    static rust_binder_mutant: AtomicU16;
    static rust_binder_reached: [AtomicU8; 1 << 16];
}

/// Whether this fault is there; takes note that its place was reached.
#[inline(always)]
pub(crate) fn is(number: u32) -> bool {
    // SAFETY: `rust_binder_mutant.c` defines both, the array large enough for every number in use.
    unsafe {
        rust_binder_reached[number as usize].store(1, Relaxed);
        u32::from(rust_binder_mutant.load(Relaxed)) == number
    }
}
