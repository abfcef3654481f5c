// SPDX-License-Identifier: GPL-2.0

//! What all page ranges of a driver have in common: the list of their pages, and the shrinker
//! through which the kernel reclaims pages.

use super::slots::Record;
use kernel::{
    bindings,
    error::to_result,
    ffi::{c_char, c_ulong, c_void},
    mm::Mm,
    prelude::*,
    sync::{atomic::Atomic, Arc},
    types::Opaque,
};

use core::{mem::size_of, ptr::null_mut};

extern "C" {
    fn kernel_ext_shrinker_alloc(name: *const c_char) -> *mut c_void;
    fn kernel_ext_is_direct_reclaim() -> bool;
    fn kernel_ext_charge_begin(charge: *mut [*mut c_void; 2], mm: *mut c_void);
    fn kernel_ext_charge_end(charge: *mut [*mut c_void; 2]);
}

/// The pages of many [`PageRange`](super::PageRange)s, and the shrinker that frees idle ones.
///
/// A driver makes one for itself, and each range holds a reference to it. The shrinker is
/// registered as long as the pool exists; with `CONFIG_SHRINKER_DEBUG` it can be read and called in
/// debugfs.
///
/// Dropping the pool waits for running calls of the shrinker.
///
/// # Invariants
///
/// - The list's links are those of [`Record`]s which are in slots of ranges of this pool, or were
///   taken out by a thread that is about to take them off the list. The list is initialised, or all
///   zeroes.
/// - The shrinker and the cache are this pool's own, or null until [`new`](Self::new) has failed.
/// - A record is taken off the list only by reclaim, if its page is in use, or until it is back on
///   the list or out of its slot, before reclaim ends its use of the space; or when its space is
///   being dropped.
#[pin_data(PinnedDrop)]
pub struct PagePool {
    shrinker: *mut bindings::shrinker,
    /// A list for each node and memory cgroup.
    #[pin]
    pub(super) list: Opaque<bindings::list_lru>,
    /// The slab cache of records.
    pub(super) cache: *mut bindings::kmem_cache,
    /// How many pages reclaim has visited since one of them was idle.
    pub(super) fruitless: Atomic<c_ulong>,
    charges_owner: bool,
}

// SAFETY: Shrinker, list and cache may be used and freed by any thread.
unsafe impl Send for PagePool {}
// SAFETY: All operations on the list and the cache take their own locks. The shrinker is not used
// through shared references.
unsafe impl Sync for PagePool {}

impl PagePool {
    /// Creates a pool. Its shrinker and its slab cache have the name `name`.
    ///
    /// If `charges_owner`, pages are charged to the memory cgroup of the process that they are
    /// mapped to, whichever task populates them. They are reclaimed when that cgroup is short of
    /// memory. Otherwise they are charged to no cgroup.
    ///
    /// May sleep. Fails with `ENOMEM`.
    pub fn new(name: &CStr, charges_owner: bool) -> Result<Arc<Self>> {
        // SAFETY: The name is valid during this call, which copies it.
        let shrinker = unsafe { kernel_ext_shrinker_alloc(name.as_char_ptr()) };
        let shrinker = shrinker.cast::<bindings::shrinker>();
        let mut arguments = bindings::kmem_cache_args::default();
        // Counted as reclaimable; and not merged with other caches, so that leaked records are
        // noticed.
        let flags = 1 << bindings::_slab_flag_bits__SLAB_RECLAIM_ACCOUNT
            | 1 << bindings::_slab_flag_bits__SLAB_NO_MERGE;
        // CAST: A few words.
        let size = size_of::<Record>() as u32;
        let name = name.as_char_ptr();
        // SAFETY: The name is valid during this call, which copies it, and so are the arguments.
        let cache =
            unsafe { bindings::__kmem_cache_create_args(name, size, &mut arguments, flags) };
        let init = pin_init!(Self {
            shrinker,
            list <- Opaque::ffi_init(|list: *mut bindings::list_lru| {
                // SAFETY: `list` is valid for writes; all zeroes is the state that C starts with.
                unsafe { list.write_bytes(0, 1) }
            }),
            cache,
            fruitless: Atomic::new(0),
            charges_owner,
        });
        let pool = Arc::pin_init(init, GFP_KERNEL)?;
        if shrinker.is_null() || pool.cache.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: The list is zeroed, and pinned in the pool; the shrinker is valid, and has its
        // number already.
        to_result(unsafe { bindings::__list_lru_init(pool.list.get(), true, shrinker) })?;
        // SAFETY: The shrinker belongs to the pool, and is not registered, so nothing else uses it.
        // The pool is pinned in its `Arc`, and frees the shrinker, which waits for running calls,
        // before any other part of it is dropped.
        unsafe {
            (*shrinker).private_data = Arc::as_ptr(&pool).cast_mut().cast();
            (*shrinker).count_objects = Some(count);
            (*shrinker).scan_objects = Some(scan);
            bindings::shrinker_register(shrinker);
        }
        Ok(pool)
    }

