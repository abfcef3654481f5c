// SPDX-License-Identifier: GPL-2.0

//! `transaction_log` and `failed_transaction_log`: the newest calls and replies of all devices
//! together, in the order in which they were logged (contract, section 15).

use super::{
    lines::{DeviceName, Line},
    sort_by_key,
    Log,
    Snapshot,
    FLAGS, //
};
use crate::{
    common::transaction_log::{self, CallType, Entry, TransactionLog},
    kernel_ext::{cpu_rings::RECORDS, sched, time::Cycles}, //
};
use core::cmp::Reverse;
use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

/// The cycles in which entries are logged while the log is read, and by which CPUs' counters
/// differ: more than there are. What was logged later than that seems oldest: it was logged before
/// a counter that has begun anew, as some do when the machine sleeps.
const LOGGED_MEANWHILE: u64 = 1 << 40;

/// Returns how old an entry is next to others. One that is not complete is being logged now.
fn age(entry: &Entry, ahead: Cycles) -> u64 {
    if entry.is_complete {
        ahead.since(entry.at)
    } else {
        0
    }
}

impl Snapshot {
    /// Copies the newest entries of a log, at most [`RECORDS`]. `ENOMEM`.
    pub(super) fn newest(&mut self, log: Log) -> Result {
        // A moment to come, so that what is behind it most is the oldest.
        let ahead = Cycles::now().later(LOGGED_MEANWHILE);
        self.sent.reserve(RECORDS, FLAGS)?;
        let mut from = Some(0);
        while let Some((key, device)) = from.and_then(transaction_log::first_from) {
            if log == Log::Sent {
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
    fn offer(&mut self, entry: Entry, device: &Arc<TransactionLog>, ahead: Cycles) {
        let age = |entry: &Entry| age(entry, ahead);
        let mut known = self.sent.iter_mut();
        if let Some((same, _)) = known.find(|(other, _)| other.id == entry.id) {
            // What has failed at last was logged as queued before.
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

/// Writes an entry.
pub(super) fn write(entry: &Entry, device: &TransactionLog, out: &SeqFile) {
    let call_type = match entry.call_type {
        CallType::Call => "call ",
        CallType::Oneway => "async",
        CallType::Reply => "reply",
    };
    // CAST: All numbers are shown as signed ones, as the C driver does.
    seq_print!(
        out,
        "{}: {call_type} from {}:{} to {}:{} context {} node {} handle {} size {}:{} ret {}/{} l={}{}\n",
        entry.id as i32,
        entry.from.pid,
        entry.from.tid,
        entry.to.pid,
        entry.to.tid,
        DeviceName(device.device.to_bytes()),
        entry.node as i32,
        entry.handle as i32,
        entry.data_size as i32,
        entry.offsets_size as i32,
        entry.return_code,
        entry.param,
        entry.line,
        if entry.is_complete { "" } else { " (incomplete)" }
    );
}
