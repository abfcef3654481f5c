// SPDX-License-Identifier: GPL-2.0

//! A pointer from an object to the file that it is the private data of, which does not keep the
//! file open.

use core::ptr::{self, NonNull};
use kernel::{
    bindings,
    fs::File,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic}, //
    }, //
};

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
        self.0.store(ptr::null_mut(), ordering::Relaxed);
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
