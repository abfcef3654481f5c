// SPDX-License-Identifier: GPL-2.0

//! The items of the driver's own C files, each as a safe item: the counterpart of
//! [`entry::ffi`](crate::entry::ffi), which C calls. This module has the structures that the driver
//! shares with C, and the netlink family, whose name is a parameter. It also has the parameters
//! that change while the module is loaded, unlike those of Rust's `module!` macro.

pub(crate) mod structs;
pub(crate) mod trace;

use crate::kernel_ext::once::{read_once, write_once};
use crate::LocalModule;
use kernel::{
    bindings,
    error::to_result,
    ffi::{c_char, c_int},
    module::this_module,
    net::netlink::{Family, MulticastGroup, Registration},
    prelude::*,
    str::CStr,
    sync::atomic::Atomic,
    uaccess::UserPtr,
    uapi::BINDER_FAMILY_VERSION, //
};
use structs::WriteRead;

/// A static key of C, as a field, which the kernel crate's macro takes.
#[repr(C)]
struct StaticKey {
    key: bindings::static_key_false,
}

// Why most are safe to use: `binderfs/module.c`, `binderfs/inodes.c` and `helpers/memory.c` define
// them with these types and arguments, and write the variables by single stores. The functions may
// be called in any context, but for those that sleep. Any address of user space may be passed, and
// any six words are a `WriteRead`.
unsafe extern "C" {
    /// The parameter `debug_mask`.
    #[link_name = "rust_binder_debug_mask"]
    pub(crate) safe static DEBUG_MASK: Atomic<u32>;

    /// The parameter `alloc_debug_mask`.
    #[link_name = "rust_binder_alloc_debug_mask"]
    pub(crate) safe static ALLOC_DEBUG_MASK: Atomic<u32>;

    /// The parameter `defer_complete`.
    #[link_name = "rust_binder_defer_complete"]
    pub(crate) safe static DEFER_COMPLETE: Atomic<bool>;

    /// Returns whether one more message may be printed now: a burst of ten, and ten every five
    /// seconds. The kernel prints by itself how many were suppressed. In any context.
    #[link_name = "rust_binder_may_log"]
    pub(crate) safe fn may_log() -> bool;

    /// Records an error of user space: stops the users of the devices, if the parameter
    /// `stop_on_user_error` is not 0. In any context.
    #[link_name = "rust_binder_user_error_happened"]
    pub(crate) safe fn user_error_happened();

    /// Returns a number that nobody can guess. In any context.
    #[link_name = "get_random_u64"]
    pub(crate) safe fn random() -> u64;

    /// Reads the argument of `BINDER_WRITE_READ`. Returns `false` if that fails. May sleep.
    #[link_name = "rust_binder_get_write_read"]
    pub(crate) safe fn get_write_read(to: &mut WriteRead, from: UserPtr) -> bool;

    /// Writes how much of the write and of the read buffer is consumed to the argument of
    /// `BINDER_WRITE_READ`. Returns `false` if that fails: one of them may be written then. May
    /// sleep.
    #[link_name = "rust_binder_put_consumed"]
    pub(crate) safe fn put_consumed(to: UserPtr, written: u64, read: u64) -> bool;

    static rust_binder_stop: StaticKey;
    safe fn rust_binder_stop_wait() -> c_int;
    safe fn rust_binder_name() -> *const c_char;
    safe static rust_binder_has_reports: Atomic<bool>;
}

/// Waits while an error of user space has stopped all users of the driver: a developer uses
/// `stop_on_user_error` to stop a program at its first error. Fails with `ERESTARTSYS` after a
/// signal. Sleeps; no lock may be held.
#[inline(always)]
pub(crate) fn wait_while_stopped() -> Result {
    if may_stop() {
        return to_result(rust_binder_stop_wait());
    }
    Ok(())
}

/// Returns whether `stop_on_user_error` is not 0, or is being changed. As long as it is 0, this
/// costs one instruction where the kernel has jump labels.
#[inline(always)]
pub(crate) fn may_stop() -> bool {
    // SAFETY: The variable is a static key of C, and lives as long as the module.
    unsafe { kernel::jump_label::static_branch_unlikely!(rust_binder_stop, StaticKey, key) }
}

/// The netlink family of the reports about calls that fail. It has a group and no operations.
pub(crate) static REPORTS: Family = Family::const_new(
    this_module::<LocalModule>(),
    b"binder\0",
    BINDER_FAMILY_VERSION,
    &[const { MulticastGroup::const_new(c"report") }],
);

/// Gives the family the driver's name and registers it. Loading the driver does not depend on it: a
/// failure is logged with its cause.
///
/// # Safety
///
/// To be called once, before a device exists. The result is to be dropped when none is left.
pub(crate) unsafe fn register_reports() -> Option<Registration> {
    // SAFETY: The parameter is a string that does not change any more.
    let name = unsafe { CStr::from_char_ptr(rust_binder_name()) };
    // SAFETY: The family is not registered, so nobody else uses it.
    let place = unsafe { &mut (*REPORTS.as_raw()).name };
    for (to, from) in place.iter_mut().zip(name.to_bytes_with_nul()) {
        *to = *from;
    }
    match REPORTS.register() {
        Ok(registration) => {
            write_once(&rust_binder_has_reports, true);
            Some(registration)
        }
        Err(error) => {
            let why = match error {
                EEXIST => "another driver has the family: unload it, or set name=ANOTHER here",
                _ => "the family cannot be registered",
            };
            pr_warn!("no reports over netlink ({}): {why}\n", error.to_errno());
            None
        }
    }
}

/// Returns whether anybody has joined the group of the reports.
pub(crate) fn has_listeners() -> bool {
    read_once(&rust_binder_has_reports) && REPORTS.has_listeners(0)
}
