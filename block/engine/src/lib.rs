// SPDX-License-Identifier: GPL-2.0
#![doc = include_str!("../README.md")]

mod cached;
mod serve;
mod serve_async;
mod storage;
mod storages;

pub use cached::Cached;
pub use serve::{delete, Disk, Error};
pub use storage::{AsyncStorage, Durability, Features, Storage};
pub use storages::{flaky, slow, FileStorage, Ram};
