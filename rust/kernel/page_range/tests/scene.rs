// SPDX-License-Identifier: GPL-2.0

//! What the tests need around a page range: a file whose mappings show it, an address space of the
//! test's own, an owner whose answers the test sets.

use super::super::{
    pool::PagePool, reclaim::Need, space::Mapping, Owner, PageEvent, PageRange, Use,
};
use crate::kernel_ext::expect::Failed;
use kernel::{
    bindings,
    error::{from_err_ptr, from_result, to_result},
    ffi::{c_char, c_int, c_void},
    mm::virt::VmaNew,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        Arc,
    },
    uaccess::{UserPtr, UserSlice},
};

use core::{ops::Range, ptr::null_mut};

extern "C" {
    fn anon_inode_getfile(
        name: *const c_char,
        operations: *const c_void,
        data: *mut c_void,
        flags: c_int,
    ) -> *mut c_void;
}

// From <asm-generic/mman-common.h> and <linux/mman.h>, for all architectures that are supported
// here.
pub(super) const READ: usize = 1;
pub(super) const WRITE: usize = 2;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;

/// An owner that answers which pages are in use, and records which of them reclaim asks for.
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

    fn observe(&self, _event: PageEvent, _index: usize) {}
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
    /// Creates a range that is not mapped, in the address space that the test's thread gets.
    pub(super) fn new() -> Result<Self, Failed> {
        Self::in_pool(PagePool::new(c"page-range-test", false)?)
    }

    /// As [`new`](Self::new), in a pool that exists already.
    fn in_pool(pool: Arc<PagePool>) -> Result<Self, Failed> {
        // SAFETY: This is a thread of KUnit's, which drops the address space when it ends.
        to_result(unsafe { bindings::kunit_attach_mm() })?;
        let books = Books {
            used: Atomic::new(0),
            chances: Atomic::new(0),
            asked_for: Atomic::new(u64::MAX),
            asked: Atomic::new(0),
            round: Atomic::new(0),
        };
        let books = Arc::new(books, GFP_KERNEL)?;
        let task = kernel::current!();
        let mm = task.mm().ok_or(ESRCH)?;
        let range = PageRange::new(mm, pool.clone(), books.clone());
        Ok(Self {
            mapped: None,
            range: Arc::pin_init(range, GFP_KERNEL)?,
            books,
            pool,
        })
    }

    /// Creates a range with a mapping of `pages` pages.
    pub(super) fn mapped(pages: usize) -> Result<Self, Failed> {
        let mut scene = Self::new()?;
        scene.map(pages)?;
        Ok(scene)
    }

    /// As [`mapped`](Self::mapped), with all pages present and listed.
    pub(super) fn filled(pages: usize) -> Result<Self, Failed> {
        let scene = Self::mapped(pages)?;
        scene.fill(pages)?;
        Ok(scene)
    }

    /// As [`filled`](Self::filled), in the pool of this scene.
    pub(super) fn beside(&self, pages: usize) -> Result<Self, Failed> {
        let mut scene = Self::in_pool(self.pool.clone())?;
        scene.map(pages)?;
        scene.fill(pages)?;
        Ok(scene)
    }

    /// Makes the first so many pages present, and listed, as after their first use.
    pub(super) fn fill(&self, pages: usize) -> Result {
        self.range.populate(0, pages << PAGE_SHIFT)?;
        self.range.release(0..pages);
        Ok(())
    }

    /// Makes the mapping.
    fn map(&mut self, pages: usize) -> Result {
        self.mapped = Some(Mapped::of_range(&self.range, pages, usize::MAX, READ)?);
        Ok(())
    }

    /// Returns how many pages are present.
    pub(super) fn present(&self) -> usize {
        let mapping = |mapping: &Mapping| {
            let slots = mapping.slots.iter();
            slots.filter(|slot| slot.is_filled()).count()
        };
        self.range.with_mapping(mapping).unwrap_or(0)
    }

    /// Returns how many pages are before the frontier.
    pub(super) fn frontier(&self) -> isize {
        self.range.frontier.load(ordering::Relaxed) >> PAGE_SHIFT
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

    /// Returns how many pages are on the pool's list.
    pub(super) fn listed(&self) -> usize {
        self.pool.count(&Self::control(0))
    }

    /// Asks for `how_many` pages. Returns how many were asked for, and how many were freed.
    pub(super) fn reclaim(&self, how_many: usize) -> Option<(usize, usize)> {
        self.reclaim_for(how_many, Need::Some)
    }

    /// The same for an allocation that cannot proceed without memory.
    pub(super) fn reclaim_urgently(&self, how_many: usize) -> Option<(usize, usize)> {
        self.reclaim_for(how_many, Need::Urgent)
    }

    fn reclaim_for(&self, how_many: usize, need: Need) -> Option<(usize, usize)> {
        let mut control = Self::control(how_many);
        let freed = self.pool.reclaim(&mut control, need)?;
        Some((control.nr_scanned, freed))
    }
}

