// SPDX-License-Identifier: GPL-2.0

//! A buffer in a target's space: room for one transaction's data, and what must be undone when it
//! is freed.
//!
//! The sender reserves a [`Buffer`] and fills it. It then either becomes [`Delivered`], which is
//! what the target's allocator keeps until the target frees it, or is given back. What the
//! transaction holds on to through its objects is remembered here, in the kernel, and never read
//! back from the data that the target maps (lesson R04).

use crate::{
    defs::{transaction_flags, Strength, TransactionRequest},
    error::Refusal,
    node::Node,
    process::Process,
    range_alloc::{CallKind, ReserveError, Reserved, Spare}, //
};
use core::mem::size_of;
use kernel::{
    alloc::AllocError,
    prelude::*,
    sync::Arc, //
};

/// Something that a transaction's data names, and that stays valid until its buffer is freed.
pub(crate) enum Held {
    /// A node of the receiver itself.
    Node(Arc<Node>, Strength),
    /// A handle of the receiver.
    Handle(u32, Strength),
}

/// All that a transaction's data names; nothing for data without objects, which is most.
type HeldList = Option<KVec<Held>>;

/// Where the parts of a transaction lie in its buffer; all in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) data_size: usize,
    pub(crate) offsets_size: usize,
    /// Where the array of offsets begins, relative to the data.
    pub(crate) offsets_at: usize,
    total: usize,
}

impl Layout {
    /// The layout that a request asks for (contract OBJ-3). `EINVAL` when it exceeds what can be
    /// counted.
    pub(crate) fn of(request: &TransactionRequest) -> Result<Self> {
        let data_size = usize::try_from(request.data_size).map_err(|_| EINVAL)?;
        let offsets_size = usize::try_from(request.offsets_size).map_err(|_| EINVAL)?;
        let buffers_size = usize::try_from(request.buffers_size).map_err(|_| EINVAL)?;
        let offsets_at = aligned(data_size)?;
        let total = offsets_at
            .checked_add(aligned(offsets_size)?)
            .and_then(|total| total.checked_add(aligned(buffers_size).ok()?))
            .ok_or(EINVAL)?;
        Ok(Self {
            data_size,
            offsets_size,
            offsets_at,
            total,
        })
    }
}

/// Rounds up to the size of a pointer.
fn aligned(size: usize) -> Result<usize> {
    size.checked_next_multiple_of(size_of::<usize>())
        .ok_or(EINVAL)
}

/// A reserved range of a target's space. Whoever owns it fills it, and then has to hand it to
/// [`Process::deliver_buffer`] or [`Process::give_back_buffer`].
#[must_use]
pub(crate) struct Buffer {
    /// Relative to the start of the target's space.
    pub(crate) offset: usize,
    pub(crate) layout: Layout,
    /// To be zeroed when it is freed.
    is_cleared: bool,
    /// Its sender holds much of a oneway space that is running out (contract ALLOC-7).
    pub(crate) is_spam_suspect: bool,
    /// What the data names so far.
    held: HeldList,
}

impl Buffer {
    /// Makes room to remember one more thing.
    pub(crate) fn expect_held(&mut self) -> Result<(), AllocError> {
        self.held
            .get_or_insert_with(KVec::new)
            .reserve(1, GFP_KERNEL)
    }

    /// Remembers something that the data names. There has to be room for it.
    pub(crate) fn hold(&mut self, held: Held) {
        if let Some(list) = &mut self.held {
            let _ = list.push_within_capacity(held);
        }
    }
}

/// What the target's allocator keeps of a buffer that the target may free.
pub(crate) struct Delivered {
    purpose: Purpose,
    held: HeldList,
    is_cleared: bool,
}

/// What a delivered buffer was for. The node of a call is in use until the call's buffer is freed
/// (contract TXN-8), and busy as long if the call is oneway (TXN-22).
pub(crate) enum Purpose {
    Call(Arc<Node>),
    Oneway(Arc<Node>),
    Reply,
}

