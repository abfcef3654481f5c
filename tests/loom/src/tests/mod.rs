// SPDX-License-Identifier: GPL-2.0
//! Each test runs in all orders that loom finds with up to [`PREEMPTIONS`], or as many as the
//! variable `LOOM_MAX_PREEMPTIONS` permits. A [`Cell`] fails it when two threads access it with
//! nothing in between that orders them.

mod closable;
mod cpu_rings;
mod owned_by;

use kernel::sync::atomic::{Atomic, Relaxed};
use std::sync::atomic::{AtomicU32, Ordering};

const PREEMPTIONS: usize = 4;
/// Accesses of a test.
const STEPS: usize = 100_000;

fn in_all_orders(test: impl Fn() + Send + Sync + 'static) {
    let runs = std::sync::Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(PREEMPTIONS);
    model.max_branches = STEPS;
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        test();
    });
    let test = std::thread::current();
    println!("{}: {runs:?} states", test.name().unwrap_or_default());
}

/// A number or a truth that other threads may access from now on.
fn shared<T: Copy>(value: T) -> Atomic<T> {
    let shared = Atomic::new(value);
    shared.load(Relaxed);
    shared
}

/// A number without any order of its own.
struct Cell(loom::cell::UnsafeCell<u32>);

// SAFETY: loom fails a test whose accesses are not ordered.
unsafe impl Sync for Cell {}

impl Cell {
    fn new() -> Self {
        Self(loom::cell::UnsafeCell::new(0))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom has checked that nothing writes.
        self.0.with(|number| unsafe { *number })
    }

    fn add(&self) {
        // SAFETY: loom has checked that nothing else accesses it.
        self.0.with_mut(|number| unsafe { *number += 1 });
    }
}
