// SPDX-License-Identifier: GPL-2.0

//! A range of pages that a driver fills and one process reads through a mapping, and that the
//! kernel reclaims when memory is short.
//!
//! A driver that passes data to a process can copy it twice, into kernel memory and out again, or
//! once, into pages that the process has mapped read-only. [`PageRange`] is for the second way. The
//! process makes one mapping; the driver then makes pages appear in it as they are needed, from any
//! context it runs in, and copies into them. Pages that are not needed for a while are returned to
//! the kernel through the shrinker of the [`PagePool`] that the range belongs to.
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
//! A page is zeroed when it is allocated: until it is freed, the process only finds its own old
//! data in it, and after it is freed, no process finds them. Data that shall not even be left in
//! free memory are [secret](PageRange::begin_secret).
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
//! All of this is one word, [`frontier`](PageRange), so that the check that each message needs,
//! whether the mapping still exists and the pages are present, costs one load and one comparison.
//!
//! The pages, the slots and the reference to the process's address space are the [`Space`] of the
//! range. It is dropped when the range is [closed](PageRange::close), which is when the process
//! ends: a reference to the range that is held after that, for any reason, keeps a few words.
//!
//! # Files
//!
//! This file: the range and its mapping. [`populate`]: how pages appear. [`slots`]: what a present
//! page is. [`access`]: reading and writing. [`reclaim`]: how a page is removed. [`space`]: what
//! ends with the process. [`pool`]: what ranges have in common. [`turns`]: who may take pages of a
//! range off the list. [`vma_ops`]: the functions that the kernel calls when a process changes its
//! mapping.
//!
//! # Locks, outermost first
//!
//! | lock | taken by | how |
//! |---|---|---|
//! | mmap lock of the process | `mmap` and `munmap`, which call this module | |
//! | VMA lock, mmap lock | `populate` | waits |
//! | | reclaim | tries |
//! | the range's [turn](turns) | the end of its space | waits |
//! | | `populate` of a page that reclaim is removing | waits |
//! | | reclaim, under the lock of the list | tries |
//! | | reclaim that has freed nothing, and has taken no other lock of these | waits, once |
//! | the locks that the [`Owner`] takes | reclaim | must not wait |
//! | [`PageRange`]'s `shrinking` | `populate`, and reclaim under the owner's locks | a spinlock |
//! | lock of the list | all of them | a spinlock of `list_lru` |
//!
//! Reclaim runs in any context in which memory is allocated, possibly in a thread that holds any of
//! these locks except a turn, under which nothing is allocated. It has the turn of a page's range
//! before it tries for the locks above. As the holder of a turn waits for none of them, a turn may
//! be waited for under any of them. Nobody has two turns at once.
//!
//! # What may differ between kernels
//!
//! This is written for 7.3. The fields of a VMA that the `kernel` crate has no abstraction for
//! (operations, private data, position in the file) are accessed in [`vma_ops`] and nowhere else.

use super::closable::Closable;
use core::ops::Range;
use kernel::{
    mm::{virt::VmaNew, Mm},
    new_spinlock,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        Arc, SpinLock,
    },
};

#[path = "page_range/access.rs"]
mod access;
#[path = "page_range/pool.rs"]
mod pool;
#[path = "page_range/populate.rs"]
mod populate;
#[path = "page_range/reclaim.rs"]
mod reclaim;
#[path = "page_range/slots.rs"]
mod slots;
#[path = "page_range/space.rs"]
mod space;
#[cfg(kunit_suites)]
#[path = "page_range/tests.rs"]
mod tests;
#[path = "page_range/turns.rs"]
mod turns;
#[path = "page_range/vma_ops.rs"]
mod vma_ops;

pub use pool::PagePool;
pub use reclaim::{Owner, PageEvent, Use};
use slots::Slot;
use space::{Mapping, Space};
use turns::TurnNumber;

/// The number of the first round of reclaim. A build for tests starts near the end, where the
/// number wraps.
const FIRST_ROUND: u32 = if cfg!(near_limits) { u32::MAX - 1 } else { 0 };

/// The process has not made its mapping yet.
const NEVER: isize = -2;
/// The mapping no longer exists, or was moved. It does not come back.
const GONE: isize = -1;

