// SPDX-License-Identifier: GPL-2.0

//! The file descriptors of the calling task, for code that runs below an operation of a file.
//!
//! What may be done with a descriptor in the midst of a system call depends on how the task came in: a
//! system call may use a file without a reference of its own. Only where the kernel calls a module is that
//! known. So the right to use descriptors is a value, made there, and passed down to whoever uses them.

use super::deferred_close::DeferredClose;
use core::marker::PhantomData;
use kernel::{
    bindings,
    fs::{File, LocalFile},
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

/// What a module's files are opened as.
///
/// # Safety
///
/// None of the operations uses a file's position, so the VFS calls none by way of `fdget_pos`. The private
/// data of each open file that has them is what `Arc::<Self>::into_foreign` gave, from before anybody else
/// knew the file.
pub(crate) unsafe trait OpenedAs: Sized + 'static {
    /// The operations of those files, and of no others.
    fn operations() -> &'static bindings::file_operations;
}

/// The descriptors of the calling task while it is in an operation of a file that was opened as a `T`.
///
/// # Invariants
///
/// As long as `'a` lasts, the calling task is in one of the operations of `T`, by which it came in.
pub(crate) struct Descriptors<'a, T>(PhantomData<(&'a (), *const T)>);

impl<T> Clone for Descriptors<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Descriptors<'_, T> {}

impl<T: OpenedAs> Descriptors<'_, T> {
    /// The descriptors of the calling task.
    ///
    /// # Safety
    ///
    /// As long as the lifetime lasts, the task has to be in one of the operations of `T`, by which it came in.
    pub(crate) unsafe fn of_caller() -> Self {
        // INVARIANT: Promised by the caller.
        Self(PhantomData)
    }

    /// The file behind a descriptor. `EBADF` when there is none, or none that can be used for anything.
    pub(crate) fn file(self, fd: u32) -> Result<ARef<File>> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: By the invariants the task came in through an operation that is not called by way of
        // `fdget_pos`, and that has not returned; so nothing that the task did earlier counts either.
        Ok(unsafe { LocalFile::assume_no_fdget_pos(file) })
    }

    /// What a file was opened as, if it has the same operations.
    pub(crate) fn opened_as(self, file: &File) -> Option<Arc<T>> {
        let file = core::ptr::from_ref(file).cast::<bindings::file>();
        // SAFETY: The file is open, for it is borrowed. What its operations are does not change.
        if !core::ptr::eq(unsafe { (*file).f_op }, T::operations()) {
            return None;
        }
        // SAFETY: As for the operations, of which we know the private data.
        let opened: ArcBorrow<'_, T> = unsafe { Arc::<T>::borrow((*file).private_data) };
        Some(opened.into())
    }

    /// Closes descriptors. What closing a file triggers may sleep, so no lock may be held.
    pub(crate) fn close(self, to_close: DeferredClose) {
        // SAFETY: The system call that the task is in is about a file with these operations.
        unsafe { to_close.close(T::operations()) };
    }
}
