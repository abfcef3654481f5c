// SPDX-License-Identifier: GPL-2.0

//! What describes a call or a reply: the request of its sender, and what its receiver reads.

use super::{double_word, put_double_word, put_word, word, NodeName};

/// The request of a sender for a call or a reply. Its fields about the sender (cookie, pid, euid)
/// are not trusted, so they are not decoded.
#[derive(Clone, Copy)]
pub(crate) struct TransactionRequest {
    pub(crate) handle: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) data_size: u64,
    pub(crate) offsets_size: u64,
    pub(crate) data: u64,
    pub(crate) offsets: u64,
    /// The room for the blocks that pointers in the data point to.
    pub(crate) buffers_size: u64,
}

impl TransactionRequest {
    const SIZE: usize = 64;
    const SG_SIZE: usize = 72;

    /// Decodes a request that includes how much room its pointers need (`BC_*_SG`).
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

/// What a receiver reads of a call or a reply.
pub(crate) struct TransactionData {
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

impl TransactionData {
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
    /// Encodes the same for a receiver that also reads where the sender's security context lies.
    pub(crate) fn encode_with_context(&self, context: u64) -> [u8; Self::SIZE + 8] {
        let mut bytes = [0; Self::SIZE + 8];
        bytes[..Self::SIZE].copy_from_slice(&self.encode());
        put_double_word(&mut bytes, Self::SIZE, context);
        bytes
    }
}
