// SPDX-License-Identifier: GPL-2.0

//! The thread that sends a call or a reply, and what it may use for that.

use crate::{
    kernel_ext::{descriptors::Descriptors, park::WakeHint},
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
    /// The offset in the write buffer up to which commands have run, and where the one that runs begins.
    pub(crate) consumed: Cell<u64>,
}
