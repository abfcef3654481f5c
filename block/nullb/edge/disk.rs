// SPDX-License-Identifier: GPL-2.0

//! A disk of the block layer: its queue, and the way of requests to a device.

use super::{
    inline::{nullb_noio_begin, nullb_noio_end},
    pages::Context,
    request::{self, Pdu, Started},
};
use crate::{device::Device, LocalModule};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    fmt::Write,
    module::this_module,
    new_mutex,
    prelude::*,
    str::{CStr, NullTerminatedFormatter},
    sync::{static_lock_class, Arc, Mutex},
    types::{ForeignOwnable, NotThreadSafe, Opaque, ScopeGuard},
};

// Of <linux/blkdev.h>, which are macros that Rust does not see.
const FEATURE_WRITE_CACHE: bindings::blk_features_t = 1 << 0;
const FEATURE_FUA: bindings::blk_features_t = 1 << 1;

/// The properties of a disk that the block layer uses.
pub(crate) struct Shape<'a> {
    pub(crate) name: &'a CStr,
    pub(crate) sectors: u64,
    pub(crate) block_size: u32,
    pub(crate) most_sectors: u32,
    pub(crate) queues: Queues,
    pub(crate) is_rotational: bool,
    pub(crate) may_discard: bool,
    pub(crate) has_cache: bool,
    pub(crate) has_fua: bool,
}

/// The queues of a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Queues {
    pub(crate) count: u32,
    /// Requests of a queue, or of all.
    pub(crate) depth: u32,
    pub(crate) node: i32,
    /// Requests are handled where they may sleep.
    pub(crate) may_sleep: bool,
    pub(crate) have_scheduler: bool,
    /// The queues have their tags in common.
    pub(crate) have_common_tags: bool,
}

/// The tags of requests of a disk, or of many.
///
/// # Invariants
///
/// The set is allocated.
#[pin_data(PinnedDrop)]
struct Tags {
    queues: Queues,
    #[pin]
    set: Opaque<bindings::blk_mq_tag_set>,
}

// SAFETY: Disks come and go in any thread. The block layer locks the set then.
unsafe impl Send for Tags {}
// SAFETY: As above.
unsafe impl Sync for Tags {}

/// The tags that disks share.
#[pin_data]
pub(crate) struct Sharing {
    /// Those of the last disk that does.
    #[pin]
    last: Mutex<Option<Arc<Tags>>>,
}

impl Sharing {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { last <- new_mutex!(None) })
    }

    /// Returns the tags of the last disk if it has such queues, or new ones.
    fn tags(&self, queues: Queues) -> Result<Arc<Tags>> {
        let mut last = self.last.lock();
        if let Some(tags) = last.as_ref().filter(|tags| tags.queues == queues) {
            return Ok(tags.clone());
        }
        let tags = Tags::new(queues)?;
        *last = Some(tags.clone());
        Ok(tags)
    }
}

const OPERATIONS: &bindings::blk_mq_ops = &bindings::blk_mq_ops {
    queue_rq: Some(queue),
    complete: Some(request::complete),
    timeout: Some(timed_out),
    ..pin_init::zeroed()
};

const FILE: &bindings::block_device_operations = &bindings::block_device_operations {
    // An open device keeps the module.
    owner: this_module::<LocalModule>().as_ptr(),
    ..pin_init::zeroed()
};