/// Pages for one process's read-only mapping. See the [module](self).
///
/// Everything here may be called from any thread of any process. The methods that may sleep say so
/// in their documentation. Dropping the last reference may sleep too.
///
/// # Examples
///
/// In the `mmap` hook of a file, and later when there is a message for the process:
///
/// ```ignore
/// fn mmap(this: &Device, vma: &VmaNew) -> Result {
///     this.pages.register(vma, SZ_4M)?;
///     Ok(())
/// }
///
/// fn send(this: &Device, offset: usize, message: &[u8]) -> Result<usize> {
///     // `this.messages`, the owner of the range, records from here on that these bytes are used.
///     // When they are not any more, it calls `release` for their pages.
///     this.messages.lock().reserve(offset, message.len())?;
///     this.pages.populate(offset, offset + message.len())?;
///     this.pages.write(offset, message)?;
///     let address = this.pages.address().ok_or(ESRCH)?;
///     Ok(address + offset) // where the process finds it
/// }
/// ```
///
/// # Invariants
///
/// - If `frontier >= 0`, then the slots of the first `frontier` bytes hold pages.
/// - A slot that holds a page ceases to do so only under `shrinking`, or when the space ends.
///   `frontier` changes under it, too, except that [`NEVER`] becomes 0 when the mapping is made,
///   and that it becomes [`GONE`] at any time and stays so.
/// - `frontier` changes from [`NEVER`] to 0, then up and down, and from any of these to [`GONE`],
///   and no other way.
/// - `turn` does not change, and is that of the range's space, too.
/// - A VMA whose operations are [`vma_ops::OPERATIONS`] and whose private data is `self` owns a
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
    /// What exists until the range is closed. While it is open its user waits neither for memory
    /// nor for user space: reclaim removes no page of a space that is open.
    space: Closable<Space>,
    /// Answers which bytes are in use.
    owner: Arc<dyn Owner>,
    /// How often reclaim has asked for all pages; see [`reclaim`]. Changed under the range's turn.
    round: Atomic<u32>,
    /// Which of the pool's turns is that of this range: needed to take a page of it off the list.
    turn: TurnNumber,
    /// How many pages are present and not on the pool's list. Raised before the use of the page
    /// ends.
    unlisted: Atomic<u32>,
    /// Keeps the frontier from being raised over a page that reclaim removes.
    #[pin]
    shrinking: SpinLock<()>,
    pool: Arc<PagePool>,
}

impl PageRange {
    /// Creates a range for a mapping that will be made in `mm`. `owner` is asked which bytes are
    /// idle when the pool has to return pages to the kernel.
    pub fn new(mm: &Mm, pool: Arc<PagePool>, owner: Arc<dyn Owner>) -> impl PinInit<Self> {
        let turn = pool.turns.draw();
        let space = Space::new(mm, pool.clone(), turn);
        // INVARIANT: No mapping exists yet, and no slots. The space has the same turn.
        pin_init!(Self {
            frontier: Atomic::new(NEVER),
            address: Atomic::new(0),
            base: Atomic::new(0),
            space: Closable::new(space),
            owner,
            round: Atomic::new(FIRST_ROUND),
            turn,
            pool,
            unlisted: Atomic::new(0),
            shrinking <- new_spinlock!((), "PageRange::shrinking"),
        })
    }

