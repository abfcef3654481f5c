// SPDX-License-Identifier: GPL-2.0

//! A range of pages that a driver fills and one process reads through a mapping, and that the
//! kernel reclaims when memory is short.
//!
//! A driver that passes data to a process can copy it twice, into kernel memory and out again, or
//! once, into pages that the process has mapped read-only. [`PageRange`] is for the second way. The
//! process makes one mapping. The driver makes pages appear in it as they are needed, and copies
//! into them. Pages that are not needed for a while are returned to the kernel through the shrinker
//! of the [`PagePool`] that the range belongs to.
//!
//! # The life of a page
//!
//! ```text
//!               populate             release
//!    absent ─────────────► present ───────────► listed ──────────────► freed
//!    (an access            (mapped for the      (the same,    range      ▲
//!    is SIGBUS)             process, written     and on the   closed     │ when no thread has the
//!       ▲                   by the kernel)       pool's list)            │ range's space open, and
//!       │                      ▲                 │     │ reclaim         │ no page table maps it
//!       │                      └─────────────────┘     │                 │
//!       │                      reclaim finds it used   │                 │
//!       └──────────────────────────────────────────────┴─────────────────┘
//! ```
//!
//! A page is zeroed when it is allocated. Until it is freed, the process finds only its own old
//! data in it. After that no process finds them. Data that shall not even be left in free memory
//! are [secret](PageRange::begin_secret).
//!
//! A page is listed when it is [released](PageRange::release), that is when its first use ends. It
//! stays on the list when it is used again, so that a use costs nothing for the list. For
//! reclaim, the range's [`Owner`] checks whether a listed page is in use. If it is, it is taken off
//! the list until that use ends. So a page is checked at most once per use, and a page that stays
//! in use costs reclaim nothing.
//!
//! # The life of a mapping
//!
//! ```text
//!          register                     close, or moved to another address
//!   NEVER ──────────► mapped, n bytes ────────────────────────────────────► GONE
//!                     of it present
//! ```
//!
//! All of this is one word, [`frontier`](PageRange). Each message needs a check that the mapping
//! still exists and that the pages are present, and this check costs one load and one comparison.
//!
//! The pages, the slots and the reference to the process's address space are the [`Space`] of the
//! range. It is dropped when the range is [closed](PageRange::close), at the end of the process. A
//! later reference to the range keeps a few words only.
//!
//! # Locks, outermost first
//!
//! | lock | taken by | how |
//! |---|---|---|
//! | mmap lock of the process | `mmap` and `munmap`, which call this module | |
//! | VMA lock, mmap lock | `populate`; the kernel, for a fault | waits |
//! | lock of the list | reclaim; [`PageRange::release`] and the end of the space | a spinlock |
//! | VMA and mmap lock; those of the [`Owner`] | reclaim, under that of the list | never waits |
//! | [`PageRange`]'s `shrinking` | `populate`; reclaim under the owner's locks | a spinlock |
//!
//! Reclaim runs in any context in which memory is allocated, possibly in a thread that holds any of
//! the locks that it only tries. Nobody waits for reclaim, except for its spinlocks, and except for
//! a change of the address space, which waits for the removal of a page.

use super::{
    closable::Closable,
    once::{read_once, write_once},
    spin_lock::{new_spin_lock, SpinLock},
};
use core::{marker::PhantomPinned, ops::Range};
use kernel::{
    mm::{virt::VmaNew, Mm},
    page::PAGE_SHIFT,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic},
        Arc, SetOnce,
    },
};

#[path = "page_range/access.rs"]
mod access;
#[path = "page_range/mapping.rs"]
mod mapping;
#[path = "page_range/pool.rs"]
mod pool;
#[path = "page_range/reclaim.rs"]
mod reclaim;
#[path = "page_range/slots.rs"]
mod slots;
#[cfg(kunit_suites)]
#[path = "page_range/tests.rs"]
mod tests;

pub use pool::PagePool;
pub use reclaim::{Owner, PageEvent, Use};
use slots::Slot;

/// The number of the first round of reclaim. A build for tests starts near the end, where the
/// number wraps.
const FIRST_ROUND: u32 = if cfg!(near_limits) { u32::MAX - 1 } else { 0 };

/// The process has not made its mapping yet.
const NEVER: isize = -2;
/// The mapping no longer exists, or was moved. It does not come back.
const GONE: isize = -1;

