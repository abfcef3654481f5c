// SPDX-License-Identifier: GPL-2.0
//! A process's block of lines in `state`, `transactions` and `proc/<pid>`.

use crate::scan::{DebugId, Pid, Pointer, Scan, Task};
use binder_sys::TransactionFlags;

bitflags::bitflags! {
    /// The role and the activity of a thread.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Looper: u32 {
        /// It joined the pool at the driver's request.
        const REGISTERED = 0x01;
        /// It joined the pool by itself.
        const ENTERED = 0x02;
        /// It has left the pool.
        const EXITED = 0x04;
        /// It has sent looper commands that exclude each other.
        const INVALID = 0x08;
        /// It sleeps in a read.
        const WAITING = 0x10;
        /// It has polled.
        const POLL = 0x20;
        const _ = !0;
    }
}

/// A process that has a device open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub pid: Pid,
    pub context: String,
    pub threads: Vec<Thread>,
    pub nodes: Vec<Node>,
    pub references: Vec<Reference>,
    /// The buffers in its space, delivered or not.
    pub buffers: Vec<Buffer>,
    /// The work that any of its threads can take.
    pub work: Vec<Work>,
    /// True if it got a death notification and has not acknowledged it.
    pub has_delivered_death: bool,
    pub has_delivered_freeze: bool,
}

/// A thread that has used the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub id: Pid,
    pub looper: Looper,
    /// True if its next read returns even without work.
    pub need_return: bool,
    pub temporary_references: Option<i64>,
    /// The calls that it makes and serves, the innermost first.
    pub stack: Vec<StackEntry>,
    pub work: Vec<Work>,
}

/// A call of a thread's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackEntry {
    pub role: Role,
    pub transaction: Transaction,
}

/// A thread's part in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has sent it.
    Outgoing,
    /// It serves it.
    Incoming,
    /// Neither, which is a fault of the driver.
    Bad,
}

/// An object that its process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: DebugId,
    pub ptr: Pointer,
    pub cookie: Pointer,
    /// True if the process has been notified of strong references.
    pub has_strong: bool,
    pub has_weak: bool,
    pub counts: NodeCounts,
    /// The processes that have a handle on it, each for each of its devices.
    pub holders: Vec<Pid>,
    /// Oneway calls that wait for the one before them.
    pub work: Vec<Work>,
}

/// Counts of what keeps a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCounts {
    /// As the C driver counts.
    Full {
        /// Strong ones of transactions and of the context.
        local_strong: i64,
        /// Weak ones of the same.
        local_weak: i64,
        internal_strong: i64,
        references: i64,
        temporary: i64,
    },
    /// As upstream's driver counts.
    Summed { strong: i64, weak: i64 },
}

/// A handle on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub id: DebugId,
    pub handle: i64,
    pub is_dead: bool,
    pub node: DebugId,
    pub strong: i64,
    pub weak: i64,
    /// The death notification requested for the node, hashed; null: none. Upstream's driver does not print it.
    pub death: Option<Pointer>,
}

/// A buffer in a process's space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    pub id: Option<DebugId>,
    pub offset: u64,
    /// Bytes of data; with upstream's driver, of all that is in it.
    pub data_size: i64,
    pub offsets_size: Option<i64>,
    /// Bytes of what pointers in it point to.
    pub extra_size: Option<i64>,
    pub state: BufferState,
    /// The sender. Only upstream's driver prints it.
    pub sender: Option<Pid>,
    /// True for a oneway call. Only upstream's driver prints it.
    pub is_oneway: Option<bool>,
}

/// The state of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferState {
    /// Its transaction has not ended.
    Active,
    /// The process has it, and has not given it back.
    Delivered,
}

/// A call, a oneway call or a reply that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub id: DebugId,
    /// The kernel's address of it, hashed. Upstream's driver does not print it.
    pub address: Option<Pointer>,
    pub from: Task,
    /// The target. Its thread is 0 until one has taken the transaction, and always with upstream's driver.
    pub to: Task,
    pub code: u32,
    pub flags: u32,
    /// The nice value, or the real-time priority, that it is served with. Upstream's driver does not print it.
    pub priority: Option<i64>,
    pub is_async: bool,
    pub is_reply: Option<bool>,
    pub elapsed_ms: i64,
    pub held: Held,
}

