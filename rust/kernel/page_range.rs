// SPDX-License-Identifier: GPL-2.0

//! A range of pages that a driver fills and one process reads through a mapping.
//!
//! A driver that hands data to a process can copy it twice, into kernel memory and out again, or
//! once, into pages that the process has mapped read-only. [`PageRange`] is for the second way. The
//! process makes one mapping; the driver then makes pages appear in it as they are needed, from
//! whatever context it runs in, and copies into them.
//!
//! # The life of a page
//!
//! ```text
//!              populate                              PageRange dropped
//!   absent ───────────────► present ──────────────────────────────────────────► freed
//!   (to touch it            (mapped for the process,      ▲
//!   is SIGBUS)               written by the kernel)       │ the process's own page table keeps
//!      ▲                        ┊                         │ what it has mapped until the mapping
//!      └┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┘                         │ goes, however long that takes
//!               (reclaim)
//! ```
//!
//! A page is zeroed when it is allocated and never again: until reclaim takes it, the process only
//! ever finds its own old data in it.
//!
//! **Reclaim** (dotted) does not exist yet. Its place is a method `evict(index)` next to
//! [`populate`](PageRange::populate): under `populating` it lowers `frontier` below the page, takes
//! the page out of its slot, zaps it from the mapping, and frees it after a grace period of an SRCU
//! domain in whose read sections [`with_bytes`](PageRange::with_bytes) will then run. Which pages
//! are not in use is the caller's knowledge, and so is when to ask.
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
//! # What may differ between kernels
//!
//! This is written for 7.3. The fields of a VMA that the `kernel` crate has no abstraction for
//! (operations, private data, position in the file) are touched in [`vma_ops`] and nowhere else.

use kernel::{
    bindings,
    mm::{
        virt::{VmaNew, VmaRef},
        Mm, MmWithUser,
    },
    new_mutex,
    page::{Page, PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic},
        Arc, Mutex, SetOnce,
    },
    uaccess::UserPtr,
};

#[path = "page_range/vma_ops.rs"]
mod vma_ops;

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
///     this.pages.populate(offset, offset + message.len())?;
///     this.pages.write(offset, message)?;
///     let address = this.pages.address().ok_or(ESRCH)?;
///     Ok(address + offset) // where the process finds it
/// }
/// ```
///
/// # Invariants
///
/// - If `frontier >= 0`, then `mapping` is populated, and the slots of the first `frontier` bytes
///   hold pages.
/// - A slot that holds a page owns it, and holds it until `self` is dropped.
/// - Slots change from empty to a page only, and only under `populating`.
/// - `frontier` changes from [`NEVER`] to 0, then upwards, then to [`GONE`], and no other way.
/// - A VMA whose operations are [`vma_ops::OPERATIONS`] and whose private data is `self` owns a
///   reference count on `self`.
#[pin_data]
pub struct PageRange {
    /// How many bytes from the start of the mapping are backed by pages without interruption, or
    /// [`NEVER`], or [`GONE`].
    ///
    /// Stored with release ordering after the slots that it speaks for.
    frontier: Atomic<isize>,
    /// Where the mapping is, and its pages.
    mapping: SetOnce<Mapping>,
    /// The address space of the process. Pinned down as a structure (`mmgrab`), not as a living
    /// address space (`mmget`): this must not keep the memory of a dead process.
    mm: ARef<Mm>,
    /// Makes those wait for each other who find the same page missing.
    ///
    /// Outside of the mmap lock and the VMA lock.
    #[pin]
    populating: Mutex<()>,
}

/// What is known for good once the process has made its mapping.
struct Mapping {
    /// Where the mapping begins, in the process's address space.
    address: usize,
    /// Where offset 0 of the file would be in memory if the mapping covered it. Parts of a split
    /// mapping have this in common; a mapping that was moved has another.
    base: usize,
    slots: KVVec<Slot>,
}

impl Mapping {
    fn size(&self) -> usize {
        self.slots.len() << PAGE_SHIFT
    }
}

/// The place of one page: null, or a page that belongs to the slot.
struct Slot(Atomic<*mut bindings::page>);

impl Slot {
    fn page(&self) -> Option<*mut bindings::page> {
        let page = self.0.load(ordering::Acquire);
        (!page.is_null()).then_some(page)
    }

    /// Puts a page into an empty slot.
    fn fill(&self, page: Page) {
        // The slot owns the page from here on, until it is dropped.
        let page = core::mem::ManuallyDrop::new(page);
        self.0.store(page.as_ptr(), ordering::Release);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let page = *self.0.get_mut();
        if !page.is_null() {
            // SAFETY: By the type invariants of `PageRange` the slot owns the page, which `fill`
            // took from a `Page`, that is, a page of order 0. The slot is going away, so nobody
            // else can get the pointer from it; what the process has mapped holds page references
            // of its own.
            unsafe { bindings::__free_pages(page, 0) };
        }
    }
}

