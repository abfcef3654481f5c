// SPDX-License-Identifier: GPL-2.0
//! Numbers that several processes take from one counter, a block at a time.

use crate::pure::numbers::{take_numbers, NumberBlock};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// A counter, and the numbers that were taken from it.
struct Counter {
    last: Cell<u32>,
    taken: RefCell<Vec<u32>>,
}

impl Counter {
    fn at(last: u32) -> Self {
        Self { last: Cell::new(last), taken: RefCell::default() }
    }

    fn take(&self, count: u32) -> u32 {
        self.taken.borrow_mut().push(count);
        take_numbers(count, |count| self.last.replace(self.last.get().wrapping_add(count)))
    }

    fn next(&self, block: &mut NumberBlock) -> u32 {
        block.next(|count| self.take(count))
    }
}

/// As many blocks as there are processes, and numbers of them in an order that a generator repeats.
fn numbers(counter: &Counter, processes: usize, count: usize) -> Vec<(usize, u32)> {
    let mut blocks: Vec<_> = (0..processes).map(|_| NumberBlock::default()).collect();
    let mut random = 1_u32;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let whose = (random >> 16) as usize % processes;
        (whose, counter.next(&mut blocks[whose]))
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn no_two_are_the_same_and_none_is_zero() {
    for last in [0, u32::MAX - 50, u32::MAX - 1, u32::MAX, u32::MAX - 40_000] {
        let taken = numbers(&Counter::at(last), 7, 40_000);
        let different: BTreeSet<_> = taken.iter().map(|(_, number)| *number).collect();
        assert_eq!(different.len(), taken.len(), "after {last}");
        assert!(!different.contains(&0), "after {last}");
    }
}

#[test]
fn those_of_a_process_rise_until_they_come_round() {
    let last = u32::MAX - 20_000;
    let taken = numbers(&Counter::at(last), 3, 40_000);
    for process in 0..3 {
        let own = taken.iter().filter(|(whose, _)| *whose == process);
        let own: Vec<_> = own.map(|(_, number)| number.wrapping_sub(last)).collect();
        assert!(own.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

#[test]
fn as_many_are_taken_as_before_up_to_a_limit() {
    let counter = Counter::at(0);
    let mut block = NumberBlock::default();
    for wanted in 1..=4095 {
        assert_eq!(counter.next(&mut block), wanted, "nobody else takes any");
        // At most as many are left as were used.
        assert!(counter.last.get() < 2 * wanted);
    }
    let doubled: Vec<_> = (0..11).map(|power| 1 << power).collect();
    assert_eq!(*counter.taken.borrow(), [&doubled[..], &[1024, 1024]].concat());
}

#[test]
fn a_block_that_would_have_a_zero_is_left_out() {
    for (last, count, wanted) in [
        (u32::MAX - 8, 8, u32::MAX - 7),
        (u32::MAX - 7, 8, 1),
        (u32::MAX - 6, 8, 2),
        (u32::MAX, 8, 8),
        (u32::MAX - 1, 1, u32::MAX),
        (u32::MAX, 1, 1),
        (0, 1, 1),
    ] {
        assert_eq!(Counter::at(last).take(count), wanted, "{count} after {last}");
    }
}
