// SPDX-License-Identifier: GPL-2.0
//! How much memory the kernel uses for itself: what is neither free nor anybody's nor a file's.

use crate::actor::patience;
use crate::pages::page;
use std::fs;
use std::time::{Duration, Instant};

/// Bytes that the kernel uses at this moment.
pub fn bytes() -> i64 {
    // Each CPU counts for itself for a while; this brings the sums up to date.
    let _ = fs::write("/proc/sys/vm/stat_refresh", "1");
    let zones = fs::read_to_string("/proc/zoneinfo").expect("/proc/zoneinfo");
    let counters = fs::read_to_string("/proc/vmstat").expect("/proc/vmstat");
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let mut pages = 0;
    for line in zones.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["managed", managed] => pages += number(managed),
            ["pages", "free", free] | ["count:", free] => pages -= number(free),
            _ => {}
        }
    }
    for name in ["nr_anon_pages ", "nr_file_pages "] {
        let line = counters.lines().find_map(|line| line.strip_prefix(name)).expect("a counter");
        pages -= number(line);
    }
    page() as i64 * pages
}

/// Waits until the kernel uses no more than `limit` bytes more than `before`: some of what ends is freed
/// a little later. Gives how much more it is.
pub fn settle(before: i64, limit: i64) -> i64 {
    let deadline = Instant::now() + patience();
    loop {
        // Slabs keep what was freed for the next who asks.
        for slab in fs::read_dir("/sys/kernel/slab").into_iter().flatten().flatten() {
            let _ = fs::write(slab.path().join("shrink"), "1");
        }
        let more = bytes() - before;
        if more <= limit || Instant::now() > deadline {
            return more;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
