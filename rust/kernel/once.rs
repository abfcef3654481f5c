// SPDX-License-Identifier: GPL-2.0

//! `READ_ONCE` and `WRITE_ONCE` for atomics: relaxed loads and stores that are instructions.
//! Those of the crate call a function in C.

use core::mem::size_of;
use kernel::sync::atomic::{Atomic, AtomicType};

/// Reads a value of a word or less, which may change at any time.
#[inline(always)]
pub(crate) fn read_once<T: AtomicType>(atomic: &Atomic<T>) -> T {
    const { assert!(size_of::<T>() <= size_of::<usize>(), "takes two accesses") };
    // SAFETY: The pointer is valid and aligned. A volatile access of a word or less is one access,
    // for which the kernel's memory model allows others at the same time.
    unsafe { atomic.as_ptr().read_volatile() }
}

/// The same for 64 bits, which may be two words.
#[inline(always)]
pub(crate) fn read_once_u64(atomic: &Atomic<u64>) -> u64 {
    #[cfg(CONFIG_64BIT)]
    return read_once(atomic);
    #[cfg(not(CONFIG_64BIT))]
    return atomic.load(kernel::sync::atomic::Relaxed);
}

/// Writes a value of a word or less, which others may access at any time.
#[inline(always)]
pub(crate) fn write_once<T: AtomicType>(atomic: &Atomic<T>, value: T) {
    const { assert!(size_of::<T>() <= size_of::<usize>(), "takes two accesses") };
    // SAFETY: As in `read_once`.
    unsafe { atomic.as_ptr().write_volatile(value) };
}

/// The same for 64 bits, which may be two words.
#[inline(always)]
pub(crate) fn write_once_u64(atomic: &Atomic<u64>, value: u64) {
    #[cfg(CONFIG_64BIT)]
    write_once(atomic, value);
    #[cfg(not(CONFIG_64BIT))]
    atomic.store(value, kernel::sync::atomic::Relaxed);
}
