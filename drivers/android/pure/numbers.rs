// SPDX-License-Identifier: GPL-2.0

//! The first and last values of numbers that grow as long as the module is loaded, and the blocks
//! of numbers that a process takes for itself.
//!
//! The effect of a number's end should not appear for the first time after months of use. Built
//! with `CONFIG_ANDROID_BINDER_IPC_RUST_NEAR_LIMITS`, the driver starts these numbers near their
//! ends, or sets their ends lower, and has to work as in any other build. `docs/performance.md`
//! describes the ends.

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

/// The most numbers that are taken at once.
const MOST: u32 = 1024;

/// Numbers that a process has taken from a counter which all processes share, and has not used yet.
///
/// It takes several at once, so that it writes the cache line of the counter in one call of 500
/// (`reports/lines.tsv`, independent pairs).
///
/// Each time as many are taken as were in all the times before, up to [`MOST`]. A process that
/// needs few wastes few: the counter counts at most about twice as far as numbers are used.
#[derive(Default)]
pub(crate) struct NumberBlock {
    next: u32,
    /// The number behind the last one.
    end: u32,
    /// The number that was taken the last time.
    taken: u32,
}

impl NumberBlock {
    /// Returns the next number. If none is left, `take(count)` takes `count` consecutive numbers
    /// from the counter, and returns the first.
    #[inline(always)]
    pub(crate) fn next(&mut self, take: impl FnOnce(u32) -> u32) -> u32 {
        if self.next == self.end {
            self.refill(take);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    #[cold]
    fn refill(&mut self, take: impl FnOnce(u32) -> u32) {
        self.taken = (self.taken * 2).clamp(1, MOST);
        self.next = take(self.taken);
        self.end = self.next.wrapping_add(self.taken);
    }
}

/// Takes so many consecutive numbers from a counter, at least one, and returns the first; 0 is not
/// among them. `add` adds to the counter, and returns what it was: the last number that was taken.
pub(crate) fn take_numbers(count: u32, mut add: impl FnMut(u32) -> u32) -> u32 {
    loop {
        let first = add(count).wrapping_add(1);
        // So many numbers come before the next 0: none, if it is the first.
        if first.wrapping_neg() >= count {
            return first;
        }
    }
}
