// SPDX-License-Identifier: GPL-2.0

//! A range of pages that a driver fills and one process reads through a mapping, and that the kernel
//! takes back when memory is short.
//!
//! A driver that hands data to a process can copy it twice, into kernel memory and out again, or
//! once, into pages that the process has mapped read-only. [`PageRange`] is for the second way. The
//! process makes one mapping; the driver then makes pages appear in it as they are needed, from
//! whatever context it runs in, and copies into them. Pages that nobody needs for a while go back to
//! the kernel through the shrinker of the [`PagePool`] that the range belongs to.
//!
//! # The life of a page
//!
//! ```text
//!               populate
//!    absent ───────────────► present ───────────────────────────► freed
//!    (to touch it            (mapped for the process,     range      ▲
//!    is SIGBUS)               written by the kernel,      closed     │ when nobody has the range's
//!       ▲                     on the pool's list)                    │ space open, and no page
//!       │                        │ reclaim                           │ table shows it
//!       └────────────────────────┴───────────────────────────────────┘
//! ```
//!
//! A page is zeroed when it is allocated and never again: until it is freed, the process only ever
//! finds its own old data in it, and when it is freed, nobody finds it.
//!
//! A page is on the list from the moment it appears until it goes, in use or not. Using it costs
//! nothing that way. It is reclaim that finds out what is idle, by asking the range's [`Owner`].
//!
//! # The life of a mapping
//!
//! ```text
//!          register                     close, or moved to another address
//!   NEVER ──────────► mapped, n bytes ────────────────────────────────────► GONE
//!                     of it present
//! ```
//!
//! All of this is one word, [`frontier`](PageRange), so that the question that is asked for each
//! message, "is this still mapped, and are the pages there?", costs one load and one comparison.
//!
//! Pages, slots and what ties the range to the process are its [`Space`]. It goes when the range is
//! [closed](PageRange::close), which is when the process ends: whoever still holds the range then, for
//! whatever reason, holds a few words.
//!
//! # Where to find what
//!
//! Here: making a mapping and making pages appear. [`slots`]: what a present page is. [`access`]:
//! reading and writing. [`reclaim`]: how a page goes. [`pool`]: what ranges have in common.
//! [`vma_ops`]: what the kernel calls when a process does something to its mapping.
//!
//! # Locks, outermost first
//!
//! | lock | taken by | how |
//! |---|---|---|
//! | mmap lock of the process | `mmap` and `munmap`, which call us | |
//! | [`PagePool`]'s turn | reclaim, the end of a space | waits |
//! | [`PageRange`]'s `populating` | [`populate`](PageRange::populate), with its memory at hand | waits |
//! | | reclaim | tries |
//! | VMA lock, mmap lock | `populate` | waits |
//! | | reclaim | tries |
//! | whatever the [`Owner`] takes | reclaim | must not wait |
//! | lock of the list | all of them | a spinlock of `list_lru` |
//!
//! Reclaim runs in whatever context memory is allocated in, perhaps with any of these held by its own
//! thread but the turn, under which nothing allocates. So it waits for that alone, whose holder waits for
//! none of them.
//!
//! # What may differ between kernels
//!
//! This is written for 7.3. The fields of a VMA that the `kernel` crate has no abstraction for
//! (operations, private data, position in the file) are touched in [`vma_ops`] and nowhere else.

use super::closable::Closable;
use core::{marker::PhantomPinned, ops::Range};
use kernel::{
    mm::{
        virt::{VmaNew, VmaRef},
        Mm, MmWithUser, MmWithUserAsync,
    },
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic},
        Arc, Mutex, SetOnce,
    },
};

#[path = "page_range/access.rs"]
mod access;
#[path = "page_range/pool.rs"]
mod pool;
#[path = "page_range/reclaim.rs"]
mod reclaim;
#[path = "page_range/slots.rs"]
mod slots;
#[cfg(kunit_suites)]
#[path = "page_range/tests.rs"]
mod tests;
#[path = "page_range/vma_ops.rs"]
mod vma_ops;

pub use pool::PagePool;
pub use reclaim::Owner;
use slots::{OwnedRecord, Slot};

/// An address space in which pages can be shown.
type Reached = ARef<MmWithUserAsync>;

