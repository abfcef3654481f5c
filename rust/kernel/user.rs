// SPDX-License-Identifier: GPL-2.0

//! Values and bytes that the kernel and the calling process exchange; and addresses printed as
//! numbers that readers can compare, but that do not reveal the addresses.
//!
//! A decoder checks for each item whether all of it is present. With [`UserBytes`] this is one
//! comparison, because the type counts the bytes that are left.
//!
//! To copy some bytes takes a call, checks for every size, and a loop. One word is written by one
//! instruction.

use core::mem::MaybeUninit;
use kernel::{
    bindings,
    ffi::c_void,
    prelude::*,
    seq_file::SeqFile,
    str::CStrExt,
    uaccess::UserPtr, //
};

// Why it is safe to call: `helpers/memory.c` defines it with these arguments, and writes to memory
// of user space, of which any address may be passed.
unsafe extern "C" {
    /// Writes a value of 32 bits. Returns `false` if that fails. May sleep.
    #[link_name = "kernel_ext_put_u32"]
    pub(crate) safe fn put_u32(to: UserPtr, value: u32) -> bool;

    /// Writes two values of 32 bits. Returns `false` if that fails: the first one may be written
    /// then. May sleep.
    #[link_name = "kernel_ext_put_two_u32"]
    pub(crate) safe fn put_two_u32(to: UserPtr, first: u32, second: u32) -> bool;
}

/// A type whose values are exchanged as bytes.
///
/// `kernel::transmute` has traits for that. A driver cannot implement them for the structures of
/// `kernel::uapi`, because neither is its own.
///
/// # Safety
///
/// Each bit pattern is a value of the type. Each byte of each value is initialised, so the type has
/// no padding. The type has no interior mutability.
pub(crate) unsafe trait Plain: Copy {
    /// Returns the value at the start of `bytes`, whatever its alignment. `None` if `bytes` is too
    /// short.
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..size_of::<Self>())?;
        // SAFETY: The slice has as many bytes as the type, and by the trait's contract they are a
        // value of it.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// Returns the bytes of the value.
    #[inline]
    fn as_bytes(&self) -> &[u8] {
        let start = core::ptr::from_ref(self).cast();
        // SAFETY: The bytes are those of `self`, which is borrowed for as long as the slice. By the
        // trait's contract all are initialised, and nothing changes them behind a shared reference.
        unsafe { core::slice::from_raw_parts(start, size_of::<Self>()) }
    }
}

// SAFETY: It has no bytes.
unsafe impl Plain for () {}
// SAFETY: Integers have no padding, and each bit pattern is one of them.
unsafe impl Plain for u32 {}
// SAFETY: Integers have no padding, and each bit pattern is one of them.
unsafe impl Plain for u64 {}

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

    /// Returns the bytes that are left.
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

/// Up to `SIZE` bytes on the stack, on their way to user space. An array would have to be zeroed
/// before it can be borrowed as bytes, although it is written at once. This type returns only bytes
/// that have been written.
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

    /// Returns what has been written, mutably.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant the first `len` bytes are within the array and initialised;
        // `MaybeUninit<u8>` has the layout of `u8`, and the borrow of `self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), self.len) }
    }

    /// Appends two values, one behind the other. `ENOSPC` if the buffer has no room for both.
    #[inline(always)] // It is a few moves, because the sizes are known.
    pub(crate) fn push<A: Plain, B: Plain>(&mut self, first: A, second: B) -> Result {
        let len = self.len;
        if len > const { SIZE - size_of::<A>() - size_of::<B>() } {
            return Err(ENOSPC);
        }
        // SAFETY: Both places are within the array, as was checked.
        unsafe {
            let place = self.bytes.as_mut_ptr().add(len);
            place.cast::<A>().write_unaligned(first);
            let place = place.add(size_of::<A>());
            place.cast::<B>().write_unaligned(second);
        }
        // INVARIANT: The bytes up to the old `len` were initialised, and by the contract of `Plain`
        // those of the values are.
        self.len = len + const { size_of::<A>() + size_of::<B>() };
        Ok(())
    }

    /// Returns how many bytes have been written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes the contents to the memory of the calling process, and empties the buffer. `EFAULT`
    /// if that fails: it keeps the contents then, some of which may be written. May sleep.
    pub(crate) fn flush(&mut self, to: UserPtr) -> Result {
        let from = self.bytes.as_ptr().cast();
        // SAFETY: By the type invariant the first `len` bytes are within the array and initialised.
        // The target may be any address at all.
        let left = unsafe { bindings::_copy_to_user(to.as_mut_ptr(), from, self.len) };
        if left != 0 {
            return Err(EFAULT);
        }
        // INVARIANT: Of the first 0 bytes, all are initialised.
        self.len = 0;
        Ok(())
    }
}

/// Writes an address of user space as a number that depends on it and on a secret of the kernel; 0
/// as itself. With the kernel parameter `no_hash_pointers` it is the address.
pub(crate) fn write_hashed(out: &SeqFile, address: usize) {
    write_as(out, c"%p", address);
}

/// Writes an address of the kernel as `kptr_restrict` allows the reader to see it; 0 as itself.
/// Unless that hides it, it is hashed as by [`write_hashed`].
pub(crate) fn write_restricted(out: &SeqFile, address: usize) {
    write_as(out, c"%pK", address);
}

/// Writes an address by a format for one pointer, which only the kernel's `printf()` has and which
/// only prints it.
fn write_as(out: &SeqFile, format: &CStr, address: usize) {
    let seq = core::ptr::from_ref(out).cast_mut().cast();
    let address: *const c_void = core::ptr::without_provenance(address);
    // SAFETY: A `SeqFile` is a `seq_file` that no other thread uses, and which may be changed
    // through a shared reference. The format has one pointer, which is given.
    unsafe { bindings::seq_printf(seq, format.as_char_ptr(), address) };
}
