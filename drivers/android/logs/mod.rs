// SPDX-License-Identifier: GPL-2.0

//! The log files: what the driver has of processes, threads, nodes and transactions, as text that
//! programs for the C driver's files read.
//!
//! The first read of a file takes a [`Snapshot`] of all that the file shows, into memory that is
//! allocated before each lock is taken. The text is written from that, line by line, with no lock
//! held. See "Logs" in `docs/architecture.md`.
//!
//! The driver does not store the server of a call, nor the holders of a node. Both are found in the
//! snapshot, which has both ends of each call and all handles on the nodes.

mod lines;
mod processes;
mod stats;

use crate::{
    common::transaction_log::{self, Entry, TransactionLog},
    kernel_ext::{clocks, cpu_rings::RECORDS, sched},
    lifecycle::processes::{opened, opened_by},
    names::ThreadName,
    node::Node,
    process::{Pid, Process, ProcessState},
    pure::{handle_table::LEAF, log_lines},
};
use core::cmp::Reverse;
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

/// The contents of a log file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// All processes, completely. If `is_hashed`, pointers that processes have chosen are shown as
    /// hashes, which still differ from each other.
    State { is_hashed: bool },
    /// The processes that have transactions, and only that.
    Transactions { is_hashed: bool },
    /// All processes of one pid, completely.
    Process(Pid),
    /// Counters.
    Stats,
    /// The latest calls and replies.
    Sent,
    /// The latest failures.
    Failed,
}

