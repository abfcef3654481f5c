// SPDX-License-Identifier: GPL-2.0

//! Scheduling: the list of idle threads, and the priority at which a thread serves a call.

pub(crate) mod idle;
pub(crate) mod priority;
