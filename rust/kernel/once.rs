// SPDX-License-Identifier: GPL-2.0

//! `READ_ONCE` and `WRITE_ONCE` for atomics, and ordered accesses: loads and stores that are
//! instructions. Those of the crate call a function in C.

use core::{
    mem::size_of,
    sync::atomic::{compiler_fence, Ordering}, //
};
use kernel::sync::{
    atomic::{Acquire, Atomic, AtomicType, Release},
    barrier::{smp_mb, Write}, //
};

/// Set if the CPU keeps the order of loads, that of stores, and that of stores behind loads. The
/// kernel's memory model then needs no instruction for it. KCSAN and the schedules of the tests,
/// which run in User Mode Linux, see the crate's calls.
const IS_ORDERED: bool = cfg!(all(CONFIG_X86_64, not(any(CONFIG_KCSAN, CONFIG_UML))));

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

/// Loads a value before all that follows: `smp_load_acquire`.
#[inline(always)]
pub(crate) fn load_acquire(atomic: &Atomic<isize>) -> isize {
    if !IS_ORDERED {
        return atomic.load(Acquire);
    }
    let value = read_once(atomic);
    compiler_fence(Ordering::Acquire);
    value
}

/// Stores a value after all that comes before: `smp_store_release`.
#[inline(always)]
pub(crate) fn store_release(atomic: &Atomic<u32>, value: u32) {
    if !IS_ORDERED {
        return atomic.store(value, Release);
    }
    compiler_fence(Ordering::Release);
    write_once(atomic, value);
}

/// The same for 64 bits, which may be two words.
#[inline(always)]
pub(crate) fn store_release_u64(atomic: &Atomic<u64>, value: u64) {
    if !IS_ORDERED {
        return atomic.store(value, Release);
    }
    compiler_fence(Ordering::Release);
    write_once_u64(atomic, value);
}

/// Keeps the order of the stores before and after it: `smp_wmb`.
#[inline(always)]
pub(crate) fn write_barrier() {
    if IS_ORDERED {
        compiler_fence(Ordering::Release);
    } else {
        smp_mb(Write);
    }
}
