// SPDX-License-Identifier: GPL-2.0

//! The log files: what the driver knows of processes, threads, nodes and transactions, as text that
//! programs for the C driver's files read.
//!
//! A file is a sequence of records of a few lines each, and a [`Reader`] is a place in it. A place
//! consists of keys (pid, thread number, pointer, handle, ...), and finds its way when what it
//! stood at is gone. It keeps nothing alive, except the works of a queue between which it is. A
//! record is one slice of some collection: copied under its lock, and written as text when no lock
//! is held. Therefore a reader needs the memory of one record, however much there is to read, and
//! holds no lock for longer than a call does. What changes between two records is shown as it is
//! then: each line is right by itself, all of them together are not one moment's. What is added
//! while a log is read does not keep it from its end.

mod buffers;
mod dead_nodes;
mod names;
mod nodes;
mod pointers;
mod processes;
mod queue;
mod refs;
mod search;
mod slice;
mod state;
mod stats;
mod threads;
mod transaction_log;
mod transactions;
mod work;

use crate::{
    kernel_ext::sched,
    lifecycle::registry::OpenedUntil,
    process::Pid, //
};
use kernel::{
    prelude::*,
    seq_file::SeqFile, //
};

/// What a log file shows. The numbers are those of `enum rust_binder_log`, in
/// `binderfs/rust_binderfs.h`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// All processes, completely.
    State,
    /// The same; pointers that processes have chosen are not shown, but can be told apart.
    StateHashed,
    /// The processes that have transactions, and only that.
    Transactions,
    /// The same, with pointers as above.
    TransactionsHashed,
    /// All processes of one pid, completely.
    Process(Pid),
    /// Counters.
    Stats,
    /// What was sent lately.
    Sent,
    /// What failed lately.
    Failed,
}

impl Log {
    /// Returns the log of a number; `pid` is for [`Self::Process`].
    pub(crate) fn of(number: u32, pid: Pid) -> Option<Self> {
        Some(match number {
            0 => Self::State,
            1 => Self::StateHashed,
            2 => Self::Transactions,
            3 => Self::TransactionsHashed,
            4 => Self::Process(pid),
            5 => Self::Stats,
            6 => Self::Sent,
            7 => Self::Failed,
            _ => return None,
        })
    }

    /// Returns its first record.
    fn start(self) -> Place {
        match self {
            Self::State
            | Self::StateHashed
            | Self::Transactions
            | Self::TransactionsHashed
            | Self::Process(_) => Place::State(state::Place::Title),
            Self::Stats => Place::Stats(stats::Place::Sums),
            Self::Sent | Self::Failed => Place::Transactions,
        }
    }
}

/// A record of a log: where it begins.
enum Place {
    State(state::Place),
    Stats(stats::Place),
    Transactions,
}

/// A place in a log file.
pub(crate) struct Reader {
    log: Log,
    /// The processes that it shows: it has an end, whatever is opened while it is read.
    opened: OpenedUntil,
    /// The record that is to be written; none at the end.
    here: Option<Place>,
    /// The record behind it, once it is written.
    next: Option<Place>,
}

impl Reader {
    /// Returns a reader at the end of a log.
    pub(crate) fn new(log: Log) -> Self {
        Self {
            log,
            opened: OpenedUntil::now(),
            here: None,
            next: None,
        }
    }

    /// Goes to the first record.
    pub(crate) fn rewind(&mut self) {
        self.opened = OpenedUntil::now();
        self.here = Some(self.log.start());
    }

    /// Goes to the record behind the one that was written.
    pub(crate) fn advance(&mut self) {
        self.here = self.next.take();
    }

    /// Whether there is a record to be written.
    pub(crate) fn has_record(&self) -> bool {
        self.here.is_some()
    }

    /// Writes the record, as often as this is called. No lock may be held. Fails with `ERESTARTSYS`
    /// on a signal, because the way to the next line may be long.
    pub(crate) fn show(&mut self, out: &SeqFile) -> Result {
        sched::cond_resched();
        if current!().signal_pending() {
            return Err(ERESTARTSYS);
        }
        self.next = match &self.here {
            None => None,
            Some(Place::State(place)) => {
                state::show(self.log, place, self.opened, out).map(Place::State)
            }
            Some(Place::Stats(place)) => stats::show(place, self.opened, out).map(Place::Stats),
            Some(Place::Transactions) => {
                transaction_log::show(self.log, out)?;
                None
            }
        };
        Ok(())
    }
}