/// A mapping in the test's address space. Unmapped when dropped.
pub(super) struct Mapped {
    pub(super) address: usize,
    len: usize,
}

impl Mapped {
    /// Makes a mapping of a range in the way a process makes it: through a file.
    pub(super) fn of_range(
        range: &Arc<PageRange>,
        pages: usize,
        limit: usize,
        rights: usize,
    ) -> Result<Self> {
        let mut request = Request {
            range: range.clone(),
            limit,
        };
        let name = c"page-range-test".as_char_ptr();
        // SAFETY: The name and the operations are static. The request is used by the `mmap`
        // operation only, which is called below and never after that: no other thread knows the
        // file.
        let file = from_err_ptr(unsafe {
            let data = (&raw mut request).cast();
            let operations = (&raw const OPERATIONS).cast();
            anon_inode_getfile(name, operations, data, bindings::O_RDWR as c_int)
        })?;
        let file = file.cast();
        // SAFETY: The file is valid.
        let result = unsafe { Self::map(file, 0, pages << PAGE_SHIFT, rights, MAP_PRIVATE) };
        // SAFETY: This function owns the reference that `anon_inode_getfile` returned.
        unsafe { bindings::fput(file) };
        result
    }

    /// Maps anonymous memory, at an address instead of what is mapped there, or anywhere.
    pub(super) fn anonymous(address: Option<usize>, pages: usize) -> Result<Self> {
        let fixed = address.map_or(0, |_| MAP_FIXED);
        let address = address.unwrap_or(0);
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | fixed;
        // SAFETY: No file is needed.
        unsafe {
            Self::map(
                null_mut(),
                address,
                pages << PAGE_SHIFT,
                READ | WRITE,
                flags,
            )
        }
    }

    /// Calls `vm_mmap` in the test's address space.
    ///
    /// # Safety
    ///
    /// The file must be null or valid. The address space is the test's own, and nothing in it is
    /// used except through functions that copy from and to user space.
    unsafe fn map(
        file: *mut bindings::file,
        address: usize,
        len: usize,
        rights: usize,
        flags: usize,
    ) -> Result<Self> {
        // SAFETY: Promised by the caller.
        let address = unsafe { bindings::vm_mmap(file, address, len, rights, flags, 0) };
        // CAST: Errors are the last 4095 numbers.
        let error = address as isize;
        if (-4095..0).contains(&error) {
            return Err(Error::from_errno(error as c_int));
        }
        Ok(Self { address, len })
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

/// What a file's `mmap` operation does.
struct Request {
    range: Arc<PageRange>,
    limit: usize,
}

#[repr(transparent)]
struct FileOperations(bindings::file_operations);

// SAFETY: The table is never written, and its function may be called from any thread.
unsafe impl Sync for FileOperations {}

static OPERATIONS: FileOperations = FileOperations(bindings::file_operations {
    owner: kernel::module::this_module::<crate::LocalModule>().as_ptr(),
    mmap: Some(mmap),
    // SAFETY: All zeroes is what C means by leaving the other fields out: no such operation.
    ..unsafe { core::mem::MaybeUninit::<bindings::file_operations>::zeroed().assume_init() }
});

/// Registers the mapping with the range of the file's request.
///
/// # Safety
///
/// To be called by the kernel for a file that [`Mapped::of_range`] made, while that runs.
unsafe extern "C" fn mmap(file: *mut bindings::file, vma: *mut bindings::vm_area_struct) -> c_int {
    from_result(|| {
        // SAFETY: Promised by the caller.
        let request = unsafe { &*(*file).private_data.cast::<Request>() };
        // SAFETY: The VMA is being set up, and the mmap lock is held for writing.
        let vma = unsafe { VmaNew::from_raw(vma) };
        request.range.register(vma, request.limit)?;
        Ok(0)
    })
}
