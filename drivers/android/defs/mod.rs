// SPDX-License-Identifier: GPL-2.0

//! The ABI: the commands, return codes and structures that user space and the driver exchange, with
//! names, codes and sizes.
//!
//! Everything that depends on a command's code, name or size derives from the two tables below, so
//! no two of them can disagree (lesson R13). Structures are decoded from and encoded into byte
//! arrays of their exact size field by field: no padding, no alignment, no `unsafe`. Numbers and
//! layouts are those of `include/uapi/linux/android/binder.h`.

mod arguments;
mod embedded;
mod objects;
mod transactions;

pub(crate) use arguments::{
    ExtendedError,
    FreezeRequest,
    FrozenInfo,
    NodeDebugInfo,
    NodeInfoForRef,
    WriteRead, //
};
pub(crate) use embedded::{FileArrayObject, FileObject, Object, PointerObject};
pub(crate) use objects::{FlatObject, HandleCookie, NodeFlags, NodeName, Strength};
pub(crate) use transactions::{TransactionData, TransactionRequest};

/// Builds the number of a command the way `_IO`, `_IOR`, `_IOW` and `_IOWR` do: direction in bits
/// 30-31, size in 16-29, type letter in 8-15, running number in 0-7.
const fn code_of(direction: Direction, letter: u8, number: u8, size: usize) -> u32 {
    ((direction as u32) << 30) | ((size as u32) << 16) | ((letter as u32) << 8) | number as u32
}

/// Which way an ioctl's argument or a command's payload travels, as seen from user space.
#[derive(Clone, Copy)]
enum Direction {
    None = 0,
    Write = 1,
    Read = 2,
    Both = 3,
}

/// The ioctl commands.
pub(crate) mod ioctl {
    use super::{code_of, Direction};

    pub(crate) const WRITE_READ: u32 = code_of(Direction::Both, b'b', 1, 48);
    pub(crate) const SET_MAX_THREADS: u32 = code_of(Direction::Write, b'b', 5, 4);
    pub(crate) const SET_CONTEXT_MGR: u32 = code_of(Direction::Write, b'b', 7, 4);
    pub(crate) const THREAD_EXIT: u32 = code_of(Direction::Write, b'b', 8, 4);
    pub(crate) const VERSION: u32 = code_of(Direction::Both, b'b', 9, 4);
    pub(crate) const GET_NODE_DEBUG_INFO: u32 = code_of(Direction::Both, b'b', 11, 24);
    pub(crate) const GET_NODE_INFO_FOR_REF: u32 = code_of(Direction::Both, b'b', 12, 24);
    pub(crate) const SET_CONTEXT_MGR_EXT: u32 = code_of(Direction::Write, b'b', 13, 24);
    pub(crate) const FREEZE: u32 = code_of(Direction::Write, b'b', 14, 12);
    pub(crate) const GET_FROZEN_INFO: u32 = code_of(Direction::Both, b'b', 15, 12);
    pub(crate) const ENABLE_ONEWAY_SPAM_DETECTION: u32 = code_of(Direction::Write, b'b', 16, 4);
    pub(crate) const GET_EXTENDED_ERROR: u32 = code_of(Direction::Both, b'b', 17, 12);
}

/// The protocol that this driver speaks: 64-bit addresses on every architecture.
pub(crate) const PROTOCOL_VERSION: u32 = 8;

