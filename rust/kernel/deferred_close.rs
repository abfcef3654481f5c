// SPDX-License-Identifier: GPL-2.0

//! Closing file descriptors of the calling task from within a file operation.

use kernel::{
    alloc::{AllocError, Flags},
    bindings,
    ffi::c_void,
    prelude::*, //
};

extern "C" {
    fn kernel_ext_close_fd(fd: u32, in_use: *const c_void);
}

/// File descriptors that are to be closed later, with all the memory that their numbers take.
///
/// A system call on a file may run without a reference of its own to the file: while its task is
/// the only user of the descriptor table, the table's reference is enough, because no other task
/// can drop it. Code that closes a descriptor in the midst of such a call must not drop the table's
/// reference if the descriptor is the one that the call is about. [`close`](Self::close) keeps such
/// a file until the task returns to user space. It closes all others as `close(2)` does, with one
/// difference: the last reference to a file ends it on that return, too. A caller that waits for
/// the end of a file has to ensure that the task returns.
///
/// No code of the caller's module is needed to complete this later.
///
/// # Examples
///
/// ```ignore
/// let mut closing = DeferredClose::with_capacity(2, GFP_KERNEL)?;
/// closing.push(3);
/// closing.push(4);
/// // Later, perhaps in another thread of the same process.
/// //
/// // SAFETY: Called below an ioctl of a file with these operations.
/// unsafe { closing.close(&OPERATIONS) };
/// ```
pub struct DeferredClose {
    numbers: KVVec<u32>,
}

impl DeferredClose {
    /// Allocates room for `capacity` descriptors. Dropping the result closes nothing.
    pub fn with_capacity(capacity: usize, flags: Flags) -> Result<Self, AllocError> {
        Ok(Self {
            numbers: KVVec::with_capacity(capacity, flags)?,
        })
    }

    /// Adds a descriptor. Has no effect beyond the capacity.
    pub fn push(&mut self, fd: u32) {
        let _ = self.numbers.push_within_capacity(fd);
    }

    /// Closes the descriptors in the calling task's table; numbers that are not open there are
    /// ignored. The end of a file may sleep, so no lock may be held.
    ///
    /// Where memory is short, a file with the operations `in_use` may stay open.
    ///
    /// # Safety
    ///
    /// If the caller runs below a system call on a file, that file has the operations `in_use`.
    pub unsafe fn close(self, in_use: &'static bindings::file_operations) {
        for fd in self.numbers {
            // SAFETY: There are no requirements on the number. The caller promises that no other
            // file than one with the operations `in_use` is borrowed from the table.
            unsafe { kernel_ext_close_fd(fd, core::ptr::from_ref(in_use).cast()) };
        }
    }
}
