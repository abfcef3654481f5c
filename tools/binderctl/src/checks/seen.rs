// SPDX-License-Identifier: GPL-2.0
//! The input of the checks, and their results.

use crate::driver::{self, Driver};
use crate::instances::{self, Place};
use crate::prelude::*;
use crate::tasks;
use crate::waiting::{Call, Waiting};
use binder_logs::{State, Stats, TransactionLog};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The time between two readings of a log.
pub const LATER: Duration = Duration::from_millis(100);

/// The limits above which a check reports a finding.
#[derive(Args, Clone, Copy, Debug)]
pub struct Limits {
    /// Report a thread that waits longer than this for a reply, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(i64).range(0..))]
    pub waiting: i64,
    /// Report a process with less than this percentage of its oneway space free.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(i64).range(0..=100))]
    pub free: i64,
}

/// The state of this machine, or the error for each part of it.
pub struct Seen {
    options: Options,
    pub limits: Limits,
    pub driver: Option<Driver>,
    /// Instances of binderfs, and `/dev` if the driver has devices there.
    pub places: Vec<Place>,
    /// Instances that are below another mount.
    pub covered: Vec<PathBuf>,
    pub logs: Result<Logs>,
    pub state: Result<State>,
    pub stats: Result<Stats>,
    pub log: Result<TransactionLog>,
    /// The waiting threads; empty if the logs cannot be read.
    pub waiting: Waiting,
}

impl Seen {
    /// Reads everything, and leaves out entries of devices that the options do not select.
    pub fn now(options: &Options, limits: Limits) -> Result<Self> {
        let driver = driver::detect();
        let logs = Logs::find(options);
        let (state, stats, waiting) = read(&logs, options);
        Ok(Self {
            options: options.clone(),
            limits,
            places: instances::places(options, driver.as_ref())?,
            covered: instances::covered()?,
            driver,
            log: logs.clone().and_then(|logs| logs.transaction_log()),
            waiting,
            logs,
            state,
            stats,
        })
    }

    /// The driver's `state`, or why it cannot be read.
    pub fn state(&self) -> std::result::Result<&State, String> {
        self.state.as_ref().map_err(|error| error.message.clone())
    }

    /// The waiting threads a moment later.
    pub fn waiting_later(&self) -> Waiting {
        thread::sleep(LATER);
        read(&self.logs, &self.options).2
    }
}

fn read(logs: &Result<Logs>, options: &Options) -> (Result<State>, Result<Stats>, Waiting) {
    let mut state = logs.clone().and_then(|logs| logs.state());
    let mut stats = logs.clone().and_then(|logs| logs.stats());
    if let Ok(state) = &mut state {
        state.processes.retain(|process| options.wants(&process.context));
    }
    if let Ok(stats) = &mut stats {
        stats.processes.retain(|process| options.wants(&process.context));
    }
    let mut waiting = state.as_ref().map(|state| Waiting::of(state, stats.as_ref().ok())).unwrap_or_default();
    waiting.forget(tasks::has_ended);
    (state, stats, waiting)
}

/// The findings of a check with a note about its input; or the reason why it could not run.
pub type Answer = std::result::Result<(Vec<Finding>, String), String>;

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub message: String,
    pub next_step: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The calls that it is about, each made by the thread that serves the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
}

impl Finding {
    /// About the machine as a whole.
    pub fn new(message: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { message: message.into(), next_step: next_step.into(), ..Self::default() }
    }

    /// About a process and the device that it uses.
    pub fn of(pid: i32, device: &str, message: String, next_step: impl Into<String>) -> Self {
        Self { pid: Some(pid), device: Some(device.to_owned()), ..Self::new(message, next_step) }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use binder_logs::{Log, Mode};

    /// A `state` with these blocks of processes.
    pub fn state(blocks: &str) -> State {
        State::parse("state", format!("binder state:\n{blocks}").as_bytes(), Mode::Strict).unwrap()
    }

    /// The messages of what a check has found.
    pub fn messages(answer: Answer) -> Vec<String> {
        answer.unwrap().0.into_iter().map(|finding| finding.message).collect()
    }
}
