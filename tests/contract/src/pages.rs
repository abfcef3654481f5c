// SPDX-License-Identifier: GPL-2.0
//! Pages of memory, whose size the kernel chooses: 4, 16 or 64 KiB.

use std::sync::OnceLock;

/// The size of a page here.
pub fn page() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).expect("the size of a page");
        size.expect("a size") as usize
    })
}

/// The number of whole pages of so many bytes.
pub fn pages_of(bytes: usize) -> u64 {
    (bytes / page()) as u64
}
