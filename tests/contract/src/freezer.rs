// SPDX-License-Identifier: GPL-2.0
//! A process that freezes and thaws another one, and does nothing else.

use crate::logs::{self, Debugfs, Logs};
use crate::port::Port;
use crate::stage::Stage;
use crate::suite::Driver;
use binder_sys::*;
use nix::errno::Errno;

/// A timeout that no test waits for.
pub const LONG: u32 = 60_000;

/// One who can freeze a process.
pub struct Freezer {
    /// Its own device, on which it does that.
    pub port: Port,
    /// Its pid where the driver looks for it.
    pub pid: u32,
    /// Its pid in logs.
    pub global_pid: u32,
}

impl Freezer {
    /// A new process that can freeze the one of `target`.
    pub fn of(t: &Stage, target: &Port) -> Self {
        Self { global_pid: t.global_pid(target), ..Self::by(t.opened(), t.pid_to_freeze(&target.actor)) }
    }

    /// As [`Self::of`], and has frozen the process.
    #[track_caller]
    pub fn frozen(t: &Stage, target: &Port) -> Self {
        let freezer = Self::of(t, target);
        assert_eq!(freezer.freeze(0), Ok(()));
        freezer
    }

    /// Any port, to freeze this pid.
    pub fn by(port: Port, pid: u32) -> Self {
        Self { port, pid, global_pid: pid }
    }

    fn request(&self, enable: u32, timeout_ms: u32) -> BinderFreezeInfo {
        BinderFreezeInfo { pid: self.pid, enable, timeout_ms }
    }

    /// Freezes, waiting as long as that for calls to end.
    pub fn freeze(&self, timeout_ms: u32) -> nix::Result<()> {
        self.port.ioctl(ioctl::BINDER_FREEZE, self.request(1, timeout_ms)).map(drop)
    }

    /// Begins to freeze, which has to take time because of a call.
    #[track_caller]
    pub fn start(&self, timeout_ms: u32) {
        self.begin(true, timeout_ms);
        self.port.actor.expect_blocked();
    }

    /// Begins one or the other, however long it takes.
    pub fn begin(&self, freeze: bool, timeout_ms: u32) {
        self.port.start_ioctl(ioctl::BINDER_FREEZE, self.request(freeze.into(), timeout_ms));
    }

    /// Waits for the result of [`Self::begin`].
    pub fn finish(&self) -> nix::Result<()> {
        self.port.finish_ioctl::<BinderFreezeInfo>().map(drop)
    }

    /// Thaws the process.
    pub fn thaw(&self) -> nix::Result<()> {
        self.port.ioctl(ioctl::BINDER_FREEZE, self.request(0, 0)).map(drop)
    }

    /// The answer of `BINDER_GET_FROZEN_INFO` about calls and about oneway calls.
    pub fn info(&self) -> nix::Result<(u32, u32)> {
        let question = BinderFrozenStatusInfo { pid: self.pid, ..Default::default() };
        let info = self.port.ioctl(ioctl::BINDER_GET_FROZEN_INFO, question)?;
        assert_eq!(info.pid, self.pid);
        Ok((info.sync_recv, info.async_recv))
    }

    /// Waits until the process is not found any more.
    #[track_caller]
    pub fn wait_gone(&self) {
        logs::until("the process goes", || (self.info() == Err(Errno::EINVAL)).then_some(()));
    }

    /// Waits until the driver has released all that the process left. Ours lists it until then. C
    /// does not find it from the start, and ends one after the other.
    #[track_caller]
    pub fn wait_released(&self, t: &Stage) {
        self.wait_gone();
        if t.driver == Driver::Rust {
            let debugfs = Debugfs::of(t);
            let logs = Logs::at(t, debugfs.logs());
            let is_listed =
                || logs.state().processes.iter().any(|process| process.pid as u32 == self.global_pid);
            return logs::until("the rest of the process goes", || (!is_listed()).then_some(()));
        }
        let next = t.opened();
        let freezer = Self::of(t, &next);
        next.kill();
        freezer.wait_gone();
    }
}

/// Kills a process, and waits until the driver has released all that it left.
#[track_caller]
pub fn kill_and_wait(t: &Stage, target: &Port) {
    let freezer = Freezer::of(t, target);
    target.kill();
    freezer.wait_released(t);
}
