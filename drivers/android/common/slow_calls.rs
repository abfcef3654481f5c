// SPDX-License-Identifier: GPL-2.0

//! The parameter `slow_call_ms`: whether calls that wait for long are looked for.
//!
//! `common/slow_calls.c` declares it, and has the work that looks for such calls while it is not 0.

use kernel::{
    bindings,
    sync::atomic::{Atomic, Relaxed}, //
};

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

/// `struct rust_binder_slow_calls`.
#[repr(C)]
struct Key {
    are_told: bindings::static_key_false,
}

extern "C" {
    static rust_binder_slow_calls: Key;
}

/// Whether the parameter is not 0. As long as it is, asking costs one instruction where the kernel has
/// jump labels.
#[allow(unsafe_code)] // The key is a variable of C.
#[inline(always)]
pub(crate) fn are_told() -> bool {
    // SAFETY: The variable is a static key of C, with a layout as above, and lives as long as the module.
    unsafe { kernel::jump_label::static_branch_unlikely!(rust_binder_slow_calls, Key, are_told) }
}
