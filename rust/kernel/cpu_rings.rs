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
//! If the reader sees the same number twice, no other record was begun in between, so the words
//! belong to that number.

use crate::kernel_ext::{
    once::{read_once, store_release, write_barrier, write_once},
    spin_lock::SpinLockGuard, //
};
use core::array;
use kernel::{
    alloc::Flags,
    cpu::CpuId,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic},
        barrier::{smp_mb, Read},
    },
};

/// How many records a ring has.
pub(crate) const RECORDS: usize = 32;

/// The newest records, of this many words each: in a ring for each CPU, or in one ring.
pub(crate) struct Rings<const WORDS: usize> {
    /// By the number of the CPU, or one.
    rings: KVVec<KBox<Ring<WORDS>>>,
}

/// The newest records of writers that keep each other off.
type Ring<const WORDS: usize> = [Slot<WORDS>; RECORDS];

impl<const WORDS: usize> Rings<WORDS> {
    /// Allocates `count` rings without records: one for each number that a CPU can have, or one.
    /// `ENOMEM`.
    pub(crate) fn new(count: u32, flags: Flags) -> Result<Self> {
        let mut rings = KVVec::with_capacity(count as usize, flags)?;
        for _ in 0..count {
            let memory = KBox::new_uninit(flags)?;
            rings.push(memory.write([const { Slot::empty() }; RECORDS]), flags)?;
        }
        Ok(Self { rings })
    }

    /// Adds a record, in place of the oldest one of this CPU, or of the oldest of all where there
    /// is one ring. The guard keeps off all others that write to the ring: if there is one for each
    /// CPU, that of any lock does. No two records that are kept at a time have the same number; one
    /// with the number 0 is not kept.
    #[inline(always)]
    pub(crate) fn push<T>(
        &self,
        _keeps_others_off: &SpinLockGuard<'_, T>,
        number: u32,
        words: [u32; WORDS],
    ) {
        // So `next` wraps around from the last slot to the first one, and the allocator gives no
        // more memory than that of the slots.
        const { assert!(size_of::<Ring<WORDS>>().is_power_of_two()) };
        let own = self.rings.get(CpuId::current().as_u32() as usize);
        let Some(ring) = own.or(self.rings.first()) else {
            return;
        };
        let next = read_once(&ring[0].next);
        // CAST: A slot is small.
        let size = size_of::<Slot<WORDS>>() as u32;
        write_once(&ring[0].next, next.wrapping_add(size));
        ring[(next / size) as usize % RECORDS].write(number, words);
    }

    /// Calls `each` with all records that are kept, in no particular order.
    pub(crate) fn read(&self, each: impl FnMut(Record<WORDS>)) {
        let slots = self.rings.iter().flat_map(|ring| ring.iter());
        let records = slots.map(Slot::read);
        records.filter(|record| record.number != 0).for_each(each);
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
    /// In the first slot of a ring the place of the next record: the number of records that were
    /// begun, times the size of a slot. So a mask turns it into an offset. In others it would be
    /// padding: with a field of its own a ring would take twice the memory.
    next: Atomic<u32>,
}

/// A record that was read.
#[derive(Clone, Copy)]
pub(crate) struct Record<const WORDS: usize> {
    pub(crate) number: u32,
    pub(crate) words: [u32; WORDS],
    /// Set if all words are those of this record; otherwise the writer was about to write them.
    pub(crate) is_complete: bool,
}

impl<const WORDS: usize> Slot<WORDS> {
    pub(crate) const fn empty() -> Self {
        Self {
            begun: Atomic::new(0),
            words: [const { Atomic::new(0) }; WORDS],
            completed: Atomic::new(0),
            next: Atomic::new(0),
        }
    }

    /// Writes a record in place of the one before. No two threads may do so at a time.
    #[inline(always)]
    pub(crate) fn write(&self, number: u32, words: [u32; WORDS]) {
        write_once(&self.begun, number);
        // ORDERING: Pairs with `smp_mb(Read)` in `read`: who reads a word of this record reads its
        // number after that.
        write_barrier();
        for (place, word) in self.words.iter().zip(words) {
            write_once(place, word);
        }
        // ORDERING: Pairs with the load in `read`: who reads this number reads the words of this
        // record, or of a later one.
        store_release(&self.completed, number);
    }

    /// Reads the record that was begun last.
    pub(crate) fn read(&self) -> Record<WORDS> {
        // ORDERING: Pairs with the last store in `write`.
        let completed = self.completed.load(Acquire);
        let words = array::from_fn(|at| read_once(&self.words[at]));
        // ORDERING: Pairs with the barrier in `write`.
        smp_mb(Read);
        let number = read_once(&self.begun);
        Record {
            number,
            words,
            is_complete: number == completed,
        }
    }
}
