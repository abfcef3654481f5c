// SPDX-License-Identifier: GPL-2.0

//! The wire: what user space and the driver say to each other, with names, codes and sizes.
//!
//! Everything that depends on a command's code, name or size derives from the two tables below, so
//! none of it can slip against another (lesson R13). Structures are decoded from and encoded into
//! byte arrays of their exact size field by field: no padding, no alignment, no `unsafe`. Numbers
//! and layouts are those of `include/uapi/linux/android/binder.h`.

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
    pub(crate) const GET_EXTENDED_ERROR: u32 = code_of(Direction::Both, b'b', 17, 12);
}

/// The protocol that this driver speaks: 64-bit addresses on every architecture.
pub(crate) const PROTOCOL_VERSION: u32 = 8;

macro_rules! wire_table {
    (
        $(#[$meta:meta])* $table:ident of letter $letter:literal:
        $($variant:ident = $direction:ident $number:literal, $size:literal;)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum $table {
            $($variant = code_of(Direction::$direction, $letter, $number, $size),)*
        }

        impl $table {
            /// The entry that a code names, if there is one.
            #[allow(dead_code)] // Codes of returns are never read.
            pub(crate) const fn from_code(code: u32) -> Option<Self> {
                $(
                    if code == Self::$variant as u32 {
                        return Some(Self::$variant);
                    }
                )*
                None
            }

            /// The number on the wire.
            pub(crate) const fn code(self) -> u32 {
                self as u32
            }

            /// How many bytes follow the code.
            pub(crate) const fn payload_size(self) -> usize {
                ((self.code() >> 16) & 0x3fff) as usize
            }
        }
    };
}

wire_table! {
    /// What user space asks for in the write half of `BINDER_WRITE_READ` (`BC_*`).
    Command of letter b'c':
    Transaction = Write 0, 64;
    Reply = Write 1, 64;
    FreeBuffer = Write 3, 8;
    IncRefs = Write 4, 4;
    Acquire = Write 5, 4;
    Release = Write 6, 4;
    DecRefs = Write 7, 4;
    IncRefsDone = Write 8, 16;
    AcquireDone = Write 9, 16;
    RegisterLooper = None 11, 0;
    EnterLooper = None 12, 0;
    ExitLooper = None 13, 0;
    TransactionSg = Write 17, 72;
    ReplySg = Write 18, 72;
}

wire_table! {
    /// What the driver answers in the read half (`BR_*`).
    Return of letter b'r':
    Ok = None 1, 0;
    Transaction = Read 2, 64;
    TransactionSecCtx = Read 2, 72;
    Reply = Read 3, 64;
    DeadReply = None 5, 0;
    TransactionComplete = None 6, 0;
    IncRefs = Read 7, 16;
    Acquire = Read 8, 16;
    Release = Read 9, 16;
    DecRefs = Read 10, 16;
    Noop = None 12, 0;
    SpawnLooper = None 13, 0;
    FailedReply = None 17, 0;
}

/// The room that the driver wants to see in a read buffer before it encodes another item: the
/// largest item is a transaction with its security context (contract WR-8).
pub(crate) const LARGEST_RETURN: usize = 4 + Return::TransactionSecCtx.payload_size();

/// Flags of a transaction.
pub(crate) mod transaction_flags {
    /// Nobody waits for a reply.
    pub(crate) const ONE_WAY: u32 = 0x01;
    /// The receiver's buffer is to be zeroed when it is freed.
    pub(crate) const CLEAR_BUF: u32 = 0x20;
}

/// Reads the four bytes at `AT` of a structure of `SIZE` bytes.
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

/// The argument of `BINDER_WRITE_READ`: two buffers in user space and how far each is done.
#[derive(Clone, Copy)]
pub(crate) struct WriteRead {
    pub(crate) write_size: u64,
    pub(crate) write_consumed: u64,
    pub(crate) write_buffer: u64,
    pub(crate) read_size: u64,
    pub(crate) read_consumed: u64,
    pub(crate) read_buffer: u64,
}

impl WriteRead {
    pub(crate) const SIZE: usize = 48;

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            write_size: double_word(bytes, 0),
            write_consumed: double_word(bytes, 8),
            write_buffer: double_word(bytes, 16),
            read_size: double_word(bytes, 24),
            read_consumed: double_word(bytes, 32),
            read_buffer: double_word(bytes, 40),
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_double_word(&mut bytes, 0, self.write_size);
        put_double_word(&mut bytes, 8, self.write_consumed);
        put_double_word(&mut bytes, 16, self.write_buffer);
        put_double_word(&mut bytes, 24, self.read_size);
        put_double_word(&mut bytes, 32, self.read_consumed);
        put_double_word(&mut bytes, 40, self.read_buffer);
        bytes
    }
}