/// The number of the first round of reclaim. A build for tests starts near the end, where it comes round.
const FIRST_ROUND: u32 = if cfg!(near_limits) { u32::MAX - 1 } else { 0 };

/// The process has not made its mapping yet.
const NEVER: isize = -2;
/// The mapping is gone, or is no longer where it was. It will not come back.
const GONE: isize = -1;

/// Pages for one process's read-only mapping. See the [module](self).
///
/// Everything here may be called from any thread of any process. Where a method may sleep, it says
/// so. Dropping the last reference may sleep too.
///
/// # Examples
///
/// In the `mmap` hook of a file, and later when there is something to tell the process:
///
/// ```ignore
/// fn mmap(this: &Device, vma: &VmaNew) -> Result {
///     this.pages.register(vma, SZ_4M)?;
///     Ok(())
/// }
///
/// fn tell(this: &Device, offset: usize, message: &[u8]) -> Result<usize> {
///     // `this.messages`, the owner of the range, knows from here on that these bytes are in use.
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
/// - Slots change only under `populating`, and so does `frontier`, except that it becomes [`GONE`] at
///   any time and stays so.
/// - `frontier` changes from [`NEVER`] to 0, then up and down, then to [`GONE`], and no other way.
/// - A record in a slot is on the pool's list, or off it while somebody has the pool's turn or holds
///   `populating`.
/// - A VMA whose operations are [`vma_ops::OPERATIONS`] and whose private data is `self` owns a
///   reference count on `self`.
#[pin_data]
pub struct PageRange {
    /// How many bytes from the start of the mapping are backed by pages without interruption, or
    /// [`NEVER`], or [`GONE`].
    ///
    /// Stored with release ordering after the slots that it speaks for.
    frontier: Atomic<isize>,
    /// Where the mapping begins, in the process's address space; 0 if it was never made.
    address: Atomic<usize>,
    /// Where offset 0 of the file would be in memory if the mapping covered it. Parts of a split
    /// mapping have this in common; a mapping that was moved has another.
    base: Atomic<usize>,
    /// What is there until the range is closed. While it is open nothing waits for memory, nor for user
    /// space: reclaim takes no page of a space that somebody has open.
    space: Closable<Space>,
    /// Who knows what is in use.
    owner: Arc<dyn Owner>,
    /// How often reclaim has asked for all pages; see [`reclaim`]. Guarded by the pool's turn.
    round: Atomic<u32>,
    /// Makes those wait for each other who find the same page missing.
    ///
    /// Outside of the mmap lock and the VMA lock.
    #[pin]
    populating: Mutex<()>,
    pool: Arc<PagePool>,
}

/// What a range has of a living process.
///
/// # Invariants
///
/// Before it changes anything, its drop waits for the pool's turn.
struct Space {
    /// The address space of the process. Pinned down as a structure (`mmgrab`), not as a living
    /// address space (`mmget`): this must not keep the memory of a dead process.
    mm: ARef<Mm>,
    /// The pages, once the process has made its mapping.
    mapping: SetOnce<Mapping>,
    pool: Arc<PagePool>,
    /// Reclaim may have a reference while the drop waits.
    _pin: PhantomPinned,
}

impl Drop for Space {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.as_ref() else {
            return;
        };
        // With the turn, nobody else has taken a record off the list, so all of them are there.
        let turn = self.pool.turn();
        for slot in &mapping.slots[..] {
            // SAFETY: Nobody takes records out any more: for that they would have to be off the list.
            if let Some(record) = unsafe { slot.record() } {
                // SAFETY: The record is on the list.
                unsafe { turn.remove(record) };
            }
        }
        // The slots, which are dropped after this, free the records.
    }
}

/// The pages of a mapping.
struct Mapping {
    /// Where it begins, in the process's address space.
    address: usize,
    slots: KVVec<Slot>,
}

impl Mapping {
    fn size(&self) -> usize {
        self.slots.len() << PAGE_SHIFT
    }

    /// The indices of the pages that have a byte in `start..end`. `EFAULT` if not all are there.
    fn pages_of(&self, start: usize, end: usize) -> Result<Range<usize>> {
        if start > end || end > self.size() {
            return Err(EFAULT);
        }
        Ok(start >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE))
    }

    /// Where the page at `index` is seen.
    fn address_of(&self, index: usize) -> usize {
        self.address + (index << PAGE_SHIFT)
    }
}

