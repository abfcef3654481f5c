// SPDX-License-Identifier: GPL-2.0

//! `stats`: how often each command and return code has occurred, how many objects there are and
//! were, and what each process has (contract, section 15).

use super::{
    names::Name,
    pause,
    FLAGS, //
};
use crate::{
    common::{
        code_counts::CodeSum,
        stats::{objects, Kind, Objects}, //
    },
    defs::{Command, Return},
    lifecycle::{
        code_sums::{self, ThreadSums},
        registry, //
    },
    process::Process, //
};
use core::ops::Range;
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// The sums of all counters, and the processes. The figures of each process are read when its
/// lines are written.
pub(super) struct Snapshot {
    sums: ThreadSums,
    /// The processes that have not ended.
    alive: u32,
    processes: KVVec<Arc<Process>>,
}

impl Snapshot {
    /// Adds up all counters. Fails with `ENOMEM`, and with `ERESTARTSYS` on a signal. No lock may
    /// be held.
    pub(super) fn take() -> Result<Self> {
        let (mut processes, mut sums) = (KVVec::new(), KVVec::new());
        for process in registry::opened() {
            pause()?;
            sums.push(code_sums::of_process(&process)?, FLAGS)?;
            processes.push(process, FLAGS)?;
        }
        let (sums, alive) = code_sums::of_all(processes.iter().zip(&sums));
        Ok(Self {
            sums,
            alive,
            processes,
        })
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        1 + self.processes.len()
    }

    /// Writes a record: that about all processes, or that of one.
    pub(super) fn show(&self, record: usize, out: &SeqFile) -> Result {
        match record.checked_sub(1) {
            None => self.show_sums(out),
            Some(number) => show_process(&self.processes[number], out)?,
        }
        Ok(())
    }

    fn show_sums(&self, out: &SeqFile) {
        seq_print!(out, "binder stats:\n");
        let sums = &self.sums;
        show_codes(&sums.codes, "", out);
        for (name, Objects { alive, created }) in [
            ("proc", with_alive(Kind::Process, self.alive)),
            ("thread", with_alive(Kind::Thread, sums.threads)),
            ("node", objects(Kind::Node)),
            ("ref", objects(Kind::Ref)),
            ("death", objects(Kind::DeathNotification)),
            ("transaction", transactions(sums)),
            ("transaction_complete", completions(sums)),
            ("freeze", objects(Kind::FreezeNotification)),
        ] {
            if alive != 0 || created != 0 {
                seq_print!(out, "{name}: active {alive} total {created}\n");
            }
        }
    }
}

#[inline(never)] // Or all that is written has one stack frame.
fn show_process(process: &Process, out: &SeqFile) -> Result {
    let sums = code_sums::of_process(process)?;
    let state = process.lock_state();
    let (threads, nodes, pool) = (state.threads.len(), state.nodes.len(), state.pool);
    let queued_calls = state.queued_calls;
    drop(state);
    let space = Space::of(process);
    let (refs, strong, weak) = count_refs(process)?;
    seq_print!(out, "proc {}\n", process.pid());
    seq_print!(out, "context {}\n", Name::of(process));
    seq_print!(out, "  threads: {threads}\n");
    // CAST: The maximum is shown as a signed number, as the C driver does: -1 for the greatest.
    seq_print!(
        out,
        "  requested threads: {}+{}/{}\n",
        u32::from(pool.is_thread_requested),
        pool.started,
        pool.max_threads as i32
    );
    seq_print!(out, "  ready threads {}\n", sums.idle);
    seq_print!(out, "  free async space {}\n", space.free_oneway);
    seq_print!(out, "  nodes: {nodes}\n");
    seq_print!(out, "  refs: {refs} s {strong} w {weak}\n");
    seq_print!(out, "  buffers: {}\n", space.buffers);
    seq_print!(
        out,
        "  pages: {}:{}:{}\n",
        space.pages_in_use,
        space.idle_pages,
        space.absent_pages
    );
    seq_print!(out, "  pages high watermark: {}\n", space.high_watermark);
    seq_print!(out, "  pending transactions: {queued_calls}\n");
    show_codes(&sums.codes, "  ", out);
    Ok(())
}