    /// Returns the flags with which memory for pages and records is allocated.
    pub(super) fn flags(&self) -> bindings::gfp_t {
        if self.charges_owner {
            // An allocation that fails must not make the OOM killer kill the owner because of what
            // a sender sends.
            let or_fail = 1 << bindings::___GFP_RETRY_MAYFAIL_BIT;
            bindings::GFP_KERNEL_ACCOUNT | or_fail
        } else {
            bindings::GFP_KERNEL
        }
    }

    /// Calls `f`. Memory that `f` allocates with [`flags`](Self::flags) is charged as this pool
    /// charges, for the process of `mm`.
    pub(super) fn charged<R>(&self, mm: &Mm, f: impl FnOnce() -> R) -> R {
        if !self.charges_owner {
            return f();
        }
        let mut state = [null_mut(); 2];
        // SAFETY: `mm` is valid; `state` has room for what C writes.
        unsafe { kernel_ext_charge_begin(&mut state, mm.as_raw().cast()) };
        let result = f();
        // SAFETY: The state is from `kernel_ext_charge_begin` in this task.
        unsafe { kernel_ext_charge_end(&mut state) };
        result
    }

    /// Puts a record at the end of the list, which reclaim visits last.
    ///
    /// # Safety
    ///
    /// The record must be on no list, in the slot that it names, and that of a range of this pool.
    pub(super) unsafe fn add(&self, record: &Record) {
        let (list, links) = (self.list.get(), record.links.get());
        // SAFETY: The link is part of no list. If pages are charged, it is in slab memory of this
        // pool's cache, by which `list_lru` finds the cgroup whose list it belongs to.
        unsafe {
            match self.node_of(record) {
                Some(node) => bindings::list_lru_add(list, links, node, null_mut()),
                None => bindings::list_lru_add_obj(list, links),
            }
        };
    }

    /// Takes a record off the list for good, if it is on it.
    ///
    /// # Safety
    ///
    /// The record must be on the list or on none, and of a range of this pool.
    pub(super) unsafe fn remove(&self, record: &Record) {
        let (list, links) = (self.list.get(), record.links.get());
        // SAFETY: Promised by the caller. `add` has chosen the list in the same way.
        unsafe {
            match self.node_of(record) {
                Some(node) => bindings::list_lru_del(list, links, node, null_mut()),
                None => bindings::list_lru_del_obj(list, links),
            }
        };
    }

    /// Returns the memory node whose list the record belongs to: that of its page. Returns nothing
    /// if pages are charged. Then the record is on the list of the cgroup and of the node of its
    /// own memory, which is mostly the same node.
    fn node_of(&self, record: &Record) -> Option<i32> {
        (!self.charges_owner).then(|| record.page.page().nid())
    }

    /// Returns how many records are on the list of a node and cgroup.
    pub(super) fn count(&self, control: &bindings::shrink_control) -> c_ulong {
        // SAFETY: The list lives as long as the pool; node and cgroup are valid during the call of
        // the shrinker.
        unsafe { bindings::list_lru_count_one(self.list.get(), control.nid, control.memcg) }
    }
}

#[pinned_drop]
impl PinnedDrop for PagePool {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants all three are the pool's own, and are freed once; null,
        // and a list that is all zeroes, are accepted. After the first call no call of the shrinker
        // is left. The list is empty, and all records have been freed: each is in a slot of a
        // range, or in the hands of a caller that has a reference to its range, or of the shrinker;
        // and each range holds a reference to the pool, which is being dropped.
        unsafe {
            bindings::shrinker_free(self.shrinker);
            bindings::list_lru_destroy(self.list.get());
            bindings::kmem_cache_destroy(self.cache);
        }
    }
}

/// Returns how many pages might be idle. In any context in which memory may be allocated.
///
/// # Safety
///
/// To be called by the kernel, for the shrinker of a [`PagePool`].
unsafe extern "C" fn count(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    // SAFETY: `PagePool::new` stored a pointer to the pool, which outlives calls of its shrinker.
    let pool = unsafe { &*(*shrinker).private_data.cast::<PagePool>() };
    // SAFETY: Valid during this call.
    match pool.count(unsafe { &*control }) {
        // CAST: A negative number that C treats as a large one.
        0 => bindings::SHRINK_EMPTY as c_ulong,
        some => some,
    }
}

/// Frees idle pages. In any context in which memory may be allocated.
///
/// # Safety
///
/// As for [`count`].
unsafe extern "C" fn scan(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    // SAFETY: As in `count`. The control is valid during this call, in which no other code uses it.
    // The flags of the calling task can be read in any context.
    let (pool, control, is_urgent) = unsafe {
        let pool = &*(*shrinker).private_data.cast::<PagePool>();
        (pool, &mut *control, kernel_ext_is_direct_reclaim())
    };
    // CAST: As in `count`.
    let stop = bindings::SHRINK_STOP as c_ulong;
    pool.reclaim(control, is_urgent).unwrap_or(stop)
}
