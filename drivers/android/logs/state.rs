// SPDX-License-Identifier: GPL-2.0

//! `state`, `transactions` and `proc/<pid>`: everything that each process has, or what has to do
//! with transactions (contract, section 15).
//!
//! The lines of a process come in sections, in the order of [`Section`]. Which one is next, and
//! where in it, is what a record ends with.

use super::{
    dead_nodes,
    names::Name,
    pointers::Pointer,
    processes::{self, Key, OpenedUntil},
    Log,
};
use crate::{
    logs::{buffers, nodes, queue, refs, threads},
    process::Process,
};
use kernel::{
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// Where a record begins.
pub(super) enum Place {
    /// The line that says what the file is.
    Title,
    DeadNodes(dead_nodes::Place),
    /// The first process whose key is not less.
    Process(Key),
    /// A section of the process of this key.
    Section {
        process: Key,
        /// Whether the lines that name the process are written.
        is_headed: bool,
        section: Section,
    },
}

/// Where a record begins in a process.
pub(super) enum Section {
    Threads(threads::Place),
    Nodes(nodes::Place),
    Refs(refs::Place),
    /// The first offset in its space that is not less.
    Buffers(usize),
    Work(queue::Place),
    /// The notifications that it was told of and has not confirmed.
    Delivered,
}

/// A record of a process that is being written.
pub(super) struct Record<'a> {
    pub(super) process: &'a Arc<Process>,
    pub(super) out: &'a SeqFile,
    /// Whether everything is shown, also what has nothing to do with a transaction.
    pub(super) is_complete: bool,
    pub(super) pointer: Pointer,
    is_headed: bool,
}

impl Record<'_> {
    /// Writes the lines that name the process, before its first line. A process without any is not
    /// named where only transactions are shown.
    pub(super) fn head(&mut self) {
        if !self.is_headed {
            self.is_headed = true;
            seq_print!(self.out, "proc {}\n", self.process.pid());
            let context = Name(self.process.context.name());
            seq_print!(self.out, "context {context}\n");
        }
    }

    /// Writes a record of a section. Returns the next one of the process.
    fn show(&mut self, section: &Section) -> Option<Section> {
        match section {
            Section::Threads(place) => Some(match threads::show(self, place) {
                Some(next) => Section::Threads(next),
                None => Section::Nodes(nodes::Place::START),
            }),
            Section::Nodes(place) => Some(match nodes::show(self, place) {
                Some(next) => Section::Nodes(next),
                None if self.is_complete => Section::Refs(refs::Place::START),
                None => Section::Buffers(0),
            }),
            Section::Refs(place) => Some(match refs::show(self, *place) {
                Some(next) => Section::Refs(next),
                None => Section::Buffers(0),
            }),
            Section::Buffers(from) => Some(match buffers::show(self, *from) {
                Some(next) => Section::Buffers(next),
                None => Section::Work(queue::Place::START),
            }),
            Section::Work(place) => Some(match queue::show_of_process(self, place) {
                Some(next) => Section::Work(next),
                None => Section::Delivered,
            }),
            Section::Delivered => {
                self.show_delivered();
                None
            }
        }
    }

    fn show_delivered(&mut self) {
        let state = self.process.lock_state();
        let has_deaths = !state.delivered_deaths.is_empty();
        let has_freezes = !state.delivered_freezes.is_empty();
        drop(state);
        if has_deaths {
            self.head();
            seq_print!(self.out, "  has delivered dead binder\n");
        }
        if has_freezes {
            self.head();
            seq_print!(self.out, "  has delivered freeze binder\n");
        }
    }
}

/// Writes a record. Returns the next one.
#[inline(never)] // Or all that is written has one stack frame.
pub(super) fn show(log: Log, place: &Place, opened: OpenedUntil, out: &SeqFile) -> Option<Place> {
    match place {
        Place::Title => Some(show_title(log, out)),
        Place::DeadNodes(place) => Some(match dead_nodes::show(place, opened, pointer(log), out) {
            Some(next) => Place::DeadNodes(next),
            None => Place::Process(processes::first_key(log)),
        }),
        Place::Process(from) => {
            let process = processes::first_from(log, opened, *from)?;
            if let Log::Process(_) = log {
                seq_print!(out, "binder proc state:\n");
            }
            let section = Section::Threads(threads::Place::START);
            Some(show_section(log, &process, false, &section, out))
        }
        Place::Section {
            process,
            is_headed,
            section,
        } => Some(match processes::of_key(*process) {
            Some(found) => show_section(log, &found, *is_headed, section, out),
            // It has ended meanwhile.
            None => {
                end_line(section, out);
                Place::Process(processes::behind(*process))
            }
        }),
    }
}

/// Ends the line in the middle of which a record of this section begins, if it does.
fn end_line(section: &Section, out: &SeqFile) {
    match section {
        Section::Nodes(place) if place.is_in_line() => seq_print!(out, "\n"),
        _ => {}
    }
}

fn show_title(log: Log, out: &SeqFile) -> Place {
    match log {
        Log::State | Log::StateHashed => {
            seq_print!(out, "binder state:\n");
            return Place::DeadNodes(dead_nodes::Place::START);
        }
        Log::Transactions | Log::TransactionsHashed => seq_print!(out, "binder transactions:\n"),
        _ => {}
    }
    Place::Process(processes::first_key(log))
}

fn pointer(log: Log) -> Pointer {
    match log {
        Log::StateHashed | Log::TransactionsHashed => Pointer::Hashed,
        _ => Pointer::Plain,
    }
}

/// Writes a record of a process. Returns the next one.
fn show_section(
    log: Log,
    process: &Arc<Process>,
    is_headed: bool,
    section: &Section,
    out: &SeqFile,
) -> Place {
    let is_complete = !matches!(log, Log::Transactions | Log::TransactionsHashed);
    let mut record = Record {
        process,
        out,
        is_complete,
        pointer: pointer(log),
        is_headed,
    };
    if is_complete {
        record.head();
    }
    let key = processes::key(process);
    match record.show(section) {
        Some(section) => Place::Section {
            process: key,
            is_headed: record.is_headed,
            section,
        },
        None => Place::Process(processes::behind(key)),
    }
}
