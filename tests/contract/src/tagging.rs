// SPDX-License-Identifier: GPL-2.0
//! Pointers whose top byte is a tag, as arm64 has them: system calls take them from a thread that
//! has enabled this. If the memory has tags too (MTE), the processor compares the two.

use nix::errno::Errno;
use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
use std::num::NonZeroUsize;

/// `prctl(2)`: which tagged pointers this thread gives to system calls.
const PR_SET_TAGGED_ADDR_CTRL: i32 = 55;
/// Any.
const PR_TAGGED_ADDR_ENABLE: usize = 1 << 0;
/// A wrong tag is an error at once.
const PR_MTE_TCF_SYNC: usize = 1 << 1;
/// `mmap(2)`: memory that has tags.
pub const PROT_MTE: i32 = 0x20;
/// For so many bytes there is one tag.
pub const GRANULE: usize = 16;

/// A pointer with a tag.
pub fn tagged(address: u64, tag: u8) -> u64 {
    address & !(0xff << 56) | u64::from(tag) << 56
}

/// Switches tagged pointers in system calls of this thread and of those that it starts. With
/// `check`, the processor compares tags with memory's. Fails with `EINVAL` where there are none.
pub fn take_tags(on: bool, check: bool) -> nix::Result<()> {
    let mode = if on { PR_TAGGED_ADDR_ENABLE } else { 0 } | if check { PR_MTE_TCF_SYNC } else { 0 };
    // SAFETY: the call changes what this thread may give to system calls, and no memory.
    Errno::result(unsafe { libc::prctl(PR_SET_TAGGED_ADDR_CTRL, mode, 0usize, 0usize, 0usize) }).map(drop)
}

/// New zeroed memory with this tag, of four bits, throughout. Returns its address, without the tag.
pub fn memory(length: usize, tag: u8) -> nix::Result<u64> {
    let size = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::from_bits_retain(PROT_MTE);
    // SAFETY: a new anonymous mapping replaces nothing.
    let address = unsafe { mmap_anonymous(None, size, protection, MapFlags::MAP_PRIVATE)? }.as_ptr() as u64;
    for at in (address..address + length as u64).step_by(GRANULE) {
        store_tag(tagged(at, tag));
    }
    Ok(address)
}

#[cfg(target_arch = "aarch64")]
fn store_tag(pointer: u64) {
    // SAFETY: the caller has mapped memory with tags here, to which nothing refers; its content stays.
    unsafe { std::arch::asm!(".arch_extension memtag", "stg {0}, [{0}]", in(reg) pointer) }
}

#[cfg(not(target_arch = "aarch64"))]
fn store_tag(_: u64) {
    unreachable!("memory has no tags on this architecture")
}
