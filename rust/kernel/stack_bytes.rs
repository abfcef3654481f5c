// SPDX-License-Identifier: GPL-2.0

//! A buffer on the stack for bytes on their way to or from user space, which needs no
//! initialisation.
//!
//! An array has to be zeroed before it can be borrowed as bytes, although a copy overwrites it at
//! once. This type returns only bytes that have been written.

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

    /// Whether there are `size` bytes at `at`.
    #[inline(always)]
    pub(crate) fn has(&self, at: usize, size: usize) -> bool {
        at <= self.len && self.len - at >= size
    }

    /// Returns the `COUNT` bytes at `at`, if there are as many.
    #[inline(always)]
    pub(crate) fn array_at<const COUNT: usize>(&self, at: usize) -> Option<&[u8; COUNT]> {
        if !self.has(at, COUNT) {
            return None;
        }
        // SAFETY: `COUNT` bytes at `at` are among the first `len`, as was checked, which by the
        // type invariant are within the array and initialised; an array of `u8` may lie anywhere,
        // and the borrow of `self` keeps them unchanged.
        Some(unsafe { &*self.bytes.as_ptr().add(at).cast() })
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

    /// Replaces the contents by `len` bytes of the calling process. `EFAULT` if they cannot be
    /// read, or are more than the buffer has room for. May sleep.
    #[inline]
    pub(crate) fn read_user(&mut self, from: UserPtr, len: usize) -> Result {
        self.clear();
        let place = self.bytes.get_mut(..len).ok_or(EFAULT)?.as_mut_ptr();
        // SAFETY: `place` is valid for writes of `len` bytes of one array, so there is nothing for
        // the checks to find that `_` leaves out. The source may be any address at all.
        let left = unsafe { bindings::_copy_from_user(place.cast(), from.as_const_ptr(), len) };
        if left != 0 {
            return Err(EFAULT);
        }
        // INVARIANT: Nothing is left, so all of `place` is initialised, and `get_mut` has checked
        // that `len` is within the array.
        self.len = len;
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
