// SPDX-License-Identifier: GPL-2.0
//! Reads the log files of a Binder driver: those of `binder_logs` in a mounted binderfs, and those of
//! `binder` in debugfs, which are the same.
//!
//! Each kind of file is a type that implements [`Log`]:
//!
//! | file | type |
//! |---|---|
//! | `state`, `state_hashed` | [`State`] |
//! | `transactions`, `transactions_hashed` | [`Transactions`] |
//! | `proc/<pid>` | [`ProcessState`] |
//! | `stats` | [`Stats`] |
//! | `transaction_log`, `failed_transaction_log` | [`TransactionLog`] |
//!
//! The lines are those of the C driver, which are its interface to whoever reads them. Printed, a value is
//! the file again. Upstream's Rust driver says less, and some of it in other words: with
//! [`Mode::Lenient`] its files become values of the same types, in which [`None`] is what it does not say.
//!
//! ```
//! use binder_logs::{Log, Mode, TransactionLog};
//!
//! let text = b"7: call  from 12:13 to 9:0 context binder node 2 handle 0 size 4:0 ret 0/0 l=0\n";
//! let log = TransactionLog::parse("transaction_log", text, Mode::Strict).unwrap();
//! assert_eq!(log.entries[0].from.process, 12);
//! ```
//!
//! Files are read by `lines`, which tells them apart and knows where each is; a line is taken apart by
//! parsers made of those in `words`, each beside the type that it makes.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod counters;
mod error;
mod lines;
mod process;
mod state;
mod stats;
mod transaction;
mod transaction_log;
mod upstream;
mod words;

pub use counters::{Counter, Counters, ObjectCount, OBJECTS};
pub use error::{Error, Reason};
pub use lines::{Mode, UnknownLine};
pub use process::{
    Buffer, BufferState, Looper, Node, NodeCounts, Process, Reference, Role, StackEntry, Thread, Work,
};
pub use state::{ProcessState, State, Transactions};
pub use stats::{Pages, ProcessStats, ReferenceCounts, RequestedThreads, Stats};
pub use transaction::{Held, Transaction};
pub use transaction_log::{Kind, LogEntry, TransactionLog};
pub use words::{DebugId, Pid, Pointer, Task};

use std::path::Path;

/// A kind of log file.
pub trait Log: Sized + serde::Serialize + std::fmt::Display {
    /// Makes a value of a file's contents; `file` is its name, for what is said of an error.
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error>;

    /// Reads a file.
    fn read(path: &Path, mode: Mode) -> Result<Self, Error> {
        let file = path.display().to_string();
        let contents = std::fs::read(path).map_err(|why| Error::Read { file: file.clone(), why })?;
        Self::parse(&file, &contents, mode)
    }
}
