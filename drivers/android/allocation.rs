// SPDX-License-Identifier: GPL-2.0

//! The space that a process receives data in, and a buffer in it: room for the data of one
//! transaction, and what has to be undone when it is freed.
//!
//! The sender reserves a [`Buffer`] and fills it. After that the buffer either becomes
//! [`Delivered`], which the target's allocator keeps until the target frees it, or is given back.
//! The references that the objects of the transaction hold are recorded here, in the kernel. They
//! are never read back from the data that the target maps (lesson R04).

pub(crate) mod files;
pub(crate) mod space;

use crate::{
    common::{
        debug::binder_debug,
        failure::{Failure, Reason},
    },
    defs::{TransactionRequest, TF_CLEAR_BUF},
    ffi::trace, //
    kernel_ext::{files::Descriptors, once::read_once},
    node::{Node, NodeInUse},
    process::Process,
    pure::{node_counts::Strength, one_or_many::OneOrMany},
    range_alloc::{CallKind, Label, MoreRanges, RangeAllocator, Reserved, State, FEW},
};
use files::FileSlot;
use kernel::{
    alloc::AllocError,
    mm::virt::VmaNew,
    prelude::*,
    sizes::SZ_4M,
    sync::Arc, //
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
    files: OneOrMany<FileSlot, 8>,
    /// Descriptors of the receiver that are closed when the buffer is freed.
    to_close: Option<KVVec<u32>>,
}

/// The layout of a transaction's buffer: the data, the array of offsets, the blocks that pointers
/// point to, and the sender's security context. All sizes are in bytes, and none is larger than the
/// largest space.
#[derive(Clone, Copy)]
pub(crate) struct BufferLayout {
    pub(crate) data_size: u32,
    pub(crate) offsets_size: u32,
    /// The end of the pointer area, and the start of the sender's security context if there is one.
    pub(crate) context_at: u32,
    /// The end of the security context: the size of all parts.
    pub(crate) total: u32,
}

/// Sizes below this are added up without checks for overflow.
const SMALL: u64 = 1 << 24;

impl BufferLayout {
    /// Returns the layout for a request with a security context of this size (contract OBJ-3).
    #[inline]
    fn of(request: &TransactionRequest, context_size: usize) -> Result<Self, Failure> {
        let all = request.data_size | request.offsets_size | request.buffers_size;
        if all | context_size as u64 >= SMALL {
            return Err(Self::why_too_large(request, context_size));
        }
        // CAST: they are less than `SMALL`.
        let data_size = request.data_size as u32;
        let offsets_size = request.offsets_size as u32;
        let buffers_size = request.buffers_size as u32;
        let context_size = context_size as u32;
        // Four sizes up to `SMALL` do not wrap, and checked additions are a branch each in every
        // call.
        let context_at = aligned::<usize>(data_size)
            .wrapping_add(aligned::<usize>(offsets_size))
            .wrapping_add(aligned::<usize>(buffers_size));
        Ok(Self {
            data_size,
            offsets_size,
            context_at,
            total: context_at.wrapping_add(aligned::<u64>(context_size)),
        })
    }

    #[cold]
    fn why_too_large(request: &TransactionRequest, context_size: usize) -> Failure {
        let mut sizes = [
            request.data_size,
            request.offsets_size,
            request.buffers_size,
        ]
        .into_iter();
        let total = sizes.try_fold(context_size, |total, size| {
            let size = usize::try_from(size).ok()?;
            total.checked_add(size.checked_next_multiple_of(size_of::<usize>())?)
        });
        match total {
            Some(_) => Failure::new(Reason::LargerThanSpace, ENOSPC),
            None => Failure::new(Reason::TooLarge, EINVAL),
        }
    }

    /// Returns the start of the pointer area, which is behind the offsets.
    pub(crate) fn pointers_at(&self) -> u32 {
        aligned::<usize>(self.data_size) + aligned::<usize>(self.offsets_size)
    }
}

/// Rounds a [small](SMALL) size up to the size of a `T`. Each part of a buffer begins at the end of
/// the part before it, rounded up to the size of a pointer.
pub(crate) fn aligned<T>(size: u32) -> u32 {
    let last = size_of::<T>() as u32 - 1;
    size.wrapping_add(last) & !last
}

/// A reserved range of a target's space. Its owner fills it, and then has to pass it to
/// [`Process::deliver_buffer`] or [`Process::give_back_buffer`].
#[must_use]
pub(crate) struct Buffer {
    /// The offset from the start of the target's space.
    pub(crate) offset: u32,
    pub(crate) layout: BufferLayout,
    /// True if it is zeroed when it is freed.
    is_cleared: bool,
    /// Its sender has filled too much of a oneway space that is running out (contract ALLOC-7).
    pub(crate) is_spam_suspect: bool,
    /// The objects that the data names so far; nothing for data without objects, which most
    /// transactions have.
    pub(crate) named: Option<KBox<BufferObjects>>,
}

