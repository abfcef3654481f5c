// SPDX-License-Identifier: GPL-2.0

//! The latest calls and replies of a device, and the latest failures: the log files
//! `transaction_log` and `failed_transaction_log`.
//!
//! A call or a reply that is about to be queued is logged in the rings of the CPU ([`Rings`]). One
//! that has failed is logged in one ring of the device. The CPUs' counters of cycles put all of
//! them in the order in which they were logged, since debug ids do not rise from one process to
//! another. Of two entries with the same id the one in the ring of the device is valid.

use crate::{
    common::{failure::Failure, netlink::Party},
    defs::{TransactionRequest, TF_ONE_WAY},
    kernel_ext::{
        clocks,
        cpu_rings::{Record, Rings},
        spin_lock::{new_spin_lock, SpinLock}, //
    }, //
};
use kernel::{
    cpu::nr_cpu_ids,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    str::{CStr, CString},
    sync::Arc, //
};

/// The type of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum CallType {
    Call = 0,
    Oneway = 1,
    Reply = 2,
}

impl CallType {
    /// Returns what a call with these flags is.
    #[inline(always)]
    pub(crate) fn of_call(flags: u32) -> Self {
        if flags & TF_ONE_WAY == 0 {
            Self::Call
        } else {
            Self::Oneway
        }
    }
}

/// The number of words of a record: when it was made, and nine about what is sent.
const WORDS: usize = 11;

/// The record of a call or a reply.
pub(crate) type LogRecord = [u32; WORDS];

/// Returns the record of what is sent with a request. `to` is whom it is for; all 0 if that is not
/// known. `node` is the debug id of the node; 0 if it is not known, and for a reply.
#[inline(always)]
pub(crate) fn record(
    call_type: CallType,
    request: &TransactionRequest,
    from: Party,
    to: Party,
    node: u32,
) -> LogRecord {
    let now = clocks::cycles();
    // CAST: The time has two words. Else only signs change. Of the sizes that the sender has named,
    // 32 bits are shown.
    [
        now as u32,
        (now >> 32) as u32,
        call_type as u32,
        from.pid as u32,
        from.tid as u32,
        to.pid as u32,
        to.tid as u32,
        node,
        request.handle,
        request.data_size as u32,
        request.offsets_size as u32,
    ]
}

/// The entry of a call or a reply in the log.
pub(crate) struct Entry {
    /// Its debug id.
    pub(crate) id: u32,
    /// The [time](clocks::cycles) when it was logged; another time if the entry is not complete.
    pub(crate) at: u64,
    pub(crate) call_type: CallType,
    pub(crate) from: Party,
    pub(crate) to: Party,
    pub(crate) node: u32,
    pub(crate) handle: u32,
    pub(crate) data_size: u32,
    pub(crate) offsets_size: u32,
    /// Why it failed: a [`Failure`] in numbers; all 0 if it did not.
    pub(crate) return_code: u32,
    pub(crate) param: i32,
    pub(crate) line: u32,
    /// True if all fields are about this call.
    pub(crate) is_complete: bool,
}

impl Entry {
    /// Returns the entry of a record, which has these words about what is sent, and why it failed.
    fn new<const N: usize>(
        record: &Record<N>,
        words: LogRecord,
        failure: [u32; FAILURE_WORDS],
    ) -> Self {
        let [at_low, at_high, call_type, from_pid, from_tid, to_pid, to_tid, node, handle, data_size, offsets_size] =
            words;
        let [return_code, param, line] = failure;
        // CAST: As above.
        let party = |pid: u32, tid: u32| Party {
            pid: pid as i32,
            tid: tid as i32,
        };
        Self {
            id: record.number,
            at: u64::from(at_low) | u64::from(at_high) << 32,
            call_type: match call_type {
                0 => CallType::Call,
                1 => CallType::Oneway,
                _ => CallType::Reply,
            },
            from: party(from_pid, from_tid),
            to: party(to_pid, to_tid),
            node,
            handle,
            data_size,
            offsets_size,
            return_code,
            param: param as i32,
            line,
            is_complete: record.is_complete,
        }
    }
}

