// SPDX-License-Identifier: GPL-2.0

//! The newest records of a kind, in a ring, or in one ring for each CPU.
//!
//! Writers on different CPUs share no cache line, no writer waits, and a reader makes none wait.
//! The writers of one CPU keep out of each other's way because each of them holds a spinlock, any
//! one, which keeps it on its CPU and others off it. (On a `PREEMPT_RT` kernel it does not. There a
//! record may show the words of two writers, of which one was preempted.)
//!
//! Each record has a number, which no other one has that is kept.

#[path = "cpu_rings/slot.rs"]
mod slot;
#[cfg(kunit_suites)]
#[path = "cpu_rings/tests.rs"]
mod tests;

use kernel::{
    alloc::Flags,
    cpu::{nr_cpu_ids, CpuId},
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        lock::{spinlock::SpinLockBackend, Guard},
    },
};
use pin_init::init_array_from_fn;
use slot::{Record, Slot};

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
        for ring in &self.rings {
            ring.read(&mut each);
        }
    }
}

impl<const WORDS: usize> Ring<WORDS> {
    /// Allocates a ring without records. `ENOMEM`.
    pub(crate) fn new(flags: Flags) -> Result<KBox<Self>> {
        let ring = init!(Self {
            next: Atomic::new(0),
            slots <- init_array_from_fn(|_| Slot::empty()),
        });
        KBox::init(ring, flags)
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
        const { assert!(size_of::<Slot<WORDS>>().is_power_of_two()) };
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
