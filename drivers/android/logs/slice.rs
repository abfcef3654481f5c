// SPDX-License-Identifier: GPL-2.0

//! A few lines, copied under a lock to be written without it.

/// How many lines one record has at most, and therefore how much is copied under one lock.
const MOST: usize = 4;

/// At most [`MOST`] lines, on the stack.
pub(super) struct Slice<T> {
    lines: [Option<T>; MOST],
    len: usize,
}

impl<T> Slice<T> {
    pub(super) fn new() -> Self {
        Self {
            lines: [const { None }; MOST],
            len: 0,
        }
    }

    /// Whether no other line fits.
    pub(super) fn is_full(&self) -> bool {
        self.len == MOST
    }

    /// Adds a line, which has to fit.
    pub(super) fn push(&mut self, line: T) {
        if let Some(place) = self.lines.get_mut(self.len) {
            *place = Some(line);
            self.len += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.iter().flatten()
    }
}
