// SPDX-License-Identifier: GPL-2.0

//! The space that a process receives data in, and a buffer in it: room for the data of one
//! transaction, and what has to be undone when it is freed.
//!
//! The sender reserves a [`Buffer`] and fills it. After that the buffer either becomes
//! [`Delivered`], which the target's allocator keeps until the target frees it, or is given back.
//! What the transaction holds on to through its objects is recorded here, in the kernel, and never
//! read back from the data that the target maps (lesson R04).

use crate::{
    buffers::{
        file_slots::{FileSlot, FileSlots, ReservedNumbers},
        layout::{Layout, SMALL},
        space::Buffers,
        traced_pages::trace_all_freed, //
    },
    common::{
        debug::space_debug,
        failure::{Failure, Reason},
    },
    defs::{TransactionRequest, TF_CLEAR_BUF},
    ffi::trace, //
    kernel_ext::{deferred_close::DeferredClose, files::Descriptors},
    node::{Node, NodeInUse},
    process::Process,
    pure::{node_counts::Strength, one_or_many::OneOrMany},
    range_alloc::{CallKind, Label, RangeAllocator, Reserved, State},
};
use core::mem::size_of;
use kernel::{
    alloc::AllocError,
    mm::virt::VmaNew,
    prelude::*,
    sizes::SZ_4M,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// The size of the largest space, however much a process maps (contract MMAP-4).
const LARGEST_SPACE: usize = SZ_4M;

const _: () = assert!(SMALL > LARGEST_SPACE as u64);

/// An object that the data of a transaction names, and that stays valid until its buffer is freed.
pub(crate) enum HeldObject {
    /// A node of the receiver itself.
    Node(Arc<Node>, Strength),
    /// A handle of the receiver.
    Handle(u32, Strength),
}

/// All objects that the data of a transaction names.
pub(crate) struct BufferObjects {
    /// Nodes and handles.
    held: OneOrMany<HeldObject>,
    /// Files that are not installed in the receiver yet.
    files: FileSlots<Process>,
    /// Descriptors of the receiver that are closed when the buffer is freed.
    to_close: Option<DeferredClose>,
}

/// A reserved range of a target's space. Its owner fills it, and then has to pass it to
/// [`Process::deliver_buffer`] or [`Process::give_back_buffer`].
#[must_use]
pub(crate) struct Buffer {
    /// The offset from the start of the target's space.
    offset: u32,
    pub(crate) layout: Layout,
    /// Whether it is zeroed when it is freed.
    is_cleared: bool,
    /// Its sender has filled too much of a oneway space that is running out (contract ALLOC-7).
    pub(crate) is_spam_suspect: bool,
    /// The objects that the data names so far; nothing for data without objects, which most
    /// transactions have.
    named: Option<KBox<BufferObjects>>,
}

// It moves with a transaction from step to step, so it has to be small.
const _: () = assert!(size_of::<Buffer>() <= 32);

impl BufferObjects {
    const NONE: Self = Self {
        held: OneOrMany::None,
        files: OneOrMany::None,
        to_close: None,
    };
}

impl Buffer {
    /// Returns its offset from the start of the target's space.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.offset as usize
    }

    fn named(&mut self) -> Result<&mut BufferObjects, AllocError> {
        let named = match self.named.take() {
            Some(named) => named,
            None => KBox::new(BufferObjects::NONE, GFP_KERNEL)?,
        };
        Ok(self.named.insert(named))
    }

    /// Allocates room to record one more node or handle.
    pub(crate) fn expect_held(&mut self) -> Result<(), AllocError> {
        self.named()?.held.make_room()
    }

    /// Records an object that the data names. Room for it has to be allocated before.
    pub(crate) fn hold(&mut self, held: HeldObject) {
        if let Some(named) = &mut self.named {
            named.held.push_within_room(held);
        }
    }

    /// Records a file that the data names.
    pub(crate) fn hold_file(&mut self, slot: FileSlot<Process>) -> Result<(), AllocError> {
        self.named()?.files.push(slot)
    }

    /// Reserves a number for each file in the data of transaction `id`, in the file descriptor
    /// table of the calling task, which belongs to `receiver`, and writes the numbers into the
    /// data. `None` if there are no files.
    ///
    /// `EMFILE` if the task may not have that many.
    pub(crate) fn reserve_numbers(
        &self,
        id: u32,
        receiver: &Process,
    ) -> Result<Option<KBox<ReservedNumbers>>> {
        let slots = self
            .named
            .as_ref()
            .map_or(&[][..], |named| named.files.as_slice());
        if slots.is_empty() {
            return Ok(None);
        }
        let start = self.offset();
        ReservedNumbers::reserve(id, slots, &receiver.pages, start, |device| {
            device.file.get()
        })
        .map(Some)
    }

    /// Installs the files under their numbers. The descriptors that are to be closed with the
    /// buffer are recorded in it.
    pub(crate) fn install_files(&mut self, reserved: KBox<ReservedNumbers>) {
        if let Some(named) = &mut self.named {
            let files = core::mem::replace(&mut named.files, OneOrMany::None);
            named.to_close = reserved.install(files);
        }
    }

    /// Returns what trace events say of the buffer of transaction `id`.
    pub(crate) fn traced(&self, id: u32) -> trace::BufferOf {
        self.layout.traced(id)
    }

    /// Returns the offset of the sender's security context from the start of the buffer, if the
    /// buffer has one.
    pub(crate) fn context_at(&self) -> Option<usize> {
        self.layout.context_at()
    }
}

