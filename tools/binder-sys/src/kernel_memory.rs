// SPDX-License-Identifier: GPL-2.0
//! The memory that the kernel uses for itself, in whole pages.
//!
//! Free pages are counted in the zones and in the CPUs' lists. The kernel's pages are neither free nor those of processes or
//! files: slabs, stacks, page tables, and pages of drivers, such as Binder's buffers.

use std::{fs, io};

/// Makes slabs free their unused pages, if this process may. Otherwise the objects of one measurement would reuse the
/// memory of another.
pub fn shrink_slabs() {
    let Ok(slabs) = fs::read_dir("/sys/kernel/slab") else { return };
    for slab in slabs.flatten() {
        let _ = fs::write(slab.path().join("shrink"), "1");
    }
}

/// Bytes that the kernel uses.
pub fn bytes() -> io::Result<u64> {
    // Each CPU counts for itself for a while; this brings the sums up to date, if we may.
    let _ = fs::write("/proc/sys/vm/stat_refresh", "1");
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4096);
    parse(&fs::read_to_string("/proc/zoneinfo")?, &fs::read_to_string("/proc/vmstat")?, page as u64)
        .ok_or_else(|| io::Error::other("/proc/zoneinfo or /proc/vmstat has an unknown form"))
}

fn parse(zoneinfo: &str, vmstat: &str, page: u64) -> Option<u64> {
    let (mut managed, mut free) = (0, 0);
    for line in zoneinfo.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["managed", pages] => managed += pages.parse::<u64>().ok()?,
            ["pages", "free", pages] | ["count:", pages] => free += pages.parse::<u64>().ok()?,
            _ => {}
        }
    }
    let counter = |name: &str| -> Option<u64> {
        let line = vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.parse().ok()
    };
    let others = counter("nr_anon_pages")? + counter("nr_file_pages")?;
    Some(managed.checked_sub(free + others)? * page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: &str = "Node 0, zone      DMA\n  pages free     100\n        managed  400\n  pagesets\n    cpu: 0\n              \
                         count:    7\n              high:     9\nNode 0, zone   Normal\n  pages free     50\n        managed  600\n";
    const COUNTERS: &str = "nr_anon_pages 30\nnr_file_pages 13\nnr_anon_pages_x 1\n";

    #[test]
    fn what_is_neither_free_nor_anyones_is_the_kernels() {
        assert_eq!(parse(ZONES, COUNTERS, 4096), Some((1000 - 157 - 43) * 4096));
    }

    #[test]
    fn what_is_missing_is_no_zero() {
        assert_eq!(parse(ZONES, "nr_anon_pages 30\n", 4096), None);
        assert_eq!(parse("", COUNTERS, 4096), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        assert!(bytes().unwrap() > 0);
    }
}
