// SPDX-License-Identifier: GPL-2.0

//! Data structures and state machines that use no kernel types except memory and trees.
//!
//! This folder contains no locks, tasks or pages: the caller holds the lock that guards a
//! structure, and allocates what the structure needs before it takes that lock. Therefore these
//! files also build for the host, and are tested there (`tests/host`).

pub(crate) mod call_stack;
pub(crate) mod freeze_state;
pub(crate) mod handle_table;
pub(crate) mod log_lines;
pub(crate) mod looper;
pub(crate) mod node_counts;
pub(crate) mod notification_state;
pub(crate) mod numbers;
pub(crate) mod one_or_many;
pub(crate) mod pointer_area;
pub(crate) mod priority_rules;
