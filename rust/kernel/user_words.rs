// SPDX-License-Identifier: GPL-2.0

//! A few words of 64 bits, or one of 32, in the memory of the calling process.
//!
//! To copy some bytes takes a call, checks for every size, and a loop. Words whose number is known
//! are read and written by an instruction each.

use super::plain::Plain;
use core::mem::MaybeUninit;
use kernel::{
    prelude::*,
    uaccess::UserPtr, //
};

extern "C" {
    fn kernel_ext_get_six_words(to: *mut u64, from: *const u64) -> bool;
    fn kernel_ext_put_two_of_six_words(
        to: *mut u64,
        one: usize,
        first: u64,
        two: usize,
        second: u64,
    ) -> bool;
    fn kernel_ext_put_u32(to: *mut u32, value: u32) -> bool;
}

/// Reads a value of six words. `EFAULT` if they cannot be read. May sleep.
#[inline(always)]
pub(crate) fn read_six<T: Plain>(from: UserPtr) -> Result<T> {
    const {
        assert!(size_of::<T>() == size_of::<[u64; 6]>());
        assert!(align_of::<T>() == align_of::<u64>());
    }
    let mut words = MaybeUninit::<T>::uninit();
    let to = words.as_mut_ptr().cast();
    // SAFETY: `to` is valid for writes of six words, which the type has the size and the alignment
    // of. The source may be any address at all.
    match unsafe { kernel_ext_get_six_words(to, from.as_const_ptr().cast()) } {
        // SAFETY: The function has written all six, and by the contract of `Plain` they are a value
        // of the type.
        true => Ok(unsafe { words.assume_init() }),
        false => Err(EFAULT),
    }
}

/// Writes two of six words that have been read: each has its number among them. `EFAULT` if that
/// fails; then one of them may be written. May sleep.
#[inline]
pub(crate) fn write_two(to: UserPtr, first: (usize, u64), second: (usize, u64)) -> Result {
    let to = to.as_mut_ptr().cast();
    // SAFETY: The target may be any address at all.
    match unsafe { kernel_ext_put_two_of_six_words(to, first.0, first.1, second.0, second.1) } {
        true => Ok(()),
        false => Err(EFAULT),
    }
}

/// Writes a value of 32 bits. `EFAULT` if that fails. May sleep.
#[inline]
pub(crate) fn write_u32(to: UserPtr, value: u32) -> Result {
    // SAFETY: The target may be any address at all.
    match unsafe { kernel_ext_put_u32(to.as_mut_ptr().cast(), value) } {
        true => Ok(()),
        false => Err(EFAULT),
    }
}