    /// Makes `vma`, which is being set up, a mapping of this range. Returns its usable size: what
    /// the VMA covers, but at most `limit`.
    ///
    /// After this has succeeded, the `mmap` hook has to succeed.
    ///
    /// Errors:
    /// - `EPERM` if the process asks for a writable mapping.
    /// - `EINVAL` if this is not the address space that the range was made for.
    /// - `EBUSY` if a mapping exists already, or existed before.
    /// - `ENOMEM`. The process may try again.
    pub fn register(self: &Arc<Self>, vma: &VmaNew, limit: usize) -> Result<usize> {
        vma.try_clear_maywrite().map_err(|_| EPERM)?;
        let space = self.space.open().ok_or(EBUSY)?;
        if !core::ptr::eq::<Mm>(&**vma.mm(), &*space.mm) {
            return Err(EINVAL);
        }
        if self.frontier.load(ordering::Relaxed) != NEVER {
            return Err(EBUSY);
        }

        let address = vma.start();
        let pages = usize::min(vma.end() - address, limit) >> PAGE_SHIFT;
        if !space.mapping.populate(Mapping::new(address, pages)?) {
            return Err(EBUSY);
        }
        self.address.store(address, ordering::Relaxed);
        self.base.store(vma_ops::base(vma), ordering::Relaxed);

        vma.set_dontcopy();
        vma.set_mixedmap();
        vma_ops::install(vma, self.clone());
        // ORDERING: Pairs with `populate`: after that the address is known.
        // INVARIANT: 0 claims nothing about any slot. Only `register` changes `NEVER`, unless the
        // range is closed, and only the caller that has populated `mapping` gets here.
        let _ = self.frontier.cmpxchg(NEVER, 0, ordering::Release);
        Ok(pages << PAGE_SHIFT)
    }

    /// Returns where the mapping starts in the process's address space, or started before its end.
    pub fn address(&self) -> Option<usize> {
        let address = self.address.load(ordering::Relaxed);
        (address != 0).then_some(address)
    }

    /// Returns the usable size of the mapping; 0 if it was never made, or the range is closed.
    pub fn size(&self) -> usize {
        self.with_mapping(Mapping::size).unwrap_or(0)
    }

    /// Closes the range, because the process has ended: all pages and everything else that belongs
    /// to the process are freed as soon as no thread reads or writes them any more. May sleep, here
    /// or where the last access ends.
    pub fn close(&self) {
        self.frontier.store(GONE, ordering::Relaxed);
        self.space.close();
    }

    /// Whether the mapping exists. It may be removed at any time; after that it does not come back.
    pub fn is_mapped(&self) -> bool {
        self.frontier.load(ordering::Relaxed) >= 0
    }

    /// Lists pages whose last use has ended, for reclaim to find.
    ///
    /// To be called after the end of a use if [`has_unlisted`](Self::has_unlisted) returns `true`,
    /// for the pages that no other use has a byte in.
    pub fn release(&self, pages: Range<usize>) {
        self.with_mapping(|mapping| {
            let slots = mapping.slots.get(pages).unwrap_or_default();
            for record in slots.iter().filter_map(Slot::list) {
                self.unlisted.fetch_sub(1, ordering::Relaxed);
                // SAFETY: The space is open, so the record is in its slot and valid. It is of a
                // range of this pool, and on no list: this thread alone has made it listed.
                unsafe { self.pool.add(record) };
            }
        });
    }

    /// Returns whether a page is present and not listed. To be called under the owner's lock, under
    /// which uses end.
    #[inline]
    pub fn has_unlisted(&self) -> bool {
        self.unlisted.load(ordering::Relaxed) != 0
    }

    /// Returns whether a page is present at this moment: `false` if the range is closed.
    pub fn has_page(&self, index: usize) -> bool {
        let slot_has = |mapping: &Mapping| mapping.slots.get(index).is_some_and(Slot::is_filled);
        self.with_mapping(slot_has).unwrap_or(false)
    }

    /// Returns which of up to 64 pages are present, at this moment: a bit for each, the lowest for
    /// the first.
    pub fn present_in(&self, pages: Range<usize>) -> u64 {
        let bits = |mapping: &Mapping| {
            let slots = mapping.slots.get(pages).unwrap_or_default().iter().rev();
            slots.fold(0, |bits, slot| bits << 1 | u64::from(slot.is_filled()))
        };
        self.with_mapping(bits).unwrap_or(0)
    }

    /// Returns how many pages, from the start of the mapping on, were present at some time, those
    /// between them included.
    pub fn high_watermark(&self) -> usize {
        self.with_mapping(|mapping| mapping.highest.load(ordering::Relaxed))
            .unwrap_or(0)
    }

    /// Calls `f` with the mapping, while the space is open. Returns [`None`] if the mapping was
    /// never made, or the range is closed.
    fn with_mapping<R>(&self, f: impl FnOnce(&Mapping) -> R) -> Option<R> {
        let space = self.space.open()?;
        space.mapping.as_ref().map(f)
    }
}
