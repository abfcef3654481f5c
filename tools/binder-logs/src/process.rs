// SPDX-License-Identifier: GPL-2.0
//! A process's block of lines in `state`, `transactions` and `proc/<pid>`.

pub(crate) mod parse;
mod print;

use crate::transaction::Transaction;
use crate::words::{DebugId, Pid, Pointer};
use serde::Serialize;

bitflags::bitflags! {
    /// What a thread has said of itself, and what it is doing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub struct Looper: u32 {
        /// The driver asked for it.
        const REGISTERED = 0x01;
        /// It came by itself.
        const ENTERED = 0x02;
        /// It has left the pool.
        const EXITED = 0x04;
        /// It said two of these that exclude each other.
        const INVALID = 0x08;
        /// It sleeps in a read.
        const WAITING = 0x10;
        /// It has polled.
        const POLL = 0x20;
        const _ = !0;
    }
}

/// A process that has a device open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// The device's name.
    pub context: String,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// What it owns.
    pub nodes: Vec<Node>,
    /// What it has handles on.
    pub references: Vec<Reference>,
    /// The buffers in its space, those that it was told of and those that it was not.
    pub buffers: Vec<Buffer>,
    /// What waits for any of its threads.
    pub work: Vec<Work>,
    /// Whether it was told of a death and has not said that it knows.
    pub has_delivered_death: bool,
    /// The same of a freeze.
    pub has_delivered_freeze: bool,
}

/// A thread that has used the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Its number.
    pub id: Pid,
    /// Its state.
    pub looper: Looper,
    /// Whether its next read returns whether or not there is something to tell.
    pub need_return: bool,
    /// How many use its record at this moment. Upstream's driver does not say.
    pub temporary_references: Option<i64>,
    /// The calls that it makes and serves, the innermost first.
    pub stack: Vec<StackEntry>,
    /// What waits for it.
    pub work: Vec<Work>,
}

/// A call of a thread's stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StackEntry {
    /// The thread's part in it.
    pub role: Role,
    /// The call.
    pub transaction: Transaction,
}

/// A thread's part in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has sent it.
    Outgoing,
    /// It serves it.
    Incoming,
    /// Neither, which is a fault of the driver.
    Bad,
}

/// An object that its process serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub id: DebugId,
    /// What the process knows it by.
    pub ptr: Pointer,
    /// What the process keeps with it.
    pub cookie: Pointer,
    /// Whether the process was told that there are strong references.
    pub has_strong: bool,
    /// Whether it was told that there are weak ones.
    pub has_weak: bool,
    /// Who holds it how often.
    pub counts: NodeCounts,
    /// The processes that have a handle on it, each for each of its devices.
    pub holders: Vec<Pid>,
    /// Oneway calls that wait for the one before them.
    pub work: Vec<Work>,
}

/// Counts of what keeps a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NodeCounts {
    /// As the C driver counts.
    Full {
        /// Strong ones of transactions and of the context.
        local_strong: i64,
        /// Weak ones of the same.
        local_weak: i64,
        /// References that are strong.
        internal_strong: i64,
        /// References.
        references: i64,
        /// Uses at this moment.
        temporary: i64,
    },
    /// As upstream's driver counts.
    Summed {
        /// Strong ones.
        strong: i64,
        /// Weak ones.
        weak: i64,
    },
}

/// A handle on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// Its number in logs.
    pub id: DebugId,
    /// The handle.
    pub handle: i64,
    /// Whether the node's process is gone.
    pub is_dead: bool,
    /// The node.
    pub node: DebugId,
    /// Strong counts.
    pub strong: i64,
    /// Weak counts.
    pub weak: i64,
    /// Whoever asked to be told of the node's death, hashed; null: nobody has. Upstream's driver does not say.
    pub death: Option<Pointer>,
}

/// A buffer in a process's space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Buffer {
    /// The transaction that brought it. Upstream's driver does not say.
    pub id: Option<DebugId>,
    /// Where it lies in the space.
    pub offset: u64,
    /// Bytes of data; with upstream's driver, of all that is in it.
    pub data_size: i64,
    /// Bytes of offsets of objects.
    pub offsets_size: Option<i64>,
    /// Bytes of what pointers in it point to.
    pub extra_size: Option<i64>,
    /// How far it is.
    pub state: BufferState,
    /// Who sent it: upstream's driver alone says.
    pub sender: Option<Pid>,
    /// Whether it came by a oneway call: upstream's driver alone says.
    pub is_oneway: Option<bool>,
}

/// How far a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferState {
    /// Its transaction has not ended.
    Active,
    /// The process has it, and has not given it back.
    Delivered,
    /// Upstream's word for the first.
    Reserved,
    /// Upstream's word for the second.
    Allocated,
}

/// Something that a thread will be told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A transaction.
    Transaction(Transaction),
    /// That its call has failed, with this `BR_` code.
    Error(u32),
    /// That its call was sent.
    Complete,
    /// That the counts of a node have changed.
    Node {
        /// The node's number.
        id: DebugId,
        /// What the process knows it by.
        ptr: Pointer,
        /// What the process keeps with it.
        cookie: Pointer,
    },
    /// That a node's process is gone.
    DeadBinder,
    /// The same, and that it will not be told of it again.
    ClearedDeadBinder,
    /// That it will not be told of a death.
    ClearedDeath,
    /// That a node's process was frozen or thawed.
    FrozenBinder,
    /// That it will not be told of that.
    ClearedFreeze,
    /// Something that the driver has no words for, with its number: the completion of a oneway call that may be one
    /// too many, or to a frozen process.
    Unknown(i64),
}
