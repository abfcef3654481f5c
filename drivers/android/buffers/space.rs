// SPDX-License-Identifier: GPL-2.0

//! The space that a process receives data in, as far as it is divided into buffers; and the pool of
//! pages, which the spaces of all processes share.

use crate::{kernel_ext::page_range, range_alloc::RangeAllocator};
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
    pub(crate) unsafe(uninit) static POOL: Mutex<Option<Arc<page_range::PagePool>>> = None;
}

/// The pool of pages of all spaces: a device can be opened as long as this exists. A process that
/// has one open keeps the pool alive.
pub(crate) struct PoolHandle(());

impl PoolHandle {
    /// Allocates the pool; `charges_owner` is whether pages are charged to the memory cgroup of the
    /// process that receives them. `ENOMEM`.
    pub(crate) fn make(charges_owner: bool) -> Result<Self> {
        *POOL.lock() = Some(page_range::PagePool::new(c"binder-buffers", charges_owner)?);
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
    /// Present while a space exists: from the time when the process maps one until the process
    /// ends.
    #[pin]
    ranges: SpinLock<Option<Ranges<D>>>,
}

/// The ranges of a space that exists.
pub(crate) type Ranges<D> = KBox<RangeAllocator<D>>;

impl<D> Buffers<D> {
    /// Allocates this for a process that has no space yet.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let init = pin_init!(Self {
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
        // Nothing has been reserved yet.
        let is_set = ranges.set_space(size);
        debug_assert!(is_set.is_ok());
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

impl<D: Send> page_range::Owner for Buffers<D> {
    fn evict_if_idle(&self, bytes: Range<usize>, round: u32, evict: &mut dyn FnMut()) {
        let Some(mut ranges) = self.ranges.try_lock() else {
            return;
        };
        let is_idle = (*ranges)
            .as_mut()
            .is_some_and(|ranges| ranges.is_idle(bytes.start, bytes.end, round));
        if is_idle {
            evict();
        }
    }
}
