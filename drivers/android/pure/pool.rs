// SPDX-License-Identifier: GPL-2.0

//! How many threads serve a process, and whether the driver has asked for another one.

/// The size of the pool of threads that serve a process (contract LOOP-3, LOOP-5).
#[derive(Clone, Copy, Default)]
pub(crate) struct Pool {
    /// How many threads the driver may ask for.
    pub(crate) max_threads: u32,
    /// Whether one was asked for that has not come yet.
    pub(crate) is_thread_requested: bool,
    /// How many have come because they were asked for.
    pub(crate) started: u32,
}

impl Pool {
    /// User space could not be told of the request that was made when so many had `started`. If that was
    /// answered all the same, another may have been made meanwhile, and stays: the number only goes up.
    pub(crate) fn withdraw_request(&mut self, started: u32) {
        if self.started == started {
            self.is_thread_requested = false;
        }
    }
}
