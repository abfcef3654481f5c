// SPDX-License-Identifier: GPL-2.0
//! Freezing and thawing an idle process: alone, and with a process that has a freeze notification.

use clap::Args;

use binder_sys::Return;

use super::Workload;
use crate::caller::Caller;
use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::order::Setting;
use crate::result::Label;
use crate::result::Unit;
use crate::stage::Point;
use crate::stage::Stage;
use crate::talk::unexpected;
use crate::talk::Talker;

/// The subcommand.
pub const NAME: &str = "freeze";

/// Nobody calls a process that is frozen here, so nothing is waited for.
const TIMEOUT_MS: u32 = 100;

const COOKIE: u64 = 16;

/// It has no options of its own.
#[derive(Args, Clone, Debug)]
pub struct Options {}

impl Workload for Options {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add_binder(&self, stage: &mut Stage) -> Result<()> {
        for (case, notified) in [("freeze and thaw", false), ("notified", true)] {
            let (seat, service) = (stage.seat(0), format!("freeze {notified}"));
            let server = stage.server(
                format!("process to be frozen, {case}"),
                seat.server,
                service.clone(),
                |mut talker| Err(unexpected(&talker.next()?)),
            )?;
            let pid = stage.workers.pid(server).as_raw() as u32;
            let client =
                stage.client(format!("freezer, {case}"), seat.client, service, move |talker, handle| {
                    let mut freezer = Freezer { talker, pid, notified };
                    freezer.listen(handle)?;
                    Ok(freezer)
                })?;
            let mut label = Label::new(NAME, case);
            label.unit = Unit::Operation;
            stage.add(Point::new(label).clients(&[client]).servers(&[server]));
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
    fn listen(&mut self, handle: u32) -> Result<()> {
        if !self.notified {
            return Ok(());
        }
        self.talker.out.enter_looper().request_freeze(handle, COOKIE);
        self.await_state(false)
    }

    /// Waits for the notification of a state, and confirms it.
    fn await_state(&mut self, frozen: bool) -> Result<()> {
        match self.talker.next()? {
            Return::FrozenBinder(info) if (info.is_frozen != 0) == frozen => {
                self.talker.out.freeze_done(info.cookie);
                self.talker.flush()
            }
            Return::FrozenBinder(_) => {
                Err(Error::Protocol("a freeze notification tells the wrong state".into()))
            }
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
    fn set(&mut self, _setting: Setting) -> Result<()> {
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        self.switch(true)?;
        self.switch(false)
    }
}
