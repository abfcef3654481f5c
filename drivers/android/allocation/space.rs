// SPDX-License-Identifier: GPL-2.0

//! The space that a process receives data in, divided into buffers. The pages of the space come
//! into use with a buffer and are free after it. The spaces of all processes share one pool of
//! pages.
//!
//! A page that a buffer shares with its neighbours is in use as long as any of them. The C driver
//! takes a page off its list whenever it comes into use. Here a page that is used again stays on
//! the pool's list (see [`crate::kernel_ext::page_range`]). The trace events about that list report
//! when a page comes into use and when it is free.

use super::Delivered;
use crate::{
    ffi::trace, //
    kernel_ext::{
        page_range::{self, PageEvent, PageRange, Use},
        spin_lock::{new_spin_lock, SpinLock, SpinLockGuard}, //
    },
    range_alloc::{CallKind, Label, RangeAllocator, ReserveError, Reserved, SpareMemory},
};
use core::ops::Range;
use kernel::{
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc, //
};

kernel::sync::global_lock! {
    // SAFETY: `ffi::Devices::make` initialises the lock before its first use.
    pub(crate) unsafe(uninit) static POOL: SpinLock<Option<Arc<page_range::PagePool>>> = None;
}

/// The pool of pages of all spaces: a device can be opened as long as this exists. A process that
/// has one open keeps the pool alive.
pub(crate) struct PoolHandle(());

impl PoolHandle {
    /// Allocates the pool; `charges_owner` is whether pages are charged to the memory cgroup of the
    /// process that receives them. `ENOMEM`.
    pub(crate) fn make(charges_owner: bool) -> Result<Self> {
        let pool = page_range::PagePool::new(c"binder-buffers", charges_owner)?;
        *POOL.lock() = Some(pool);
        Ok(Self(()))
    }
}

/// Returns the pool. `ENODEV` if the module is being unloaded and has none any more.
pub(crate) fn pool() -> Result<Arc<page_range::PagePool>> {
    POOL.lock().clone().ok_or(ENODEV)
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        let pool = POOL.lock().take();
        drop(pool);
    }
}

/// The ranges of a process's space that hold buffers.
#[pin_data]
pub(crate) struct Buffers {
    /// The number of the process in the initial pid namespace, for trace events.
    pid: i32,
    /// Present while a space exists: from the time when the process maps one until the process
    /// ends. Nothing else is locked while this is.
    #[pin]
    pub(crate) ranges: SpinLock<Option<Ranges>>,
}

/// The ranges of a space that exists.
pub(crate) type Ranges = KBox<RangeAllocator<Delivered>>;

type RangesGuard<'a> = SpinLockGuard<'a, Option<Ranges>>;

impl Buffers {
    /// Allocates this for process `pid`, which has no space yet.
    pub(crate) fn new(pid: i32) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            pid,
            ranges <- new_spin_lock!(None, "Buffers::ranges"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Reserves a range for a buffer of `size` bytes. `pages` are those of the space; `label` is
    /// for the logs and trace events.
    ///
    /// `ESRCH` if no space exists, `ENOSPC` if it has no room, `ENOMEM`.
    pub(crate) fn reserve(
        &self,
        size: usize,
        kind: CallKind,
        label: Label,
        pages: &PageRange,
    ) -> Result<Reserved> {
        let mut buffers = self.ranges.lock();
        let ranges = (*buffers).as_mut().ok_or(ESRCH)?;
        let reserved = match ranges.reserve(size, kind, label, None) {
            Ok(reserved) => reserved,
            Err(ReserveError::NoSpace) => return Err(ENOSPC),
            Err(ReserveError::NeedSpare) => {
                return self.reserve_among_many(buffers, (size, kind, label), pages);
            }
        };
        if trace::are_pages_on() {
            self.trace_reserved(buffers, &reserved, pages);
        }
        Ok(reserved)
    }

    /// The same if there may be many ranges. Releases the locked ranges.
    #[cold]
    fn reserve_among_many<'a>(
        &'a self,
        buffers: RangesGuard<'a>,
        (size, kind, label): (usize, CallKind, Label),
        pages: &PageRange,
    ) -> Result<Reserved> {
        let mut spare = SpareMemory::EMPTY;
        // Dropped before the memory is freed, for which another thread may have left no need.
        let mut buffers = buffers;
        let reserved = loop {
            let ranges = (*buffers).as_mut().ok_or(ESRCH)?;
            match ranges.reserve(size, kind, label, Some(&mut spare)) {
                Ok(reserved) => break reserved,
                Err(ReserveError::NoSpace) => return Err(ENOSPC),
                Err(ReserveError::NeedSpare) => {
                    drop(buffers);
                    spare.fill()?;
                    buffers = self.ranges.lock();
                }
            }
        };
        if trace::are_pages_on() {
            self.trace_reserved(buffers, &reserved, pages);
        }
        Ok(reserved)
    }

