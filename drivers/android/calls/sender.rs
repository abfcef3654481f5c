// SPDX-License-Identifier: GPL-2.0

//! The thread that sends a call or a reply, and what it may use for that.

use crate::{
    kernel_ext::{files::Descriptors, park::WakeHint},
    process::Process,
    thread::Thread, //
};
use core::cell::Cell;
use kernel::{cred::Credential, sync::Arc};

/// The calling thread, which sends a call or a reply.
pub(crate) struct Sender<'a> {
    pub(crate) thread: &'a Arc<Thread>,
    /// The credential with which it sends: the one with which its process has opened the device.
    pub(crate) credential: &'a Credential,
    /// Its file descriptors.
    pub(crate) descriptors: Descriptors<'a, Process>,
    /// On which CPU to wake the thread that waits for what it sends.
    pub(crate) hint: WakeHint,
    /// The offset in the write buffer up to which commands have run, and where the one that runs
    /// begins.
    pub(crate) consumed: Cell<u64>,
    /// Whether the thread reads once its commands have run, and has room for a completion and more.
    pub(crate) reads_then: bool,
}

/// The completion of a reply that was the last command of its thread, for which no other work was
/// queued then. It is not queued: the thread reads it at once, and nothing else.
pub(crate) struct ReplySent {
    /// Whether the pool needed one more thread when the thread replied, see
    /// [`ProcessState::needs_thread`](crate::process::ProcessState::needs_thread).
    pub(crate) needs_thread: bool,
    /// Whether the reply has failed, which its caller reads: if the thread cannot read the
    /// completion at once, that stops its commands until it does (contract TXN-25).
    pub(crate) has_failed: bool,
}