/// Pages for one process's read-only mapping. See the [module](self).
///
/// Everything here may be called from any thread of any process. The documentation of a method
/// states whether it may sleep. Dropping the last reference may sleep too.
///
/// # Invariants
///
/// - If `frontier >= 0`, then the slots of the first `frontier` bytes hold pages.
/// - A slot that holds a page ceases to do so only under `shrinking`, or when the space ends.
///   `frontier` changes under it, too, except that [`NEVER`] becomes 0 when the mapping is made,
///   and that it becomes [`GONE`] at any time and stays so.
/// - `frontier` changes from [`NEVER`] to 0, then up and down, and from any of these to [`GONE`],
///   and no other way.
/// - A VMA whose operations are [`mapping::OPERATIONS`] and whose private data is `self` owns a
///   reference count on `self`.
#[pin_data]
pub struct PageRange {
    /// How many bytes from the start of the mapping are backed by pages without interruption, or
    /// [`NEVER`], or [`GONE`].
    ///
    /// Raised with release ordering after the slots that it covers. All else stands alone.
    frontier: Atomic<isize>,
    /// The start of the mapping, in the process's address space; 0 if it was never made.
    address: Atomic<usize>,
    /// The address of offset 0 of the file if the mapping covered it. All parts of a split mapping
    /// have the same; a mapping that was moved has another.
    base: Atomic<usize>,
    /// The parts that exist until the range is closed. While it is open, its user does not wait for
    /// user space, because reclaim removes no page of an open space. The user waits for memory only
    /// if a fault misses the page table.
    space: Closable<Space>,
    /// Answers which bytes are in use.
    owner: Arc<dyn Owner>,
    /// How often reclaim has visited all pages; see [`reclaim`].
    round: Atomic<u32>,
    /// How many pages are present and not on the pool's list. Raised before the use of the page
    /// ends.
    unlisted: Atomic<u32>,
    /// Keeps the frontier from being raised over a page that reclaim removes.
    #[pin]
    shrinking: SpinLock<()>,
    pool: Arc<PagePool>,
}

impl PageRange {
    /// Creates a range for a mapping that will be made in `mm`. Reclaim calls `owner` to find out
    /// which bytes are idle.
    pub fn new(mm: &Mm, pool: Arc<PagePool>, owner: Arc<dyn Owner>) -> impl PinInit<Self> {
        let space = Space {
            mm: ARef::from(mm),
            slots: SetOnce::new(),
            highest: Atomic::new(0),
            secrets: Atomic::new(0),
            pool: pool.clone(),
            _pin: PhantomPinned,
        };
        // INVARIANT: No mapping exists yet, and no slots.
        pin_init!(Self {
            frontier: Atomic::new(NEVER),
            address: Atomic::new(0),
            base: Atomic::new(0),
            space: Closable::new(space),
            owner,
            round: Atomic::new(FIRST_ROUND),
            pool,
            unlisted: Atomic::new(0),
            shrinking <- new_spin_lock!((), "PageRange::shrinking"),
        })
    }

    /// Makes `vma`, which is being set up, a mapping of this range. Returns its usable size: what
    /// the VMA covers, but at most `limit`.
    ///
    /// After this has succeeded, the `mmap` hook has to succeed.
    ///
    /// Errors:
    /// - `EPERM` if the process requests a writable mapping.
    /// - `EINVAL` if this is not the address space that the range was made for.
    /// - `EBUSY` if a mapping exists already, or existed before.
    /// - `ENOMEM`. The process may try again.
    pub fn register(self: &Arc<Self>, vma: &VmaNew, limit: usize) -> Result<usize> {
        vma.try_clear_maywrite().map_err(|_| EPERM)?;
        let space = self.space.open().ok_or(EBUSY)?;
        if !core::ptr::eq::<Mm>(&**vma.mm(), &*space.mm) {
            return Err(EINVAL);
        }
        if read_once(&self.frontier) != NEVER {
            return Err(EBUSY);
        }

        let address = vma.start();
        let pages = usize::min(vma.end() - address, limit) >> PAGE_SHIFT;
        let mut slots = KVVec::with_capacity(pages, GFP_KERNEL)?;
        for _ in 0..pages {
            slots.push(Slot::new(), GFP_KERNEL)?;
        }
        if !space.slots.populate(slots) {
            return Err(EBUSY);
        }
        write_once(&self.address, address);
        write_once(&self.base, mapping::base(vma));

        vma.set_dontcopy();
        vma.set_mixedmap();
        mapping::install(vma, self.clone());
        // ORDERING: Pairs with `populate`: after that the address is known.
        // INVARIANT: 0 claims nothing about any slot. Only `register` changes `NEVER`, unless the
        // range is closed, and only the caller that has populated `slots` gets here.
        let _ = self.frontier.cmpxchg(NEVER, 0, ordering::Release);
        Ok(pages << PAGE_SHIFT)
    }

    /// Returns where the mapping starts in the process's address space, or started before its end.
    pub fn address(&self) -> Option<usize> {
        let address = read_once(&self.address);
        (address != 0).then_some(address)
    }

    /// Returns the usable size of the mapping; 0 if it was never made, or the range is closed.
    pub fn size(&self) -> usize {
        self.with_slots(|_, slots| slots.len() << PAGE_SHIFT)
            .unwrap_or(0)
    }