/// What the target's allocator keeps of a buffer that the target may free.
pub(crate) struct Delivered {
    /// The node of a call, which is in use until the buffer is freed (contract TXN-8).
    node: Option<Arc<Node>>,
    /// The node is also busy until then (contract TXN-22).
    is_oneway: bool,
    is_cleared: bool,
    named: Option<KBox<BufferObjects>>,
}

// See [`crate::range_alloc::FIRST`] and [`crate::range_alloc::FEW`].
const _: () = assert!(size_of::<RangeAllocator<Delivered>>() <= 256);
const _: () = assert!(RangeAllocator::<Delivered>::SIZE_OF_BOOKS <= 2048);

impl Delivered {
    /// Returns the node of the call that the buffer belongs to, if its caller waits for a reply, or
    /// waited.
    pub(crate) fn node_of_call(&self) -> Option<&Arc<Node>> {
        self.node.as_ref().filter(|_| !self.is_oneway)
    }
}

/// What is left of a buffer that was freed.
#[must_use]
pub(crate) struct Freed {
    /// The node of a call that waits for a reply. It stays in use.
    pub(crate) node: Option<NodeInUse>,
    /// The objects that its data names, to be [released](Process::release_objects) after that use
    /// has ended.
    pub(crate) named: Option<KBox<BufferObjects>>,
}

/// What the task that has freed a buffer does next.
#[must_use]
pub(crate) enum AfterFree {
    /// It is free to continue.
    Nothing,
    /// It returns to user space soon, because files are closed only then (contract IOCTL-4).
    ReturnSoon,
}

/// What a delivered buffer was for.
pub(crate) enum Purpose {
    Call(Arc<Node>),
    Oneway(Arc<Node>),
    Reply,
}

/// Returns what trace events say of a buffer, whose size in the space is `size`.
fn traced(label: Label, size: usize) -> trace::BufferOf {
    trace::BufferOf {
        id: label.id,
        data_size: label.data_size as usize,
        offsets_size: label.offsets_size as usize,
        extra_size: label.extra_size(size),
    }
}

/// Returns the transaction error for a buffer that could not be reserved, which tells the line of
/// the caller. (By its name given to `map_err`, it would tell a line of its own: hence the
/// closures.)
#[track_caller]
fn error_of_reservation(error: Error) -> Failure {
    match error {
        ESRCH => Failure::new(Reason::NotMapped, error),
        ENOSPC => Failure::new(Reason::LargerThanSpace, error),
        EINVAL => Failure::new(Reason::TooLarge, error),
        // Of these only `ENOMEM` is possible: the pages reach as far as the ranges.
        _ => Failure::new(Reason::DriverFault, error),
    }
}

