// SPDX-License-Identifier: GPL-2.0

//! Where numbers begin and end that grow as long as the module is loaded.
//!
//! What a number does at its end should not be seen for the first time after months. Built with
//! `CONFIG_ANDROID_BINDER_IPC_RUST_NEAR_LIMITS`, the driver starts them near their ends, or has them end
//! early, and is to work as ever. `docs/numbers.md` has all of them, with their widths and what happens
//! at their ends.

/// What debug ids begin with: they come round soon.
pub(crate) const FIRST_DEBUG_ID: i32 = if cfg!(near_limits) { -50 } else { 0 };

/// What numbers of 64 bits begin with that never come to their end: at a number in every nanosecond they
/// would take centuries. So far away they are that a run does not get there, and so high that nothing of
/// them fits into less.
pub(crate) const FIRST_LONG_NUMBER: u64 = if cfg!(near_limits) {
    u64::MAX - (1 << 40)
} else {
    0
};

/// What a count of living objects begins with. It may come round: only how far it is from here counts.
pub(crate) const FIRST_COUNT: i32 = if cfg!(near_limits) { i32::MAX - 1 } else { 0 };

/// How often one process can hold a handle, and handles a node, in either strength.
pub(crate) const MOST_COUNTS: u32 = if cfg!(near_limits) { 1 << 16 } else { u32::MAX };
