// SPDX-License-Identifier: GPL-2.0

//! The first and last values of numbers that grow as long as the module is loaded.
//!
//! What a number does at its end should not be seen for the first time after months of use. Built
//! with `CONFIG_ANDROID_BINDER_IPC_RUST_NEAR_LIMITS`, the driver starts these numbers near their
//! ends, or sets their ends lower, and has to work as in any other build. `docs/numbers.md` lists
//! all of them, with their widths and what happens at their ends.

/// The first debug id. Near limits, debug ids soon wrap around.
pub(crate) const FIRST_DEBUG_ID: i32 = if cfg!(near_limits) { -50 } else { 0 };

/// The first value of 64-bit numbers that never reach their end: one number each nanosecond would
/// take centuries. Near limits, the value is so far from the end that no run reaches it, and so
/// high that it does not fit into a narrower type.
pub(crate) const FIRST_LONG_NUMBER: u64 = if cfg!(near_limits) {
    u64::MAX - (1 << 40)
} else {
    0
};

/// The first value of a count of existing objects. The count may wrap around: only its distance
/// from this value counts.
pub(crate) const FIRST_COUNT: i32 = if cfg!(near_limits) { i32::MAX - 1 } else { 0 };

/// The maximum number of times that one process can hold a handle, and that handles can hold a
/// node, in either strength.
pub(crate) const MOST_COUNTS: u32 = if cfg!(near_limits) { 1 << 16 } else { u32::MAX };