/// Writes the counters that are not 0, each after `indent`.
fn show_codes(codes: &CodeSum, indent: &str, out: &SeqFile) {
    let commands = Command::NAMES.iter().zip(codes.commands());
    let returns = Return::NAMES.iter().zip(codes.returns());
    for (name, &count) in Iterator::chain(commands, returns) {
        if count != 0 {
            seq_print!(out, "{indent}{name}: {count}\n");
        }
    }
}

/// Returns the number of objects of a kind of which `alive` have not ended. Records of others exist
/// as long as a node or a call of theirs does.
fn with_alive(kind: Kind, alive: u32) -> Objects {
    Objects {
        alive,
        ..objects(kind)
    }
}

/// Returns the calls and replies that are under way, and have been. A transaction is used for one
/// after the other: those that are kept for the next one are left out, and each sender counts as
/// one.
fn transactions(sums: &ThreadSums) -> Objects {
    let allocated = objects(Kind::Transaction).alive;
    Objects {
        alive: allocated.saturating_sub(sums.spare_transactions),
        created: sent(&sums.codes),
    }
}

/// Returns the completions that are unread, and have been queued.
fn completions(sums: &ThreadSums) -> Objects {
    Objects {
        alive: sums.completions,
        created: sent(&sums.codes),
    }
}

/// Returns how many calls and replies were sent.
fn sent(codes: &CodeSum) -> u32 {
    [
        Command::Transaction,
        Command::Reply,
        Command::TransactionSg,
        Command::ReplySg,
    ]
    .map(|command| codes.commands()[command.number()])
    .into_iter()
    .fold(0, u32::wrapping_add)
}

/// Returns the number of handles of a process, and the sums of the strong and weak counts on them.
fn count_refs(process: &Process) -> Result<(u32, u64, u64)> {
    let (mut refs, mut strong_sum, mut weak_sum) = (0, 0, 0);
    let mut next = Some(0);
    while let Some(from) = next {
        pause()?;
        let handles = process.handles.lock();
        next = handles.table.visit_leaf(from, |_, reference| {
            let (strong, weak) = (reference.strong, reference.weak);
            refs += 1;
            strong_sum += u64::from(strong);
            weak_sum += u64::from(weak);
        });
    }
    Ok((refs, strong_sum, weak_sum))
}

/// How many pages are looked up while the lock of the ranges is held.
const PAGES_AT_ONCE: usize = 16;

/// The space that a process receives data in. All zeroes if it has mapped none.
#[derive(Default)]
struct Space {
    free_oneway: usize,
    buffers: usize,
    /// Present pages that have a byte of a buffer.
    pages_in_use: u32,
    /// Present pages that have none: they can be reclaimed.
    idle_pages: u32,
    absent_pages: u32,
    high_watermark: usize,
}

impl Space {
    fn of(process: &Process) -> Self {
        let mut space = Self {
            high_watermark: process.pages.high_watermark(),
            ..Self::default()
        };
        if let Some(ranges) = &*process.buffers.lock() {
            space.free_oneway = ranges.free_oneway_space();
            space.buffers = ranges.in_use();
        }
        // Without a mapping none are counted, as by the C driver.
        let is_mapped = process.pages.is_mapped();
        let size = if is_mapped { process.pages.size() } else { 0 };
        let pages = size / PAGE_SIZE;
        for first in (0..pages).step_by(PAGES_AT_ONCE) {
            space.count_pages(process, first..pages.min(first + PAGES_AT_ONCE));
        }
        space
    }

    /// Counts these pages.
    fn count_pages(&mut self, process: &Process, pages: Range<usize>) {
        let present = process.pages.present_in(pages.clone());
        let buffers = process.buffers.lock();
        for (bit, page) in pages.enumerate() {
            let start = page * PAGE_SIZE;
            let count = if present >> bit & 1 == 0 {
                &mut self.absent_pages
            } else {
                match &*buffers {
                    Some(ranges) if ranges.touches(start, start + PAGE_SIZE) => {
                        &mut self.pages_in_use
                    }
                    _ => &mut self.idle_pages,
                }
            };
            *count += 1;
        }
    }
}