impl Process {
    /// Maps the space that the process receives data in. `EINVAL` if the calling task does not
    /// belong to the process; `ENOMEM`; and the errors of
    /// [`PageRange::register`](crate::kernel_ext::page_range::PageRange::register).
    pub(crate) fn mmap(&self, vma: &VmaNew) -> Result {
        if !self.is_callers() {
            return Err(EINVAL);
        }
        // Allocated first, because nothing may fail after the mapping exists.
        let ranges = Buffers::new_ranges()?;
        let size = self.pages.register(vma, LARGEST_SPACE)?;
        space_debug!(OpenClose, "maps {size} bytes of {}", self.context.name());
        self.buffers.set_space(ranges, size);
        Ok(())
    }

    /// Reserves a range of this process's space for a request with a security context of this size,
    /// and the pages for it. `id` is that of the transaction.
    #[inline(always)] // As a function of its own it would copy the buffer.
    pub(crate) fn reserve_buffer(
        &self,
        id: u32,
        request: &TransactionRequest,
        context_size: usize,
        kind: CallKind,
    ) -> Result<Buffer, Failure> {
        if !self.pages.is_mapped() {
            return Err(Failure::new(Reason::NotMapped, ESRCH));
        }
        // Not `map_err`, with which each call takes ten instructions more.
        let layout = match Layout::of(request, context_size) {
            Ok(layout) => layout,
            Err(error) => return Err(error_of_reservation(error)),
        };
        let total = layout.total as usize;
        let label = layout.label(id);
        let reserved = self.buffers.reserve(total, kind, label, &self.pages);
        let reserved = reserved.map_err(|error| match error {
            ENOSPC => Failure::new(self.why_no_room(total, kind), error),
            _ => error_of_reservation(error),
        })?;
        let Reserved { offset, size, .. } = reserved;
        let buffer = Buffer {
            // CAST: the offset is within a space.
            offset: offset as u32,
            layout,
            is_cleared: request.flags & TF_CLEAR_BUF != 0,
            is_spam_suspect: reserved.oneway_spam_suspect,
            named: None,
        };
        let end = offset + size;
        match self.pages.populate(offset, end) {
            Ok(()) => {
                if buffer.is_cleared {
                    self.pages.begin_secret();
                }
                Ok(buffer)
            }
            Err(error) => {
                self.buffers.abort(offset, size, &self.pages);
                Err(error_of_reservation(error))
            }
        }
    }

    /// Returns why the space has no room for `size` bytes.
    #[cold]
    fn why_no_room(&self, size: usize, kind: CallKind) -> Reason {
        let space = (*self.buffers.lock())
            .as_ref()
            .map_or(0, |ranges| ranges.size());
        match kind {
            _ if size > space => Reason::LargerThanSpace,
            CallKind::Oneway { .. } if size > space / 2 => Reason::LargerThanHalf,
            CallKind::Oneway { .. } => Reason::NoOnewaySpace,
            CallKind::Sync => Reason::NoSpace,
        }
    }

    /// Writes the sender's security context into its part of a buffer of this process.
    pub(crate) fn write_context(&self, buffer: &Buffer, context: &[u8]) -> Result {
        match buffer.context_at() {
            Some(at) => self.pages.write(buffer.offset() + at, context),
            None => Ok(()),
        }
    }

    /// Delivers `buffer`: this process may free it from now on.
    #[inline(always)] // As a function of its own it would copy the buffer.
    pub(crate) fn deliver_buffer(&self, buffer: Buffer, purpose: Purpose) {
        let is_cleared = buffer.is_cleared;
        let (node, is_oneway) = match purpose {
            Purpose::Call(node) => (Some(node), false),
            Purpose::Oneway(node) => (Some(node), true),
            Purpose::Reply => (None, false),
        };
        let delivered = Delivered {
            node,
            is_oneway,
            is_cleared,
            named: buffer.named,
        };
        let offset = buffer.offset as usize;
        let unknown = match &mut *self.buffers.lock() {
            Some(ranges) => ranges.deliver(offset, delivered),
            None => Err(delivered),
        };
        debug_assert!(unknown.is_ok());
        drop(unknown);
        if is_cleared {
            self.pages.end_secret();
        }
    }

