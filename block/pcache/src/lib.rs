// SPDX-License-Identifier: GPL-2.0
#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

pub mod cache;
pub mod crash;
pub mod dm_pcache;
pub mod medium;
