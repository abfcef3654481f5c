// SPDX-License-Identifier: GPL-2.0
//! The records that a ring keeps, and their places. `tests/loom` reads one while another is written.

use crate::cpu_rings::{Record, Rings, RECORDS};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::cpu::nr_cpu_ids;
use kernel::sync::SpinLock;
use std::ops::Range;

const WORDS: usize = 2;

fn words(number: u32) -> [u32; WORDS] {
    [number, number << 8]
}

/// Adds records with these numbers, in this order.
fn push(ring: &Rings<WORDS>, numbers: Range<u32>) {
    let lock = SpinLock::new(());
    let guard = lock.lock();
    for number in numbers {
        ring.push(&guard, number, words(number));
    }
}

/// The numbers of the records that are read, in ascending order.
fn numbers(read: impl FnOnce(&mut dyn FnMut(Record<WORDS>))) -> Vec<u32> {
    let mut numbers = Vec::new();
    read(&mut |record| {
        assert!(record.is_complete);
        assert_eq!(record.words, words(record.number));
        numbers.push(record.number);
    });
    numbers.sort_unstable();
    numbers
}

#[test]
fn the_newest_records_are_kept() {
    let ring = Rings::new(1, GFP_KERNEL).unwrap();
    let mut first = 1;
    for end in [1, 2, RECORDS as u32 + 1, RECORDS as u32 + 2, 100] {
        push(&ring, first..end);
        let oldest = end.saturating_sub(RECORDS as u32).max(1);
        assert!(numbers(|each| ring.read(each)).into_iter().eq(oldest..end));
        first = end;
    }
}

#[test]
fn a_record_without_a_number_is_not_shown() {
    let ring = Rings::new(1, GFP_KERNEL).unwrap();
    push(&ring, 0..3);
    assert_eq!(numbers(|each| ring.read(each)), [1, 2]);
}

#[test]
fn each_cpu_has_a_ring() {
    let rings = Rings::new(nr_cpu_ids(), GFP_KERNEL).unwrap();
    let lock = SpinLock::new(());
    for number in 1..100 {
        rings.push(&lock.lock(), number, words(number));
    }
    assert_eq!(numbers(|each| rings.read(each)).len(), RECORDS);
}
