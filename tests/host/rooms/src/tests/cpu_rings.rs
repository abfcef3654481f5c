// SPDX-License-Identifier: GPL-2.0
//! The records that a ring keeps, and their places; and the place of a record that is read while
//! another one is written, in all orders of their steps.

use crate::cpu_rings::{Record, Rings, Slot, RECORDS};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::cpu::nr_cpu_ids;
use kernel::sync::SpinLock;
use kernel::testing::take_turns;
use std::ops::Range;

const WORDS: usize = 2;
/// The steps of reading a record, and of writing one: the words, and the number twice.
const STEPS: usize = WORDS + 2;

const WRITER: usize = 0;
const READER: usize = 1;

fn words(number: u32) -> [u32; WORDS] {
    [number, number << 8]
}

/// All orders of so many steps of the writer and of the reader.
fn orders(written: usize, read: usize) -> Vec<Vec<usize>> {
    let after = |step: usize, orders: Vec<Vec<usize>>| {
        let with = move |order: Vec<usize>| [vec![step], order].concat();
        orders.into_iter().map(with)
    };
    match (written, read) {
        (0, read) => vec![vec![READER; read]],
        (written, 0) => vec![vec![WRITER; written]],
        (written, read) => {
            after(WRITER, orders(written - 1, read)).chain(after(READER, orders(written, read - 1))).collect()
        }
    }
}

/// The record that a reader gets while records are written one after the other.
fn read_while(order: &[usize], numbers: &[u32]) -> Record<WORDS> {
    let slot = Slot::empty();
    let mut record = None;
    let write = || {
        for number in numbers {
            slot.write(*number, words(*number));
        }
    };
    take_turns(order, write, || record = Some(slot.read()));
    record.unwrap()
}

/// The newest record that the writer has begun, and the newest that it has completed, when the reader
/// ends and begins.
fn written(order: &[usize]) -> (u32, u32) {
    let before = |end: usize| order[..end].iter().filter(|step| **step == WRITER).count();
    let begins = order.iter().position(|step| *step == READER).unwrap();
    let ends = order.iter().rposition(|step| *step == READER).unwrap();
    (before(ends).div_ceil(STEPS) as u32, (before(begins) / STEPS) as u32)
}

#[test]
fn a_torn_record_is_never_taken_for_a_whole_one() {
    let (mut whole, mut torn) = (0, 0);
    for order in orders(2 * STEPS, STEPS) {
        let record = read_while(&order, &[1, 2]);
        let (begun, completed) = written(&order);
        assert_eq!(record.number, begun, "{order:?}");
        // Nothing is kept back, either, if the writer rested during the read.
        assert!(record.is_complete || begun != completed, "{order:?}");
        if record.is_complete {
            assert_eq!(record.words, words(record.number), "{order:?}");
            whole += 1;
        } else {
            torn += 1;
        }
    }
    assert!(whole > 0 && torn > 0, "{whole} whole, {torn} torn");
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
