// SPDX-License-Identifier: GPL-2.0
//! Tools of a test that the kernel lacks: watch memory, and make it scarce.
//!
//! Everything here is per thread, as tests run in parallel; memory counts for the thread that
//! allocated it, whoever frees it (but boxes are expected to stay with their thread).

use crate::alloc::AllocError;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

thread_local! {
    static IN_ATOMIC: Cell<bool> = const { Cell::new(false) };
    static LIVE: Arc<AtomicUsize> = Arc::default();
    static TOTAL: Cell<usize> = const { Cell::new(0) };
    static FREED_IN_ATOMIC: Cell<usize> = const { Cell::new(0) };
    static UNTIL_FAILURE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs `f` as if a spinlock were held.
pub fn atomic<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_ATOMIC.set(self.0);
        }
    }
    let _restore = Restore(IN_ATOMIC.replace(true));
    f()
}

/// The number of allocations of this thread that have not been freed.
pub fn live_allocations() -> usize {
    LIVE.with(|live| live.load(Ordering::SeqCst))
}

/// The number of allocations that this thread has made so far.
pub fn total_allocations() -> usize {
    TOTAL.get()
}

/// The number of allocations that were freed in this thread while a spinlock was held.
pub fn freed_in_atomic() -> usize {
    FREED_IN_ATOMIC.get()
}

/// Makes `count` more allocations of this thread succeed and the next one fail, once.
pub fn fail_after(count: usize) {
    UNTIL_FAILURE.set(Some(count));
}

/// Returns whether the failure of [`fail_after`] has not happened yet; calls it off.
pub fn failure_is_pending() -> bool {
    UNTIL_FAILURE.take().is_some()
}

/// The allocator that memory is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `kfree` works anywhere.
    Kmalloc,
    /// `vfree` may sleep.
    MaybeVmalloc,
}

/// One piece of memory.
#[derive(Debug)]
pub(crate) struct Allocation {
    origin: Origin,
    /// Of the thread that made it; nothing if the memory was forgotten.
    live: Option<Arc<AtomicUsize>>,
}

impl Allocation {
    pub(crate) fn new(origin: Origin) -> Result<Self, AllocError> {
        assert!(!IN_ATOMIC.get(), "memory is allocated under a spinlock");
        match UNTIL_FAILURE.get() {
            Some(0) => {
                UNTIL_FAILURE.set(None);
                return Err(AllocError);
            }
            Some(more) => UNTIL_FAILURE.set(Some(more - 1)),
            None => {}
        }
        TOTAL.set(TOTAL.get() + 1);
        let live = LIVE.with(Arc::clone);
        live.fetch_add(1, Ordering::SeqCst);
        let live = Some(live);
        Ok(Self { origin, live })
    }

    /// Leaves the memory to someone who cannot carry this along.
    pub(crate) fn forget(mut self) {
        self.live = None;
    }

    /// Frees memory of this thread that was forgotten.
    pub(crate) fn free_forgotten(origin: Origin) {
        let live = LIVE.with(Arc::clone);
        let live = Some(live);
        drop(Self { origin, live });
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(live) = &self.live else { return };
        live.fetch_sub(1, Ordering::SeqCst);
        FREED_IN_ATOMIC.set(FREED_IN_ATOMIC.get() + usize::from(IN_ATOMIC.get()));
        if self.origin == Origin::MaybeVmalloc && !std::thread::panicking() {
            assert!(!IN_ATOMIC.get(), "vfree is called under a spinlock");
        }
    }
}
