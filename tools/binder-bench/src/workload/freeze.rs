// SPDX-License-Identifier: GPL-2.0
//! Freezing and thawing an idle process: alone, and with a process that has a freeze notification.

use clap::Args;

use super::Workload;
use crate::prelude::*;

const NAME: &str = "freeze";

/// No calls wait in the frozen process here, so this time-out is never reached.
const TIMEOUT_MS: u32 = 100;

const COOKIE: u64 = 16;

#[derive(Args, Clone, Debug)]
pub struct Options {}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        for (case, notified) in [("freeze and thaw", false), ("notified", true)] {
            let service = format!("freeze {notified}");
            let serve = |mut talker: Talker| Err(unexpected(&talker.next()?));
            let cpus = stage.seat(0);
            let server =
                stage.server(format!("process to be frozen, {case}"), cpus.server, &service, serve)?;
            let pid = stage.workers.pid(server).as_raw() as u32;
            let name = format!("freezer, {case}");
            let client = stage.client(name, cpus.client, &service, |talker, handle| {
                let mut freezer = Freezer { talker, pid, notified };
                if notified {
                    freezer.talker.out.enter_looper().request_freeze(handle, COOKIE);
                    freezer.await_state(false)?;
                }
                Ok(freezer)
            })?;
            let label = Label::new(NAME, case);
            stage.add(label, 0, &[client]);
        }
        Ok(())
    }
}

struct Freezer {
    talker: Talker,
    pid: u32,
    notified: bool,
}

impl Freezer {
    /// Waits for the notification of a state, and confirms it.
    fn await_state(&mut self, frozen: bool) -> Result<()> {
        match self.talker.next()? {
            Return::FrozenBinder(info) if (info.is_frozen != 0) == frozen => {
                self.talker.write(|out| out.freeze_done(info.cookie))
            }
            Return::FrozenBinder(_) => Err(Error::failed("a freeze notification has the wrong state")),
            other => Err(unexpected(&other)),
        }
    }

    fn switch(&mut self, frozen: bool) -> Result<()> {
        self.talker.port().device().freeze(self.pid, frozen, TIMEOUT_MS).context("BINDER_FREEZE")?;
        if self.notified {
            self.await_state(frozen)?;
        }
        Ok(())
    }
}

impl Caller for Freezer {
    fn call(&mut self) -> Result<()> {
        self.switch(true)?;
        self.switch(false)
    }
}
