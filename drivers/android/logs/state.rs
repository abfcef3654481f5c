// SPDX-License-Identifier: GPL-2.0

//! `state`, `transactions` and `proc/<pid>`: everything that each process has, or what has to do with
//! transactions (contract, section 15).

use super::{
    processes::{self, Key},
    Log, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// Where a record begins.
pub(super) enum Place {
    /// The line that says what the file is.
    Title,
    /// The first process whose key is not less.
    Process(Key),
}

/// Writes a record. Returns the next one.
pub(super) fn show(log: Log, place: &Place, out: &SeqFile) -> Option<Place> {
    match *place {
        Place::Title => Some(show_title(log, out)),
        Place::Process(from) => {
            let process = processes::first_from(log, from)?;
            if let Log::Process(_) = log {
                seq_print!(out, "binder proc state:\n");
            }
            seq_print!(out, "proc {}\n", process.group.number_seen());
            seq_print!(out, "context {}\n", process.context.name());
            Some(Place::Process(processes::key_behind(&process)))
        }
    }
}

fn show_title(log: Log, out: &SeqFile) -> Place {
    match log {
        Log::State | Log::StateHashed => seq_print!(out, "binder state:\n"),
        Log::Transactions | Log::TransactionsHashed => seq_print!(out, "binder transactions:\n"),
        Log::Process(_) => {}
    }
    Place::Process(processes::first_key(log))
}
