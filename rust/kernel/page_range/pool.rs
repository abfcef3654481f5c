// SPDX-License-Identifier: GPL-2.0

//! What all page ranges of a driver have in common: the list of their pages, and the shrinker
//! through which the kernel reclaims pages.

use super::{
    reclaim::Need,
    slots::Record,
    turns::Turns, //
};
use kernel::{
    alloc::AllocError,
    bindings,
    error::to_result,
    ffi::{c_char, c_ulong, c_void},
    mm::Mm,
    prelude::*,
    sync::{atomic::Atomic, Arc},
    types::Opaque,
};

use core::{
    marker::PhantomData,
    mem::size_of,
    ptr::{null_mut, NonNull},
};

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
/// - The list's links are those of [`Record`]s which are in slots of ranges of this pool.
/// - A record is taken off the list only by the holder of its range's turn, and is back on the
///   list, or out of its slot for good, before that turn ends, or its space is being dropped.
#[pin_data]
pub struct PagePool {
    // The following fields are dropped in this order: no call of the shrinker is left when the list
    // is dropped, and no record is left when their cache is dropped.
    shrinker: Shrinker,
    #[pin]
    list: List,
    cache: RecordCache,
    /// Each is held by a thread that takes records off the list, of ranges that have this turn. It
    /// waits for nothing meanwhile.
    #[pin]
    pub(super) turns: Turns,
    /// How many pages of each list were asked for since one of them was idle. A list of a node and
    /// cgroup shares its counter with others, which may make its calls end sooner or later.
    fruitless: [Atomic<c_ulong>; 16],
    charges_owner: bool,
}

