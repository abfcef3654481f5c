// SPDX-License-Identifier: GPL-2.0

//! Closing file descriptors of the calling task from within a file operation.

use core::mem::MaybeUninit;
use kernel::{
    alloc::{AllocError, Flags},
    bindings,
    fs::LocalFile,
    prelude::*,
    sync::aref::ARef, //
};

/// File descriptors that are to be closed some day, with all the memory that takes.
///
/// A system call on a file may run without a reference of its own to the file: while its task is the
/// only user of the descriptor table, the table's reference is enough, as nobody can take it away.
/// Code that closes a descriptor in the midst of such a call therefore must not drop the table's
/// reference before the call is over; the descriptor might be the one that the call is about.
///
/// [`close`](Self::close) takes the descriptors out of the table and flushes the files at once, so
/// that the numbers are free again, and drops the references when the task returns to user space.
///
/// # Examples
///
/// ```ignore
/// let mut closing = DeferredClose::with_capacity(2, GFP_KERNEL)?;
/// closing.push(3);
/// closing.push(4);
/// // Later, perhaps in another thread of the same process; cannot fail:
/// closing.close();
/// ```
///
/// # Invariants
///
/// `inner.files` is empty, and has capacity for as many files as there are numbers.
pub struct DeferredClose {
    inner: KBox<Inner>,
}

#[repr(C)]
struct Inner {
    /// First, so that a pointer to it is a pointer to all.
    head: MaybeUninit<bindings::callback_head>,
    numbers: KVVec<u32>,
    files: KVVec<ARef<LocalFile>>,
}

// SAFETY: `files` alone is not `Send`, and by the type invariants there are none. `head` is not
// initialised, and nothing knows its address yet.
unsafe impl Send for DeferredClose {}

// SAFETY: Nothing can be done with a shared reference.
unsafe impl Sync for DeferredClose {}

impl DeferredClose {
    /// Makes room for `capacity` descriptors. Closes nothing when dropped.
    pub fn with_capacity(capacity: usize, flags: Flags) -> Result<Self, AllocError> {
        let inner = Inner {
            head: MaybeUninit::uninit(),
            numbers: KVVec::with_capacity(capacity, flags)?,
            files: KVVec::with_capacity(capacity, flags)?,
        };
        // INVARIANT: No files, and both vectors were made for `capacity`.
        Ok(Self {
            inner: KBox::new(inner, flags)?,
        })
    }

    /// Adds a descriptor. Has no effect beyond the capacity.
    pub fn push(&mut self, fd: u32) {
        let inner = &mut *self.inner;
        // INVARIANT: There is a place among the files for this number, too.
        if inner.numbers.len() < inner.files.capacity() {
            let _ = inner.numbers.push_within_capacity(fd);
        }
    }

    /// Closes the descriptors in the calling task's table; numbers that are not open there are left
    /// alone. What `close` itself triggers may sleep, so no lock may be held.
    ///
    /// The references are dropped when the task goes back to user space: whoever calls this should
    /// see to it that it does so soon. A kernel thread has no table, and closes nothing.
    pub fn close(self) {
        let mut inner = self.inner;
        let numbers = core::mem::take(&mut inner.numbers);
        let task = kernel::current!().as_ptr();
        // SAFETY: The task is the calling one, whose flags nobody else changes.
        if unsafe { (*task).flags } & bindings::PF_KTHREAD != 0 {
            return;
        }
        for fd in numbers {
            if let Some(file) = take_from_table(fd) {
                // There is room, by the type invariants.
                let _ = inner.files.push_within_capacity(file);
            }
        }
        if inner.files.is_empty() {
            return;
        }
        let inner = KBox::into_raw(inner);
        // The cast is to the first field of a `repr(C)` structure.
        let head = inner.cast::<bindings::callback_head>();
        // SAFETY: `head` is valid for writes, and nobody else knows of it yet.
        unsafe { bindings::init_task_work(head, Some(release)) };
        let notify = bindings::task_work_notify_mode_TWA_RESUME;
        // SAFETY: `task` is the calling task, so it is valid. On success the box belongs to
        // `release`, to which `head` is passed exactly once; nothing here touches it any more.
        if unsafe { bindings::task_work_add(task, head, notify) } != 0 {
            // The task has passed the point in its exit where it ran its last work. Then it is in no
            // system call, and the references can go at once.
            //
            // SAFETY: The pointer is from `into_raw` above, and was not taken by the call.
            drop(unsafe { KBox::from_raw(inner) });
        }
    }
}

/// Takes a descriptor out of the calling task's table and flushes its file, as `close(2)` does, but
/// keeps a reference to the file. Not for kernel threads, which have no table.
fn take_from_table(fd: u32) -> Option<ARef<LocalFile>> {
    // SAFETY: The calling task is a user task, which has a table. There are no requirements on `fd`.
    // A pointer that is not null comes with the reference that the table had.
    let file = core::ptr::NonNull::new(unsafe { bindings::file_close_fd(fd) })?;
    // SAFETY: The file is valid: we own a reference. The second one, made here, is for the result.
    unsafe { bindings::get_file(file.as_ptr()) };
    // SAFETY: Reading a field of the calling task, which only that task itself changes.
    let files = unsafe { (*kernel::current!().as_ptr()).files };
    // SAFETY: The file is valid; the call consumes the reference that came from the table `files`.
    unsafe { bindings::filp_close(file.as_ptr(), files.cast()) };
    // SAFETY: We own the reference that `get_file` made. `LocalFile` is a transparent `struct file`;
    // the file was in this task's table, so what `LocalFile` says of its position is true.
    Some(unsafe { ARef::from_raw(file.cast()) })
}

/// Drops the files that are waiting for that.
///
/// # Safety
///
/// `head` must be the first field of an [`Inner`] that came out of a [`KBox`], whose ownership is
/// passed on. Must be called by the task that took the files from its table, on its way back to user
/// space.
unsafe extern "C" fn release(head: *mut bindings::callback_head) {
    // SAFETY: Promised by the caller.
    drop(unsafe { KBox::from_raw(head.cast::<Inner>()) });
}
