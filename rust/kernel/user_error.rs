// SPDX-License-Identifier: GPL-2.0

//! A module's `stop_on_user_error` parameter, with which whoever debugs a program can stop it, and
//! all others that use the module, at its first error.
//!
//! As long as the parameter is 0, asking costs one instruction where the kernel has jump labels.

use kernel::{
    bindings,
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

/// `struct kernel_ext_user_error`.
#[repr(C)]
struct Key {
    is_armed: bindings::static_key_false,
}

extern "C" {
    static kernel_ext_user_error: Key;
    fn kernel_ext_user_error_happened();
    fn kernel_ext_user_error_wait() -> c_int;
}

/// Records that user space has made an error. In any context.
pub(crate) fn happened() {
    // SAFETY: The function has no arguments and may be called in any context.
    unsafe { kernel_ext_user_error_happened() };
}

/// Waits while an error of user space has stopped everybody. Fails with `ERESTARTSYS` after a
/// signal. Sleeps; no lock may be held.
#[inline(always)]
pub(crate) fn wait_while_stopped() -> Result {
    if is_armed() {
        return wait();
    }
    Ok(())
}

/// Whether the parameter is not 0, or is being changed.
#[inline(always)]
pub(crate) fn is_armed() -> bool {
    // SAFETY: The variable is a static key of C, with a layout as above, and lives as long as the
    // module.
    unsafe { kernel::jump_label::static_branch_unlikely!(kernel_ext_user_error, Key, is_armed) }
}

#[cold]
fn wait() -> Result {
    // SAFETY: The function has no arguments, and may sleep here.
    to_result(unsafe { kernel_ext_user_error_wait() })
}