impl PagePool {
    /// Creates a pool. Its shrinker and its slab cache have the name `name`.
    ///
    /// If `charges_owner`, pages are charged to the memory cgroup of the process that they are
    /// mapped to, whichever task populates them, and are reclaimed when that cgroup is short of
    /// memory. Otherwise they are charged to no cgroup.
    ///
    /// May sleep. Fails with `ENOMEM`.
    pub fn new(name: &CStr, charges_owner: bool) -> Result<Arc<Self>> {
        let shrinker = Shrinker::new(name)?;
        let known_as = shrinker.0.as_ptr();
        let cache = RecordCache::new(name)?;
        let pool = Arc::pin_init(
            try_pin_init!(Self {
                list <- List::new(&shrinker),
                shrinker,
                cache,
                turns <- Turns::new(),
                fruitless: [const { Atomic::new(0) }; 16],
                charges_owner,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The shrinker belongs to the pool, and is not registered, so nothing else uses it.
        // The pool is pinned in its `Arc`, and frees the shrinker, which waits for running calls,
        // before any other part of it is dropped.
        unsafe {
            (*known_as).private_data = Arc::as_ptr(&pool).cast_mut().cast();
            (*known_as).count_objects = Some(count);
            (*known_as).scan_objects = Some(scan);
            bindings::shrinker_register(known_as);
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

    /// Charges what the calling task allocates with [`flags`](Self::flags) as this pool charges,
    /// until the result is dropped.
    pub(super) fn charge<'a>(&self, mm: &'a Mm) -> Option<Charge<'a>> {
        self.charges_owner.then(|| Charge::begin(mm))
    }

    /// Allocates memory for a record.
    pub(super) fn alloc_record(&self) -> Result<NonNull<Record>, AllocError> {
        // SAFETY: Cache and list live as long as the pool. Because the list is passed, the list of
        // the cgroup that is charged exists when this succeeds.
        let memory = unsafe {
            let cache = self.cache.0.as_ptr();
            bindings::kmem_cache_alloc_lru_noprof(cache, self.list(), self.flags())
        };
        NonNull::new(memory.cast()).ok_or(AllocError)
    }

    /// Puts a record at the end of the list, where reclaim asks for it last.
    ///
    /// # Safety
    ///
    /// The record must be on no list, in the slot that it names, and that of a range of this pool.
    pub(super) unsafe fn add(&self, record: NonNull<Record>) {
        // SAFETY: A record in a slot is valid.
        let record = unsafe { record.as_ref() };
        let (list, links) = (self.list(), record.links());
        // SAFETY: The link is part of no list. If pages are charged, it is in slab memory of this
        // pool's cache, by which `list_lru` finds the cgroup whose list it belongs to.
        unsafe {
            match self.node_of(record) {
                Some(node) => bindings::list_lru_add(list, links, node, null_mut()),
                None => bindings::list_lru_add_obj(list, links),
            }
        };
    }

    /// Returns the memory node whose list the record belongs to, that of its page; or nothing if
    /// pages are charged: then it is on the list of the cgroup and the node of its own memory,
    /// which is mostly the same node.
    pub(super) fn node_of(&self, record: &Record) -> Option<i32> {
        (!self.charges_owner).then(|| record.page().nid())
    }

    /// Returns the list, which exists as long as the pool.
    pub(super) fn list(&self) -> *mut bindings::list_lru {
        self.list.inner.get()
    }

    /// Returns how many records are on the list of a node and cgroup.
    pub(super) fn count(&self, control: &bindings::shrink_control) -> c_ulong {
        // SAFETY: The list lives as long as the pool; node and cgroup are valid during the call of
        // the shrinker.
        unsafe { bindings::list_lru_count_one(self.list(), control.nid, control.memcg) }
    }

    /// Returns the counter of pages of a list that were asked for since one was idle.
    pub(super) fn fruitless(&self, control: &bindings::shrink_control) -> &Atomic<c_ulong> {
        let cgroup = control.memcg.addr();
        // CAST: Nodes are numbered from 0 on. Cgroups are objects of about 4 KiB.
        let place = control.nid as usize ^ cgroup >> 12 ^ cgroup >> 8;
        &self.fruitless[place % self.fruitless.len()]
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
    // SAFETY: As in `count`.
    let pool = unsafe { &*(*shrinker).private_data.cast::<PagePool>() };
    // SAFETY: Valid during this call, and not used by other code meanwhile.
    let control = unsafe { &mut *control };
    // SAFETY: Reads the flags of the calling task, in any context.
    let need = match unsafe { kernel_ext_is_direct_reclaim() } {
        true => Need::Urgent,
        false => Need::Some,
    };
    match pool.reclaim(control, need) {
        Some(freed) => freed,
        // CAST: As in `count`.
        None => bindings::SHRINK_STOP as c_ulong,
    }
}

/// A shrinker, registered or not.
struct Shrinker(NonNull<bindings::shrinker>);

// SAFETY: A shrinker may be freed by any thread.
unsafe impl Send for Shrinker {}
// SAFETY: A shared reference has no operations.
unsafe impl Sync for Shrinker {}

impl Shrinker {
    fn new(name: &CStr) -> Result<Self> {
        // SAFETY: The name is valid during this call, which copies it.
        let shrinker = unsafe { kernel_ext_shrinker_alloc(name.as_char_ptr()) };
        Ok(Self(NonNull::new(shrinker.cast()).ok_or(ENOMEM)?))
    }
}

impl Drop for Shrinker {
    fn drop(&mut self) {
        // SAFETY: The shrinker is from `shrinker_alloc`, and is freed once.
        unsafe { bindings::shrinker_free(self.0.as_ptr()) };
    }
}

/// A list for each node and memory cgroup.
#[pin_data(PinnedDrop)]
struct List {
    #[pin]
    inner: Opaque<bindings::list_lru>,
}

// SAFETY: All operations on the list take its own locks.
unsafe impl Send for List {}
// SAFETY: As above.
unsafe impl Sync for List {}

impl List {
    fn new(shrinker: &Shrinker) -> impl PinInit<Self, Error> + '_ {
        let init = Opaque::try_ffi_init(move |list: *mut bindings::list_lru| {
            // SAFETY: `list` is valid for writes; all zeroes is the state that C starts with.
            unsafe { list.write_bytes(0, 1) };
            // SAFETY: As above; the shrinker is valid, and has its number already.
            to_result(unsafe { bindings::__list_lru_init(list, true, shrinker.0.as_ptr()) })
        });
        try_pin_init!(Self { inner <- init }? Error)
    }
}

#[pinned_drop]
impl PinnedDrop for List {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The list was initialised, and is pinned. It is empty: each record is in a slot of
        // a range, each range holds a reference to the pool, and the pool is being dropped.
        unsafe { bindings::list_lru_destroy(self.inner.get()) };
    }
}

/// The slab cache of records.
struct RecordCache(NonNull<bindings::kmem_cache>);

// SAFETY: Any thread may use or destroy a slab cache.
unsafe impl Send for RecordCache {}
// SAFETY: As above.
unsafe impl Sync for RecordCache {}

impl RecordCache {
    fn new(name: &CStr) -> Result<Self> {
        let mut arguments = bindings::kmem_cache_args::default();
        // Counted as reclaimable; and not merged with other caches, so that leaked records are
        // noticed.
        let flags = 1 << bindings::_slab_flag_bits__SLAB_RECLAIM_ACCOUNT
            | 1 << bindings::_slab_flag_bits__SLAB_NO_MERGE;
        // SAFETY: The name is valid during this call, which copies it, and so are the arguments.
        let cache = unsafe {
            bindings::__kmem_cache_create_args(
                name.as_char_ptr(),
                // CAST: A few words.
                size_of::<Record>() as u32,
                &mut arguments,
                flags,
            )
        };
        Ok(Self(NonNull::new(cache).ok_or(ENOMEM)?))
    }
}

impl Drop for RecordCache {
    fn drop(&mut self) {
        // SAFETY: All records have been freed: those in slots with their spaces, of which none is
        // left, and the others by who took them out, who has a reference to the pool, or is a call
        // of its shrinker, and of these none is left either. No further one is allocated.
        unsafe { bindings::kmem_cache_destroy(self.0.as_ptr()) };
    }
}

/// While this exists, the calling task's accounted allocations are charged to the memory cgroup of
/// a process.
pub(super) struct Charge<'a> {
    /// The cgroup, and the one before. Only C accesses the contents.
    state: [*mut c_void; 2],
    /// Also keeps this type on its thread.
    _mm: PhantomData<(&'a Mm, *mut ())>,
}

impl<'a> Charge<'a> {
    fn begin(mm: &'a Mm) -> Self {
        let mut state = [null_mut(); 2];
        // SAFETY: `mm` is valid; `state` has room for what C writes. It is passed to
        // `kernel_ext_charge_end` by the same task.
        unsafe { kernel_ext_charge_begin(&mut state, mm.as_raw().cast()) };
        Self {
            state,
            _mm: PhantomData,
        }
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        // SAFETY: The state is from `kernel_ext_charge_begin` in this task.
        unsafe { kernel_ext_charge_end(&mut self.state) };
    }
}
