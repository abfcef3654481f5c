// SPDX-License-Identifier: GPL-2.0

//! The driver's pure rooms, compiled for the host, and what they are tested for.
//!
//! A room is included by its path and finds the crate `kernel` in `../kernel-shim`. To add one:
//! name it here, give its tests a file in `tests/`, and teach the shim what it lacks.

#![deny(unsafe_code)]
// The rooms are complete in themselves; not all that they offer has to be used by a test.
#![allow(dead_code, unused_imports)]

#[path = "../../../../drivers/android/chunked_stack.rs"]
mod chunked_stack;
#[path = "../../../../drivers/android/counted_tree.rs"]
mod counted_tree;
#[path = "../../../../drivers/android/death_state.rs"]
mod death_state;
#[path = "../../../../drivers/android/defs.rs"]
mod defs;
#[path = "../../../../drivers/android/freeze_notice.rs"]
mod freeze_notice;
#[path = "../../../../drivers/android/freeze_state.rs"]
mod freeze_state;
#[path = "../../../../drivers/android/handle_table.rs"]
mod handle_table;
#[path = "../../../../drivers/android/node_counts.rs"]
mod node_counts;
#[path = "../../../../drivers/android/numbers.rs"]
mod numbers;
#[path = "../../../../drivers/android/pointer_area.rs"]
mod pointer_area;
#[path = "../../../../drivers/android/priority_rules.rs"]
mod priority_rules;
#[path = "../../../../drivers/android/range_alloc.rs"]
mod range_alloc;

// From the floor below the driver, where `unsafe` is at home.
#[allow(unsafe_code)]
#[path = "../../../../rust/kernel/box_queue.rs"]
mod box_queue;
#[cfg(test)]
#[path = "../../../../rust/kernel/expect.rs"]
mod expect;

#[cfg(test)]
mod tests;
