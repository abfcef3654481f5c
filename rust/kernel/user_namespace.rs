// SPDX-License-Identifier: GPL-2.0

//! User namespaces.

use core::ptr::NonNull;
use kernel::ffi::c_void;

extern "C" {
    fn kernel_ext_user_ns_get(ns: *mut c_void);
    fn kernel_ext_user_ns_put(ns: *mut c_void);
    fn kernel_ext_user_ns_contains(outer: *const c_void, inner: *const c_void) -> bool;
}

/// A counted `struct user_namespace`.
///
/// # Invariants
///
/// `self.0` is a valid `struct user_namespace`, to which this owns a reference.
pub(crate) struct UserNamespace(NonNull<c_void>);

// SAFETY: A `struct user_namespace` is counted atomically, and may be used and put by any thread.
unsafe impl Send for UserNamespace {}
// SAFETY: The level and the parent of a user namespace, which are all that is read, never change.
unsafe impl Sync for UserNamespace {}

impl UserNamespace {
    /// Takes a reference to a user namespace.
    ///
    /// # Safety
    ///
    /// `ns` must be a valid `struct user_namespace`.
    pub(crate) unsafe fn from_raw(ns: NonNull<c_void>) -> Self {
        // SAFETY: Guaranteed by the caller.
        unsafe { kernel_ext_user_ns_get(ns.as_ptr()) };
        // INVARIANT: The result owns the reference that was taken above.
        Self(ns)
    }

    /// Whether `inner` is this namespace or a descendant of it.
    pub(crate) fn contains(&self, inner: &Self) -> bool {
        // SAFETY: By the type invariants both namespaces are valid. A namespace keeps its parent.
        unsafe { kernel_ext_user_ns_contains(self.0.as_ptr(), inner.0.as_ptr()) }
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns a reference to put.
        unsafe { kernel_ext_user_ns_put(self.0.as_ptr()) };
    }
}
