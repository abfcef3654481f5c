// SPDX-License-Identifier: GPL-2.0

//! `state`, `transactions` and `proc/<pid>`: everything that each process has, or what has to do
//! with transactions (contract, section 15), as it was when it was copied.
//!
//! Who serves a call, and who holds a node, is stored nowhere: it is found in the snapshot, which
//! has both ends of each call and all handles on the nodes.

use super::{
    lines::{write_name, CallKey, Line, TransactionLine},
    names::Name,
    nodes::{key_of, Holders, NodeLine},
    pause,
    sort_by_key,
    Log,
    FLAGS, //
};
use crate::{
    lifecycle::registry,
    node::Node,
    process::{Pid, Process},
    transaction::Transaction, //
};
use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// How many lines a log has at most; a longer one cannot be read.
const MOST_LINES: usize = 1 << 20;

/// What a log shows.
pub(super) struct Snapshot {
    log: Log,
    /// Whether what has nothing to do with a transaction is copied, too.
    pub(super) is_complete: bool,
    /// The title, and the dead nodes.
    pub(super) head: KVVec<Line>,
    /// The lines of the processes; those that are not shown come last.
    pub(super) lines: KVVec<Line>,
    /// How many of them are shown.
    shown: usize,
    processes: KVVec<Arc<Process>>,
    /// The calls in `lines` that are queued or served.
    calls: KVVec<Call>,
    pub(super) holders: Holders,
}

/// A call that is queued or served, and its line.
struct Call {
    key: CallKey,
    line: usize,
}

impl Snapshot {
    /// Copies what a log shows. Fails with `ENOMEM`, with `EFBIG` if the log is too long, and with
    /// `ERESTARTSYS` on a signal. No lock may be held.
    pub(super) fn take(log: Log) -> Result<Self> {
        let mut copy = Self {
            log,
            is_complete: !matches!(log, Log::Transactions | Log::TransactionsHashed),
            head: KVVec::new(),
            lines: KVVec::new(),
            shown: 0,
            processes: KVVec::new(),
            calls: KVVec::new(),
            holders: Holders::default(),
        };
        let mut dead = KVVec::new();
        match log {
            Log::Process(pid) => {
                for process in registry::opened_by(pid) {
                    copy.process(&process, &mut dead)?;
                }
            }
            _ => {
                for process in registry::opened() {
                    copy.process(&process, &mut dead)?;
                }
            }
        }
        copy.shown = copy.lines.len();
        match log {
            Log::State | Log::StateHashed => copy.add_head("binder state:", dead)?,
            Log::Transactions | Log::TransactionsHashed => {
                copy.add_head("binder transactions:", KVVec::new())?;
            }
            Log::Process(pid) => copy.add_called(pid)?,
            _ => {}
        }
        sort_by_key(&mut copy.calls, |call| call.key);
        copy.find_holders()?;
        Ok(copy)
    }

    /// Copies a process, and adds the dead nodes that it holds.
    fn process(&mut self, process: &Arc<Process>, dead: &mut KVVec<Arc<Node>>) -> Result {
        self.make_room(1)?;
        let start = self.lines.len();
        self.push(Line::Process(self.processes.len()));
        self.processes.push(process.clone(), FLAGS)?;
        // In this order each buffer that is copied as delivered has a call that is served, or that
        // has ended, however fast calls come and go.
        let mut buffers = super::buffers::copy(process)?;
        self.threads(process)?;
        self.find_data(process, start, &mut buffers)?;
        self.nodes(process)?;
        if self.is_complete {
            self.refs(process, dead)?;
        }
        self.buffers(buffers)?;
        self.process_work(process)?;
        self.delivered(process)?;
        if !self.is_complete && self.lines.len() == start + 1 {
            self.lines.truncate(start);
            self.processes.pop();
        }
        Ok(())
    }

    fn delivered(&mut self, process: &Process) -> Result {
        self.make_room(2)?;
        let state = process.lock_state();
        let has_deaths = !state.delivered_deaths.is_empty();
        let has_freezes = !state.delivered_freezes.is_empty();
        drop(state);
        if has_deaths {
            self.push(Line::Fixed("  ", "has delivered dead binder"));
        }
        if has_freezes {
            self.push(Line::Fixed("  ", "has delivered freeze binder"));
        }
        Ok(())
    }

    /// Copies the processes that are called by those of a pid, which are copied: their lines are
    /// not shown, and have the calls.
    fn add_called(&mut self, pid: Pid) -> Result {
        let mut pids = KVVec::new();
        for line in &self.lines {
            match line {
                Line::Outgoing { target, .. } if *target != pid => {
                    pause()?;
                    pids.push(*target, FLAGS)?;
                }
                _ => {}
            }
        }
        sort_by_key(&mut pids, |pid| *pid);
        self.is_complete = false;
        let mut last = None;
        for pid in &pids {
            if last.replace(pid) == Some(pid) {
                continue;
            }
            for process in registry::opened_by(*pid) {
                self.threads(&process)?;
                self.process_work(&process)?;
            }
        }
        Ok(())
    }

