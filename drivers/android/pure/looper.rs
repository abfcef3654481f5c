// SPDX-License-Identifier: GPL-2.0

//! The thread pool of a process: its size, a request of the driver for another thread, and the
//! declarations of a thread about its place in the pool.

/// The size of the thread pool of a process (contract LOOP-3, LOOP-5).
#[derive(Clone, Copy, Default)]
pub(crate) struct Pool {
    /// The number of threads that the driver may request.
    pub(crate) max_threads: u32,
    /// A thread was requested and has not registered yet.
    pub(crate) is_thread_requested: bool,
    /// The number of threads that have registered because they were requested.
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

/// The declarations of one thread, in one byte: a thread's record has no more room.
///
/// Their bits are those that the C driver shows in its logs. One more bit is a flag that is lent to
/// the thread. That is no declaration, and logs do not show it: it is here because there is no byte
/// for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looper(u8);

/// Why a thread that joins is not the one that the driver has requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRequested {
    /// It has entered the pool by itself.
    HasEntered,
    /// The driver has requested none.
    Nobody,
}

impl Looper {
    /// Joined because the driver requested another thread.
    const REGISTERED: u8 = 1;
    /// Joined without a request of the driver.
    const ENTERED: u8 = 1 << 1;
    /// Has declared that it leaves the pool.
    const EXITED: u8 = 1 << 2;
    /// Has joined in a way that the protocol does not have.
    const INVALID: u8 = 1 << 3;
    /// Polls the device.
    const POLLS: u8 = 1 << 5;
    /// A oneway call has given the task the flag `SCHED_RESET_ON_FORK`, which the task returns with
    /// the priority of the call.
    const FLAG_IS_LENT: u8 = 1 << 7;

    /// The thread joins because the driver has requested another one (contract LOOP-3). It joins in
    /// any case, and is counted as a thread of the pool if this succeeds.
    pub(crate) fn register(&mut self, pool: &mut Pool) -> Result<(), NotRequested> {
        self.0 |= Self::REGISTERED;
        let refused = if self.0 & Self::ENTERED != 0 {
            NotRequested::HasEntered
        } else if !pool.is_thread_requested {
            NotRequested::Nobody
        } else {
            pool.is_thread_requested = false;
            pool.started += 1;
            return Ok(());
        };
        self.0 |= Self::INVALID;
        Err(refused)
    }

    /// The thread joins by itself (contract LOOP-2). Returns `false` if it has registered before;
    /// it joins in any case.
    pub(crate) fn enter(&mut self) -> bool {
        self.0 |= Self::ENTERED;
        let is_valid = self.0 & Self::REGISTERED == 0;
        if !is_valid {
            self.0 |= Self::INVALID;
        }
        is_valid
    }

    /// The thread leaves, which changes nothing but what logs show: it stays in the pool until it
    /// ends (contract LOOP-4).
    pub(crate) fn exit(&mut self) {
        self.0 |= Self::EXITED;
    }

    /// The thread polls the device.
    pub(crate) fn poll(&mut self) {
        self.0 |= Self::POLLS;
    }

    /// Returns whether the thread is one of the pool.
    pub(crate) fn is_in_pool(self) -> bool {
        self.0 & (Self::REGISTERED | Self::ENTERED) != 0
    }

    /// Returns whether the thread has polled the device.
    pub(crate) fn polls(self) -> bool {
        self.0 & Self::POLLS != 0
    }

    /// Notes that the flag `SCHED_RESET_ON_FORK` is lent to the task.
    pub(crate) fn lend_flag(&mut self) {
        self.0 |= Self::FLAG_IS_LENT;
    }

    /// Returns whether the flag is lent to the task, which returns it now.
    pub(crate) fn take_lent_flag(&mut self) -> bool {
        let is_lent = self.0 & Self::FLAG_IS_LENT != 0;
        self.0 &= !Self::FLAG_IS_LENT;
        is_lent
    }

    /// Returns the bits of the declarations.
    pub(crate) fn bits(self) -> u8 {
        self.0 & !Self::FLAG_IS_LENT
    }
}
