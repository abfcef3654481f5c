// SPDX-License-Identifier: GPL-2.0
#![doc = include_str!("../README.md")]

mod engines;
mod serve;
mod storage;

pub use engines::{FileStorage, Flaky, Ram, Slow};
pub use serve::{delete, Disk, Error};
pub use storage::{Durability, Features, Storage};
