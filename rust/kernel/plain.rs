// SPDX-License-Identifier: GPL-2.0

//! Values that the kernel and user space exchange as their bytes.
//!
//! `kernel::transmute` has traits for that. A driver cannot implement them for the structures of
//! `kernel::uapi`, because neither is its own.

/// A type whose values are exchanged as bytes.
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

// SAFETY: Integers have no padding, and each bit pattern is one of them.
unsafe impl Plain for u32 {}
// SAFETY: Integers have no padding, and each bit pattern is one of them.
unsafe impl Plain for u64 {}
