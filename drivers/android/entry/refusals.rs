// SPDX-License-Identifier: GPL-2.0

//! What is told of commands and ioctls that are refused: which one, what was wrong, and what to do.
//! `docs/observability.md` lists the messages.

use crate::{
    common::debug::{self, binder_debug, space_debug},
    defs::ioctl,
    process::Process, //
};
use kernel::{fmt, prelude::*};

/// Tells of a command at offset `at` of the write buffer that has no effect. No lock may be held.
#[cold]
pub(super) fn command(name: &str, at: u64, why: fmt::Arguments<'_>) {
    debug::user_error(fmt!("{name} at offset {at} of the write buffer: {why}"));
}

/// Tells of a write buffer whose command at offset `at` does not exist or cannot be read. That is
/// no error of user space in the sense of `stop_on_user_error`: nor is it with the C driver. No
/// lock may be held.
#[cold]
pub(super) fn malformed(at: u64, why: fmt::Arguments<'_>) {
    binder_debug!(UserError, "write buffer at offset {at}: {why}");
}

/// Tells of an ioctl that fails. No lock may be held.
#[cold]
pub(super) fn ioctl(process: &Process, command: u32, argument: usize, error: Error) {
    let name = ioctl::name(command);
    let errno = error.to_errno();
    binder_debug!(
        UserError,
        "{name} ({command:#x}) with argument {argument:#x} fails with {} ({errno}): {}",
        debug::errno_name(errno),
        why(process, command, error)
    );
}

/// Tells of a mapping of this size that is refused. No lock may be held.
#[cold]
pub(super) fn mmap(process: &Process, size: usize, error: Error) {
    let errno = error.to_errno();
    let why = match error {
        EINVAL => "another process has opened this device; open it anew after fork",
        EPERM => "a process may only read its space; map it without PROT_WRITE",
        EBUSY => "the process has mapped its space, or had; map it once for each opened device",
        _ => "memory is short; try again later",
    };
    space_debug!(
        UserError,
        "mmap of {size} bytes of {} fails with {} ({errno}): {why}",
        process.context.name(),
        debug::errno_name(errno)
    );
}

/// Returns what the errno of an ioctl means, and what to do.
fn why(process: &Process, command: u32, error: Error) -> &'static str {
    match (command, error) {
        (_, EFAULT) => {
            "its argument, or a buffer that the argument names, cannot be accessed or is cut off"
        }
        (_, ENOMEM) => "memory is short, or a limit of the module is reached; try again later",
        (ioctl::BINDER_FREEZE | ioctl::BINDER_GET_FROZEN_INFO, EINVAL) => {
            "no process has that number in the caller's pid namespace and a device of this instance, \
             or of one inside of it, open"
        }
        (ioctl::BINDER_FREEZE | ioctl::BINDER_GET_FROZEN_INFO, EPERM) => {
            "the caller may not signal that process; run as its user, or with CAP_KILL"
        }
        (_, EINVAL) if !process.is_callers() => {
            "another process has opened this device; open it anew after fork, and pass no device on"
        }
        (ioctl::BINDER_WRITE_READ, EINVAL) => {
            "the command at write_consumed is unknown or not allowed; commands before it have run"
        }
        (ioctl::BINDER_SET_CONTEXT_MGR | ioctl::BINDER_SET_CONTEXT_MGR_EXT, EBUSY) => {
            "the device has a context manager already; wait for its end, or use another device"
        }
        (ioctl::BINDER_SET_CONTEXT_MGR | ioctl::BINDER_SET_CONTEXT_MGR_EXT, EPERM) => {
            "the first context manager was another user's; run as that user"
        }
        (ioctl::BINDER_GET_NODE_INFO_FOR_REF, EPERM) => "only the context manager may ask",
        (ioctl::BINDER_GET_NODE_INFO_FOR_REF, EINVAL) => {
            "there is no such handle with a strong count, or fields other than the handle are not 0"
        }
        (ioctl::BINDER_SET_CONTEXT_MGR_EXT | ioctl::BINDER_SET_MAX_THREADS | ioctl::BINDER_VERSION, EINVAL) => {
            "its argument cannot be accessed"
        }
        (_, EINVAL) => "no ioctl has this number; look at linux/android/binder.h",
        _ => "no more is known than the errno",
    }
}
