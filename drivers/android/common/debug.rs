// SPDX-License-Identifier: GPL-2.0

//! Messages that user space can cause, behind `debug_mask` and a rate limit (lesson R24).
//!
//! The subjects and their bits are those of the C driver (contract PARAM-3), as far as the driver
//! has messages about them: what a tracepoint shows better has no message here.
//!
//! Nothing is printed while a lock is held, and nothing at all where no error occurs, except for
//! [`Subject::OpenClose`], which is off by default.

use crate::kernel_ext::debug_mask;
use kernel::{fmt, prelude::*};

/// What a message is about; the number is its bit in `debug_mask`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Subject {
    /// User space broke the protocol; its request has no effect.
    UserError = 0,
    /// A call or reply that does not go through.
    FailedTransaction = 1,
    /// A call or reply that is lost because a process or thread ended.
    DeadTransaction = 2,
    /// A device is opened, mapped or closed.
    OpenClose = 3,
}

/// Prints a message about a subject, of the calling task, if `debug_mask` has its bit:
/// `binder_debug!(UserError, "no buffer at {address:#x}")`.
macro_rules! binder_debug {
    ($subject:ident, $($message:tt)*) => {
        if $crate::common::debug::is_wanted($crate::common::debug::Subject::$subject) {
            $crate::common::debug::print(::kernel::prelude::fmt!($($message)*));
        }
    };
}
pub(crate) use binder_debug;

/// Whether `debug_mask` has the subject's bit.
pub(crate) fn is_wanted(subject: Subject) -> bool {
    debug_mask::current() & (1 << subject as u32) != 0
}

/// Prints a message of the calling task, unless the rate limit is exceeded.
#[cold]
pub(crate) fn print(message: fmt::Arguments<'_>) {
    if debug_mask::is_within_rate() {
        let task = current!();
        pr_info!("{}:{} {}\n", task.tgid(), task.pid(), message);
    }
}