/// A line's description of a transaction's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing: the buffer is another process's.
    Elsewhere,
    /// The buffer has been given back.
    Free,
    /// The process whose line it is has it.
    Here {
        /// The target node; none for a reply.
        node: Option<DebugId>,
        data_size: i64,
        offsets_size: i64,
        /// The offset in the process's space. Upstream's driver does not print it.
        offset: Option<u64>,
    },
}

/// Work that a thread will read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Transaction(Transaction),
    /// That its call has failed, with this `BR_` code.
    Error(u32),
    Complete,
    Node {
        id: DebugId,
        ptr: Pointer,
        cookie: Pointer,
    },
    DeadBinder,
    ClearedDeadBinder,
    ClearedDeath,
    FrozenBinder,
    ClearedFreeze,
    /// Something that the driver has no words for, with its number: the completion of a oneway call that may be one
    /// too many, or to a frozen process.
    Unknown(i64),
    /// The rest of a queue that is too long to be listed.
    More,
}

impl Work {
    /// The call or reply that it is.
    pub fn transaction(&self) -> Option<&Transaction> {
        match self {
            Work::Transaction(transaction) => Some(transaction),
            _ => None,
        }
    }
}

impl Process {
    /// Calls that wait for any of its threads, or behind a oneway call to the same object.
    pub fn queued(&self) -> impl Iterator<Item = &Transaction> {
        let of_nodes = self.nodes.iter().flat_map(|node| &node.work);
        self.work.iter().chain(of_nodes).filter_map(Work::transaction)
    }
}

pub(crate) fn thread(scan: &mut Scan) -> Option<Thread> {
    let id = scan.number("thread ")?;
    let looper = Looper::from_bits_retain(scan.hex32(": l ")?);
    let need_return = scan.flag(" need_return ")?;
    let temporary_references = scan.maybe(|scan| scan.number(" tr "));
    let is_whole = scan.lenient || temporary_references.is_some();
    let (stack, work) = (Vec::new(), Vec::new());
    is_whole.then_some(Thread { id, looper, need_return, temporary_references, stack, work })
}

/// The words for a thread's part in a call.
const ROLES: [(&str, Role); 3] =
    [("outgoing", Role::Outgoing), ("incoming", Role::Incoming), ("bad", Role::Bad)];

pub(crate) fn stack_entry(scan: &mut Scan) -> Option<StackEntry> {
    let role = scan.one_of(&ROLES)?;
    scan.word(" transaction ")?;
    Some(StackEntry { role, transaction: transaction(scan)? })
}

/// A oneway call that waits for the one before it to the same node.
pub(crate) fn queued(scan: &mut Scan) -> Option<Work> {
    scan.word("pending async transaction ")?;
    transaction(scan).map(Work::Transaction)
}

/// The words for work that they are all of.
const SIMPLE: [(&str, Work); 7] = [
    ("transaction complete", Work::Complete),
    ("has dead binder", Work::DeadBinder),
    ("has cleared dead binder", Work::ClearedDeadBinder),
    ("has cleared death notification", Work::ClearedDeath),
    ("has frozen binder", Work::FrozenBinder),
    ("has cleared freeze notification", Work::ClearedFreeze),
    ("more than 1024", Work::More),
];

/// Work of any kind. Upstream's driver marks work that will not be delivered.
pub(crate) fn work(scan: &mut Scan) -> Option<Work> {
    if scan.lenient {
        scan.has("(skipped) ");
    }
    if scan.has("pending transaction ") {
        transaction(scan).map(Work::Transaction)
    } else if scan.has("transaction error: ") {
        scan.number("").map(Work::Error)
    } else if scan.has("node work ") {
        let id = scan.number("")?;
        Some(Work::Node { id, ptr: scan.pointer(": u")?, cookie: scan.pointer(" c")? })
    } else if scan.has("unknown work: type ") {
        scan.number("").map(Work::Unknown)
    } else {
        scan.one_of(&SIMPLE)
    }
}

