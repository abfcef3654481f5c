// SPDX-License-Identifier: GPL-2.0

//! What the tests need around a page range: mappings that show it, an address space of the test's
//! own, an owner whose answers the test sets.

use super::super::{pool::PagePool, slots::Slot, Owner, PageEvent, PageRange, Use};
use crate::kernel_ext::expect::Failed;
use kernel::{
    bindings,
    error::to_result,
    mm::virt::VmaNew,
    new_spinlock,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        Arc, SpinLock,
    },
    uaccess::{UserPtr, UserSlice},
};

use core::{ops::Range, ptr::null_mut};

// From <asm-generic/mman-common.h> and <linux/mman.h>, for all architectures that are supported
// here.
pub(super) const READ: usize = 1;
pub(super) const WRITE: usize = 2;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;

/// What is done with a range. Returns whether it succeeds.
pub(super) type Act = fn(&PageRange) -> bool;

/// An owner that answers which pages are in use, and records which of them reclaim asks for.
#[pin_data]
pub(super) struct Books {
    /// A bit for each page in use; the same for every 64th.
    pub(super) used: Atomic<u64>,
    /// How many more questions are answered as if the page had been used lately.
    pub(super) chances: Atomic<u32>,
    /// The page that was asked for last.
    pub(super) asked_for: Atomic<u64>,
    /// How often a page was asked for.
    pub(super) asked: Atomic<u32>,
    /// The round of the last question.
    pub(super) round: Atomic<u32>,
    /// What is done, once, at an event.
    #[pin]
    pub(super) meanwhile: SpinLock<Option<(PageEvent, Arc<PageRange>, Act)>>,
    /// Whether that was done, with success.
    pub(super) is_done: Atomic<bool>,
}

impl Owner for Books {
    fn ask(&self, bytes: Range<usize>, round: u32, act: &mut dyn FnMut(Use)) {
        let page = bytes.start >> PAGE_SHIFT;
        self.asked_for.store(page as u64, ordering::Relaxed);
        self.asked.fetch_add(1, ordering::Relaxed);
        self.round.store(round, ordering::Relaxed);
        let chances = self.chances.load(ordering::Relaxed);
        self.chances
            .store(chances.saturating_sub(1), ordering::Relaxed);
        let is_used = self.used.load(ordering::Relaxed) >> (page % 64) & 1 == 1;
        act(match chances {
            _ if is_used => Use::Used,
            0 => Use::Idle,
            _ => Use::UsedLately,
        });
    }

    fn observe(&self, event: PageEvent, _index: usize) {
        let meanwhile = self.meanwhile.lock().take_if(|(at, _, _)| *at == event);
        if let Some((_, range, act)) = meanwhile {
            self.is_done.store(act(&range), ordering::Relaxed);
        }
    }
}

/// A pool, one range of it, and its mapping, if it has one.
pub(super) struct Scene {
    /// Dropped first: that closes the mapping of the range.
    pub(super) mapped: Option<Mapped>,
    pub(super) range: Arc<PageRange>,
    pub(super) books: Arc<Books>,
    pub(super) pool: Arc<PagePool>,
}

impl Scene {
    /// Creates a range in this pool, or one of its own, with a mapping of `pages` pages, if any. The
    /// address space is that of the test's thread.
    fn make(pool: Option<Arc<PagePool>>, pages: usize) -> Result<Self, Failed> {
        // SAFETY: This is a thread of KUnit's, which drops the address space when it ends.
        to_result(unsafe { bindings::kunit_attach_mm() })?;
        let pool = match pool {
            Some(pool) => pool,
            None => PagePool::new(c"page-range-test", false)?,
        };
        let books = pin_init!(Books {
            used: Atomic::new(0),
            chances: Atomic::new(0),
            asked_for: Atomic::new(u64::MAX),
            asked: Atomic::new(0),
            round: Atomic::new(0),
            meanwhile <- new_spinlock!(None),
            is_done: Atomic::new(false),
        });
        let books = Arc::pin_init(books, GFP_KERNEL)?;
        let task = kernel::current!();
        let mm = task.mm().ok_or(ESRCH)?;
        let range = PageRange::new(mm, pool.clone(), books.clone());
        let range = Arc::pin_init(range, GFP_KERNEL)?;
        let mapped = match pages {
            0 => None,
            _ => Some(Mapped::of_range(&range, pages, usize::MAX, READ)?),
        };
        Ok(Self {
            mapped,
            range,
            books,
            pool,
        })
    }

    /// Creates a range that is not mapped.
    pub(super) fn new() -> Result<Self, Failed> {
        Self::make(None, 0)
    }

    /// Creates a range with a mapping of `pages` pages.
    pub(super) fn mapped(pages: usize) -> Result<Self, Failed> {
        Self::make(None, pages)
    }

    /// As [`mapped`](Self::mapped), with all pages present and listed.
    pub(super) fn filled(pages: usize) -> Result<Self, Failed> {
        let scene = Self::mapped(pages)?;
        scene.fill(pages)?;
        Ok(scene)
    }