/// What a sender says of a call or a reply. The sender's own fields (cookie, pid, euid) are not
/// taken from it, so they are not decoded.
#[derive(Clone, Copy)]
pub(crate) struct TransactionRequest {
    pub(crate) handle: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) data_size: u64,
    pub(crate) offsets_size: u64,
    pub(crate) data: u64,
    pub(crate) offsets: u64,
    /// Room for what pointers in the data point to.
    pub(crate) buffers_size: u64,
}

impl TransactionRequest {
    const SIZE: usize = 64;
    const SG_SIZE: usize = 72;

    /// Understands a request that says how much room its pointers need (`BC_*_SG`).
    pub(crate) fn decode_sg(bytes: &[u8; Self::SG_SIZE]) -> Self {
        let mut plain = [0; Self::SIZE];
        plain.copy_from_slice(&bytes[..Self::SIZE]);
        Self {
            buffers_size: double_word(bytes, 64),
            ..Self::decode(&plain)
        }
    }

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            handle: word(bytes, 0),
            code: word(bytes, 16),
            flags: word(bytes, 20),
            data_size: double_word(bytes, 32),
            offsets_size: double_word(bytes, 40),
            data: double_word(bytes, 48),
            offsets: double_word(bytes, 56),
            buffers_size: 0,
        }
    }
}

/// What a receiver is told of a call or a reply.
pub(crate) struct TransactionNotice {
    pub(crate) node: NodeName,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) sender_pid: i32,
    pub(crate) sender_euid: u32,
    pub(crate) data_size: u64,
    pub(crate) offsets_size: u64,
    pub(crate) data: u64,
    pub(crate) offsets: u64,
}

impl TransactionNotice {
    pub(crate) const SIZE: usize = 64;

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_double_word(&mut bytes, 0, self.node.ptr);
        put_double_word(&mut bytes, 8, self.node.cookie);
        put_word(&mut bytes, 16, self.code);
        put_word(&mut bytes, 20, self.flags);
        put_word(&mut bytes, 24, self.sender_pid as u32);
        put_word(&mut bytes, 28, self.sender_euid);
        put_double_word(&mut bytes, 32, self.data_size);
        put_double_word(&mut bytes, 40, self.offsets_size);
        put_double_word(&mut bytes, 48, self.data);
        put_double_word(&mut bytes, 56, self.offsets);
        bytes
    }
}

/// What the owner of a node calls it: a pointer and a cookie that only he understands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeName {
    pub(crate) ptr: u64,
    pub(crate) cookie: u64,
}

impl NodeName {
    pub(crate) const SIZE: usize = 16;

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            ptr: double_word(bytes, 0),
            cookie: double_word(bytes, 8),
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_double_word(&mut bytes, 0, self.ptr);
        put_double_word(&mut bytes, 8, self.cookie);
        bytes
    }
}

/// Whether a count keeps an object in use (strong) or only its name (weak).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    Strong,
    Weak,
}

/// An object inside of a transaction's data that names a node: by its owner, or by a handle.
#[derive(Clone, Copy)]
pub(crate) enum FlatObject {
    Binder {
        strength: Strength,
        flags: u32,
        name: NodeName,
    },
    Handle {
        strength: Strength,
        flags: u32,
        handle: u32,
    },
}

impl FlatObject {
    pub(crate) const SIZE: usize = 24;

    const BINDER: u32 = Self::type_of(b's', b'b');
    const WEAK_BINDER: u32 = Self::type_of(b'w', b'b');
    const HANDLE: u32 = Self::type_of(b's', b'h');
    const WEAK_HANDLE: u32 = Self::type_of(b'w', b'h');

    /// Object types are three letters of which the last but one is always a star, and a constant.
    const fn type_of(strength: u8, kind: u8) -> u32 {
        u32::from_be_bytes([strength, kind, b'*', 0x85])
    }

