// SPDX-License-Identifier: GPL-2.0
//! The records that a ring keeps, and their places.

use super::in_all_orders;
use crate::cpu_rings::{Record, Rings, Slot, RECORDS};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::cpu::nr_cpu_ids;
use kernel::sync::{Arc, SpinLock};
use loom::thread::spawn;
use std::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

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
    in_all_orders(|| {
        let ring = Rings::new(1, GFP_KERNEL).unwrap();
        let mut first = 1;
        for end in [1, 2, RECORDS as u32 + 1, RECORDS as u32 + 2, 100] {
            push(&ring, first..end);
            let oldest = end.saturating_sub(RECORDS as u32).max(1);
            assert!(numbers(|each| ring.read(each)).into_iter().eq(oldest..end));
            first = end;
        }
    });
}

#[test]
fn a_record_without_a_number_is_not_shown() {
    in_all_orders(|| {
        let ring = Rings::new(1, GFP_KERNEL).unwrap();
        push(&ring, 0..3);
        assert_eq!(numbers(|each| ring.read(each)), [1, 2]);
    });
}

#[test]
fn each_cpu_has_a_ring() {
    in_all_orders(|| {
        let rings = Rings::new(nr_cpu_ids(), GFP_KERNEL).unwrap();
        let lock = SpinLock::new(());
        for number in 1..100 {
            rings.push(&lock.lock(), number, words(number));
        }
        assert_eq!(numbers(|each| rings.read(each)).len(), RECORDS);
    });
}

#[test]
fn a_torn_record_is_never_taken_for_a_whole_one() {
    static WHOLE: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    static TORN: AtomicU32 = AtomicU32::new(0);
    let words = |number: u32| [number << 8, number << 16];
    in_all_orders(move || {
        let slot = Arc::new(Slot::empty(), GFP_KERNEL).unwrap();
        assert_eq!(slot.read().number, 0);
        let written = slot.clone();
        let writer = spawn(move || {
            for number in [1, 2] {
                written.write(number, words(number));
            }
        });
        let record = slot.read();
        if record.is_complete {
            assert_eq!(record.words, words(record.number));
            WHOLE[record.number as usize].fetch_add(1, Ordering::Relaxed);
        } else {
            TORN.fetch_add(1, Ordering::Relaxed);
        }
        writer.join().unwrap();
        let record = slot.read();
        assert_eq!((record.number, record.words, record.is_complete), (2, words(2), true));
    });
    let seen = WHOLE.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(seen.iter().all(|count| *count > 0) && TORN.load(Ordering::Relaxed) > 0, "{seen:?}, {TORN:?}");
}