impl PageRange {
    /// A range for a mapping that will be made in `mm`.
    pub fn new(mm: &Mm) -> impl PinInit<Self> {
        let mm = ARef::from(mm);
        // INVARIANT: There is no mapping yet, and there are no slots.
        pin_init!(Self {
            frontier: Atomic::new(NEVER),
            mapping: SetOnce::new(),
            mm,
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
        if !core::ptr::eq::<Mm>(&**vma.mm(), &*self.mm) {
            return Err(EINVAL);
        }
        if self.frontier.load(ordering::Relaxed) != NEVER {
            return Err(EBUSY);
        }

        let address = vma.start();
        let pages = usize::min(vma.end() - address, limit) >> PAGE_SHIFT;
        let mut slots = KVVec::with_capacity(pages, GFP_KERNEL)?;
        for _ in 0..pages {
            slots.push(Slot(Atomic::new(core::ptr::null_mut())), GFP_KERNEL)?;
        }
        let mapping = Mapping {
            address,
            base: vma_ops::base(vma),
            slots,
        };
        if !self.mapping.populate(mapping) {
            return Err(EBUSY);
        }

        vma.set_dontcopy();
        vma.set_mixedmap();
        vma_ops::install(vma, self.clone());
        // INVARIANT: `mapping` is populated, and nothing is said about any slot. Only `register`
        // leaves `NEVER`, and only the caller that has populated `mapping` gets here.
        self.frontier.store(0, ordering::Release);
        Ok(pages << PAGE_SHIFT)
    }

    /// Where the mapping begins in the process's address space, or began if it is gone.
    pub fn address(&self) -> Option<usize> {
        self.mapping.as_ref().map(|mapping| mapping.address)
    }

    /// The usable size of the mapping; 0 if it was never made.
    pub fn size(&self) -> usize {
        self.mapping.as_ref().map_or(0, Mapping::size)
    }

    /// Whether the mapping is there. It may go at any time, but once gone it stays gone.
    pub fn is_mapped(&self) -> bool {
        self.frontier.load(ordering::Relaxed) >= 0
    }

    /// How many pages are present. Walks all slots: for statistics.
    pub fn pages_present(&self) -> usize {
        let slots = self.mapping.as_ref().map_or(&[][..], |m| &m.slots[..]);
        slots.iter().filter(|slot| slot.page().is_some()).count()
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
        let mapping = self.mapping.as_ref().ok_or(ESRCH)?;
        if !self.is_mapped() {
            return Err(ESRCH);
        }
        if start > end || end > mapping.size() {
            return Err(EFAULT);
        }
        let indices = start >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE);
        let missing = |&index: &usize| mapping.slots[index].page().is_none();
        if !indices.clone().any(|index| missing(&index)) {
            return Ok(());
        }

        // The last reference to an address space tears it down. If that happened here, it would
        // be done by a task that the dying process may be waiting for: leave it to a work queue.
        let mm = self.mm.mmget_not_zero().ok_or(ESRCH)?;
        let mm = MmWithUser::into_mmput_async(mm);

        let _populating = self.populating.lock();
        let result = indices.filter(missing).try_for_each(|index| {
            let page = Page::alloc_page(GFP_KERNEL | __GFP_HIGHMEM | __GFP_ZERO)?;
            self.insert_page(&mm, mapping.address + (index << PAGE_SHIFT), &page)?;
            // INVARIANT: The slot is empty, as only holders of `populating` fill slots.
            mapping.slots[index].fill(page);
            Ok(())
        });
        self.advance_frontier(mapping);
        result
    }

    /// Maps a page at `address` in the process.
    fn insert_page(&self, mm: &MmWithUser, address: usize, page: &Page) -> Result {
        if let Some(vma) = mm.lock_vma_under_rcu(address) {
            return self.insert_page_locked(&vma, address, page);
        }
        let lock = mm.mmap_read_lock();
        let vma = lock.vma_lookup(address).ok_or(ESRCH)?;
        self.insert_page_locked(vma, address, page)
    }

    fn insert_page_locked(&self, vma: &VmaRef, address: usize, page: &Page) -> Result {
        // A VMA at the right address need not be the right one: the process may have unmapped
        // ours and mapped something else, with other rights, in its place.
        if !vma_ops::shows(vma, self) || !self.is_mapped() {
            return Err(ESRCH);
        }
        let vma = vma.as_mixedmap_vma().ok_or(ESRCH)?;
        vma.vm_insert_page(address, page).map_err(|_| ENOMEM)
    }

    /// Moves the frontier to the first page that is not present. The caller holds `populating`.
    fn advance_frontier(&self, mapping: &Mapping) {
        let old = self.frontier.load(ordering::Relaxed);
        // CAST: not negative, which is checked here; sizes of mappings fit into an `isize`.
        let Ok(present) = usize::try_from(old) else {
            return;
        };
        let known = present >> PAGE_SHIFT;
        let more = mapping.slots[known..]
            .iter()
            .take_while(|slot| slot.page().is_some())
            .count();
        let new = ((known + more) << PAGE_SHIFT) as isize;
        // INVARIANT: The slots before `new` have been seen to hold pages, which they keep. If the
        // exchange fails, the mapping went meanwhile, and `GONE` stays.
        let _ = self.frontier.cmpxchg(old, new, ordering::Release);
    }

    /// Copies `len` bytes from the current process's memory at `from` to the offset `offset`.
    /// May sleep.
    ///
    /// Errors: `EFAULT` if the source cannot be read, or if the pages of the target are not
    /// [populated](Self::populate). Part of the data may have been copied then.
    #[inline]
    pub fn copy_from_user(&self, offset: usize, from: UserPtr, len: usize) -> Result {
        self.with_bytes(offset, len, |page, done, len| {
            let from = from.wrapping_byte_add(done).as_const_ptr();
            // SAFETY: `with_bytes` gives a pointer that is valid for writes of `len` bytes, which
            // are inside one page, so there is nothing for the checks to find that `_` leaves out.
            // The source may be any address at all. That others read or write the same bytes at
            // the same time is as good for this C function as it is for its source; see
            // `with_bytes`.
            let left = unsafe { bindings::_copy_from_user(page.cast(), from, len) };
            if left == 0 {
                Ok(())
            } else {
                Err(EFAULT)
            }
        })
    }

    /// Copies `bytes` to the offset `offset`.
    ///
    /// Errors: `EFAULT` if the pages are not [populated](Self::populate).
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result {
        self.with_bytes(offset, bytes.len(), |page, done, len| {
            // SAFETY: `with_bytes` gives a pointer that is valid for writes of `len` bytes and
            // tells how many of `bytes` it has given pointers for: `done + len <= bytes.len()`.
            // Page memory and `bytes` do not overlap: there are no references to page memory.
            unsafe {
                let from = bytes.as_ptr().add(done);
                bindings::memcpy(page.cast(), from.cast(), len);
            }
            Ok(())
        })
    }

    /// Fills `bytes` from the offset `offset`.
    ///
    /// What comes back may be anything that anyone wrote there: in this respect it is like reading
    /// from user space.
    ///
    /// Errors: `EFAULT` if the pages are not [populated](Self::populate).
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result {
        self.with_bytes(offset, bytes.len(), |page, done, len| {
            // SAFETY: As in `write`, the other way round. All bit patterns are valid for bytes.
            unsafe {
                let to = bytes.as_mut_ptr().add(done);
                bindings::memcpy(to.cast(), page.cast(), len);
            }
            Ok(())
        })
    }

    /// Writes zeroes to the offsets `offset..offset + len`.
    ///
    /// Errors: `EFAULT` if the pages are not [populated](Self::populate).
    pub fn zero(&self, offset: usize, len: usize) -> Result {
        self.with_bytes(offset, len, |page, _, len| {
            // SAFETY: `with_bytes` gives a pointer that is valid for writes of `len` bytes.
            unsafe { bindings::memset(page.cast(), 0, len) };
            Ok(())
        })
    }

    /// Calls `f` for the part of `offset..offset + len` in each page, with a pointer to it, how
    /// much went before it, and how long it is.
    ///
    /// The pointer is valid for reads and writes of that length on this thread during the call.
    ///
    /// # Races
    ///
    /// The process that has the range mapped reads the same memory whenever it likes, and nothing
    /// here keeps two threads of the kernel from using the same offsets at once. Therefore no
    /// reference to page memory is ever made, and Rust code never reads or writes it: it is only
    /// handed to `memcpy`, `memset` and `_copy_from_user`, for which the kernel's own memory
    /// model holds. By that, racing copies leave some mixture of their bytes and have no other
    /// effect.
    #[inline(always)]
    fn with_bytes(
        &self,
        offset: usize,
        len: usize,
        mut f: impl FnMut(*mut u8, usize, usize) -> Result,
    ) -> Result {
        let mapping = self.mapping.as_ref().ok_or(EFAULT)?;
        let mut done = 0;
        while done < len {
            let at = offset.checked_add(done).ok_or(EFAULT)?;
            let slot = mapping.slots.get(at >> PAGE_SHIFT).ok_or(EFAULT)?;
            let page = slot.page().ok_or(EFAULT)?;
            let in_page = at & (PAGE_SIZE - 1);
            let part = usize::min(len - done, PAGE_SIZE - in_page);

            // SAFETY: The slot owns this page, and keeps it while `self` is borrowed, by the type
            // invariants.
            let mapped = unsafe { bindings::kmap_local_page(page) };
            // SAFETY: `in_page` is less than the size of the page that is mapped there.
            let start = unsafe { mapped.cast::<u8>().add(in_page) };
            let result = f(start, done, part);
            // SAFETY: `mapped` is from `kmap_local_page` on this thread; `f` cannot have left
            // mappings of its own behind: none of the functions given by this file makes any.
            unsafe { bindings::kunmap_local(mapped) };
            result?;
            done += part;
        }
        Ok(())
    }
}
