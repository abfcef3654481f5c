// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of rings: which records are kept, and where. What a reader sees of a record that is
//! being written, `tests/host` tests.

use super::{CpuRings, Ring, Slot, RECORDS};
use crate::kernel_ext::expect::{ensure, ensure_eq, Failed};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{atomic::Relaxed, SpinLock},
};

/// The words of a record that a test writes.
fn words(number: u32) -> [u32; 2] {
    [number, !number]
}

/// Adds records with these numbers, in this order.
fn push(ring: &Ring<2>, numbers: core::ops::Range<u32>) {
    pin_init::stack_pin_init!(let lock: SpinLock<()> = new_spinlock!((), "cpu_rings::push"));
    let guard = lock.lock();
    for number in numbers {
        ring.push(&guard, number, words(number));
    }
}

/// Returns the numbers of the records that are kept, in ascending order, after checking each of
/// them.
fn kept(ring: &Ring<2>) -> Result<KVec<u32>, Failed> {
    let mut records = KVec::new();
    ring.read(|record| {
        // Without memory there is one record less than there should be.
        let _ = records.push(record, GFP_KERNEL);
    });
    let mut numbers = KVec::new();
    for record in &records {
        ensure!(record.is_complete);
        ensure_eq!(record.words, words(record.number));
        numbers.push(record.number, GFP_KERNEL)?;
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Checks that the records with these numbers are kept, and no others.
fn ensure_kept(ring: &Ring<2>, numbers: core::ops::Range<u32>) -> Result<(), Failed> {
    ensure!(kept(ring)?.iter().copied().eq(numbers));
    Ok(())
}

#[kunit_tests(cpu_rings)]
mod suite {
    use super::*;

    #[test]
    fn the_newest_records_are_kept() -> Result<(), Failed> {
        let ring = Ring::new(GFP_KERNEL)?;
        ensure_kept(&ring, 0..0)?;
        push(&ring, 1..2);
        ensure_kept(&ring, 1..2)?;
        push(&ring, 2..RECORDS as u32 + 1);
        ensure_kept(&ring, 1..RECORDS as u32 + 1)?;
        // The first of the second round takes the place of the oldest.
        push(&ring, RECORDS as u32 + 1..RECORDS as u32 + 2);
        ensure_kept(&ring, 2..RECORDS as u32 + 2)?;
        push(&ring, RECORDS as u32 + 2..100);
        ensure_kept(&ring, 100 - RECORDS as u32..100)
    }

    #[test]
    fn the_place_of_the_next_record_wraps() -> Result<(), Failed> {
        let ring = Ring::new(GFP_KERNEL)?;
        let half = (RECORDS / 2) as u32;
        ring.next
            .store((half * size_of::<Slot<2>>() as u32).wrapping_neg(), Relaxed);
        push(&ring, 1..RECORDS as u32 + half);
        ensure!(ring.next.load(Relaxed) < u32::MAX / 2);
        ensure_kept(&ring, half..RECORDS as u32 + half)
    }

    #[test]
    fn a_record_without_a_number_is_not_shown() -> Result<(), Failed> {
        let ring = Ring::new(GFP_KERNEL)?;
        push(&ring, 0..3);
        ensure_kept(&ring, 1..3)
    }

    #[test]
    fn a_record_is_in_the_ring_of_its_cpu() -> Result<(), Failed> {
        let rings = CpuRings::<2>::new(GFP_KERNEL)?;
        pin_init::stack_pin_init!(let lock: SpinLock<()> = new_spinlock!((), "cpu_rings::of_cpu"));
        let guard = lock.lock();
        let cpu = kernel::cpu::CpuId::current().as_u32() as usize;
        rings.push(&guard, 7, words(7));
        drop(guard);
        for (at, ring) in rings.rings.iter().enumerate() {
            ensure_kept(ring, if at == cpu { 7..8 } else { 0..0 })?;
        }
        let mut shown = 0;
        rings.read(|record| shown += record.number);
        ensure_eq!(shown, 7);
        Ok(())
    }
}
