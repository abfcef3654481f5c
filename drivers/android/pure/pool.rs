// SPDX-License-Identifier: GPL-2.0

//! The number of threads that serve a process, and whether the driver has requested another one.

/// The size of the thread pool of a process (contract LOOP-3, LOOP-5).
#[derive(Clone, Copy, Default)]
pub(crate) struct Pool {
    /// How many threads the driver may request.
    pub(crate) max_threads: u32,
    /// Whether a thread was requested that has not registered yet.
    pub(crate) is_thread_requested: bool,
    /// How many threads have registered because they were requested.
    pub(crate) started: u32,
}

impl Pool {
    /// Withdraws the request that was made when `started` threads had registered, because user
    /// space could not read it. If user space has answered that request nevertheless, another
    /// request may have been made in the meantime, and is kept: `started` only increases.
    pub(crate) fn withdraw_request(&mut self, started: u32) {
        if self.started == started {
            self.is_thread_requested = false;
        }
    }
}
