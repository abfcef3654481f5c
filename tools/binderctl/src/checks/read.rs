// SPDX-License-Identifier: GPL-2.0
//! What the checks read of the driver's log files.

use binder_logs::State;
use binder_logs::Stats;
use binder_logs::TransactionLog;

use crate::error::Result;
use crate::logs::Logs;
use crate::waiting::Waiting;

/// The log files that the checks need, or what went wrong with each.
pub struct Read {
    /// `state`.
    pub state: Result<State>,
    /// `stats`.
    pub stats: Result<Stats>,
    /// `transaction_log`.
    pub log: Result<TransactionLog>,
}

impl Read {
    /// Reads them, and leaves out what is of other devices than the one wanted.
    pub fn from(logs: &Result<Logs>, wanted: Option<&str>) -> Self {
        let is_wanted = |context: &str| wanted.is_none_or(|name| name == context);
        let mut read = Self {
            state: logs.clone().and_then(|logs| logs.state()),
            stats: logs.clone().and_then(|logs| logs.stats()),
            log: logs.clone().and_then(|logs| logs.transaction_log()),
        };
        if let Ok(state) = &mut read.state {
            state.processes.retain(|process| is_wanted(&process.context));
        }
        if let Ok(stats) = &mut read.stats {
            stats.processes.retain(|process| is_wanted(&process.context));
        }
        read
    }

    /// Who waits for whom; nobody if that cannot be read.
    pub fn waiting(&self) -> Waiting {
        self.state.as_ref().map(|state| Waiting::of(state, self.stats.as_ref().ok())).unwrap_or_default()
    }
}