impl Log {
    /// Returns the log of a number, which `binderfs/logs.c` gives it; `pid` is for
    /// [`Self::Process`].
    pub(crate) fn of(number: u32, pid: Pid) -> Option<Self> {
        Some(match number {
            0 => Self::State { is_hashed: false },
            1 => Self::State { is_hashed: true },
            2 => Self::Stats,
            3 => Self::Sent,
            4 => Self::Failed,
            5 => Self::Transactions { is_hashed: false },
            6 => Self::Transactions { is_hashed: true },
            7 => Self::Process(pid),
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
    snapshot: Option<KBox<Snapshot>>,
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
        self.snapshot
            .take_if(|snapshot| line >= snapshot.head.len() + snapshot.shown);
        Ok(self.snapshot.is_some())
    }

    /// Writes the line, as often as this is called.
    pub(crate) fn show(&self, out: &SeqFile) -> Result {
        let Some(snapshot) = &self.snapshot else {
            return Ok(());
        };
        let line = match self.at.checked_sub(snapshot.head.len()) {
            None => snapshot.head.get(self.at),
            Some(at) => snapshot.lines.get(at),
        };
        line.map_or(Ok(()), |line| snapshot.write(line, out))
    }
}

/// Names a node: its number, and the address of its record, which is not used as one. One that is
/// made while a log is copied may have the number or the address of another, but not both.
type NodeKey = (u32, usize);

/// Names a call: the address of the name of its thread, and the number of its frame.
/// The name is among the callers while a log is copied: no other one gets its address.
type CallKey = (usize, u64);

/// The contents of a log, as they were when its reading began.
struct Snapshot {
    log: Log,
    /// True if objects without a transaction are copied, too.
    is_complete: bool,
    /// The title, and the dead nodes.
    head: KVVec<Line>,
    /// The lines of the processes; those that are not shown come last.
    lines: KVVec<Line>,
    /// The number of them that are shown.
    shown: usize,
    processes: KVVec<Arc<Process>>,
    /// The calls that are queued or served, with the places of their lines.
    calls: KVVec<(CallKey, usize)>,
    /// The names whose addresses the calls have.
    callers: KVVec<Arc<ThreadName>>,
    /// The dead nodes that the processes hold.
    dead: KVVec<Arc<Node>>,
    /// The holders of each node, in the order of the nodes.
    holders: KVVec<(NodeKey, Pid)>,
    /// The sums of the counters.
    sums: stats::Sums,
    /// The latest calls and replies, or failures, from the oldest on.
    sent: KVec<(Entry, Arc<TransactionLog>)>,
}

impl Snapshot {
    /// Copies what a log shows. No lock may be held.
    fn take(log: Log) -> Result<KBox<Self>> {
        let copy = Self {
            log,
            is_complete: !matches!(log, Log::Transactions { .. }),
            head: KVVec::new(),
            lines: KVVec::new(),
            shown: 0,
            processes: KVVec::new(),
            calls: KVVec::new(),
            callers: KVVec::new(),
            dead: KVVec::new(),
            holders: KVVec::new(),
            sums: stats::Sums::new(),
            sent: KVec::new(),
        };
        // It is too large for the stack of those who copy.
        let mut copy = KBox::new(copy, FLAGS)?;
        match log {
            Log::State { .. } | Log::Transactions { .. } => {
                for process in opened() {
                    copy.process(&process)?;
                }
                copy.shown = copy.lines.len();
                let title = match copy.is_complete {
                    true => "binder state:",
                    false => "binder transactions:",
                };
                copy.add_head(title)?;
            }
            Log::Process(pid) => {
                for process in opened_by(pid) {
                    copy.process(&process)?;
                }
                copy.shown = copy.lines.len();
                copy.add_called(pid)?;
            }
            Log::Stats => copy.stats()?,
            Log::Sent | Log::Failed => copy.newest()?,
        }
        copy.callers = KVVec::new();
        sort_by_key(&mut copy.calls, |(call, _)| *call);
        copy.find_holders()?;
        Ok(copy)
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
        self.callers.reserve(lines, FLAGS)?;
        Ok(())
    }

    /// Adds a line, for which there is room.
    fn push(&mut self, line: Line) {
        let pushed = self.lines.push_within_capacity(line);
        debug_assert!(pushed.is_ok());
    }

    /// Copies the items of a process one by one: those of a few lines, then more after the state
    /// lock was released. `copy` copies the item at a place, and returns the next place, or nothing
    /// at the end.
    fn copy_items<K>(
        &mut self,
        process: &Process,
        first: K,
        mut copy: impl FnMut(&mut Self, &ProcessState, &K) -> Option<K>,
    ) -> Result {
        let mut next = Some(first);
        while next.is_some() {
            self.make_room(FEW + processes::MOST_OF_ITEM)?;
            let behind = self.lines.len() + FEW;
            let state = process.state.lock();
            for _ in 0..FEW {
                match next {
                    Some(place) if self.lines.len() < behind => next = copy(self, &state, &place),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Copies the newest entries of the logs of what was sent or failed, at most [`RECORDS`].
    /// `ENOMEM`.
    fn newest(&mut self) -> Result {
        // A moment to come, so that what is behind it most is the oldest.
        let ahead = clocks::cycles().wrapping_add(LOGGED_MEANWHILE);
        self.sent.reserve(RECORDS, FLAGS)?;
        let mut from = Some(0);
        while let Some((key, device)) = from.and_then(transaction_log::first_from) {
            if self.log == Log::Sent {
                device.queued(|entry| self.offer(entry, &device, ahead));
            }
            device.failed(|entry| self.offer(entry, &device, ahead));
            from = key.checked_add(1);
            sched::cond_resched();
        }
        sort_by_key(&mut self.sent, |(entry, _)| Reverse(age(entry, ahead)));
        self.make_room(self.sent.len())?;
        for number in 0..self.sent.len() {
            self.push(Line::Sent(number));
        }
        self.shown = self.lines.len();
        Ok(())
    }

    /// Takes an entry, in place of the oldest one if there are enough.
    fn offer(&mut self, entry: Entry, device: &Arc<TransactionLog>, ahead: u64) {
        let age = |entry: &Entry| age(entry, ahead);
        let mut known = self.sent.iter_mut();
        if let Some((same, _)) = known.find(|(other, _)| other.id == entry.id) {
            // A call that failed in the end was logged as queued before.
            if entry.return_code != 0 {
                let at = same.at;
                *same = Entry { at, ..entry };
            }
        } else if self.sent.len() < RECORDS {
            // Has room, so it does not fail.
            let _ = self.sent.push_within_capacity((entry, device.clone()));
        } else if let Some(oldest) = self.sent.iter_mut().max_by_key(|(other, _)| age(other)) {
            if age(&oldest.0) > age(&entry) {
                *oldest = (entry, device.clone());
            }
        }
    }
}

/// The cycles in which entries are logged while the log is read, and by which CPUs' counters
/// differ: more than there are. What was logged later than that seems oldest: it was logged before
/// a counter that has begun anew, as some do when the machine sleeps.
const LOGGED_MEANWHILE: u64 = 1 << 40;

/// Returns how old an entry is next to others. One that is not complete is being logged now.
fn age(entry: &Entry, ahead: u64) -> u64 {
    if entry.is_complete {
        ahead.wrapping_sub(entry.at)
    } else {
        0
    }
}

/// The maximum number of lines of a log; a longer one cannot be read.
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

/// The number of items that are visited while a lock is held, as a rule.
const FEW: usize = 64;

// Handles are visited by leaves of their table.
const _: () = assert!(FEW >= LEAF as usize);

/// The flags for the memory of snapshots: it is charged to the reader.
const FLAGS: Flags = GFP_KERNEL_ACCOUNT;
