// SPDX-License-Identifier: GPL-2.0

//! A place for a record, which is read while another one is written.
//!
//! The writer stores the number of a record before and after its words, and the reader reads it in
//! the opposite order:
//!
//! ```text
//!   writer: number ─► words ─► number again        reader: number ◄─ words ◄─ number again
//! ```
//!
//! If the reader sees the same number twice, no other record was begun meanwhile, so the words
//! belong to that number.

use core::array;
use kernel::sync::{
    atomic::{Acquire, Atomic, Relaxed, Release},
    barrier::{smp_mb, Read, Write}, //
};

/// A place for a record. All zeroes if none has been in it: so no record can have the number 0.
#[repr(align(64))] // A record that is written takes one cache line.
pub(crate) struct Slot<const WORDS: usize> {
    /// The number of the record that was begun last.
    begun: Atomic<u32>,
    words: [Atomic<u32>; WORDS],
    /// The number of the record that was completed last.
    completed: Atomic<u32>,
}

/// A record that was read.
#[derive(Clone, Copy)]
pub(crate) struct Record<const WORDS: usize> {
    pub(crate) number: u32,
    pub(crate) words: [u32; WORDS],
    /// Whether all words are those of this record. Otherwise the writer was about to write them.
    pub(crate) is_complete: bool,
}

impl<const WORDS: usize> Slot<WORDS> {
    pub(crate) fn empty() -> Self {
        Self {
            begun: Atomic::new(0),
            words: [const { Atomic::new(0) }; WORDS],
            completed: Atomic::new(0),
        }
    }

    /// Writes a record in place of the one before. No two threads may do so at a time.
    #[inline(always)]
    pub(crate) fn write(&self, number: u32, words: [u32; WORDS]) {
        self.begun.store(number, Relaxed);
        // ORDERING: Pairs with `smp_mb(Read)` in `read`: who reads a word of this record reads its
        // number after that.
        smp_mb(Write);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Relaxed);
        }
        // ORDERING: Pairs with the load in `read`: who reads this number reads the words of this
        // record, or of a later one.
        self.completed.store(number, Release);
    }

    /// Reads the record that was begun last.
    pub(crate) fn read(&self) -> Record<WORDS> {
        // ORDERING: Pairs with the last store in `write`.
        let completed = self.completed.load(Acquire);
        let words = array::from_fn(|at| self.words[at].load(Relaxed));
        // ORDERING: Pairs with `smp_mb(Write)` in `write`.
        smp_mb(Read);
        let number = self.begun.load(Relaxed);
        Record {
            number,
            words,
            is_complete: number == completed,
        }
    }
}
