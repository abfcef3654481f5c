// SPDX-License-Identifier: GPL-2.0

//! The arguments of the ioctls.

use super::{double_word, put_double_word, put_word, word, NodeName, Return};

/// The argument of `BINDER_WRITE_READ`: two buffers in user space, and how much of each is
/// consumed.
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
    /// Where the words are that the driver writes.
    pub(crate) const WRITE_CONSUMED: usize = 1;
    pub(crate) const READ_CONSUMED: usize = 4;

    /// Decodes the words of the struct.
    #[inline]
    pub(crate) fn decode(words: &[u64; 6]) -> Self {
        Self {
            write_size: words[0],
            write_consumed: words[Self::WRITE_CONSUMED],
            write_buffer: words[2],
            read_size: words[3],
            read_consumed: words[Self::READ_CONSUMED],
            read_buffer: words[5],
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

    /// Reads the pointer after which the search starts; the rest of the argument is output.
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

/// The argument of `BINDER_FREEZE`.
pub(crate) struct FreezeRequest {
    /// The thread group whose open files are frozen or thawed, in the initial pid namespace.
    pub(crate) pid: i32,
    /// Whether to freeze rather than thaw them.
    pub(crate) is_enabled: bool,
    /// How long to wait until no transaction of them is outstanding.
    pub(crate) timeout_ms: u32,
}

impl FreezeRequest {
    pub(crate) const SIZE: usize = 12;

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            pid: word(bytes, 0) as i32,
            is_enabled: word(bytes, 4) != 0,
            timeout_ms: word(bytes, 8),
        }
    }
}

/// The argument of `BINDER_GET_FROZEN_INFO`.
pub(crate) struct FrozenInfo {
    pub(crate) pid: i32,
    /// A call was rejected since the pid was last frozen or thawed.
    pub(crate) has_rejected_sync: bool,
    /// The pid has outstanding transactions now.
    pub(crate) is_busy: bool,
    /// A oneway call was received since the pid was last frozen or thawed.
    pub(crate) has_received_oneway: bool,
}

impl FrozenInfo {
    pub(crate) const SIZE: usize = 12;

    /// Reads the pid that is asked for; the rest of the argument is output.
    pub(crate) fn decode_pid(bytes: &[u8; Self::SIZE]) -> i32 {
        word(bytes, 0) as i32
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put_word(&mut bytes, 0, self.pid as u32);
        put_word(
            &mut bytes,
            4,
            u32::from(self.has_rejected_sync) | u32::from(self.is_busy) << 1,
        );
        put_word(&mut bytes, 8, self.has_received_oneway.into());
        bytes
    }
}

/// Why the last call or reply of a thread failed (`BINDER_GET_EXTENDED_ERROR`).
#[derive(Clone, Copy)]
pub(crate) struct ExtendedError {
    /// The debug id of the transaction that failed.
    pub(crate) id: u32,
    /// The `BR_*` that the thread reads for it.
    pub(crate) command: Return,
    /// A negative errno, or 0.
    pub(crate) param: i32,
}

impl ExtendedError {
    pub(crate) const SIZE: usize = 12;

    /// Returns the value for a transaction `id` in which nothing failed.
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