impl PageRange {
    /// A range for a mapping that will be made in `mm`. `owner` is who will be asked when the pool has
    /// to give pages back.
    pub fn new(mm: &Mm, pool: Arc<PagePool>, owner: Arc<dyn Owner>) -> impl PinInit<Self> {
        let space = Space {
            mm: ARef::from(mm),
            mapping: SetOnce::new(),
            pool: pool.clone(),
            _pin: PhantomPinned,
        };
        // INVARIANT: There is no mapping yet, and there are no slots.
        pin_init!(Self {
            frontier: Atomic::new(NEVER),
            address: Atomic::new(0),
            base: Atomic::new(0),
            space: Closable::new(space),
            owner,
            round: Atomic::new(FIRST_ROUND),
            pool,
            populating <- new_mutex!((), "PageRange::populating"),
        })
    }

    /// Lets `vma`, which is just being made, show this range. Gives its usable size: what the VMA
    /// covers, but at most `limit`.
    ///
    /// From the moment this succeeds, the `mmap` hook has to succeed.
    ///
    /// Errors:
    /// - `EPERM` if the process asks for a mapping that it can write to.
    /// - `EINVAL` if this is not the address space that the range was made for.
    /// - `EBUSY` if there is a mapping already, or ever was.
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
        let mut slots = KVVec::with_capacity(pages, GFP_KERNEL)?;
        for _ in 0..pages {
            slots.push(Slot::new(), GFP_KERNEL)?;
        }
        if !space.mapping.populate(Mapping { address, slots }) {
            return Err(EBUSY);
        }
        self.address.store(address, ordering::Relaxed);
        self.base.store(vma_ops::base(vma), ordering::Relaxed);

