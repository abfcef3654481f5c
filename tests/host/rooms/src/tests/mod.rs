// SPDX-License-Identifier: GPL-2.0
//! One file for each room or part of one, named after the room, and the models for comparison.

mod call_stack;
mod call_stack_frames;
mod freeze_state;
mod handle_table;
mod linked_queue;
mod linked_tree;
mod log_lines_escape;
mod log_lines_sort;
mod looper;
mod node_counts;
mod notification_state;
mod numbers;
mod pointer_area;
mod priority_rules;
mod range_lessons;
mod range_model;
mod range_rules;

use kernel::alloc::flags::GFP_KERNEL;
use kernel::testing::{atomic, fail_after, failure_is_pending, live_allocations, total_allocations};
use proptest::prelude::*;

/// The number of random sequences of places in objects: few in Miri, which takes much longer.
fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 3 } else { 400 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Runs something that frees all that it allocates.
fn keeps_nothing(run: impl FnOnce()) {
    let before = live_allocations();
    run();
    assert_eq!(live_allocations(), before);
}

/// Takes all paths of so many steps, by their numbers.
fn every_path(steps: usize, length: u32, mut take: impl FnMut(&[usize])) {
    for mut path in 0..steps.pow(length) {
        let mut taken = Vec::new();
        for _ in 0..length {
            taken.push(path % steps);
            path /= steps;
        }
        take(&taken);
    }
}
