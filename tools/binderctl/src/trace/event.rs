// SPDX-License-Identifier: GPL-2.0
//! The events that tell of calls, and how records become events.

use super::format::Format;
use super::format::Slot;

/// A number of a process or a thread, or 0.
pub type Pid = i32;

/// The number of a transaction or a node.
pub type Id = i32;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the monotonic clock.
    pub time: u64,
    /// On which thread.
    pub thread: Pid,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A call or a reply was sent.
    Sent(Sent),
    /// The thread was given a call or a reply.
    Received(Id),
    /// A transaction has a buffer of this size.
    Buffer(Id, Size),
    /// A transaction that has a buffer does not go through.
    Undone(Id),
    /// A oneway call was dropped for a newer one.
    Superseded(Id),
    /// The thread was told of a failure, by a `BR_*` code.
    Failed(u32),
    /// The thread has ended.
    Ended,
    /// So many events are missing before this time, at least.
    Lost(u64),
}

/// A transaction, as it is when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub id: Id,
    /// The node that is called; 0 for a reply.
    pub node: Id,
    /// The process that it goes to.
    pub to_process: Pid,
    /// The thread that it goes to; 0: any one of its process.
    pub to_thread: Pid,
    /// Whether it is a reply.
    pub is_reply: bool,
    /// What is asked for.
    pub code: u32,
    /// Its `TF_*` flags.
    pub flags: u32,
}

/// Bytes of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Size {
    /// Data.
    pub data: u64,
    /// Offsets of the objects in it.
    pub offsets: u64,
    /// What its pointers point to.
    pub extra: u64,
}

/// An event of the kernel that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: &'static str,
    /// Whether calls cannot be followed without it.
    pub needed: bool,
    /// What is not known without it.
    pub tells: &'static str,
    read: fn(&Format) -> Option<Read>,
}

/// How the records of one event are read.
#[derive(Clone, Copy, Debug)]
enum Read {
    Sent([Slot; 7]),
    Received(Slot),
    Buffer([Slot; 4]),
    Undone(Slot),
    Superseded(Slot),
    Failed(Slot),
    Ended,
}

/// The events of a Binder driver, in a system whose name depends on the driver.
pub const OF_DRIVER: [Wanted; 6] = [
    Wanted {
        name: "binder_transaction",
        needed: true,
        tells: "calls",
        read: |format| {
            let slot = |name| format.slot(name);
            Some(Read::Sent([
                slot("debug_id")?,
                slot("target_node")?,
                slot("to_proc")?,
                slot("to_thread")?,
                slot("reply")?,
                slot("code")?,
                slot("flags")?,
            ]))
        },
    },
    Wanted {
        name: "binder_transaction_received",
        needed: true,
        tells: "when calls arrive",
        read: |format| format.slot("debug_id").map(Read::Received),
    },
    Wanted {
        name: "binder_transaction_alloc_buf",
        needed: false,
        tells: "sizes",
        read: |format| {
            let slot = |name| format.slot(name);
            Some(Read::Buffer([
                slot("debug_id")?,
                slot("data_size")?,
                slot("offsets_size")?,
                slot("extra_buffers_size")?,
            ]))
        },
    },
    Wanted {
        name: "binder_transaction_failed_buffer_release",
        needed: false,
        tells: "which oneway calls fail",
        read: |format| format.slot("debug_id").map(Read::Undone),
    },
    Wanted {
        name: "binder_transaction_update_buffer_release",
        needed: false,
        tells: "which oneway calls are superseded",
        read: |format| format.slot("debug_id").map(Read::Superseded),
    },
    Wanted {
        name: RETURNS,
        needed: false,
        tells: "failures",
        read: |format| format.slot("cmd").map(Read::Failed),
    },
];

/// The event of everything that a thread is told, of which only [`FAILURES`] are wanted.
pub const RETURNS: &str = "binder_return";

/// What a thread is told of a call that failed.
pub const FAILURES: [u32; 3] = {
    use binder_sys::codes::*;
    [BR_FAILED_REPLY, BR_DEAD_REPLY, BR_FROZEN_REPLY]
};

/// The event of threads that end, in the system `sched`.
pub const OF_SCHEDULER: Wanted = Wanted {
    name: "sched_process_exit",
    needed: false,
    tells: "callers that end before their calls",
    read: |_| Some(Read::Ended),
};

/// Makes events of records.
#[derive(Debug, Default)]
pub struct Decoder {
    common: Option<(Slot, Slot)>,
    readers: Vec<(i64, Read)>,
}

impl Decoder {
    /// Takes an event by its `format` file; whether that has all that is needed of it.
    pub fn add(&mut self, wanted: &Wanted, format: &str) -> bool {
        let add = || {
            let format = Format::parse(format)?;
            let common = (format.slot("common_type")?, format.slot("common_pid")?);
            Some((common, format.id, (wanted.read)(&format)?))
        };
        let Some((common, id, read)) = add() else { return false };
        self.common = Some(common);
        self.readers.push((id, read));
        true
    }

    /// The event of a record; none if it is none of those that are wanted, or too short.
    pub fn decode(&self, time: u64, record: &[u8]) -> Option<Event> {
        let (kind, thread) = self.common?;
        let kind = kind.read(record)?;
        let (_, read) = self.readers.iter().find(|(id, _)| *id == kind)?;
        let id = |slot: &Slot| slot.read(record).map(|id| id as Id);
        let what = match read {
            Read::Sent(slots) => What::Sent(sent(slots, record)?),
            Read::Received(slot) => What::Received(id(slot)?),
            Read::Buffer([debug_id, sizes @ ..]) => {
                let [data, offsets, extra] = sizes.map(|slot| slot.read(record).map(|size| size as u64));
                What::Buffer(id(debug_id)?, Size { data: data?, offsets: offsets?, extra: extra? })
            }
            Read::Undone(slot) => What::Undone(id(slot)?),
            Read::Superseded(slot) => What::Superseded(id(slot)?),
            Read::Failed(slot) => What::Failed(slot.read(record)? as u32),
            Read::Ended => What::Ended,
        };
        Some(Event { time, thread: thread.read(record)? as Pid, what })
    }
}

fn sent(slots: &[Slot; 7], record: &[u8]) -> Option<Sent> {
    let [id, node, to_process, to_thread, reply, code, flags] = slots.map(|slot| slot.read(record));
    Some(Sent {
        id: id? as Id,
        node: node? as Id,
        to_process: to_process? as Pid,
        to_thread: to_thread? as Pid,
        is_reply: reply? != 0,
        code: code? as u32,
        flags: flags? as u32,
    })
}