    /// Emits the events for a buffer that was reserved just now. Releases the lock.
    #[cold]
    fn trace_reserved(&self, buffers: RangesGuard<'_>, reserved: &Reserved, pages: &PageRange) {
        let ranges = (*buffers).as_ref();
        let own = ranges.map(|ranges| OwnPages::of(ranges, reserved.offset, reserved.size));
        drop(buffers);
        if let Some(own) = own {
            trace_pages(self.pid, pages, own.pages, true);
        }
    }

    /// Frees a range whose buffer was not delivered, or was [taken](RangeAllocator::take); nothing
    /// if the space has ended, and all ranges with it.
    #[cold]
    pub(crate) fn release(&self, offset: usize, size: usize, pages: &PageRange) {
        let mut buffers = self.ranges.lock();
        let released = (*buffers).as_mut().map(|ranges| {
            let unused = ranges.release(offset);
            let is_wanted = pages.has_unlisted() || trace::are_pages_on();
            let own = is_wanted.then(|| OwnPages::of(ranges, offset, size));
            (unused, own)
        });
        drop(buffers);
        if let Some((_unused, Some(own))) = released {
            pages.release(own.pages.clone());
            if trace::are_pages_on() {
                own.trace_freed(self.pid, pages);
            }
        }
    }
}

impl page_range::Owner for Buffers {
    fn ask(&self, bytes: Range<usize>, round: u32, act: &mut dyn FnMut(Use)) {
        let Some(mut ranges) = self.ranges.try_lock() else {
            return;
        };
        let Some(ranges) = (*ranges).as_mut() else {
            return;
        };
        let Range { start, end } = bytes;
        if ranges.is_idle(start, end, round) {
            act(Use::Idle);
        } else if ranges.touches(start, end) {
            act(Use::Used);
        } else {
            act(Use::UsedLately);
        }
    }

    fn observe(&self, event: PageEvent, index: usize) {
        match event {
            PageEvent::AllocStart => trace::alloc_page_start(self.pid, index),
            PageEvent::AllocEnd => trace::alloc_page_end(self.pid, index),
            PageEvent::Free => trace::unmap_kernel(self.pid, index),
            PageEvent::UnmapStart => trace::unmap_user_start(self.pid, index),
            PageEvent::UnmapEnd => trace::unmap_user_end(self.pid, index),
        }
    }
}

/// A buffer, and those of its pages in which no other buffer has a byte.
struct OwnPages {
    buffer: Range<usize>,
    pages: Range<usize>,
}

impl OwnPages {
    /// Finds the pages of a buffer of `ranges`, which begins at `offset`.
    #[cold]
    fn of(ranges: &RangeAllocator<Delivered>, offset: usize, size: usize) -> Self {
        let end = offset + size;
        let first = offset >> PAGE_SHIFT;
        let last = (end - 1) >> PAGE_SHIFT;
        let is_first_shared = ranges.touches(first << PAGE_SHIFT, offset);
        let is_last_shared = ranges.touches(end, (last + 1) << PAGE_SHIFT);
        let start = first + usize::from(is_first_shared);
        let stop = last + usize::from(!is_last_shared);
        Self {
            buffer: offset..end,
            pages: start..stop.max(start),
        }
    }

    /// Emits the events for a buffer that was freed. First come the pages that had no other buffer,
    /// then its last and its first page, if other buffers might have shared them.
    fn trace_freed(&self, process: i32, pages: &PageRange) {
        let Range { start, end } = self.buffer;
        let first = start >> PAGE_SHIFT;
        let last = end >> PAGE_SHIFT;
        let begins_within = start % PAGE_SIZE != 0;
        let ends_within = end % PAGE_SIZE != 0;
        let inner = first + usize::from(begins_within);
        trace_pages(process, pages, inner..last.max(inner), false);
        let is_one_page = first == last && begins_within;
        if ends_within && !is_one_page && self.pages.contains(&last) {
            trace_pages(process, pages, last..last + 1, false);
        }
        if begins_within && self.pages.contains(&first) {
            trace_pages(process, pages, first..first + 1, false);
        }
    }
}

/// Emits the events for pages that come into use, or that are free.
fn trace_pages(process: i32, pages: &PageRange, range: Range<usize>, are_used: bool) {
    let bytes = range.len() << PAGE_SHIFT;
    trace::update_page_range(process, are_used, range.start << PAGE_SHIFT, bytes);
    for index in range.filter(|index| pages.has_page(*index)) {
        match are_used {
            true => trace::alloc_lru(process, index),
            false => trace::free_lru(process, index),
        }
    }
}

/// Emits the events for the buffers of a space that ends, which are freed one after the other.
pub(crate) fn trace_all_freed(ranges: &RangeAllocator<Delivered>, process: i32, pages: &PageRange) {
    if !trace::are_pages_on() {
        return;
    }
    let starts = Iterator::chain(
        ranges.ranges().skip(1).map(|range| range.offset),
        [usize::MAX],
    );
    for (range, next) in ranges.ranges().zip(starts) {
        let end = range.offset + range.size;
        let first = range.offset >> PAGE_SHIFT;
        let stop = usize::min(end.div_ceil(PAGE_SIZE), next >> PAGE_SHIFT);
        let own = OwnPages {
            buffer: range.offset..end,
            pages: first..stop.max(first),
        };
        own.trace_freed(process, pages);
    }
}
