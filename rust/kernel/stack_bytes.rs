// SPDX-License-Identifier: GPL-2.0

//! A buffer on the stack for bytes on their way to user space, which needs no initialisation.
//!
//! An array has to be zeroed before it can be borrowed as bytes, although it is written at once.
//! This type returns only bytes that have been written.

use core::mem::MaybeUninit;
use kernel::{
    bindings,
    prelude::*,
    uaccess::UserPtr, //
};

/// Up to `SIZE` bytes.
///
/// # Invariants
///
/// The first `len` bytes are initialised, and `len <= SIZE`.
pub(crate) struct StackBytes<const SIZE: usize> {
    bytes: [MaybeUninit<u8>; SIZE],
    len: usize,
}

impl<const SIZE: usize> StackBytes<SIZE> {
    /// Makes an empty buffer.
    #[inline]
    pub(crate) const fn new() -> Self {
        // INVARIANT: Of the first 0 bytes, all are initialised.
        Self {
            bytes: [const { MaybeUninit::uninit() }; SIZE],
            len: 0,
        }
    }

    /// Returns what has been written.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: By the type invariant the first `len` bytes are within the array and initialised;
        // `MaybeUninit<u8>` has the layout of `u8`, and the borrow of `self` keeps them unchanged.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) }
    }

    /// Returns what has been written, mutably.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: As in `as_slice`; the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), self.len) }
    }

    /// Returns how many bytes can still be written.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        SIZE - self.len
    }

    /// Empties the buffer.
    #[inline]
    pub(crate) fn clear(&mut self) {
        // INVARIANT: Of the first 0 bytes, all are initialised.
        self.len = 0;
    }

    /// Appends `bytes`. `ENOSPC` if the buffer has no room for all of them.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result {
        let end = self.len + bytes.len();
        let place = self.bytes.get_mut(self.len..end).ok_or(ENOSPC)?;
        for (to, from) in place.iter_mut().zip(bytes) {
            to.write(*from);
        }
        // INVARIANT: The bytes up to the old `len` were initialised, those up to `end` are now, and
        // `get_mut` has checked that `end` is within the array.
        self.len = end;
        Ok(())
    }

    /// Writes the contents to the memory of the calling process. `EFAULT` if that fails; some of
    /// them may be written then. May sleep.
    #[inline]
    pub(crate) fn write_user(&self, to: UserPtr) -> Result {
        let bytes = self.as_slice();
        // SAFETY: `bytes` is valid for reads of its length, as above. The target may be any address
        // at all.
        let left =
            unsafe { bindings::_copy_to_user(to.as_mut_ptr(), bytes.as_ptr().cast(), bytes.len()) };
        match left {
            0 => Ok(()),
            _ => Err(EFAULT),
        }
    }
}