macro_rules! wire_table {
    (
        $(#[$meta:meta])* $table:ident of letter $letter:literal:
        $($variant:ident $name:literal = $direction:ident $number:literal, $size:literal;)*
        $(_ $gone:literal = $gone_number:literal;)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum $table {
            $($variant = code_of(Direction::$direction, $letter, $number, $size),)*
        }

        impl $table {
            /// One more than the highest running number.
            pub(crate) const NUMBERS: usize = {
                let mut highest = 0;
                $(
                    if Self::$variant.number() > highest {
                        highest = Self::$variant.number();
                    }
                )*
                highest + 1
            };

            /// The names by running number, also of what no longer exists (`_` in the table). Of
            /// two with one number it is that of the first.
            pub(crate) const NAMES: [&'static str; Self::NUMBERS] = {
                let mut names = [""; Self::NUMBERS];
                $(names[$gone_number] = $gone;)*
                $(
                    if names[Self::$variant.number()].is_empty() {
                        names[Self::$variant.number()] = $name;
                    }
                )*
                names
            };

            /// Returns the name in C.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the running number.
            pub(crate) const fn number(self) -> usize {
                (self.code() & 0xff) as usize
            }

            /// Returns the entry of a code, if there is one. Two returns have one number, of
            /// which the first would be found; no two commands have.
            #[allow(dead_code)] // Codes of returns are never read.
            #[inline(always)]
            pub(crate) fn from_code(code: u32) -> Option<Self> {
                const {
                    assert!(Self::NUMBERS < 0x100, "a number is the lowest byte of a code");
                }
                let entry = (*Self::BY_NUMBER.get((code & 0xff) as usize)?)?;
                (entry.code() == code).then_some(entry)
            }

            /// The entries by running number, likewise.
            const BY_NUMBER: [Option<Self>; Self::NUMBERS] = {
                let mut entries = [None; Self::NUMBERS];
                $(
                    if entries[Self::$variant.number()].is_none() {
                        entries[Self::$variant.number()] = Some(Self::$variant);
                    }
                )*
                entries
            };

            /// Returns the code.
            pub(crate) const fn code(self) -> u32 {
                self as u32
            }

            /// Returns the number of bytes that follow the code.
            pub(crate) const fn payload_size(self) -> usize {
                ((self.code() >> 16) & 0x3fff) as usize
            }
        }
    };
}

wire_table! {
    /// The commands of user space in the write half of `BINDER_WRITE_READ` (`BC_*`).
    Command of letter b'c':
    Transaction "BC_TRANSACTION" = Write 0, 64;
    Reply "BC_REPLY" = Write 1, 64;
    FreeBuffer "BC_FREE_BUFFER" = Write 3, 8;
    IncRefs "BC_INCREFS" = Write 4, 4;
    Acquire "BC_ACQUIRE" = Write 5, 4;
    Release "BC_RELEASE" = Write 6, 4;
    DecRefs "BC_DECREFS" = Write 7, 4;
    IncRefsDone "BC_INCREFS_DONE" = Write 8, 16;
    AcquireDone "BC_ACQUIRE_DONE" = Write 9, 16;
    RegisterLooper "BC_REGISTER_LOOPER" = None 11, 0;
    EnterLooper "BC_ENTER_LOOPER" = None 12, 0;
    ExitLooper "BC_EXIT_LOOPER" = None 13, 0;
    RequestDeathNotification "BC_REQUEST_DEATH_NOTIFICATION" = Write 14, 12;
    ClearDeathNotification "BC_CLEAR_DEATH_NOTIFICATION" = Write 15, 12;
    DeadBinderDone "BC_DEAD_BINDER_DONE" = Write 16, 8;
    TransactionSg "BC_TRANSACTION_SG" = Write 17, 72;
    ReplySg "BC_REPLY_SG" = Write 18, 72;
    RequestFreezeNotification "BC_REQUEST_FREEZE_NOTIFICATION" = Write 19, 12;
    ClearFreezeNotification "BC_CLEAR_FREEZE_NOTIFICATION" = Write 20, 12;
    FreezeNotificationDone "BC_FREEZE_NOTIFICATION_DONE" = Write 21, 8;
    _ "BC_ACQUIRE_RESULT" = 2;
    _ "BC_ATTEMPT_ACQUIRE" = 10;
}

wire_table! {
    /// The return codes of the driver in the read half (`BR_*`).
    Return of letter b'r':
    Error "BR_ERROR" = Read 0, 4;
    Ok "BR_OK" = None 1, 0;
    Transaction "BR_TRANSACTION" = Read 2, 64;
    TransactionSecCtx "BR_TRANSACTION_SEC_CTX" = Read 2, 72;
    Reply "BR_REPLY" = Read 3, 64;
    DeadReply "BR_DEAD_REPLY" = None 5, 0;
    TransactionComplete "BR_TRANSACTION_COMPLETE" = None 6, 0;
    IncRefs "BR_INCREFS" = Read 7, 16;
    Acquire "BR_ACQUIRE" = Read 8, 16;
    Release "BR_RELEASE" = Read 9, 16;
    DecRefs "BR_DECREFS" = Read 10, 16;
    Noop "BR_NOOP" = None 12, 0;
    SpawnLooper "BR_SPAWN_LOOPER" = None 13, 0;
    DeadBinder "BR_DEAD_BINDER" = Read 15, 8;
    ClearDeathNotificationDone "BR_CLEAR_DEATH_NOTIFICATION_DONE" = Read 16, 8;
    FailedReply "BR_FAILED_REPLY" = None 17, 0;
    FrozenReply "BR_FROZEN_REPLY" = None 18, 0;
    OnewaySpamSuspect "BR_ONEWAY_SPAM_SUSPECT" = None 19, 0;
    TransactionPendingFrozen "BR_TRANSACTION_PENDING_FROZEN" = None 20, 0;
    FrozenBinder "BR_FROZEN_BINDER" = Read 21, 16;
    ClearFreezeNotificationDone "BR_CLEAR_FREEZE_NOTIFICATION_DONE" = Read 22, 8;
}

/// The room that a read buffer has to have before the driver encodes another item: the largest item
/// is a transaction with its security context (contract WR-8).
pub(crate) const LARGEST_RETURN: usize = 4 + Return::TransactionSecCtx.payload_size();

/// Flags of a transaction.
pub(crate) mod transaction_flags {
    /// The caller does not wait for a reply.
    pub(crate) const ONE_WAY: u32 = 0x01;
    /// The reply may carry file descriptors.
    pub(crate) const ACCEPT_FDS: u32 = 0x10;
    /// The receiver's buffer is to be zeroed when it is freed.
    pub(crate) const CLEAR_BUF: u32 = 0x20;
    /// Takes the place of an equal oneway call that its frozen target has not read yet.
    pub(crate) const UPDATE_TXN: u32 = 0x40;
}

/// Reads the four bytes at `at` of a structure of `SIZE` bytes.
const fn word<const SIZE: usize>(bytes: &[u8; SIZE], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads the eight bytes at `at` of a structure of `SIZE` bytes.
const fn double_word<const SIZE: usize>(bytes: &[u8; SIZE], at: usize) -> u64 {
    u64::from_ne_bytes([
        bytes[at],
        bytes[at + 1],
        bytes[at + 2],
        bytes[at + 3],
        bytes[at + 4],
        bytes[at + 5],
        bytes[at + 6],
        bytes[at + 7],
    ])
}

/// Writes `value` at `at`.
fn put_word<const SIZE: usize>(bytes: &mut [u8; SIZE], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

/// Writes `value` at `at`.
fn put_double_word<const SIZE: usize>(bytes: &mut [u8; SIZE], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}