impl Tags {
    fn new(queues: Queues) -> Result<Arc<Self>> {
        let mut set: bindings::blk_mq_tag_set = pin_init::zeroed();
        set.ops = OPERATIONS;
        set.nr_maps = 1;
        set.nr_hw_queues = queues.count;
        set.queue_depth = queues.depth;
        set.numa_node = queues.node;
        set.cmd_size = size_of::<Pdu>() as u32;
        if queues.may_sleep {
            set.flags |= bindings::BLK_MQ_F_BLOCKING;
        }
        if !queues.have_scheduler {
            set.flags |= bindings::BLK_MQ_F_NO_SCHED_BY_DEFAULT;
        }
        if queues.have_common_tags {
            set.flags |= bindings::BLK_MQ_F_TAG_HCTX_SHARED;
        }
        let init = try_pin_init!(Self {
            queues,
            // SAFETY: The place is there. It does not move from now on.
            set <- Opaque::try_ffi_init(|place: *mut bindings::blk_mq_tag_set| unsafe {
                place.write(set);
                to_result(bindings::blk_mq_alloc_tag_set(place))
            }),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }
}

#[pinned_drop]
impl PinnedDrop for Tags {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariant. The disks are gone.
        unsafe { bindings::blk_mq_free_tag_set(self.set.get()) };
    }
}

/// A disk that user space can open.
///
/// # Invariants
///
/// `disk` was added, and this value owns it. `device` comes from an `Arc`, which this value owns;
/// the queue has it, too.
pub(crate) struct Disk {
    disk: NonNull<bindings::gendisk>,
    device: NonNull<c_void>,
    _tags: Arc<Tags>,
}

// SAFETY: Every thread may end a disk.
unsafe impl Send for Disk {}

impl Disk {
    /// Adds a disk whose requests a device handles, and which may share its tags. Sleeps.
    ///
    /// `ENAMETOOLONG`, `EEXIST` if another disk has the name, `EINVAL` if the block layer does not
    /// support the shape, `ENOMEM`.
    pub(crate) fn add(
        shape: &Shape<'_>,
        device: Arc<Device>,
        sharing: Option<&Sharing>,
    ) -> Result<Self> {
        let tags = match sharing {
            Some(sharing) => sharing.tags(shape.queues)?,
            None => Tags::new(shape.queues)?,
        };
        let mut limits = limits_of(shape);
        let device = NonNull::new(device.into_foreign().cast()).ok_or(EINVAL)?;
        let device = ScopeGuard::new_with_data(device, |device: NonNull<c_void>| {
            // SAFETY: It comes from `into_foreign` above, and no queue has it any more.
            drop(unsafe { Arc::<Device>::from_foreign(device.as_ptr().cast()) });
        });
        // SAFETY: The tags are allocated, and outlive the disk.
        let disk = from_err_ptr(unsafe {
            bindings::__blk_mq_alloc_disk(
                tags.set.get(),
                &mut limits,
                device.as_ptr(),
                static_lock_class!().as_ptr(),
            )
        })?;
        let disk = NonNull::new(disk).ok_or(ENOMEM)?;
        let disk = ScopeGuard::new_with_data(disk, |disk: NonNull<bindings::gendisk>| {
            // SAFETY: It is not added.
            unsafe { bindings::put_disk(disk.as_ptr()) };
        });
        // SAFETY: It is new, and nobody else uses it yet.
        unsafe {
            let name = &mut (*disk.as_ptr()).disk_name;
            let mut writer = NullTerminatedFormatter::new(name).ok_or(EINVAL)?;
            let name = shape.name.to_str().map_err(|_| EINVAL)?;
            writer.write_str(name).map_err(|_| ENAMETOOLONG)?;
            (*disk.as_ptr()).fops = FILE;
            bindings::set_capacity(disk.as_ptr(), shape.sectors);
            let (parent, groups) = (core::ptr::null_mut(), core::ptr::null_mut());
            to_result(bindings::device_add_disk(parent, disk.as_ptr(), groups))?;
        }
        // INVARIANT: It is added. The guards end nothing any more.
        Ok(Self {
            disk: disk.dismiss(),
            device: device.dismiss(),
            _tags: tags,
        })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant. The first call waits for all requests, and lets no more
        // come, so that the device is not used any more.
        unsafe {
            bindings::del_gendisk(self.disk.as_ptr());
            bindings::put_disk(self.disk.as_ptr());
            drop(Arc::<Device>::from_foreign(self.device.as_ptr().cast()));
        }
    }
}

fn limits_of(shape: &Shape<'_>) -> bindings::queue_limits {
    let mut limits: bindings::queue_limits = pin_init::zeroed();
    limits.logical_block_size = shape.block_size;
    limits.physical_block_size = shape.block_size;
    limits.max_hw_sectors = shape.most_sectors;
    limits.dma_alignment = 1;
    if shape.is_rotational {
        limits.features |= bindings::BLK_FEAT_ROTATIONAL;
    }
    if shape.may_discard {
        limits.max_hw_discard_sectors = u32::MAX >> 9;
    }
    if shape.has_cache {
        limits.features |= FEATURE_WRITE_CACHE;
        if shape.has_fua {
            limits.features |= FEATURE_FUA;
        }
    }
    limits
}

/// Takes a request.
///
/// # Safety
///
/// The block layer calls this for a request of a queue that a [`Disk`] has made.
unsafe extern "C" fn queue(
    _queue: *mut bindings::blk_mq_hw_ctx,
    data: *const bindings::blk_mq_queue_data,
) -> bindings::blk_status_t {
    // SAFETY: By the condition, there is a request. Its queue has the device of the disk, which
    // lives until the queue has no request any more. The tags have room for a `Pdu`.
    let (device, request) = unsafe {
        let request = (*data).rq;
        let device = (*(*request).q).queuedata;
        let request = Started::start(NonNull::new_unchecked(request));
        (Arc::<Device>::borrow(device.cast()), request)
    };
    if device.context == Context::Atomic {
        return device.handle(request).0;
    }
    let _no_io = NoIo::begin();
    device.handle(request).0
}

/// As long as this exists, the thread's allocations do not wait for the ends of other requests.
struct NoIo(u32, NotThreadSafe);

impl NoIo {
    fn begin() -> Self {
        // SAFETY: May be called by any thread.
        Self(unsafe { nullb_noio_begin() }, NotThreadSafe)
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: Pairs with `begin`, in the same thread.
        unsafe { nullb_noio_end(self.0) };
    }
}

/// Is called for a request that takes long. Nothing can lose one: a timer or an interrupt will end
/// it.
///
/// # Safety
///
/// None: it uses nothing.
unsafe extern "C" fn timed_out(_: *mut bindings::request) -> bindings::blk_eh_timer_return {
    bindings::blk_eh_timer_return_BLK_EH_RESET_TIMER
}
