// SPDX-License-Identifier: GPL-2.0
//! Memory pressure as Android's low-memory killer hears of it: a trigger on `/proc/pressure/memory`.

use anyhow::Context;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;

const FILE: &str = "/proc/pressure/memory";
/// Some task waits for memory 20 ms within a second.
const TRIGGER: &[u8] = b"some 20000 1000000\0";

/// Somebody who waits for pressure.
pub struct Pressure(File);

impl Pressure {
    /// Sets the trigger.
    pub fn watch() -> anyhow::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open(FILE).with_context(|| {
            format!("{FILE}: a kernel with CONFIG_PSI has it, such as that of GUEST=android")
        })?;
        file.write_all(TRIGGER).context("a trigger of memory pressure")?;
        Ok(Self(file))
    }

    /// Whether there was pressure since this was asked last.
    pub fn is_felt(&self) -> bool {
        let mut files = [PollFd::new(self.0.as_fd(), PollFlags::POLLPRI)];
        let count = poll(&mut files, PollTimeout::ZERO).expect("poll");
        count == 1 && files[0].revents().is_some_and(|events| events.contains(PollFlags::POLLPRI))
    }
}