/// The log of one device.
#[pin_data]
pub(crate) struct TransactionLog {
    /// The name that the device was made with.
    pub(crate) device: CString,
    /// The calls and the replies that are queued, each added under the state lock of the process
    /// that it is queued for.
    pub(crate) queued: Rings<WORDS>,
    failed: Rings<FAILED_WORDS>,
    /// Held while an entry is added to `failed`. An innermost lock.
    #[pin]
    failing: SpinLock<()>,
}

/// The number of words about why something failed, and of a record of that.
const FAILURE_WORDS: usize = 3;
const FAILED_WORDS: usize = WORDS + FAILURE_WORDS;

impl TransactionLog {
    /// Logs a call or a reply that has failed.
    #[cold]
    pub(crate) fn add_failed(&self, id: u32, record: LogRecord, error: Failure) {
        let mut words = [0; FAILED_WORDS];
        words[..WORDS].copy_from_slice(&record);
        // CAST: Only the sign changes.
        words[WORDS..].copy_from_slice(&[
            error.return_code().code(),
            i32::from(error.errno) as u32,
            error.line.into(),
        ]);
        let guard = self.failing.lock();
        self.failed.push(&guard, id, words);
    }

    /// Calls `each` with the newest entries of those that were queued, for each CPU, in no
    /// particular order.
    pub(crate) fn queued(&self, mut each: impl FnMut(Entry)) {
        self.queued.read(|record| {
            each(Entry::new(&record, record.words, [0; FAILURE_WORDS]));
        });
    }

    /// Calls `each` with the newest entries of those that failed, in no particular order.
    pub(crate) fn failed(&self, mut each: impl FnMut(Entry)) {
        self.failed.read(|record| {
            let [words @ .., return_code, param, line] = record.words;
            each(Entry::new(&record, words, [return_code, param, line]));
        });
    }
}

kernel::sync::global_lock! {
    // SAFETY: `ffi::Devices::make` initialises the lock before a device exists that can be opened.
    pub(crate) unsafe(uninit) static LOGS: SpinLock<Option<RBTree<usize, Arc<TransactionLog>>>> = None;
}

/// The log of a device, which readers find as long as this value exists.
pub(crate) struct Published(pub(crate) Arc<TransactionLog>);

impl Published {
    /// Makes the log of a device. `ENOMEM`.
    pub(crate) fn new(device: &CStr) -> Result<Self> {
        let device = device.to_cstring()?;
        let queued = Rings::new(nr_cpu_ids(), GFP_KERNEL_ACCOUNT)?;
        let failed = Rings::new(1, GFP_KERNEL_ACCOUNT)?;
        let log = Arc::pin_init(
            pin_init!(TransactionLog {
                device,
                queued,
                failed,
                failing <- new_spin_lock!((), "TransactionLog::failing"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let node = RBTreeNode::new(key(&log), log.clone(), GFP_KERNEL)?;
        LOGS.lock().get_or_insert_with(RBTree::new).insert(node);
        Ok(Self(log))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let mut logs = LOGS.lock();
        let node = logs
            .as_mut()
            .and_then(|tree| tree.remove_node(&key(&self.0)));
        drop(logs);
        drop(node);
    }
}

/// Returns the key of a log: its address, which no other log has while it exists.
fn key(log: &Arc<TransactionLog>) -> usize {
    Arc::as_ptr(log).addr()
}

/// Returns the first log whose key is not less than `from`, and the key.
pub(crate) fn first_from(from: usize) -> Option<(usize, Arc<TransactionLog>)> {
    let logs = LOGS.lock();
    let cursor = (*logs).as_ref()?.cursor_lower_bound(&from)?;
    let (key, log) = cursor.current();
    Some((*key, log.clone()))
}