pub(crate) fn node(scan: &mut Scan) -> Option<Node> {
    Some(Node {
        id: scan.number("node ")?,
        ptr: scan.pointer(": u")?,
        cookie: scan.pointer(" c")?,
        has_strong: scan.flag(" hs ")?,
        has_weak: scan.flag(" hw ")?,
        counts: match scan.lenient && scan.rest.starts_with(" cs ") {
            true => NodeCounts::Summed { strong: scan.number(" cs ")?, weak: scan.number(" cw ")? },
            false => NodeCounts::Full {
                local_strong: scan.number(" ls ")?,
                local_weak: scan.number(" lw ")?,
                internal_strong: scan.number(" is ")?,
                references: scan.number(" iw ")?,
                temporary: scan.number(" tr ")?,
            },
        },
        holders: match scan.has(" proc") {
            true => std::iter::from_fn(|| scan.maybe(|scan| scan.number(" "))).collect(),
            false => Vec::new(),
        },
        work: Vec::new(),
    })
}

pub(crate) fn reference(scan: &mut Scan) -> Option<Reference> {
    let reference = Reference {
        id: scan.number("ref ")?,
        handle: scan.number(": desc ")?,
        is_dead: scan.has(" dead"),
        node: scan.number(" node ")?,
        strong: scan.number(" s ")?,
        weak: scan.number(" w ")?,
        death: scan.maybe(|scan| scan.pointer(" d ")),
    };
    (scan.lenient || reference.death.is_some()).then_some(reference)
}

/// The C driver's words for how far a buffer is.
const STATES: [(&str, BufferState); 2] =
    [(" active", BufferState::Active), (" delivered", BufferState::Delivered)];

pub(crate) fn buffer(scan: &mut Scan) -> Option<Buffer> {
    let id = match scan.maybe(|scan| scan.number("buffer ")) {
        None if scan.lenient => scan.word("buffer").map(|()| None)?,
        id => Some(id?),
    };
    let upstream = scan.lenient && scan.rest.split(' ').nth(4) == Some("pid");
    let offset = if upstream { scan.number(": ")? } else { scan.hex(": ")? };
    let data_size = scan.number(" size ")?;
    if upstream {
        let sender = scan.number(" pid ")?;
        let is_oneway = scan.has(" oneway") && scan.maybe(|scan| scan.flag(" ")).unwrap_or(true);
        let words = [(" reserved", BufferState::Active), (" allocated", BufferState::Delivered)];
        let (state, sender, is_oneway) = (scan.one_of(&words)?, Some(sender), Some(is_oneway));
        let (id, offsets_size, extra_size) = (None, None, None);
        return Some(Buffer { id, offset, data_size, offsets_size, extra_size, state, sender, is_oneway });
    }
    Some(Buffer {
        id: Some(id?),
        offset,
        data_size,
        offsets_size: Some(scan.number(":")?),
        extra_size: Some(scan.number(":")?),
        state: scan.one_of(&STATES)?,
        sender: None,
        is_oneway: None,
    })
}

/// Parses the part of a line after the words for a transaction's place.
fn transaction(scan: &mut Scan) -> Option<Transaction> {
    let id = scan.number("")?;
    let upstream = scan.lenient && scan.rest.starts_with(": from ");
    let address = match upstream {
        true => scan.word(":").map(|()| None)?,
        false => Some(scan.pointer(": ")?),
    };
    let from = scan.task(" from ")?;
    let to = match upstream {
        true => Task { process: scan.number(" to ")?, thread: 0 },
        false => scan.task(" to ")?,
    };
    let (code, flags) = (scan.hex32(" code ")?, scan.hex32(" flags ")?);
    let (priority, is_async, is_reply) = match upstream {
        true => (None, flags & TransactionFlags::ONE_WAY.bits() != 0, None),
        false => (Some(scan.number(" pri ")?), scan.flag(" a")?, Some(scan.flag(" r")?)),
    };
    let elapsed_ms = scan.number(" elapsed ")?;
    scan.word("ms")?;
    let held = scan.maybe(|scan| here(scan, upstream)).or_else(|| match scan.has(" buffer free") {
        _ if upstream => None,
        true => Some(Held::Free),
        false => Some(Held::Elsewhere),
    })?;
    Some(Transaction { id, address, from, to, code, flags, priority, is_async, is_reply, elapsed_ms, held })
}

fn here(scan: &mut Scan, upstream: bool) -> Option<Held> {
    Some(Held::Here {
        node: scan.maybe(|scan| scan.number(" node ")),
        data_size: scan.number(" size ")?,
        offsets_size: scan.number(":")?,
        offset: if upstream { None } else { Some(scan.hex(" offset ")?) },
    })
}
