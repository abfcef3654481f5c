// SPDX-License-Identifier: GPL-2.0

//! The parameter `slow_call_ms`: whether calls that wait for long are looked for.
//!
//! `common/slow_calls.c` declares it, and has the work that looks for such calls while it is not 0.

use kernel::sync::atomic::{Atomic, Relaxed};

/// The current value of the parameter; its setter writes it by one store.
#[allow(unsafe_code)] // For the symbol name alone, by which C finds it.
#[no_mangle]
static rust_binder_slow_call_ms: Atomic<u32> = Atomic::new(0);

/// Returns for how many milliseconds a call may wait before that is told; `None` if that is never
/// told.
#[inline]
pub(crate) fn limit_ms() -> Option<u32> {
    match rust_binder_slow_call_ms.load(Relaxed) {
        0 => None,
        limit => Some(limit),
    }
}
