// SPDX-License-Identifier: GPL-2.0

//! The newest records of a kind, in a ring, or in one ring for each CPU.
//!
//! Writers on different CPUs share no cache line, no writer waits, and a reader makes none wait.
//! The writers of one CPU keep out of each other's way because each of them holds a spinlock, any
//! one, which keeps it on its CPU and others off it. (On a `PREEMPT_RT` kernel it does not. There a
//! record may show the words of two writers, of which one was preempted.)
//!
//! Each record has a number, which no other one has that is kept. The writer stores it before and
//! after the words of the record, and the reader reads it in the opposite order:
//!
//! ```text
//!   writer: number ─► words ─► number again        reader: number ◄─ words ◄─ number again
//! ```
//!
//! If the reader sees the same number twice, no other record was begun meanwhile, so the words
//! belong to that number.

use core::array;
use kernel::{
    alloc::Flags,
    cpu::{nr_cpu_ids, CpuId},
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        barrier::{smp_mb, Read, Write},
        lock::{spinlock::SpinLockBackend, Guard},
    },
};

/// How many records a ring has.
pub(crate) const RECORDS: usize = 32;

/// The newest records of each CPU, of this many words each.
///
/// # Invariants
///
/// `rings` has one entry for each number that a CPU can have: `nr_cpu_ids()`.
pub(crate) struct CpuRings<const WORDS: usize> {
    /// By the number of the CPU.
    rings: KVVec<KBox<Ring<WORDS>>>,
}

/// The newest records of writers that keep each other off.
pub(crate) struct Ring<const WORDS: usize> {
    /// Where the next record goes: as many times the size of a slot as records were begun, so that
    /// a mask makes an offset of it.
    next: Atomic<u32>,
    slots: [Slot<WORDS>; RECORDS],
}

impl<const WORDS: usize> CpuRings<WORDS> {
    /// Allocates rings without records. `ENOMEM`.
    pub(crate) fn new(flags: Flags) -> Result<Self> {
        let mut rings = KVVec::with_capacity(nr_cpu_ids() as usize, flags)?;
        for _ in 0..nr_cpu_ids() {
            rings.push(Ring::new(flags)?, flags)?;
        }
        // INVARIANT: The loop has added so many.
        Ok(Self { rings })
    }

    /// Adds a record, in place of the oldest one of this CPU. The guard is that of any lock. No two
    /// records that are kept at a time have the same number; one with the number 0 is not kept.
    #[inline(always)]
    pub(crate) fn push<T>(
        &self,
        keeps_others_off_this_cpu: &Guard<'_, T, SpinLockBackend>,
        number: u32,
        words: [u32; WORDS],
    ) {
        // SAFETY: The number of a CPU is less than `nr_cpu_ids()` (invariant of `CpuId`), which
        // does not change after boot, and by the type invariant there are as many rings.
        let ring = unsafe { self.rings.get_unchecked(CpuId::current().as_u32() as usize) };
        ring.push(keeps_others_off_this_cpu, number, words);
    }

    /// Calls `each` with all records that are kept, in no particular order.
    pub(crate) fn read(&self, mut each: impl FnMut(Record<WORDS>)) {
        for ring in self.rings.iter() {
            ring.read(&mut each);
        }
    }
}

impl<const WORDS: usize> Ring<WORDS> {
    /// Allocates a ring without records. `ENOMEM`.
    pub(crate) fn new(flags: Flags) -> Result<KBox<Self>> {
        let memory = KBox::new_uninit(flags)?;
        Ok(memory.write(Self {
            next: Atomic::new(0),
            slots: [const { Slot::empty() }; RECORDS],
        }))
    }

    /// Adds a record, in place of the oldest one. The guard keeps all others off that might call
    /// this meanwhile. Numbers are as for [`CpuRings::push`].
    #[inline(always)]
    pub(crate) fn push<T>(
        &self,
        _keeps_others_off: &Guard<'_, T, SpinLockBackend>,
        number: u32,
        words: [u32; WORDS],
    ) {
        // So `next` wraps around from the last slot to the first one.
        const { assert!((RECORDS * size_of::<Slot<WORDS>>()).is_power_of_two()) };
        let next = self.next.load(Relaxed);
        // CAST: A slot is small.
        let size = size_of::<Slot<WORDS>>() as u32;
        self.next.store(next.wrapping_add(size), Relaxed);
        self.slots[(next / size) as usize % RECORDS].write(number, words);
    }

    /// Calls `each` with all records that are kept, in no particular order.
    pub(crate) fn read(&self, mut each: impl FnMut(Record<WORDS>)) {
        let records = self.slots.iter().map(Slot::read);
        records
            .filter(|record| record.number != 0)
            .for_each(&mut each);
    }
}

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
    pub(crate) const fn empty() -> Self {
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
