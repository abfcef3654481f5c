// SPDX-License-Identifier: GPL-2.0

//! The log files: what the driver has of processes, threads, nodes and transactions, as text that
//! programs for the C driver's files read.
//!
//! The first read of a file takes a snapshot of all that the file shows, into memory that is
//! allocated before each lock is taken. The text is written from that, line by line, with no lock
//! held. See "Logs" in `docs/architecture.md`.

mod buffers;
mod lines;
mod names;
mod nodes;
mod snapshot;
mod stats;
mod threads;
mod transaction_log;

use crate::{
    kernel_ext::sched,
    process::Pid,
    pure::{handle_table::LEAF, heap_sort}, //
};
use kernel::{
    alloc::{
        flags::GFP_KERNEL_ACCOUNT,
        Flags, //
    },
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
}

/// What a log shows, as it was when its reading began.
enum Text {
    State(snapshot::Snapshot),
    Stats(stats::Snapshot),
    Transactions(transaction_log::Newest),
}

impl Text {
    fn of(log: Log) -> Result<Self> {
        Ok(match log {
            Log::Stats => Self::Stats(stats::Snapshot::take()?),
            Log::Sent | Log::Failed => Self::Transactions(transaction_log::Newest::of(log)?),
            _ => Self::State(snapshot::Snapshot::take(log)?),
        })
    }

    /// Returns the number of records.
    fn len(&self) -> usize {
        match self {
            Self::State(snapshot) => snapshot.len(),
            Self::Stats(snapshot) => snapshot.len(),
            Self::Transactions(newest) => newest.len(),
        }
    }
}

/// A place in a log file.
pub(crate) struct Reader {
    log: Log,
    /// The record that is to be written.
    at: usize,
    /// Taken for the first record, and dropped behind the last one.
    text: Option<Text>,
}

impl Reader {
    pub(crate) fn new(log: Log) -> Self {
        Self {
            log,
            at: 0,
            text: None,
        }
    }

    /// Goes to a record: to the first one of what there is now, or another one of the same
    /// snapshot. Returns whether there is one. No lock may be held. Fails with `ENOMEM`, and with
    /// `ERESTARTSYS` on a signal.
    pub(crate) fn seek(&mut self, record: usize) -> Result<bool> {
        pause()?;
        self.at = record;
        if record == 0 {
            self.text = Some(Text::of(self.log)?);
        }
        self.text.take_if(|text| record >= text.len());
        Ok(self.text.is_some())
    }

    /// Writes the record, as often as this is called.
    pub(crate) fn show(&self, out: &SeqFile) -> Result {
        match &self.text {
            Some(Text::State(snapshot)) => snapshot.show(self.at, out),
            Some(Text::Stats(snapshot)) => return snapshot.show(self.at, out),
            Some(Text::Transactions(newest)) => newest.show(self.at, out),
            None => {}
        }
        Ok(())
    }
}

/// Lets others have the CPU, between two locks. Fails with `ERESTARTSYS` on a signal.
fn pause() -> Result {
    sched::cond_resched();
    if current!().signal_pending() {
        return Err(ERESTARTSYS);
    }
    Ok(())
}

/// Sorts by a key, and lets others have the CPU in between. No lock may be held.
fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    heap_sort::sort_by_key(items, key, || sched::cond_resched());
}

/// How many items are visited while a lock is held, as a rule.
const FEW: usize = 64;

// Handles are visited by leaves of their table.
const _: () = assert!(FEW >= LEAF as usize);

/// How memory for snapshots is allocated: charged to who reads.
const FLAGS: Flags = GFP_KERNEL_ACCOUNT;