    /// As [`filled`](Self::filled), in the pool of this scene.
    pub(super) fn beside(&self, pages: usize) -> Result<Self, Failed> {
        let scene = Self::make(Some(self.pool.clone()), pages)?;
        scene.fill(pages)?;
        Ok(scene)
    }

    /// Makes the first so many pages present, and listed, as after their first use.
    pub(super) fn fill(&self, pages: usize) -> Result {
        self.range.populate(0, pages << PAGE_SHIFT)?;
        self.range.release(0..pages);
        Ok(())
    }

    /// Returns how many pages are present, how many are on the pool's list, and how many are before
    /// the frontier.
    pub(super) fn state(&self) -> (usize, usize, isize) {
        let filled = |slots: &[Slot]| slots.iter().filter(|slot| slot.is_filled()).count();
        let present = self.range.with_slots(|_, slots| filled(slots));
        let listed = self.pool.count(&Self::control(0));
        let frontier = self.range.frontier.load(ordering::Relaxed) >> PAGE_SHIFT;
        (present.unwrap_or(0), listed, frontier)
    }

    /// Returns the address of offset 0.
    pub(super) fn address(&self) -> usize {
        self.mapped.as_ref().map_or(0, |mapped| mapped.address)
    }

    /// Returns the control of a shrinker call: all nodes' pages that are charged to no cgroup.
    pub(super) fn control(how_many: usize) -> bindings::shrink_control {
        bindings::shrink_control {
            gfp_mask: bindings::GFP_KERNEL,
            nid: 0,
            nr_to_scan: how_many,
            nr_scanned: 0,
            memcg: null_mut(),
        }
    }

    /// Asks for `how_many` pages. Returns how many were asked for, and how many were freed.
    pub(super) fn reclaim(&self, how_many: usize) -> Option<(usize, usize)> {
        self.reclaim_for(how_many, false)
    }

    /// The same for an allocation that cannot proceed without memory.
    pub(super) fn reclaim_urgently(&self, how_many: usize) -> Option<(usize, usize)> {
        self.reclaim_for(how_many, true)
    }

    fn reclaim_for(&self, how_many: usize, is_urgent: bool) -> Option<(usize, usize)> {
        let mut control = Self::control(how_many);
        let freed = self.pool.reclaim(&mut control, is_urgent)?;
        Some((control.nr_scanned, freed))
    }
}

/// A mapping in the test's address space. Unmapped when dropped.
pub(super) struct Mapped {
    pub(super) address: usize,
    len: usize,
}

impl Mapped {
    /// Makes a mapping of a range: of anonymous memory, before it is accessed.
    pub(super) fn of_range(
        range: &Arc<PageRange>,
        pages: usize,
        limit: usize,
        rights: usize,
    ) -> Result<Self> {
        let mapped = Self::map(None, pages, rights)?;
        let task = kernel::current!();
        let lock = task.mm().ok_or(ESRCH)?.mmap_read_lock();
        let vma = lock.vma_lookup(mapped.address).ok_or(ENOENT)?;
        // SAFETY: No other thread has this address space, so none finds the VMA before it is a
        // mapping of the range.
        range.register(unsafe { VmaNew::from_raw(vma.as_ptr()) }, limit)?;
        drop(lock);
        Ok(mapped)
    }

    /// Maps anonymous memory, at an address instead of what is mapped there, or anywhere.
    pub(super) fn anonymous(address: Option<usize>, pages: usize) -> Result<Self> {
        Self::map(address, pages, READ | WRITE)
    }

    fn map(address: Option<usize>, pages: usize, rights: usize) -> Result<Self> {
        let fixed = address.map_or(0, |_| MAP_FIXED);
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | fixed;
        let (at, len) = (address.unwrap_or(0), pages << PAGE_SHIFT);
        // SAFETY: The address space is the test's own, and nothing in it is used except through
        // functions that copy from and to user space.
        let address = unsafe { bindings::vm_mmap(null_mut(), at, len, rights, flags, 0) };
        // CAST: Errors are the last 4095 numbers.
        match address as isize {
            error @ -4095..0 => Err(Error::from_errno(error as i32)),
            _ => Ok(Self { address, len }),
        }
    }

    /// Unmaps the bytes `part` of it, or what is mapped there instead.
    pub(super) fn unmap(&self, part: Range<usize>) -> Result {
        // SAFETY: The test's own address space; see `map`.
        to_result(unsafe { bindings::vm_munmap(self.address + part.start, part.len()) })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // A part that is not mapped any more need not be unmapped.
        let _ = self.unmap(0..self.len);
    }
}

/// Reads the test's address space. `EFAULT` where a process would get a signal.
pub(super) fn seen<const N: usize>(address: usize) -> Result<[u8; N]> {
    let mut bytes = [0xee; N];
    UserSlice::new(UserPtr::from_addr(address), N)
        .reader()
        .read_slice(&mut bytes)?;
    Ok(bytes)
}

/// Writes to the test's address space.
pub(super) fn put(address: usize, bytes: &[u8]) -> Result {
    UserSlice::new(UserPtr::from_addr(address), bytes.len())
        .writer()
        .write_slice(bytes)
}