    /// Closes the range, because the process has ended. All pages and everything else that belongs
    /// to the process are freed as soon as no thread reads or writes them any more. May sleep, here
    /// or where the last access ends.
    pub fn close(&self) {
        write_once(&self.frontier, GONE);
        self.space.close();
    }

    /// Returns whether the mapping exists. It may be removed at any time; after that it does not
    /// come back.
    pub fn is_mapped(&self) -> bool {
        read_once(&self.frontier) >= 0
    }

    /// Lists pages whose last use has ended, for reclaim to find.
    ///
    /// To be called after the end of a use if [`has_unlisted`](Self::has_unlisted) returns `true`,
    /// for the pages that no other use has a byte in.
    pub fn release(&self, pages: Range<usize>) {
        self.with_slots(|_, slots| {
            let slots = slots.get(pages).unwrap_or_default();
            for record in slots.iter().filter_map(Slot::list) {
                self.unlisted.fetch_sub(1, ordering::Relaxed);
                // SAFETY: The space is open, so the record is in its slot and valid. It is of a
                // range of this pool, and on no list: this thread alone has made it listed.
                unsafe { self.pool.add(record.as_ref()) };
            }
        });
    }

    /// Returns whether a page is present and not listed. To be called under the owner's lock, under
    /// which uses end.
    pub fn has_unlisted(&self) -> bool {
        read_once(&self.unlisted) != 0
    }

    /// Returns whether a page is present at this moment: `false` if the range is closed.
    pub fn has_page(&self, index: usize) -> bool {
        self.present_in(index..index + 1) != 0
    }

    /// Returns which of up to 64 pages are present, at this moment: a bit for each, the lowest for
    /// the first.
    pub fn present_in(&self, pages: Range<usize>) -> u64 {
        self.with_slots(|_, slots| {
            let slots = slots.get(pages).unwrap_or_default().iter().rev();
            slots.fold(0, |bits, slot| bits << 1 | u64::from(slot.is_filled()))
        })
        .unwrap_or(0)
    }

    /// Returns how many pages, from the start of the mapping on, were present at some time, those
    /// between them included.
    pub fn high_watermark(&self) -> usize {
        self.with_slots(|space, _| read_once(&space.highest))
            .unwrap_or(0)
    }

    /// Begins the time in which the range may hold a secret: data that shall not be left in free
    /// memory. The caller that writes them zeroes them before [`end_secret`](Self::end_secret). If
    /// the range is [closed](Self::close) before that, it zeroes all of its pages.
    #[cold]
    pub fn begin_secret(&self) {
        self.with_slots(|space, _| space.secrets.fetch_add(1, ordering::Relaxed));
    }

    /// Ends what [`begin_secret`](Self::begin_secret) has begun, with the same range.
    #[cold]
    pub fn end_secret(&self) {
        self.with_slots(|space, _| space.secrets.fetch_sub(1, ordering::Relaxed));
    }

    /// Calls `f` with the slots, while the space is open. Returns [`None`] if the mapping was never
    /// made, or the range is closed.
    fn with_slots<R>(&self, f: impl FnOnce(&Space, &[Slot]) -> R) -> Option<R> {
        let space = self.space.open()?;
        space.slots.as_ref().map(|slots| f(&space, slots))
    }

    /// Returns the address of a page of the mapping, which was made.
    fn address_of(&self, index: usize) -> usize {
        read_once(&self.address) + (index << PAGE_SHIFT)
    }
}

/// The part of a range that belongs to a living process. Its drop frees the records in its slots.
struct Space {
    /// The address space of the process. Pinned as a structure (`mmgrab`), not as a living address
    /// space (`mmget`): this must not keep the memory of a dead process.
    mm: ARef<Mm>,
    /// The pages, after the process has made its mapping.
    slots: SetOnce<KVVec<Slot>>,
    /// One more than the highest index of a slot that was ever filled. Raised before that.
    highest: Atomic<usize>,
    /// How many times secrets were begun and not ended. The end of the last access, which ends the
    /// space, comes after all changes of it.
    secrets: Atomic<u32>,
    pool: Arc<PagePool>,
    /// Reclaim may have a reference under the lock of the list, for which the drop waits.
    _pin: PhantomPinned,
}

impl Drop for Space {
    fn drop(&mut self) {
        let slots = self.slots.as_ref().map_or(&[][..], |slots| slots);
        let has_secrets = read_once(&self.secrets) > 0;
        // All other slots have never held a page.
        for slot in &slots[..read_once(&self.highest)] {
            // SAFETY: This is the drop of the space.
            let Some(record) = (unsafe { slot.take() }) else {
                continue;
            };
            // SAFETY: The record is of this pool. It is on the list or on none: a thread adds it
            // only while it has the space open, and nobody has the space open during its drop.
            unsafe { self.pool.remove(&record) };
            if has_secrets {
                access::Part::PAGE.zero(&record.page);
            }
        }
    }
}
