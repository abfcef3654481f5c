// SPDX-License-Identifier: GPL-2.0
//! The memory that the kernel uses for itself: neither free, nor a process's, nor a file's.

use crate::actor::patience;
use binder_sys::kernel_memory;
use std::time::{Duration, Instant};

/// Bytes that the kernel uses at this moment.
pub fn bytes() -> i64 {
    kernel_memory::bytes().expect("the kernel's memory") as i64
}

/// Waits until the kernel uses at most `limit` bytes more than `before`, since some memory is freed
/// late. Returns the difference.
pub fn settle(before: i64, limit: i64) -> i64 {
    let deadline = Instant::now() + patience();
    loop {
        // Slabs keep freed objects for the next allocation.
        kernel_memory::shrink_slabs();
        let more = bytes() - before;
        if more <= limit || Instant::now() > deadline {
            return more;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