// It moves with a transaction from step to step, so it has to be small.
const _: () = assert!(size_of::<Buffer>() <= 32);

impl Buffer {
    fn named(&mut self) -> Result<&mut BufferObjects, AllocError> {
        if self.named.is_none() {
            let none = BufferObjects {
                held: OneOrMany::None,
                files: OneOrMany::None,
                to_close: None,
            };
            self.named = Some(KBox::new(none, GFP_KERNEL)?);
        }
        self.named.as_deref_mut().ok_or(AllocError)
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

    /// Returns the fields of trace events about the buffer of transaction `id`. The security
    /// context counts among the blocks that pointers point to.
    pub(crate) fn traced(&self, id: u32) -> (u32, usize, usize, usize) {
        let layout = &self.layout;
        let (data_size, offsets_size) = (layout.data_size as usize, layout.offsets_size as usize);
        let extra_size = (layout.total - layout.pointers_at()) as usize;
        (id, data_size, offsets_size, extra_size)
    }
}

/// The record that the target's allocator keeps of a buffer that the target may free.
pub(crate) struct Delivered {
    /// The node of a call, which is in use until the buffer is freed (contract TXN-8).
    node: Option<Arc<Node>>,
    /// The node is also busy until then (contract TXN-22).
    is_oneway: bool,
    is_cleared: bool,
    named: Option<KBox<BufferObjects>>,
}

// See [`crate::range_alloc::FIRST`] and [`FEW`].
const _: () = assert!(size_of::<RangeAllocator<Delivered>>() <= 256);
const _: () = assert!(size_of::<MoreRanges<Delivered, FEW>>() <= 2048);

impl Delivered {
    /// Returns the node of the call that the buffer belongs to, if its caller waits for a reply, or
    /// waited.
    pub(crate) fn node_of_call(&self) -> Option<&Arc<Node>> {
        self.node.as_ref().filter(|_| !self.is_oneway)
    }
}

/// The rest of a buffer that was freed.
#[must_use]
pub(crate) struct Freed {
    /// The node of a call that waits for a reply. It stays in use.
    pub(crate) node: Option<NodeInUse>,
    /// The objects that its data names, to be [released](Process::release_objects) after that use
    /// has ended.
    pub(crate) named: Option<KBox<BufferObjects>>,
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
        let ranges = KBox::new_uninit(GFP_KERNEL)?;
        let size = self.pages.register(vma, LARGEST_SPACE)?;
        binder_debug!(SpaceMapped, "maps {size} bytes of {}", self.context.name());
        let ranges = ranges.write(RangeAllocator::new(size));
        let replaced = self.buffers.ranges.lock().replace(ranges);
        drop(replaced);
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
        let layout = BufferLayout::of(request, context_size)?;
        let total = layout.total as usize;
        let label = Label {
            id,
            data_size: layout.data_size,
            offsets_size: layout.offsets_size,
        };
        let reserved = self.buffers.reserve(total, kind, label, &self.pages);
        let reserved = reserved.map_err(|error| self.why_not_reserved(total, kind, error))?;
        let Reserved { offset, size, .. } = reserved;
        if let Err(error) = self.pages.populate(offset, offset + size) {
            self.buffers.release(offset, size, &self.pages);
            return Err(self.why_not_reserved(total, kind, error));
        }
        let is_cleared = request.flags & TF_CLEAR_BUF != 0;
        if is_cleared {
            self.pages.begin_secret();
        }
        Ok(Buffer {
            // CAST: the offset is within a space.
            offset: offset as u32,
            layout,
            is_cleared,
            is_spam_suspect: reserved.oneway_spam_suspect,
            named: None,
        })
    }

    /// Returns the failure of a buffer of `size` bytes for which no range or no pages could be
    /// reserved.
    #[cold]
    #[track_caller]
    fn why_not_reserved(&self, size: usize, kind: CallKind, error: Error) -> Failure {
        let ranges = self.buffers.ranges.lock();
        let space = (*ranges).as_ref().map_or(0, |ranges| ranges.size());
        drop(ranges);
        let reason = match (error, kind) {
            (ESRCH, _) => Reason::NotMapped,
            (ENOSPC, _) if size > space => Reason::LargerThanSpace,
            (ENOSPC, CallKind::Oneway { .. }) if size > space / 2 => Reason::LargerThanHalf,
            (ENOSPC, CallKind::Oneway { .. }) => Reason::NoOnewaySpace,
            (ENOSPC, CallKind::Sync) => Reason::NoSpace,
            // Of these only `ENOMEM` is possible: the pages reach as far as the ranges.
            _ => Reason::DriverFault,
        };
        Failure::new(reason, error)
    }

