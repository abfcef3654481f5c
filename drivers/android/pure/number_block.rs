// SPDX-License-Identifier: GPL-2.0

//! Numbers that a process has taken from a counter which all processes share, several at once: so
//! it writes the counter's cache line, which others write too, only when it has used all of them.

/// The most numbers that are taken at once.
const MOST: u32 = 1024;

/// Numbers that were taken and not used yet.
///
/// Each time as many are taken as were in all the times before, up to [`MOST`]: a process that
/// needs few wastes few, so that the counter counts at most about twice as far as numbers are used.
pub(crate) struct NumberBlock {
    next: u32,
    /// The number behind the last one.
    end: u32,
    /// How many were taken the last time.
    taken: u32,
}

impl NumberBlock {
    /// Returns a block without numbers.
    pub(crate) const fn new() -> Self {
        Self {
            next: 0,
            end: 0,
            taken: 0,
        }
    }

    /// Returns the next number. If none is left, `take` takes as many consecutive ones from the
    /// counter as it is told, and returns the first.
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
