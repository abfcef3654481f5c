// SPDX-License-Identifier: GPL-2.0
//! The events that describe calls, and how records become events.

use super::ring::{Format, Slot};

/// A number of a process or a thread, or 0.
pub type Pid = i32;

/// The number of a transaction or a node.
pub type Id = i32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the monotonic clock.
    pub time: u64,
    pub thread: Pid,
    pub what: What,
}

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
    /// The thread got a failure, by a `BR_*` code.
    Failed(u32),
    /// The thread has ended.
    Ended,
    /// So many events are missing before this time, at least.
    Lost(u64),
}

/// A transaction, as it is when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub id: Id,
    /// The target node; 0 for a reply.
    pub node: Id,
    /// The process that it goes to.
    pub to_process: Pid,
    /// The thread that it goes to; 0: any one of its process.
    pub to_thread: Pid,
    pub is_reply: bool,
    pub code: u32,
    pub flags: u32,
}

/// Bytes of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Size {
    pub data: u64,
    /// Offsets of the objects in it.
    pub offsets: u64,
    /// The data behind its pointers.
    pub extra: u64,
}

/// An event of the kernel to record.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub name: &'static str,
    pub needed: bool,
    /// The information that is missing without the event.
    pub tells: &'static str,
    fields: &'static [&'static str],
    /// Makes the event of its fields.
    make: fn(&[i64]) -> What,
}

/// The events of a Binder driver, in a system whose name depends on the driver.
pub const OF_DRIVER: [Wanted; 6] = [
    Wanted {
        name: "binder_transaction",
        needed: true,
        tells: "calls",
        fields: &["debug_id", "target_node", "to_proc", "to_thread", "reply", "code", "flags"],
        make: |fields| {
            What::Sent(Sent {
                id: fields[0] as Id,
                node: fields[1] as Id,
                to_process: fields[2] as Pid,
                to_thread: fields[3] as Pid,
                is_reply: fields[4] != 0,
                code: fields[5] as u32,
                flags: fields[6] as u32,
            })
        },
    },
    Wanted {
        name: "binder_transaction_received",
        needed: true,
        tells: "when calls arrive",
        fields: &["debug_id"],
        make: |fields| What::Received(fields[0] as Id),
    },
    Wanted {
        name: "binder_transaction_alloc_buf",
        needed: false,
        tells: "sizes",
        fields: &["debug_id", "data_size", "offsets_size", "extra_buffers_size"],
        make: |fields| {
            let [data, offsets, extra] = [1, 2, 3].map(|at| fields[at] as u64);
            What::Buffer(fields[0] as Id, Size { data, offsets, extra })
        },
    },
    Wanted {
        name: "binder_transaction_failed_buffer_release",
        needed: false,
        tells: "which oneway calls fail",
        fields: &["debug_id"],
        make: |fields| What::Undone(fields[0] as Id),
    },
    Wanted {
        name: "binder_transaction_update_buffer_release",
        needed: false,
        tells: "which oneway calls are superseded",
        fields: &["debug_id"],
        make: |fields| What::Superseded(fields[0] as Id),
    },
    Wanted {
        name: RETURNS,
        needed: false,
        tells: "failures",
        fields: &["cmd"],
        make: |fields| What::Failed(fields[0] as u32),
    },
];

/// The event of every return code that a thread reads, of which only [`FAILURES`] are recorded.
pub const RETURNS: &str = "binder_return";

/// The return codes of a failed call.
pub const FAILURES: [u32; 3] = {
    use binder_sys::codes::*;
    [BR_FAILED_REPLY, BR_DEAD_REPLY, BR_FROZEN_REPLY]
};

pub const OF_SCHEDULER: Wanted = Wanted {
    name: "sched_process_exit",
    needed: false,
    tells: "callers that end before their calls",
    fields: &[],
    make: |_| What::Ended,
};

/// The number of an event, where its fields are, and what they make.
type Reader = (i64, Vec<Slot>, fn(&[i64]) -> What);

/// Makes events of records.
#[derive(Debug, Default)]
pub struct Decoder {
    common: Option<(Slot, Slot)>,
    readers: Vec<Reader>,
}

impl Decoder {
    /// Adds an event by its `format` file. Returns true if that has all needed fields.
    pub fn add(&mut self, wanted: &Wanted, format: &str) -> bool {
        let add = || {
            let format = Format::parse(format)?;
            let common = (format.slot("common_type")?, format.slot("common_pid")?);
            let slots = wanted.fields.iter().map(|name| format.slot(name)).collect::<Option<_>>()?;
            Some((common, (format.id, slots, wanted.make)))
        };
        let Some((common, reader)) = add() else { return false };
        self.common = Some(common);
        self.readers.push(reader);
        true
    }

    /// The event of a record; `None` if it is not recorded, or too short.
    pub fn decode(&self, time: u64, record: &[u8]) -> Option<Event> {
        let (kind, thread) = self.common?;
        let kind = kind.read(record)?;
        let (_, slots, make) = self.readers.iter().find(|(id, ..)| *id == kind)?;
        let mut fields = [0; 7];
        for (field, slot) in fields.iter_mut().zip(slots) {
            *field = slot.read(record)?;
        }
        Some(Event { time, thread: thread.read(record)? as Pid, what: make(&fields) })
    }
}
