// SPDX-License-Identifier: GPL-2.0

//! The space that a process receives data in, as far as it is divided into buffers; and the pool of
//! pages, which the spaces of all processes share.

use crate::{
    buffers::traced_pages::OwnPages,
    ffi::trace, //
    kernel_ext::page_range::{self, PageEvent, PageRange, Use},
    range_alloc::{CallKind, Label, RangeAllocator, ReserveError, Reserved, SpareMemory},
};
use core::ops::Range;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        lock::{spinlock::SpinLockBackend, Guard},
        Arc,
        SpinLock, //
    }, //
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

/// The ranges of a process's space that hold buffers, and a `D` for each buffer that was delivered.
#[pin_data]
pub(crate) struct Buffers<D> {
    /// The number of the process in the initial pid namespace, for trace events.
    pid: i32,
    /// Present while a space exists: from the time when the process maps one until the process
    /// ends.
    #[pin]
    ranges: SpinLock<Option<Ranges<D>>>,
}

/// The ranges of a space that exists.
pub(crate) type Ranges<D> = KBox<RangeAllocator<D>>;

impl<D> Buffers<D> {
    /// Allocates this for process `pid`, which has no space yet.
    pub(crate) fn new(pid: i32) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            pid,
            ranges <- new_spinlock!(None, "Buffers::ranges"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Allocates what [`Self::set_space`] needs. `ENOMEM`.
    pub(crate) fn new_ranges() -> Result<Ranges<D>> {
        // Initialised in place: it is too large for the stack.
        Ok(KBox::new_uninit(GFP_KERNEL)?.write(const { RangeAllocator::new(0) }))
    }

    /// Creates the space, with this size.
    pub(crate) fn set_space(&self, mut ranges: Ranges<D>, size: usize) {
        ranges.set_space(size);
        let replaced = self.ranges.lock().replace(ranges);
        drop(replaced);
    }

    /// Removes the space. Returns its ranges, with what was delivered, and what was reserved and
    /// will not be delivered any more.
    pub(crate) fn close(&self) -> Option<Ranges<D>> {
        self.ranges.lock().take()
    }

    /// Locks the ranges. Nothing else is locked while this is held.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, Option<Ranges<D>>, SpinLockBackend> {
        self.ranges.lock()
    }
}

impl<D> Buffers<D> {
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
        if trace::are_pages_on() {
            return self.reserve_traced(size, kind, label, pages);
        }
        self.reserve_and(size, kind, label, |_, _| ())
            .map(|(reserved, ())| reserved)
    }

    #[cold]
    fn reserve_traced(
        &self,
        size: usize,
        kind: CallKind,
        label: Label,
        pages: &PageRange,
    ) -> Result<Reserved> {
        let own_pages = |ranges: &RangeAllocator<D>, reserved: &Reserved| {
            OwnPages::of(ranges, reserved.offset, reserved.size)
        };
        let (reserved, own) = self.reserve_and(size, kind, label, own_pages)?;
        own.trace_taken(self.pid, pages);
        Ok(reserved)
    }

    /// Reserves a range, and calls `look` before the lock is released.
    #[inline]
    fn reserve_and<T>(
        &self,
        size: usize,
        kind: CallKind,
        label: Label,
        look: impl Fn(&RangeAllocator<D>, &Reserved) -> T,
    ) -> Result<(Reserved, T)> {
        let mut spare = SpareMemory::new();
        loop {
            let reserved = match &mut *self.ranges.lock() {
                Some(ranges) => ranges
                    .reserve(size, kind, label, &mut spare)
                    .map(|reserved| (reserved, look(ranges, &reserved))),
                None => return Err(ESRCH),
            };
            match reserved {
                Ok(reserved) => return Ok(reserved),
                Err(ReserveError::NoSpace) => return Err(ENOSPC),
                Err(ReserveError::NeedSpare) => spare.fill(GFP_KERNEL)?,
            }
        }
    }

    /// Frees a range whose buffer was not delivered, or was [taken](RangeAllocator::take); nothing
    /// if the space has ended meanwhile, and all ranges with it.
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

impl<D: Send> page_range::Owner for Buffers<D> {
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
