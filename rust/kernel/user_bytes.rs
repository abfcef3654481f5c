// SPDX-License-Identifier: GPL-2.0

//! Bytes of the calling process, read in one piece and taken from the front.
//!
//! Whoever decodes one item after the other asks for each whether all of it is there. Here that is
//! one comparison: what is left is counted, instead of where it ends.

use super::plain::Plain;
use core::mem::MaybeUninit;
use kernel::{
    bindings,
    prelude::*,
    uaccess::UserPtr, //
};

/// Up to `SIZE` bytes on the stack, which need no initialisation.
///
/// # Invariants
///
/// `start + left <= SIZE`, and the `left` bytes at `start` are initialised.
pub(crate) struct UserBytes<const SIZE: usize> {
    bytes: [MaybeUninit<u8>; SIZE],
    start: usize,
    left: usize,
}

impl<const SIZE: usize> UserBytes<SIZE> {
    /// Makes an empty piece.
    #[inline]
    pub(crate) const fn new() -> Self {
        // INVARIANT: Of the first 0 bytes, all are initialised.
        Self {
            bytes: [const { MaybeUninit::uninit() }; SIZE],
            start: 0,
            left: 0,
        }
    }

    /// Returns how many bytes are left.
    #[inline(always)]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Returns those that are left.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: By the type invariant the bytes are within the array and initialised;
        // `MaybeUninit<u8>` has the layout of `u8`, and the borrow of `self` keeps them unchanged.
        unsafe {
            core::slice::from_raw_parts(self.bytes.as_ptr().add(self.start).cast(), self.left)
        }
    }

    /// Returns the value that begins behind the first `AT` of the bytes that are left, if all of it
    /// is among them.
    #[inline(always)]
    pub(crate) fn value<const AT: usize, T: Plain>(&self) -> Option<T> {
        if self.left < const { AT + size_of::<T>() } {
            return None;
        }
        // SAFETY: The bytes are among those that are left, as was checked, which by the type
        // invariant are within the array and initialised; by the contract of `Plain` they are a
        // value of the type.
        Some(unsafe {
            let start = self.bytes.as_ptr().add(self.start).add(AT);
            start.cast::<T>().read_unaligned()
        })
    }

    /// Takes `count` bytes from the front, or all if there are fewer.
    #[inline(always)]
    pub(crate) fn skip(&mut self, count: usize) {
        let count = count.min(self.left);
        // INVARIANT: The sum stays the same, so it does not wrap either, and the bytes that are
        // left now were left before.
        self.start = self.start.wrapping_add(count);
        self.left -= count;
    }

    /// Replaces the contents by `len` bytes of the calling process. `EFAULT` if they cannot be
    /// read, or are more than there is room for; nothing is left then. May sleep.
    #[inline]
    pub(crate) fn read(&mut self, from: UserPtr, len: usize) -> Result {
        // INVARIANT: Of the first 0 bytes, all are initialised.
        (self.start, self.left) = (0, 0);
        let place = self.bytes.get_mut(..len).ok_or(EFAULT)?.as_mut_ptr();
        // SAFETY: `place` is valid for writes of `len` bytes of one array, so there is nothing for
        // the checks to find that `_` leaves out. The source may be any address at all.
        let unread = unsafe { bindings::_copy_from_user(place.cast(), from.as_const_ptr(), len) };
        if unread != 0 {
            return Err(EFAULT);
        }
        // INVARIANT: Nothing is unread, so all of `place` is initialised, and `get_mut` has checked
        // that `len` is within the array.
        self.left = len;
        Ok(())
    }
}
