// SPDX-License-Identifier: GPL-2.0

//! The log files: what the driver has of processes, threads, nodes and transactions, as text that
//! programs for the C driver's files read.
//!
//! The first read of a file takes a [`Snapshot`] of all that the file shows, into memory that is
//! allocated before each lock is taken. The text is written from that, line by line, with no lock
//! held. See "Logs" in `docs/architecture.md`.
//!
//! Who serves a call, and who holds a node, is stored nowhere: it is found in the snapshot, which
//! has both ends of each call and all handles on the nodes.

mod lines;
mod processes;
mod stats;
mod transaction_log;

use crate::{
    common::transaction_log::{Entry, TransactionLog},
    kernel_ext::sched,
    lifecycle::processes::{opened, opened_by},
    node::Node,
    process::{Pid, Process, ProcessState},
    pure::{handle_table::LEAF, log_lines}, //
};
use kernel::{
    alloc::{
        flags::GFP_KERNEL_ACCOUNT,
        Flags, //
    },
    prelude::*,
    seq_file::SeqFile,
    sync::Arc, //
};
use lines::Line;

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

/// A place in a log file.
pub(crate) struct Reader {
    log: Log,
    /// The line that is to be written.
    at: usize,
    /// Taken for the first line, and dropped behind the last one.
    snapshot: Option<Snapshot>,
}

impl Reader {
    pub(crate) fn new(log: Log) -> Self {
        Self {
            log,
            at: 0,
            snapshot: None,
        }
    }

    /// Goes to a line: to the first one of what there is now, or another one of the same snapshot.
    /// Returns whether there is one. No lock may be held. Fails with `ENOMEM`, with `EFBIG` if the
    /// log is too long, and with `ERESTARTSYS` on a signal.
    pub(crate) fn seek(&mut self, line: usize) -> Result<bool> {
        pause()?;
        self.at = line;
        if line == 0 {
            self.snapshot = Some(Snapshot::take(self.log)?);
        }
        self.snapshot.take_if(|snapshot| line >= snapshot.len());
        Ok(self.snapshot.is_some())
    }

    /// Writes the line, as often as this is called.
    pub(crate) fn show(&self, out: &SeqFile) -> Result {
        match &self.snapshot {
            Some(snapshot) => snapshot.show(self.at, out),
            None => Ok(()),
        }
    }
}

/// Names a node: its number, and the address of its record, which is not used as one. One that is
/// made while a log is copied may have the number or the address of another, but not both.
type NodeKey = (u32, usize);

/// Names a call: the address of the record of the thread that makes it, which is not used as one,
/// and the number of its frame.
type CallKey = (usize, u64);

/// What a log shows, as it was when its reading began.
struct Snapshot {
    log: Log,
    /// Whether what has nothing to do with a transaction is copied, too.
    is_complete: bool,
    /// The title, and the dead nodes.
    head: KVVec<Line>,
    /// The lines of the processes; those that are not shown come last.
    lines: KVVec<Line>,
    /// How many of them are shown.
    shown: usize,
    /// How many there may be, as long as a lock is held.
    most: usize,
    /// Whether the item that is copied needs more room than there is.
    is_cut: bool,
    processes: KVVec<Arc<Process>>,
    /// The calls that are queued or served, with the places of their lines.
    calls: KVVec<(CallKey, usize)>,
    /// The dead nodes that the processes hold.
    dead: KVVec<Arc<Node>>,
    /// Which process holds which node, in the order of the nodes.
    holders: KVVec<(NodeKey, Pid)>,
    /// What is counted.
    sums: stats::Sums,
    /// What was sent lately or failed, from the oldest on.
    sent: KVec<(Entry, Arc<TransactionLog>)>,
}

impl Snapshot {
    /// Copies what a log shows. No lock may be held.
    fn take(log: Log) -> Result<Self> {
        let mut copy = Self {
            log,
            is_complete: !matches!(log, Log::Transactions | Log::TransactionsHashed),
            head: KVVec::new(),
            lines: KVVec::new(),
            shown: 0,
            most: 0,
            is_cut: false,
            processes: KVVec::new(),
            calls: KVVec::new(),
            dead: KVVec::new(),
            holders: KVVec::new(),
            sums: stats::Sums::new(),
            sent: KVec::new(),
        };
        match log {
            Log::State | Log::StateHashed => copy.all_processes("binder state:")?,
            Log::Transactions | Log::TransactionsHashed => {
                copy.all_processes("binder transactions:")?;
            }
            Log::Process(pid) => {
                for process in opened_by(pid) {
                    copy.process(&process)?;
                }
                copy.shown = copy.lines.len();
                copy.add_called(pid)?;
            }
            Log::Stats => copy.stats()?,
            Log::Sent | Log::Failed => copy.newest(log)?,
        }
        sort_by_key(&mut copy.calls, |(call, _)| *call);
        copy.find_holders()?;
        Ok(copy)
    }

    fn all_processes(&mut self, title: &'static str) -> Result {
        for process in opened() {
            self.process(&process)?;
        }
        self.shown = self.lines.len();
        self.add_head(title)
    }

    /// Allocates memory for so many more lines, which are copied under a lock afterwards. No lock
    /// may be held.
    fn make_room(&mut self, lines: usize) -> Result {
        pause()?;
        if self.lines.len() > MOST_LINES {
            return Err(EFBIG);
        }
        self.lines.reserve(lines, FLAGS)?;
        self.calls.reserve(lines, FLAGS)?;
        self.most = self.lines.len() + lines;
        Ok(())
    }

    /// Adds a line, if there is room for it. Memory that is there by chance is no room: a lock
    /// would be held for long.
    fn push(&mut self, line: Line) {
        let has_room = self.lines.len() < self.most;
        self.is_cut |= !has_room || self.lines.push_within_capacity(line).is_err();
    }

    /// Copies the items of a process one by one: a few, then a few more after the state lock was
    /// released. `copy` copies the item at a place, and returns the next place, or nothing at the
    /// end. An item for which there is no room is copied again with more.
    fn copy_items<K>(
        &mut self,
        process: &Process,
        first: K,
        mut copy: impl FnMut(&mut Self, &ProcessState, &K) -> Option<K>,
    ) -> Result {
        let (mut next, mut room) = (Some(first), FEW);
        while next.is_some() {
            self.make_room(room)?;
            let state = process.lock_state();
            for _ in 0..FEW {
                let Some(place) = &next else { break };
                let (lines, calls) = (self.lines.len(), self.calls.len());
                let behind = copy(self, &state, place);
                if core::mem::take(&mut self.is_cut) {
                    self.lines.truncate(lines);
                    self.calls.truncate(calls);
                    room *= 2;
                    break;
                }
                next = behind;
                if room > FEW {
                    room = FEW;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of lines, or of the few together that name a process.
    fn len(&self) -> usize {
        self.head.len() + self.shown
    }

    fn show(&self, line: usize, out: &SeqFile) -> Result {
        let line = match line.checked_sub(self.head.len()) {
            None => self.head.get(line),
            Some(line) => self.lines.get(line),
        };
        match line {
            Some(line) => self.write(line, out),
            None => Ok(()),
        }
    }
}

/// How many lines a log has at most; a longer one cannot be read.
const MOST_LINES: usize = 1 << 20;

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
    log_lines::sort_by_key(items, key, || sched::cond_resched());
}

/// How many items are visited while a lock is held, as a rule.
const FEW: usize = 64;

// Handles are visited by leaves of their table.
const _: () = assert!(FEW >= LEAF as usize);

/// How memory for snapshots is allocated: charged to who reads.
const FLAGS: Flags = GFP_KERNEL_ACCOUNT;
