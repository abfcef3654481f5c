// SPDX-License-Identifier: GPL-2.0
//! Memory that lies at the same address in all processes of a test.
//!
//! It is mapped before the first fork. A test can therefore write a command stream, data and all,
//! whose addresses are right in whichever process executes it.

use crate::pages::page;
use nix::sys::mman::{mmap_anonymous, mprotect, MapFlags, ProtFlags};
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;

/// More than any test uses; pages exist only where something was placed.
const SIZE: usize = 256 << 20;

/// A shared mapping from which pieces are cut and never given back.
pub struct Arena {
    base: *mut u8,
    used: Cell<usize>,
}

impl Arena {
    /// Maps the memory.
    pub fn new() -> Self {
        // Inaccessible memory behind it.
        let guard = page();
        let size = NonZeroUsize::new(SIZE + guard).expect("not zero");
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping replaces nothing.
        let base = unsafe { mmap_anonymous(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) };
        let base = base.expect("map the arena");
        // SAFETY: the guard lies inside the mapping just made, and nothing refers to it.
        unsafe { mprotect(base.byte_add(SIZE), guard, ProtFlags::PROT_NONE) }.expect("protect the guard");
        Self { base: base.as_ptr().cast(), used: Cell::new(0) }
    }

    /// Cuts a piece off, aligned to 16 bytes and filled with zeros.
    pub fn reserve(&self, length: usize) -> u64 {
        let start = self.used.get();
        let end = (start + length).next_multiple_of(16);
        assert!(end <= SIZE, "the test uses more memory than the arena has");
        self.used.set(end);
        self.base as u64 + start as u64
    }

    /// Copies bytes into a new piece.
    pub fn place(&self, bytes: &[u8]) -> u64 {
        let address = self.reserve(bytes.len());
        // SAFETY: `reserve` has just cut these bytes off, and only this process's conductor writes here
        // before it hands the address out.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        address
    }

    /// A number that all processes see. It lives as long as the process: the mapping is never undone.
    pub fn counter(&self) -> &'static AtomicU64 {
        counter_at(self.reserve(std::mem::size_of::<AtomicU64>()))
    }

    /// The first address after the arena. It cannot be accessed.
    pub fn end(&self) -> u64 {
        self.base as u64 + SIZE as u64
    }

    /// Overwrites bytes in place.
    pub fn poke(&self, address: u64, bytes: &[u8]) {
        assert!(address >= self.base as u64 && address + bytes.len() as u64 <= self.end());
        // SAFETY: the range lies inside the mapping, and is written only by the conductor.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    /// Copies a piece out.
    pub fn fetch(&self, address: u64, length: usize) -> Vec<u8> {
        let start = address.checked_sub(self.base as u64).expect("an address in the arena");
        assert!(start as usize + length <= SIZE);
        let mut bytes = vec![0; length];
        // SAFETY: the range lies inside the mapping, which is never unmapped.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), length) };
        bytes
    }
}

/// The number at an address in the arena that serves as nothing else.
pub fn counter_at(address: u64) -> &'static AtomicU64 {
    assert_eq!(address % std::mem::align_of::<AtomicU64>() as u64, 0);
    // SAFETY: the address is aligned and lies in the arena, which is never unmapped; that the conductor
    // names only such is what makes it an address of a counter.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}
