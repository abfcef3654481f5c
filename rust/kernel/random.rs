// SPDX-License-Identifier: GPL-2.0

//! Numbers that nobody can guess.

extern "C" {
    fn get_random_u64() -> u64;
}

/// Returns a number from the kernel's generator. In any context.
pub(crate) fn number() -> u64 {
    // SAFETY: The function takes no argument and may be called in any context.
    unsafe { get_random_u64() }
}
