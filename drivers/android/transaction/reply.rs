// SPDX-License-Identifier: GPL-2.0

//! A transaction whose content is a reply, and the reply by itself once it has arrived.

use super::{Content, Transaction};
use crate::allocation::Buffer;
use kernel::task::Kuid;

/// A reply that its receiver has taken out of the queue.
pub(crate) struct ArrivedReply {
    pub(crate) id: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) sender_euid: Kuid,
    pub(crate) buffer: Buffer,
}

impl Transaction {
    /// Whether it is on its way back, with a reply.
    pub(crate) fn is_reply(&self) -> bool {
        matches!(self.content, Content::Reply { .. })
    }

    /// Takes out the reply, if the transaction has one.
    #[inline(always)] // Otherwise it would be copied twice.
    pub(crate) fn take_reply(&mut self) -> Option<ArrivedReply> {
        match self.take_content() {
            Content::Reply { buffer, .. } => Some(ArrivedReply {
                id: self.id,
                code: self.code,
                flags: self.flags,
                sender_euid: self.sender_euid,
                buffer,
            }),
            other => {
                self.put_content(other);
                None
            }
        }
    }
}
