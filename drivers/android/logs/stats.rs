// SPDX-License-Identifier: GPL-2.0

//! `stats`: how often each command and return code has occurred, how many objects there are and
//! were, and what each process has (contract LOG-12).

use super::{
    lines::{write_names, Line},
    pause,
    Snapshot,
    FLAGS, //
};
use crate::{
    common::stats::{objects, CodeSum, Kind, Objects},
    defs::{Command, Return},
    kernel_ext::once::{read_once, read_once_u64},
    lifecycle::processes::{opened, REGISTRY},
    process::{Pid, Process},
    thread::{Thread, WaitState}, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// The sums over the threads of one process, or of all processes.
///
/// Counters are added up while threads and processes come and go, and each is in the sum once, so
/// no sum is less than one that was read before. A reader first collects the threads of a process,
/// and leaves those out that have ended before it reads the counters of the process. Processes that
/// end are numbered: a reader that has visited one leaves it out if it is among those whose sum it
/// reads at last.
pub(super) struct Sums {
    codes: CodeSum,
    /// The processes that have not ended.
    processes: u32,
    /// Threads that have not ended. Of those that have, others may keep the records.
    threads: u32,
    /// Threads that wait for any work of their process.
    idle: u32,
    /// Completions of calls and replies that are unread.
    completions: u32,
    /// Transactions that are kept for the next call.
    spare_transactions: u32,
}

impl Sums {
    pub(super) const fn new() -> Self {
        Self {
            codes: CodeSum::new(),
            processes: 0,
            threads: 0,
            idle: 0,
            completions: 0,
            spare_transactions: 0,
        }
    }

    /// Returns the sums of a process. Fails with `ENOMEM`. No lock may be held.
    fn of(process: &Process) -> Result<Self> {
        let mut sums = Self::new();
        sums.processes = 1;
        let mut threads = KVVec::new();
        let mut next = Pid::MIN;
        loop {
            pause()?;
            let state = process.state.lock();
            let Some(thread) = state.thread_from(next) else {
                sums.spare_transactions = state.spare_transaction.is_some().into();
                break;
            };
            let own = thread.state.access(&state);
            sums.threads += 1;
            sums.idle += u32::from(own.wait_state == WaitState::ForAnyWork);
            sums.completions += own.completions.unread;
            drop(state);
            next = thread.id + 1;
            threads.push(thread, FLAGS)?;
        }
        sums.codes = codes_of(process, &mut threads);
        Ok(sums)
    }
}

/// Returns what a process and these threads of it have counted. Those of them that have ended have
/// given their counters to the process, and are removed.
fn codes_of(process: &Process, threads: &mut KVVec<Arc<Thread>>) -> CodeSum {
    loop {
        // Of a thread that is removed here, the process has the counters when its lock is taken.
        threads.retain(|thread| !thread.name.has_ended());
        let state = process.state.lock();
        let mut codes = CodeSum::new();
        process.code_counts.add_to(&mut codes);
        drop(state);
        // Each turn has fewer threads than the one before.
        if !threads.iter().any(|thread| thread.name.has_ended()) {
            for thread in &*threads {
                thread.name.counts.add_to(&mut codes);
            }
            return codes;
        }
    }
}

impl Snapshot {
    /// Adds up all counters. The figures of each process are read when its lines are written.
    #[inline(never)] // `take` would have its stack frame.
    pub(super) fn stats(&mut self) -> Result {
        let mut visited = KVVec::new();
        for process in opened() {
            pause()?;
            visited.push(Sums::of(&process)?, FLAGS)?;
            self.processes.push(process, FLAGS)?;
        }
        let sums = &mut self.sums;
        let registry = REGISTRY.lock();
        sums.codes = registry.ended_codes.clone();
        let ended = registry.ended;
        drop(registry);
        for (process, of_process) in self.processes.iter().zip(visited) {
            // The sum already includes the counters of processes that had ended.
            if !(1..=ended).contains(&read_once_u64(&process.ended)) {
                sums.codes.add(&of_process.codes);
            }
            if !read_once(&process.has_ended) {
                sums.processes += 1;
                sums.threads += of_process.threads;
                sums.completions += of_process.completions;
                sums.spare_transactions += of_process.spare_transactions;
            }
        }
        self.lines.push(Line::Sums, FLAGS)?;
        for number in 0..self.processes.len() {
            self.lines.push(Line::Stats(number), FLAGS)?;
        }
        self.shown = self.lines.len();
        Ok(())
    }
}

/// Writes the sums over all processes.
pub(super) fn write_sums(sums: &Sums, out: &SeqFile) {
    seq_print!(out, "binder stats:\n");
    show_codes(&sums.codes, "", out);
    // The numbers of calls and replies that were sent.
    let sent = [
        Command::Transaction,
        Command::Reply,
        Command::TransactionSg,
        Command::ReplySg,
    ]
    .map(|command| sums.codes.commands()[command.number()])
    .into_iter()
    .fold(0, u32::wrapping_add);
    let of_kind = |name, kind| {
        let Objects { alive, created } = objects(kind);
        (name, alive, created)
    };
    // A transaction is used for one call after the other: those that are kept for the next one are
    // left out, and each sender counts as one.
    let transactions = objects(Kind::Transaction).alive;
    let transactions = transactions.saturating_sub(sums.spare_transactions);
    for (name, alive, created) in [
        // Records of those that have ended exist as long as a node or a call of theirs does.
        ("proc", sums.processes, objects(Kind::Process).created),
        ("thread", sums.threads, objects(Kind::Thread).created),
        of_kind("node", Kind::Node),
        of_kind("ref", Kind::Ref),
        of_kind("death", Kind::DeathNotification),
        ("transaction", transactions, sent),
        ("transaction_complete", sums.completions, sent),
        of_kind("freeze", Kind::FreezeNotification),
    ] {
        if alive != 0 || created != 0 {
            seq_print!(out, "{name}: active {alive} total {created}\n");
        }
    }
}

/// Writes the figures of a process, which are read now.
#[inline(never)] // Or all that is written has one stack frame.
pub(super) fn write_process(process: &Process, out: &SeqFile) -> Result {
    let sums = Sums::of(process)?;
    let state = process.state.lock();
    let (threads, nodes, pool) = (state.thread_count, state.nodes.len(), state.pool);
    let queued_calls = state.queued_calls;
    drop(state);
    let ranges = process.buffers.ranges.lock();
    let (free_oneway, buffers) = match &*ranges {
        Some(ranges) => (ranges.free_oneway_space(), ranges.in_use()),
        None => (0, 0),
    };
    drop(ranges);
    let [in_use, idle, absent] = count_pages(process);
    // The handles, and the sums of the strong and weak counts on them.
    let (mut refs, mut strong, mut weak) = (0, 0, 0);
    let mut next = Some(0);
    while let Some(from) = next {
        pause()?;
        let handles = process.handles.lock();
        next = handles.table.visit_leaf(from, |_, reference| {
            refs += 1;
            strong += u64::from(reference.strong);
            weak += u64::from(reference.weak);
        });
    }
    write_names(process, out);
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
    seq_print!(out, "  free async space {free_oneway}\n");
    seq_print!(out, "  nodes: {nodes}\n");
    seq_print!(out, "  refs: {refs} s {strong} w {weak}\n");
    seq_print!(out, "  buffers: {buffers}\n");
    seq_print!(out, "  pages: {in_use}:{idle}:{absent}\n");
    let high_watermark = process.pages.high_watermark();
    seq_print!(out, "  pages high watermark: {high_watermark}\n");
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

/// The number of pages that are looked up while the lock of the ranges is held.
const PAGES_AT_ONCE: usize = 16;

/// Returns three numbers of pages of a process: present with a byte of a buffer, present without
/// one (these can be reclaimed), and absent.
fn count_pages(process: &Process) -> [u32; 3] {
    let mut counts = [0; 3];
    // Without a mapping none are counted, as by the C driver.
    let is_mapped = process.pages.is_mapped();
    let size = if is_mapped { process.pages.size() } else { 0 };
    let pages = size / PAGE_SIZE;
    for first in (0..pages).step_by(PAGES_AT_ONCE) {
        let some = first..pages.min(first + PAGES_AT_ONCE);
        let present = process.pages.present_in(some.clone());
        let buffers = process.buffers.ranges.lock();
        let ranges = (*buffers).as_ref();
        let is_used = |start| ranges.is_some_and(|ranges| ranges.touches(start, start + PAGE_SIZE));
        for (bit, page) in some.enumerate() {
            let kind = match present >> bit & 1 {
                0 => 2,
                _ => usize::from(!is_used(page * PAGE_SIZE)),
            };
            counts[kind] += 1;
        }
    }
    counts
}