impl Process {
    /// Reserves space for a request in this process, and the pages for it.
    pub(crate) fn reserve_buffer(
        &self,
        request: &TransactionRequest,
        kind: CallKind,
    ) -> Result<Buffer, Refusal> {
        let layout = Layout::of(request)?;
        if !self.pages.is_mapped() {
            return Err(Refusal::nobody(ESRCH));
        }
        let reserved = self.reserve_range(layout.total, kind)?;
        let Reserved { offset, size, .. } = reserved;
        let buffer = Buffer {
            offset,
            layout,
            is_cleared: request.flags & transaction_flags::CLEAR_BUF != 0,
            is_spam_suspect: reserved.oneway_spam_suspect,
            held: None,
        };
        match self.pages.populate(offset, offset + size) {
            Ok(()) => Ok(buffer),
            Err(error) => {
                self.release_range(offset, None);
                Err(if error == ESRCH {
                    Refusal::nobody(error)
                } else {
                    Refusal::failed(error)
                })
            }
        }
    }

    fn reserve_range(&self, size: usize, kind: CallKind) -> Result<Reserved, Refusal> {
        let mut spare = Spare::new();
        loop {
            let reserved = self.buffers.lock().reserve(size, kind, &mut spare);
            match reserved {
                Ok(reserved) => return Ok(reserved),
                Err(ReserveError::NoSpace) => return Err(Refusal::failed(ENOSPC)),
                Err(ReserveError::NeedSpare) => spare.fill(GFP_KERNEL)?,
            }
        }
    }

    /// Lets this process free `buffer` from now on.
    pub(crate) fn deliver_buffer(&self, buffer: Buffer, purpose: Purpose) {
        let delivered = Delivered {
            purpose,
            held: buffer.held,
            is_cleared: buffer.is_cleared,
        };
        let unknown = self.buffers.lock().deliver(buffer.offset, delivered);
        debug_assert!(unknown.is_ok());
        drop(unknown);
    }

    /// Takes back a buffer that was not delivered, and undoes what its data names so far.
    pub(crate) fn give_back_buffer(&self, buffer: Buffer) {
        self.let_go(buffer.held);
        let clear = buffer.is_cleared.then_some(buffer.layout.total);
        self.release_range(buffer.offset, clear);
    }

    /// Ends a reservation, after zeroing as many bytes as `clear` says.
    fn release_range(&self, offset: usize, clear: Option<usize>) {
        if let Some(size) = clear {
            // Fails only for pages that are not there, and nothing is to be cleared on those.
            let _ = self.pages.zero(offset, size);
        }
        let leftover = self.buffers.lock().abort(offset);
        drop(leftover);
    }

    /// The process frees the buffer at this address. `EINVAL` when there is none that it may free:
    /// never delivered, not the exact start, or being freed by another thread (contract OBJ-12).
    pub(crate) fn free_buffer(&self, address: u64) -> Result {
        let address = usize::try_from(address).map_err(|_| EINVAL)?;
        let start = self.pages.address().ok_or(EINVAL)?;
        let offset = address.checked_sub(start).ok_or(EINVAL)?;
        let mut buffers = self.buffers.lock();
        let (size, delivered) = buffers.take(offset).ok_or(EINVAL)?;
        if delivered.is_cleared {
            drop(buffers);
            let _ = self.pages.zero(offset, size);
            buffers = self.buffers.lock();
        }
        let leftover = buffers.release(offset);
        drop(buffers);
        drop(leftover);
        self.let_go(delivered.held);
        match delivered.purpose {
            Purpose::Call(node) => node.drop_local(Strength::Strong),
            Purpose::Oneway(node) => {
                node.end_oneway();
                node.drop_local(Strength::Strong);
            }
            Purpose::Reply => {}
        }
        Ok(())
    }

    /// The process ends: frees whatever it had not freed, without undoing what is gone with it.
    pub(crate) fn free_all_buffers(&self) {
        loop {
            let taken = self.buffers.lock().take_any();
            let Some((offset, size, delivered)) = taken else {
                return;
            };
            if delivered.is_cleared {
                let _ = self.pages.zero(offset, size);
            }
            let leftover = self.buffers.lock().release(offset);
            drop(leftover);
        }
    }

    /// Undoes what the data of a buffer named.
    fn let_go(&self, held: HeldList) {
        for held in held.into_iter().flatten() {
            match held {
                Held::Node(node, strength) => node.drop_local(strength),
                Held::Handle(handle, strength) => {
                    // Fails when the process itself gave back more than it had.
                    let _ = self.drop_handle(handle, strength);
                }
            }
        }
    }
}
