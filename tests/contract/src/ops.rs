// SPDX-License-Identifier: GPL-2.0
//! The orders of a conductor to an actor, and the actor's answers.
//!
//! An operation is about one system call. Payloads lie in the arena; only addresses travel.

use binder_sys::Commands;
use serde::{Deserialize, Serialize};

/// A device opened by an actor's process: its number for all threads of the process.
pub type Slot = usize;

/// Every field of a `BINDER_WRITE_READ`, right or wrong.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WriteReadOp {
    /// The commands.
    #[serde(with = "serde_bytes")]
    pub commands: Vec<u8>,
    /// The size to claim for them, if not the true one.
    pub write_size: Option<u64>,
    /// The number of bytes to claim as consumed.
    pub write_consumed: u64,
    /// An address for the commands, if not the true one.
    pub write_buffer: Option<u64>,
    /// Room for returns.
    pub room: usize,
    /// The room to claim, if not the true one.
    pub read_size: Option<u64>,
    /// The number of bytes to claim as filled.
    pub read_consumed: u64,
    /// An address for the returns, if not the true one.
    pub read_buffer: Option<u64>,
    /// Look at a counter right before and right after the call.
    pub watch: Option<Watch>,
}

impl WriteReadOp {
    /// Writes these commands, and reads nothing.
    pub fn of(commands: &Commands) -> Self {
        Self { commands: commands.as_bytes().to_vec(), ..Self::default() }
    }
}

/// A counter in the arena, and where in the arena to write two readings of it, of 64 bits each.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Watch {
    pub counter: u64,
    pub seen: u64,
}

/// One thing to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Open a device. Answers the slot.
    Open { path: String, flags: i32 },
    /// Close a slot.
    Close { slot: Slot },
    /// Duplicate a slot's descriptor. Answers the new slot.
    Duplicate { slot: Slot },
    /// Map a device. Answers the address.
    Map { slot: Slot, length: usize, protection: i32, flags: i32, offset: i64 },
    /// Unmap a range.
    Unmap { address: u64, length: usize },
    /// Change a range's protection.
    Protect { address: u64, length: usize, protection: i32 },
    /// Map new private memory over a range.
    Cover { address: u64, length: usize },
    /// Move a mapping to a free place. Answers the new address.
    Move { address: u64, length: usize },
    /// `madvise(2)` for a range.
    Advise { address: u64, length: usize, advice: i32 },
    /// Write a byte everywhere in a range of memory that can be written.
    Fill { address: u64, length: usize, byte: u8 },
    /// Have faults in a range reported to a userfaultfd. Answers its number.
    Watch { address: u64, length: usize, mode: u64, features: u64 },
    /// Switch tagged pointers of this thread for system calls, and the processor's check of tags.
    TakeTags { on: bool, check: bool },
    /// Map new memory that has this tag. Answers the address, without it.
    TaggedMemory { length: usize, tag: u8 },
    /// Have new pages of this thread come from a memory node.
    BindMemory { node: u32 },
    /// Touch a byte of memory, which may end the process.
    Touch { address: u64 },
    /// Count up a number in the arena, without ever sleeping, until another is not 0.
    Spin { counter: u64, stop: u64 },
    /// Do something, and then that, before the answer.
    SpinAfter { op: Box<Op>, counter: u64, stop: u64 },
    /// Do these one after another, without a word in between. Answers with [`Answer::All`].
    InTurn { ops: Vec<Op> },
    /// Put the pages of a range into a pipe, which keeps them. Answers the number of its read end.
    IntoPipe { address: u64, length: usize },
    /// Copy memory into the arena.
    Copy { from: u64, to: u64, length: usize },
    /// `BINDER_WRITE_READ`. Answers its results.
    WriteRead { slot: Slot, args: WriteReadOp },
    /// Any other ioctl with its argument. Answers the argument afterwards.
    Ioctl {
        slot: Slot,
        number: u32,
        #[serde(with = "serde_bytes")]
        argument: Vec<u8>,
    },
    /// An ioctl whose argument cannot be accessed.
    IoctlFault { slot: Slot, number: u32 },
    /// An ioctl whose argument is in memory that the conductor names.
    IoctlAt { slot: Slot, number: u32, address: u64 },
    /// Poll a slot. Answers the events, 0 after the timeout.
    Poll { slot: Slot, timeout_ms: u16 },
    /// Make an epoll set of one slot, level- or edge-triggered. Answers its number.
    EpollCreate { slot: Slot, edge: bool },
    /// Wait for an epoll set. Answers the events, 0 after the timeout.
    EpollWait { set: usize, timeout_ms: u16 },
    /// Poll a slot by asynchronous I/O. Answers the events, 0 after the timeout.
    AioPoll { slot: Slot, timeout_ms: u16 },
    /// Switch `O_NONBLOCK`.
    NonBlocking { slot: Slot, on: bool },
    /// Start a thread that takes orders from the descriptor sent along. Answers its tid.
    Thread,
    /// Fork a process that does. Answers its pid.
    Fork,
    /// Fork into a new pid namespace. Answers the pid as the parent sees it.
    ForkPidNamespace,
    /// Execute this program again; its only slot is the descriptor to be kept, if any. Answers that
    /// slot. Shared memory is gone afterwards.
    Exec { slot: Option<Slot> },
    /// Go into new namespaces.
    Unshare { flags: i32 },
    /// Do something of which the n-th step that can be made to fail does. Answers with
    /// [`Answer::Injected`].
    FailNth { nth: u32, op: Box<Op> },
    /// Do something in another process that has the same memory, and ends after that.
    InTwin { op: Box<Op> },
    /// Become another user.
    SetUser { uid: u32 },
    /// Restart a system call that a signal interrupts, if the driver allows it (`SA_RESTART`), or
    /// do not.
    RestartCalls { on: bool },
    /// Answers how many signals have interrupted the process.
    CountSignals,
    /// Take another context of the security module's.
    SetContext { context: String },
    /// Answers the process's pid as it sees itself.
    GetPid,
    /// Answers a device descriptor, passed along with the answer.
    PassOut { slot: Slot },
    /// Takes over the descriptor sent along. Answers the slot.
    PassIn,
    /// Takes the descriptor sent along as it is. Answers its number.
    TakeFile,
    /// Answers a descriptor of this number, passed along with the answer.
    GiveFile { fd: i32 },
    /// Close the descriptor of this number.
    CloseFile { fd: i32 },
    /// Make this number a descriptor of the slot's device, in place of any other. Answers the slot
    /// of the device under that number.
    DeviceAs { slot: Slot, fd: i32 },
    /// End this thread.
    EndThread,
    /// End the process.
    Exit,
}

/// The result of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// A number: a slot, an address, a pid.
    Number(u64),
    /// The argument of an ioctl afterwards.
    Argument(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A `BINDER_WRITE_READ`: errno or 0, and the fields afterwards. The fields and the buffer are
    /// filled on errors, too.
    WriteRead {
        errno: i32,
        write_consumed: u64,
        read_consumed: u64,
        #[serde(with = "serde_bytes")]
        returns: Vec<u8>,
    },
    /// The result of an operation, and whether a step of it was made to fail.
    Injected { fired: bool, answer: Box<Answer> },
    /// The answers to several operations.
    All(Vec<Answer>),
    /// The system call failed with this errno.
    Failed(i32),
}
