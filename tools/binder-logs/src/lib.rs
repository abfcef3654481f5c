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
//! The lines are those of the C driver, which are its interface to programs that read them. Upstream's Rust
//! driver prints less, and words some lines differently. With [`Mode::Lenient`] its files become values of the
//! same types, in which a figure that it does not print is [`None`].
//!
//! ```
//! use binder_logs::{Log, Mode, TransactionLog};
//!
//! let text = b"7: call  from 12:13 to 9:0 context binder node 2 handle 0 size 4:0 ret 0/0 l=0\n";
//! let log = TransactionLog::parse("transaction_log", text, Mode::Strict).unwrap();
//! assert_eq!(log.entries[0].from.process, 12);
//! ```
//!
//! `lines` numbers the lines of a file; a line is taken apart with `scan`, beside the type that is made of it.

#![forbid(unsafe_code)]

mod lines;
mod process;
mod scan;
mod state;
mod stats;
mod transaction_log;

pub use lines::{Error, Mode, UnknownLine};
pub use process::{
    Buffer, BufferState, Held, Looper, Node, NodeCounts, Process, Reference, Role, StackEntry, Thread,
    Transaction, Work,
};
pub use scan::{DebugId, Pid, Pointer, Task};
pub use state::{ProcessState, State, Transactions};
pub use stats::{
    Counter, Counters, ObjectCount, Pages, ProcessStats, ReferenceCounts, RequestedThreads, Stats, OBJECTS,
};
pub use transaction_log::{Kind, LogEntry, TransactionLog};

use std::path::Path;

/// A kind of log file.
pub trait Log: Sized {
    /// Makes a value of a file's contents; `file` is its name for error messages.
    fn parse(file: &str, contents: &[u8], mode: Mode) -> Result<Self, Error>;

    /// Reads a file.
    fn read(path: &Path, mode: Mode) -> Result<Self, Error> {
        let file = path.display().to_string();
        let contents = std::fs::read(path).map_err(|why| Error::Read(file.clone(), why))?;
        Self::parse(&file, &contents, mode)
    }
}