        vma.set_dontcopy();
        vma.set_mixedmap();
        vma_ops::install(vma, self.clone());
        // INVARIANT: Nothing is said about any slot. Only `register` leaves `NEVER`, unless the range is
        // closed, and only the caller that has populated `mapping` gets here.
        let _ = self.frontier.cmpxchg(NEVER, 0, ordering::Release);
        Ok(pages << PAGE_SHIFT)
    }

    /// Where the mapping begins in the process's address space, or began if it is gone.
    pub fn address(&self) -> Option<usize> {
        let address = self.address.load(ordering::Relaxed);
        (address != 0).then_some(address)
    }

    /// The usable size of the mapping; 0 if it was never made, or the range is closed.
    pub fn size(&self) -> usize {
        let space = self.space.open();
        let mapping = space.as_ref().and_then(|space| space.mapping.as_ref());
        mapping.map_or(0, Mapping::size)
    }

    /// The process has ended: all pages go, and what else this has of it, as soon as nobody reads or
    /// writes any more. May sleep, here or where that ends.
    pub fn close(&self) {
        self.frontier.store(GONE, ordering::Release);
        self.space.close();
    }

    /// Whether the mapping is there. It may go at any time, but once gone it stays gone.
    pub fn is_mapped(&self) -> bool {
        self.frontier.load(ordering::Relaxed) >= 0
    }

    /// How many pages are present. Walks all slots: for statistics.
    pub fn pages_present(&self) -> usize {
        let space = self.space.open();
        let mapping = space.as_ref().and_then(|space| space.mapping.as_ref());
        let slots = mapping.map_or(&[][..], |mapping| &mapping.slots[..]);
        slots.iter().filter(|slot| slot.is_filled()).count()
    }

    /// Makes sure that the process sees pages at the offsets `start..end`.
    ///
    /// Usually that takes no more than a look; otherwise it sleeps to allocate memory and takes the
    /// locks of the process's address space.
    ///
    /// Errors:
    /// - `ESRCH` if there is no mapping (any more), or the process has died.
    /// - `EFAULT` if the mapping is smaller than `end`.
    /// - `ENOMEM`.
    #[inline]
    pub fn populate(&self, start: usize, end: usize) -> Result {
        match usize::try_from(self.frontier.load(ordering::Acquire)) {
            Ok(present) if end <= present => Ok(()),
            _ => self.populate_slow(start, end),
        }
    }

    #[cold]
    fn populate_slow(&self, start: usize, end: usize) -> Result {
        let Some((mm, pages)) = self.missing(start, end)? else {
            return Ok(());
        };
        let _charge = self.pool.charge(&mm);
        let result = pages
            .clone()
            .try_for_each(|index| self.add_page(&mm, index));
        self.advance_frontier();
        result
    }

    /// Which pages have to be there for `start..end`, and where they are to be seen; nothing if none of
    /// them is missing.
    fn missing(&self, start: usize, end: usize) -> Result<Option<(Reached, Range<usize>)>> {
        let space = self.space.open().ok_or(ESRCH)?;
        let mapping = space.mapping.as_ref().ok_or(ESRCH)?;
        if !self.is_mapped() {
            return Err(ESRCH);
        }
        let pages = mapping.pages_of(start, end)?;
        if mapping.slots[pages.clone()].iter().all(Slot::is_filled) {
            return Ok(None);
        }
        // The last reference to an address space tears it down. If that happened here, it would
        // be done by a task that the dying process may be waiting for: leave it to a work queue.
        let mm = space.mm.mmget_not_zero().ok_or(ESRCH)?;
        Ok(Some((MmWithUser::into_mmput_async(mm), pages)))
    }

    /// Makes a page appear if it is missing.
    fn add_page(&self, mm: &MmWithUser, index: usize) -> Result {
        if self.has_page(index)? {
            return Ok(());
        }
        // With no lock held: where memory is short, what is idle of this very range is to be had
        // (lesson S17).
        let record = OwnedRecord::new(&self.pool, self, index)?;
        let _populating = self.populating.lock();
        if self.has_page(index)? {
            return Ok(());
        }
        let address = self.address.load(ordering::Relaxed) + (index << PAGE_SHIFT);
        self.insert_page(mm, address, &record)?;
        let space = self.space.open().ok_or(ESRCH)?;
        let mapping = space.mapping.as_ref().ok_or(ESRCH)?;
        // SAFETY: The slot is that of the record, and the pool that of this range.
        unsafe { mapping.slots[index].fill(record, &self.pool) }
    }

    /// Whether a page is there. `ESRCH` if the range is closed.
    fn has_page(&self, index: usize) -> Result<bool> {
        let space = self.space.open().ok_or(ESRCH)?;
        let mapping = space.mapping.as_ref().ok_or(ESRCH)?;
        Ok(mapping.slots.get(index).is_some_and(Slot::is_filled))
    }

    /// Maps a page at `address` in the process.
    fn insert_page(&self, mm: &MmWithUser, address: usize, record: &OwnedRecord) -> Result {
        if let Some(vma) = mm.lock_vma_under_rcu(address) {
            return self.insert_page_locked(&vma, address, record);
        }
        let lock = mm.mmap_read_lock();
        let vma = lock.vma_lookup(address).ok_or(ESRCH)?;
        self.insert_page_locked(vma, address, record)
    }

    fn insert_page_locked(&self, vma: &VmaRef, address: usize, record: &OwnedRecord) -> Result {
        // A VMA at the right address need not be the right one: the process may have unmapped
        // ours and mapped something else, with other rights, in its place.
        if !vma_ops::shows(vma, self) || !self.is_mapped() {
            return Err(ESRCH);
        }
        let vma = vma.as_mixedmap_vma().ok_or(ESRCH)?;
        vma.vm_insert_page(address, &record.page())
            .map_err(|_| ENOMEM)
    }

    /// Moves the frontier to the first page that is not present.
    fn advance_frontier(&self) {
        let _populating = self.populating.lock();
        let Some(space) = self.space.open() else {
            return;
        };
        let Some(mapping) = space.mapping.as_ref() else {
            return;
        };
        let old = self.frontier.load(ordering::Relaxed);
        // CAST: not negative, which is checked here; sizes of mappings fit into an `isize`.
        let Ok(present) = usize::try_from(old) else {
            return;
        };
        let known = present >> PAGE_SHIFT;
        let more = mapping.slots[known..]
            .iter()
            .take_while(|slot| slot.is_filled())
            .count();
        let new = ((known + more) << PAGE_SHIFT) as isize;
        // INVARIANT: The slots before `new` hold pages, which they keep at least as long as
        // `populating` is held. If the exchange fails, the mapping went meanwhile, and `GONE` stays.
        let _ = self.frontier.cmpxchg(old, new, ordering::Release);
    }
}
