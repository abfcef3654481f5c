// SPDX-License-Identifier: GPL-2.0

//! A module's `debug_mask` and `alloc_debug_mask` parameters, and a limit to the rate of its
//! messages.
//!
//! The parameters that the `module!` macro makes are read-only; these can be changed while the
//! module is loaded (mode 0644), so they are declared in C.

use kernel::sync::atomic::{Atomic, Relaxed};

extern "C" {
    static kernel_ext_debug_mask: Atomic<u32>;
    static kernel_ext_alloc_debug_mask: Atomic<u32>;
    fn kernel_ext_may_log() -> bool;
}

/// Returns the bits of `debug_mask` that are set at present.
pub(crate) fn current() -> u32 {
    // SAFETY: The variable is an `unsigned int` that lives as long as the module and that only the
    // parameter's setter writes, with a single store.
    let mask = unsafe { &kernel_ext_debug_mask };
    mask.load(Relaxed)
}

/// Returns the bits of `alloc_debug_mask` that are set at present.
pub(crate) fn current_of_space() -> u32 {
    // SAFETY: As above.
    let mask = unsafe { &kernel_ext_alloc_debug_mask };
    mask.load(Relaxed)
}

/// Whether one more message may be printed now: a burst of ten, and ten every five seconds. The
/// kernel prints by itself how many were suppressed. May be called in any context.
pub(crate) fn is_within_rate() -> bool {
    // SAFETY: The function has no arguments and may be called in any context.
    unsafe { kernel_ext_may_log() }
}