    /// Understands an object; `None` for a type that is not known.
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let flags = word(bytes, 4);
        let binder = |strength| Self::Binder {
            strength,
            flags,
            name: NodeName {
                ptr: double_word(bytes, 8),
                cookie: double_word(bytes, 16),
            },
        };
        let handle = |strength| Self::Handle {
            strength,
            flags,
            handle: word(bytes, 8),
        };
        match word(bytes, 0) {
            Self::BINDER => Some(binder(Strength::Strong)),
            Self::WEAK_BINDER => Some(binder(Strength::Weak)),
            Self::HANDLE => Some(handle(Strength::Strong)),
            Self::WEAK_HANDLE => Some(handle(Strength::Weak)),
            _ => None,
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let (kind, flags) = match self {
            Self::Binder {
                strength,
                flags,
                name,
            } => {
                put_double_word(&mut bytes, 8, name.ptr);
                put_double_word(&mut bytes, 16, name.cookie);
                match strength {
                    Strength::Strong => (Self::BINDER, *flags),
                    Strength::Weak => (Self::WEAK_BINDER, *flags),
                }
            }
            Self::Handle {
                strength,
                flags,
                handle,
            } => {
                put_word(&mut bytes, 8, *handle);
                match strength {
                    Strength::Strong => (Self::HANDLE, *flags),
                    Strength::Weak => (Self::WEAK_HANDLE, *flags),
                }
            }
        };
        put_word(&mut bytes, 0, kind);
        put_word(&mut bytes, 4, flags);
        bytes
    }

    /// The name that `BINDER_SET_CONTEXT_MGR_EXT` gives, whatever type it says.
    pub(crate) fn decode_manager(bytes: &[u8; Self::SIZE]) -> NodeName {
        NodeName {
            ptr: double_word(bytes, 8),
            cookie: double_word(bytes, 16),
        }
    }
}

/// The argument of `BINDER_GET_NODE_DEBUG_INFO`.
pub(crate) struct NodeDebugInfo {
    pub(crate) name: NodeName,
    pub(crate) has_strong_ref: bool,
    pub(crate) has_weak_ref: bool,
}

impl NodeDebugInfo {
    pub(crate) const SIZE: usize = 24;

    /// The pointer after which to look; the rest of the argument is output.
    pub(crate) fn decode_ptr(bytes: &[u8; Self::SIZE]) -> u64 {
        double_word(bytes, 0)
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_double_word(&mut bytes, 0, self.name.ptr);
        put_double_word(&mut bytes, 8, self.name.cookie);
        put_word(&mut bytes, 16, self.has_strong_ref.into());
        put_word(&mut bytes, 20, self.has_weak_ref.into());
        bytes
    }
}

/// The argument of `BINDER_GET_NODE_INFO_FOR_REF`.
pub(crate) struct NodeInfoForRef {
    pub(crate) handle: u32,
    pub(crate) strong_count: u32,
    pub(crate) weak_count: u32,
    pub(crate) reserved: [u32; 3],
}

impl NodeInfoForRef {
    pub(crate) const SIZE: usize = 24;

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            handle: word(bytes, 0),
            strong_count: word(bytes, 4),
            weak_count: word(bytes, 8),
            reserved: [word(bytes, 12), word(bytes, 16), word(bytes, 20)],
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_word(&mut bytes, 0, self.handle);
        put_word(&mut bytes, 4, self.strong_count);
        put_word(&mut bytes, 8, self.weak_count);
        bytes
    }
}

/// Why the last call or reply of a thread failed (`BINDER_GET_EXTENDED_ERROR`).
#[derive(Clone, Copy)]
pub(crate) struct ExtendedError {
    /// The debug id of the transaction that it speaks of.
    pub(crate) id: u32,
    /// The `BR_*` that the thread got for it.
    pub(crate) command: Return,
    /// A negative errno, or 0.
    pub(crate) param: i32,
}

impl ExtendedError {
    pub(crate) const SIZE: usize = 12;

    /// Nothing failed in transaction `id`.
    pub(crate) const fn none(id: u32) -> Self {
        Self {
            id,
            command: Return::Ok,
            param: 0,
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_word(&mut bytes, 0, self.id);
        put_word(&mut bytes, 4, self.command.code());
        put_word(&mut bytes, 8, self.param as u32);
        bytes
    }
}
