// SPDX-License-Identifier: GPL-2.0
//! The time between two looks of a command that watches something.

use crate::error::{Error, Kind, Result};
use nix::poll::{poll, PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::AsFd;

/// Ends a command that runs until a signal or until its output is closed. The command then removes its tracing
/// instance.
pub struct Pause {
    signals: SignalFd,
}

impl Pause {
    /// From now on these signals end a pause instead of the program.
    pub fn new() -> Result<Self> {
        let wanted: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        let made = wanted.thread_block().and_then(|()| SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC));
        let failed = |errno| Error::new(Kind::Io, format!("cannot prepare for signals: {errno}"));
        Ok(Self { signals: made.map_err(failed)? })
    }

    /// Waits, and returns early and true once the command has to end.
    pub fn is_over_within(&self, milliseconds: u16) -> bool {
        let out = io::stdout();
        let signals = PollFd::new(self.signals.as_fd(), PollFlags::POLLIN);
        let mut fds = [signals, PollFd::new(out.as_fd(), PollFlags::empty())];
        poll(&mut fds, milliseconds).is_ok_and(|ready| ready > 0)
    }
}