    /// Allocates memory for so many more lines, which are copied under a lock afterwards. No lock
    /// may be held.
    pub(super) fn make_room(&mut self, lines: usize) -> Result {
        pause()?;
        if self.lines.len() > MOST_LINES {
            return Err(EFBIG);
        }
        self.lines.reserve(lines, FLAGS)?;
        self.calls.reserve(lines, FLAGS)?;
        Ok(())
    }

    /// Adds a line, for which there is room.
    pub(super) fn push(&mut self, line: Line) {
        let pushed = self.lines.push_within_capacity(line);
        debug_assert!(pushed.is_ok());
    }

    /// Records that the next line is that of a call that is queued or served.
    pub(super) fn record_call(&mut self, call: &Transaction) {
        // Of a oneway call that is queued there is none, and nobody waits for it.
        let Some(caller) = &call.caller else {
            return;
        };
        let call = Call {
            key: CallKey {
                thread: Arc::as_ptr(caller).addr(),
                serial: call.frame_serial,
            },
            line: self.lines.len(),
        };
        let pushed = self.calls.push_within_capacity(call);
        debug_assert!(pushed.is_ok());
    }

    /// Returns the line of a call where it is queued or served.
    fn call(&self, key: CallKey) -> Option<&TransactionLine> {
        let found = self.calls.binary_search_by_key(&key, |call| call.key);
        match self.lines.get(self.calls[found.ok()?].line)? {
            Line::Incoming(line) | Line::Transaction(_, line) => Some(line),
            _ => None,
        }
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.shown
    }

    /// Writes a record: a line, or the few that name a process.
    pub(super) fn show(&self, record: usize, out: &SeqFile) {
        let line = match record.checked_sub(self.head.len()) {
            None => self.head.get(record),
            Some(line) => self.lines.get(line),
        };
        if let Some(line) = line {
            self.write(line, out);
        }
    }

    #[inline(never)] // Or all that is written has one stack frame.
    fn write(&self, line: &Line, out: &SeqFile) {
        match line {
            Line::Fixed(indent, text) => seq_print!(out, "{indent}{text}\n"),
            Line::Process(number) => {
                if matches!(self.log, Log::Process(_)) {
                    seq_print!(out, "binder proc state:\n");
                }
                let process = &self.processes[*number];
                seq_print!(out, "proc {}\n", process.pid());
                seq_print!(out, "context {}\n", Name::of(process));
            }
            // No thread is used by others but by references that need not be counted.
            Line::Thread {
                id,
                looper,
                must_return,
            } => {
                let must_return = u8::from(*must_return);
                seq_print!(
                    out,
                    "  thread {id}: l {looper:02x} need_return {must_return} tr 0\n"
                );
            }
            Line::Outgoing { call, from, .. } => {
                match self.call(*call) {
                    Some(line) => line.write_start("    outgoing transaction", out),
                    // All that is known of it is that its thread waits.
                    None => seq_print!(
                        out,
                        "    outgoing transaction 0: 0000000000000000 from {}:{} to 0:0 code 0 flags 0 pri 0 a0 r0 elapsed 0ms",
                        from.pid,
                        from.tid
                    ),
                }
                seq_print!(out, "\n");
            }
            Line::Incoming(line) => line.write("    incoming transaction", out),
            Line::Transaction(prefix, line) => line.write(prefix, out),
            Line::Error(indent, code) => {
                seq_print!(out, "{indent}transaction error: {}\n", code.code());
            }
            Line::NodeWork(indent, id, name) => {
                seq_print!(out, "{indent}node work {}: ", *id as i32);
                write_name(name, self.is_hashed(), out);
                seq_print!(out, "\n");
            }
            Line::Node(node) => node.write(self.is_hashed(), &self.holders, out),
            Line::Ref(line) => line.write(out),
            Line::Buffer {
                label,
                offset,
                size,
                is_active,
            } => seq_print!(
                out,
                "  buffer {}: {offset:x} size {}:{}:{} {}\n",
                label.id as i32,
                label.data_size,
                label.offsets_size,
                label.extra_size(*size as usize),
                if *is_active { "active" } else { "delivered" }
            ),
        }
    }

    fn is_hashed(&self) -> bool {
        matches!(self.log, Log::StateHashed | Log::TransactionsHashed)
    }

    /// Adds the title, and the dead nodes, each of which is given once for each holder. A node that
    /// is shown with its owner is left out: the owner has ended in the meantime, or is ending.
    fn add_head(&mut self, title: &'static str, mut dead: KVVec<Arc<Node>>) -> Result {
        self.head.push(Line::Fixed("", title), FLAGS)?;
        let shown = self.node_keys()?;
        sort_by_key(&mut dead, |node| Arc::as_ptr(node).addr());
        let mut last = None;
        for node in &dead {
            let key = Arc::as_ptr(node);
            if last.replace(key) == Some(key) || shown.binary_search(&key_of(node)).is_ok() {
                continue;
            }
            pause()?;
            if self.head.len() == 1 {
                self.head.push(Line::Fixed("", "dead nodes:"), FLAGS)?;
            }
            let line = NodeLine::of(node, &node.owner().lock_state());
            self.head.push(Line::Node(line), FLAGS)?;
        }
        Ok(())
    }
}