    /// Takes back a buffer that was not delivered, and releases the objects that its data names so
    /// far. Sleeps; no lock may be held.
    pub(crate) fn give_back_buffer(&self, buffer: Buffer) {
        let Buffer {
            offset,
            layout,
            is_cleared,
            named,
            ..
        } = buffer;
        if let Some(named) = named {
            // It was not delivered, and has no descriptors of the receiver.
            let _ = self.release_objects(named, None);
        }
        let offset = offset as usize;
        if is_cleared {
            // Fails only for pages that are absent, which hold nothing to be zeroed.
            let _ = self.pages.zero(offset, layout.size());
            self.pages.end_secret();
        }
        self.buffers.abort(offset, layout.size(), &self.pages);
    }

    /// Frees the buffer at this address for the calling task, which belongs to this process. If it
    /// was that of a oneway call, the next one to its node follows. Returns what is left of it.
    /// Nothing if there is no buffer that it may free: the buffer was never delivered, the address
    /// is not its exact start, or another thread is freeing it (contract OBJ-12).
    pub(crate) fn free_buffer(&self, address: u64) -> Option<Freed> {
        let address = usize::try_from(address).ok()?;
        let offset = address.checked_sub(self.pages.address()?)?;
        let mut buffers = self.buffers.lock();
        let ranges = (*buffers).as_mut()?;
        let (size, delivered) = ranges.take(offset)?;
        trace::transaction_buffer_release(|| {
            let range = ranges.first_from(offset);
            traced(range.map_or(Label::NONE, |range| range.label), size)
        });
        if delivered.is_cleared {
            drop(buffers);
            let _ = self.pages.zero(offset, size);
            self.buffers.release_taken(offset, size, &self.pages);
        } else if self.pages.has_unlisted() || trace::are_pages_on() {
            drop(buffers);
            self.buffers.release_taken(offset, size, &self.pages);
        } else {
            let leftover = ranges.release(offset);
            drop(buffers);
            if let Ok(leftover) = leftover {
                leftover.discard();
            }
        }
        let node = match delivered.node {
            Some(node) if delivered.is_oneway => {
                node.end_oneway_use();
                None
            }
            node => node.map(NodeInUse),
        };
        Some(Freed {
            node,
            named: delivered.named,
        })
    }

    /// Ends all buffers of a process that ends, without undoing what ends with the process anyway.
    pub(crate) fn close_buffers(&self) {
        let Some(ranges) = self.buffers.close() else {
            return;
        };
        trace_all_freed(&ranges, self.pid(), &self.pages);
        for range in ranges.ranges() {
            if matches!(range.state, State::Delivered(delivered) if delivered.is_cleared) {
                let _ = self.pages.zero(range.offset, range.size);
            }
        }
    }

    /// Releases the objects that the data of a buffer names. Those that are descriptors are closed
    /// in the calling task, whose `descriptors` they are among. Handles of a process that has ended
    /// are left to [`close_handles`](Self::close_handles), which releases all of them in their
    /// order. Sleeps; no lock may be held.
    pub(crate) fn release_objects(
        &self,
        mut named: KBox<BufferObjects>,
        descriptors: Option<Descriptors<'_, Self>>,
    ) -> AfterFree {
        for held in named.held.as_slice() {
            match held {
                HeldObject::Node(node, strength) => node.drop_local(*strength),
                HeldObject::Handle(..) if self.has_ended.load(Relaxed) => {}
                HeldObject::Handle(handle, strength) => {
                    // Fails if the process itself has dropped more counts than it had.
                    let _ = self.drop_handle(*handle, *strength);
                }
            }
        }
        match (named.to_close.take(), descriptors) {
            (Some(to_close), Some(descriptors)) => {
                descriptors.close(to_close);
                AfterFree::ReturnSoon
            }
            _ => AfterFree::Nothing,
        }
    }
}
