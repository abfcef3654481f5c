// SPDX-License-Identifier: GPL-2.0

//! The file descriptors of the calling task, for code that runs below an operation of a file. And a
//! pointer from the private data of a file to that file, which does not keep the file open.
//!
//! A system call may use a file without a reference of its own. So the permitted uses of a
//! descriptor during a system call depend on how the task entered the kernel. Only the function of
//! a module that the kernel calls has this information. Therefore the right to use descriptors is a
//! value, made of the [`Operation`] of that function, and passed to the code that uses them.

use super::{callers::Operation, once::write_once};
use core::{
    marker::PhantomData,
    ptr::{self, NonNull}, //
};
use kernel::{
    bindings,
    ffi::c_void,
    fs::{File, LocalFile},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic},
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

extern "C" {
    fn kernel_ext_close_fd(fd: u32, in_use: *const c_void);
}

/// The private data of a module's files.
///
/// # Safety
///
/// None of the operations uses a file's position, so the VFS calls none by way of `fdget_pos`. The
/// private data of each open file that has them is what `Arc::<Self>::into_foreign` returned, and
/// was set before any other code could use the file.
pub(crate) unsafe trait OpenedAs: Sized + 'static {
    /// Returns the operations of those files, and of no others.
    fn operations() -> &'static bindings::file_operations;
}

/// The descriptors of the calling task while it is in an operation of a file that was opened as a
/// `T`.
///
/// # Invariants
///
/// As long as `'a` lasts, the calling task is in one of the operations of `T`, by which it entered
/// the kernel.
pub(crate) struct Descriptors<'a, T>(PhantomData<(&'a (), *const T)>);

impl<T> Clone for Descriptors<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Descriptors<'_, T> {}

impl<'a, T: OpenedAs> Descriptors<'a, T> {
    /// Returns the descriptors of the task that is in this operation.
    pub(crate) fn of(_operation: &'a Operation<'_, T>) -> Self {
        // INVARIANT: By the invariants of `Operation`, it being one of a file with a `T`.
        Self(PhantomData)
    }

    /// Returns the file behind a descriptor. `EBADF` if it is not open, or was opened with
    /// `O_PATH`.
    pub(crate) fn file(self, fd: u32) -> Result<ARef<File>> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: By the invariants the task entered the kernel through an operation that is not
        // called by way of `fdget_pos`, and that has not returned; so nothing that the task did
        // earlier counts either.
        Ok(unsafe { LocalFile::assume_no_fdget_pos(file) })
    }

    /// Returns the private data of a file, if it has the operations of `T`.
    pub(crate) fn opened_as(self, file: &File) -> Option<Arc<T>> {
        let file = ptr::from_ref(file).cast::<bindings::file>();
        // SAFETY: The file is open, because it is borrowed. Its operations do not change.
        if !ptr::eq(unsafe { (*file).f_op }, T::operations()) {
            return None;
        }
        // SAFETY: As above; the type of the private data is known by the operations.
        let opened: ArcBorrow<'_, T> = unsafe { Arc::<T>::borrow((*file).private_data) };
        Some(opened.into())
    }

    /// Closes descriptors; numbers that are not open are ignored. The end of a file may sleep, so
    /// no lock may be held.
    ///
    /// A system call on a file may run without a reference of its own to the file. While its task
    /// is the only user of the descriptor table, the table's reference is enough, because no other
    /// task can drop it. So the reference to a file with the operations of `T` is kept until the
    /// task returns to user space; where memory is short, the file may stay open. All others are
    /// closed as `close(2)` does, with one difference: the last reference to a file ends it on that
    /// return, too. A caller that waits for the end of a file has to ensure that the task returns.
    ///
    /// No code of the caller's module is needed to complete this later.
    pub(crate) fn close(self, fds: KVVec<u32>) {
        let in_use: *const c_void = ptr::from_ref(T::operations()).cast();
        for fd in fds {
            // SAFETY: There are no requirements on the number. The system call that the task is in
            // is about a file with these operations, so no other one is borrowed from the table.
            unsafe { kernel_ext_close_fd(fd, in_use) };
        }
    }
}

/// A file as long as it is open, to be stored in its private data.
///
/// # Invariants
///
/// The pointer is null, or of a file that is open, or that is closed and whose `release` operation
/// has not ended. No operation of the file uses its position.
pub(crate) struct OpenFile(Atomic<*mut bindings::file>);

impl OpenFile {
    /// Creates a pointer to no file.
    pub(crate) fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(ptr::null_mut()))
    }

    /// Sets the file.
    ///
    /// # Safety
    ///
    /// `file` must be a valid file none of whose operations uses its position, and [`Self::clear`]
    /// must be called by its `release` operation.
    pub(crate) unsafe fn set(&self, file: *mut bindings::file) {
        // ORDERING: Pairs with the dependency by which `get` reads the file.
        // INVARIANT: Promised by the caller.
        self.0.store(file, ordering::Release);
    }

    /// Clears the pointer, because the file is about to be freed.
    pub(crate) fn clear(&self) {
        // ORDERING: Pairs with the second load in `get_file_active`, behind the full order of
        // counting the file up. That the memory is another file's comes later than this store: the
        // `release` operation releases locks and takes others after it. INVARIANT: Null.
        write_once(&self.0, ptr::null_mut());
    }

    /// Returns the file, unless it is closed. In any context.
    pub(crate) fn get(&self) -> Option<ARef<File>> {
        // SAFETY: The pointer is null or of a file whose `release` operation has not ended. The
        // function takes a reference only to a file that is still open and still the same: the
        // memory of files is used only for files until a grace period is over.
        let file = unsafe { bindings::get_file_active(self.0.as_ptr()) };
        // SAFETY: This function owns the reference. `File` is a transparent `struct file`; calls on
        // this one may have looked it up in any way, because none of them uses its position.
        NonNull::new(file).map(|file| unsafe { ARef::from_raw(file.cast()) })
    }
}
