// SPDX-License-Identifier: GPL-2.0

//! What was sent through a device lately, and what failed: the log files `transaction_log` and
//! `failed_transaction_log`.
//!
//! A call or a reply is logged when it is about to be queued, in the rings of the CPU
//! ([`CpuRings`]), and when it has failed, in one ring of the device. The CPUs' counters of cycles
//! put all of them in the order in which they were logged, since debug ids do not rise from one
//! process to another. Of two entries with the same id the one in the ring of the device is valid.

use crate::{
    common::{failure::Failure, netlink::Party},
    defs::{TransactionRequest, TF_ONE_WAY},
    kernel_ext::{
        cpu_rings::{CpuRings, Ring},
        cycles::Cycles, //
    }, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    str::{CStr, CString},
    sync::{
        lock::{spinlock::SpinLockBackend, Guard},
        Arc,
        SpinLock, //
    }, //
};

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Call = 0,
    Oneway = 1,
    Reply = 2,
}

impl Kind {
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

/// A call or a reply.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) kind: Kind,
    pub(crate) from: Party,
    /// Whom it is for; all 0 if that is not known.
    pub(crate) to: Party,
    /// The debug id of the node; 0 if it is not known, and for a reply.
    pub(crate) node: u32,
    pub(crate) handle: u32,
    /// The sizes that the sender has named, of which 32 bits are shown.
    pub(crate) data_size: u32,
    pub(crate) offsets_size: u32,
}

/// The number of words of a record: when it was made, and nine about what is sent.
const WORDS: usize = 11;

impl Sent {
    /// Returns what is sent with a request.
    #[inline(always)]
    pub(crate) fn new(
        kind: Kind,
        request: &TransactionRequest,
        from: Party,
        to: Party,
        node: u32,
    ) -> Self {
        Self {
            kind,
            from,
            to,
            node,
            handle: request.handle,
            // CAST: As said above.
            data_size: request.data_size as u32,
            offsets_size: request.offsets_size as u32,
        }
    }

    #[inline(always)]
    fn words(&self) -> [u32; WORDS] {
        let [now_low, now_high] = Cycles::now().halves();
        // CAST: Only signs change.
        [
            now_low,
            now_high,
            self.kind as u32,
            self.from.pid as u32,
            self.from.tid as u32,
            self.to.pid as u32,
            self.to.tid as u32,
            self.node,
            self.handle,
            self.data_size,
            self.offsets_size,
        ]
    }

    /// Returns what the words of a record say, and when it was made.
    fn of_words(words: [u32; WORDS]) -> (Cycles, Self) {
        let [at_low, at_high, kind, from_pid, from_tid, to_pid, to_tid, node, handle, data_size, offsets_size] =
            words;
        let party = |pid, tid| Party {
            // CAST: As above.
            pid: pid as i32,
            tid: tid as i32,
        };
        let sent = Self {
            kind: match kind {
                0 => Kind::Call,
                1 => Kind::Oneway,
                _ => Kind::Reply,
            },
            from: party(from_pid, from_tid),
            to: party(to_pid, to_tid),
            node,
            handle,
            data_size,
            offsets_size,
        };
        (Cycles::of_halves([at_low, at_high]), sent)
    }
}

/// What the log has of a call or a reply.
pub(crate) struct Entry {
    /// Its debug id.
    pub(crate) id: u32,
    /// When it was logged; some other moment if the entry is not complete.
    pub(crate) at: Cycles,
    pub(crate) sent: Sent,
    /// Why it failed; all 0 if it did not.
    pub(crate) refusal: Refusal,
    /// Whether everything in `sent` is about this call.
    pub(crate) is_complete: bool,
}

/// A [`Failure`] in numbers.
#[derive(Default)]
pub(crate) struct Refusal {
    pub(crate) return_code: u32,
    pub(crate) param: i32,
    pub(crate) line: u32,
}

/// The log of one device.
#[pin_data]
pub(crate) struct TransactionLog {
    /// The name that the device was made with.
    pub(crate) device: CString,
    queued: CpuRings<WORDS>,
    failed: KBox<Ring<FAILED_WORDS>>,
    /// Held while an entry is added to `failed`. An innermost lock.
    #[pin]
    failing: SpinLock<()>,
}

/// The number of words of a record of what failed.
const FAILED_WORDS: usize = WORDS + 3;

impl TransactionLog {
    fn new(device: &CStr) -> Result<Arc<Self>> {
        let device = device.to_cstring()?;
        let queued = CpuRings::new(GFP_KERNEL_ACCOUNT)?;
        let failed = Ring::new(GFP_KERNEL_ACCOUNT)?;
        Arc::pin_init(
            pin_init!(Self {
                device,
                queued,
                failed,
                failing <- new_spinlock!((), "TransactionLog::failing"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Logs a call or a reply that has been queued under the lock of the guard.
    #[inline(always)]
    pub(crate) fn add<T>(&self, guard: &Guard<'_, T, SpinLockBackend>, id: u32, sent: &Sent) {
        self.queued.push(guard, id, sent.words());
    }

    /// Logs a call or a reply that has failed.
    #[cold]
    pub(crate) fn add_failed(&self, id: u32, sent: &Sent, error: Failure) {
        let mut words = [0; FAILED_WORDS];
        words[..WORDS].copy_from_slice(&sent.words());
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
            let (at, sent) = Sent::of_words(record.words);
            each(Entry {
                id: record.number,
                at,
                sent,
                refusal: Refusal::default(),
                is_complete: record.is_complete,
            });
        });
    }

    /// Calls `each` with the newest entries of those that failed, in no particular order.
    pub(crate) fn failed(&self, mut each: impl FnMut(Entry)) {
        self.failed.read(|record| {
            let [words @ .., return_code, param, line] = record.words;
            let (at, sent) = Sent::of_words(words);
            each(Entry {
                id: record.number,
                at,
                sent,
                refusal: Refusal {
                    return_code,
                    // CAST: As above.
                    param: param as i32,
                    line,
                },
                is_complete: record.is_complete,
            });
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
        let log = TransactionLog::new(device)?;
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
