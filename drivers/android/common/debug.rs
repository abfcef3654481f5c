// SPDX-License-Identifier: GPL-2.0

//! Messages that user space can cause, behind `debug_mask` and `alloc_debug_mask`, and a rate limit
//! (lesson R24).
//!
//! The subjects and their bits are those of the C driver (contract PARAM-3, PARAM-4), as far as
//! this driver has messages about them. The steps of each call that succeeds have trace events
//! instead.
//!
//! A message is printed while no lock is held. Nothing is formatted unless it is printed.

use crate::{ffi, kernel_ext::once::read_once};
use kernel::{fmt, prelude::*};

/// The subject of a message. The number is its bit in `debug_mask`; from 32 on, in
/// `alloc_debug_mask`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum DebugSubject {
    /// User space broke the protocol; its request has no effect.
    UserError = 0,
    /// A call or reply that does not go through.
    FailedTransaction = 1,
    /// A call or reply that is lost because a process or thread ended.
    DeadTransaction = 2,
    /// A device is opened or closed.
    OpenClose = 3,
    /// The death of a node with a death notification.
    DeadBinder = 4,
    /// The request, withdrawal and confirmation of a death notification.
    DeathNotification = 5,
    /// A thread joins the pool or ends.
    Threads = 8,
    /// A process's space has no room for a request, or cannot be mapped.
    SpaceError = 32,
    /// A space is mapped.
    SpaceMapped = 33,
}

/// Prints a message about a subject, of the calling task, if the mask has its bit:
/// `binder_debug!(OpenClose, "opens device {name}")`.
macro_rules! binder_debug {
    ($subject:ident, $($message:tt)*) => {
        if $crate::common::debug::is_wanted($crate::common::debug::DebugSubject::$subject) {
            $crate::common::debug::print(::kernel::prelude::fmt!($($message)*));
        }
    };
}
pub(crate) use binder_debug;

/// Returns whether the mask has the subject's bit.
pub(crate) fn is_wanted(subject: DebugSubject) -> bool {
    let mask = match subject as u32 / 32 {
        0 => &ffi::DEBUG_MASK,
        _ => &ffi::ALLOC_DEBUG_MASK,
    };
    read_once(mask) & (1 << (subject as u32 % 32)) != 0
}

/// Prints a message of the calling task, unless the rate limit is exceeded.
#[cold]
pub(crate) fn print(message: fmt::Arguments<'_>) {
    let task = current!();
    if ffi::may_log() {
        pr_info!("{}:{} {}\n", task.tgid(), task.pid(), message);
    }
}

/// Returns the name of an errno that user space can cause.
pub(crate) fn errno_name(errno: i32) -> &'static str {
    match Error::from_errno(errno.min(-1)) {
        _ if errno >= 0 => "no errno",
        EPERM => "EPERM",
        ESRCH => "ESRCH",
        EINTR => "EINTR",
        EBADF => "EBADF",
        EAGAIN => "EAGAIN",
        ENOMEM => "ENOMEM",
        EACCES => "EACCES",
        EFAULT => "EFAULT",
        EBUSY => "EBUSY",
        EINVAL => "EINVAL",
        EMFILE => "EMFILE",
        ENOSPC => "ENOSPC",
        EOPNOTSUPP => "EOPNOTSUPP",
        EPROTO => "EPROTO",
        _ => "another error",
    }
}
