// SPDX-License-Identifier: GPL-2.0

//! Scheduling: the priority at which a thread serves a call.

pub(crate) mod priority;
