// SPDX-License-Identifier: GPL-2.0
//! Persistent memory, and the steps by which data become durable.
//!
//! A store is durable for certain when it was flushed and a fence came after that. Before, it may be durable or not. The
//! steps are types:
//!
//! ```
//! # use pcache::{crash::Simulated, medium::Medium};
//! # let mut medium = Simulated::new(8);
//! let stored = medium.store(0, &[1, 2]);
//! let flushed = medium.flush(stored);
//! let _durable = medium.fence([flushed]);
//! ```
//!
//! No step can be left out:
//!
//! ```compile_fail
//! # use pcache::{crash::Simulated, medium::Medium};
//! # let mut medium = Simulated::new(8);
//! let stored = medium.store(0, &[1, 2]);
//! let _durable = medium.fence([stored]);
//! ```

use core::ops::Range;

/// Memory of 64-bit words, each of which is stored as a whole.
pub trait Medium {
    fn load(&self, at: usize) -> u64;

    fn put(&mut self, at: usize, word: u64);

    /// Starts to make words durable.
    fn flush_words(&mut self, words: Range<usize>);

    /// Waits until what was flushed is durable.
    fn wait(&mut self);

    fn store(&mut self, at: usize, words: &[u64]) -> Stored {
        for (index, word) in words.iter().enumerate() {
            self.put(at + index, *word);
        }
        Stored(at..at + words.len())
    }

    fn flush(&mut self, stored: Stored) -> Flushed {
        self.flush_words(stored.0);
        Flushed(())
    }

    /// Makes durable what was flushed, all of it.
    fn fence<const N: usize>(&mut self, flushed: [Flushed; N]) -> Durable {
        const { assert!(N > 0, "nothing is durable by a fence alone") };
        let _ = flushed;
        self.wait();
        Durable(())
    }

    /// The three steps at once.
    fn write(&mut self, at: usize, words: &[u64]) -> Durable {
        let stored = self.store(at, words);
        let flushed = self.flush(stored);
        self.fence([flushed])
    }
}

/// Words that were stored.
#[must_use = "they are not durable"]
pub struct Stored(Range<usize>);

/// Words that were stored and flushed.
#[must_use = "they are not durable"]
pub struct Flushed(());

impl Flushed {
    /// Both, for one fence.
    pub fn and(self, other: Self) -> Self {
        let _ = other;
        self
    }
}

/// Proof of a fence behind the flushes that it was made of.
#[derive(Debug, PartialEq, Eq)]
pub struct Durable(());