    /// Delivers `buffer`: this process may free it from now on. `node` is that of a call.
    #[inline(always)] // As a function of its own it would copy the buffer.
    pub(crate) fn deliver_buffer(&self, buffer: Buffer, node: Option<Arc<Node>>, is_oneway: bool) {
        let delivered = Delivered {
            node,
            is_oneway,
            is_cleared: buffer.is_cleared,
            named: buffer.named,
        };
        let mut ranges = self.buffers.ranges.lock();
        let unknown = match &mut *ranges {
            Some(ranges) => ranges.deliver(buffer.offset as usize, delivered),
            None => Err(delivered),
        };
        drop(ranges);
        debug_assert!(unknown.is_ok());
        drop(unknown);
        if buffer.is_cleared {
            self.pages.end_secret();
        }
    }

    /// Takes back a buffer that was not delivered, and releases the objects that its data names so
    /// far. Sleeps; no lock may be held.
    pub(crate) fn give_back_buffer(&self, buffer: Buffer) {
        let offset = buffer.offset as usize;
        // A buffer has at least the size of a pointer.
        let size = usize::max(buffer.layout.total as usize, size_of::<usize>());
        if let Some(named) = buffer.named {
            // It was not delivered, and has no descriptors of the receiver.
            let _ = self.release_objects(named, None);
        }
        if buffer.is_cleared {
            // Fails only for pages that are absent, which hold nothing to be zeroed.
            let _ = self.pages.zero(offset, size);
            self.pages.end_secret();
        }
        self.buffers.release(offset, size, &self.pages);
    }

    /// Frees the buffer at this address for the calling task, which belongs to this process. If it
    /// was that of a oneway call, the next one to its node follows. Returns what is left of it.
    /// Nothing if there is no buffer that it may free: the buffer was never delivered, the address
    /// is not its exact start, or another thread is freeing it (contract OBJ-12).
    pub(crate) fn free_buffer(&self, address: u64) -> Option<Freed> {
        let address = usize::try_from(address).ok()?;
        let offset = address.checked_sub(self.pages.address()?)?;
        let mut buffers = self.buffers.ranges.lock();
        let ranges = (*buffers).as_mut()?;
        let (size, delivered) = ranges.take(offset)?;
        trace::transaction_buffer_release(|| {
            let range = ranges.first_behind(offset);
            let label = range.map_or(Label::NONE, |range| range.label);
            let (data_size, offsets_size) = (label.data_size as usize, label.offsets_size as usize);
            (label.id, data_size, offsets_size, label.extra_size(size))
        });
        let is_watched = self.pages.has_unlisted() || trace::are_pages_on();
        if delivered.is_cleared || is_watched {
            drop(buffers);
            if delivered.is_cleared {
                let _ = self.pages.zero(offset, size);
            }
            self.buffers.release(offset, size, &self.pages);
        } else {
            let unused = ranges.release(offset);
            drop(buffers);
            // Nearly always there is none, and the compiler would call a function to find that out.
            if let Some(Some(unused)) = unused {
                unused.free();
            }
        }
        let node = match delivered.node {
            Some(node) if delivered.is_oneway => {
                node.end_oneway_use(self);
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
        // A range that is reserved and not delivered yet will not be delivered any more.
        let ranges = self.buffers.ranges.lock().take();
        let Some(ranges) = ranges else {
            return;
        };
        space::trace_all_freed(&ranges, self.pid, &self.pages);
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
    ///
    /// Returns whether the task has to return to user space soon, because files are closed only
    /// then (contract IOCTL-4).
    pub(crate) fn release_objects(
        &self,
        mut named: KBox<BufferObjects>,
        descriptors: Option<Descriptors<'_, Self>>,
    ) -> bool {
        for held in named.held.as_slice() {
            match held {
                HeldObject::Node(node, strength) => node.drop_local(*strength),
                HeldObject::Handle(..) if read_once(&self.has_ended) => {}
                HeldObject::Handle(handle, strength) => {
                    // Fails if the process itself has dropped more counts than it had.
                    let _ = self.drop_handle(*handle, *strength);
                }
            }
        }
        match (named.to_close.take(), descriptors) {
            (Some(to_close), Some(descriptors)) => {
                descriptors.close(to_close);
                true
            }
            _ => false,
        }
    }
}
