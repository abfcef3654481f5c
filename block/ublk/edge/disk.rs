// SPDX-License-Identifier: GPL-2.0

//! A disk of the block layer, and the queues of a device.

use super::{
    batch, control_file,
    inline::*,
    process,
    request::{Incoming, Taken},
};
use crate::{device::Device, queue::Queue, LocalModule};
use core::{cell::UnsafeCell, ptr::NonNull};
use kernel::{
    bindings,
    cpu::nr_cpu_ids,
    error::{from_err_ptr, to_result},
    fmt::Write,
    module::this_module,
    prelude::*,
    str::NullTerminatedFormatter,
    sync::{static_lock_class, Arc},
    types::{ForeignOwnable, Opaque, ScopeGuard},
};

// Of <linux/blkdev.h>, which are macros that Rust does not see.
const FEATURE_WRITE_CACHE: bindings::blk_features_t = 1 << 0;
const FEATURE_FUA: bindings::blk_features_t = 1 << 1;
/// `GD_SUPPRESS_PART_SCAN`
const NO_PARTITION_SCAN: usize = 1 << 5;

/// Which CPUs use a queue.
const USUAL_MAP: usize = 0;

/// The queues of a device, and the tags of their requests.
///
/// # Invariants
///
/// The set is allocated. Its data are the queues.
#[pin_data(PinnedDrop)]
pub(crate) struct Queues {
    #[pin]
    set: Opaque<bindings::blk_mq_tag_set>,
    queues: KVec<Queue>,
}

// SAFETY: Any thread may use and free them.
unsafe impl Send for Queues {}
// SAFETY: The set has locks of its own.
unsafe impl Sync for Queues {}

const OPERATIONS: &bindings::blk_mq_ops = &bindings::blk_mq_ops {
    queue_rq: Some(queue),
    queue_rqs: Some(batch::queue),
    init_hctx: Some(begin),
    timeout: Some(timed_out),
    ..pin_init::zeroed()
};

impl Queues {
    /// Allocates tags for queues that have so many slots each. `ENOMEM`, `EINVAL`. Sleeps.
    pub(crate) fn new(queues: KVec<Queue>, depth: u16) -> Result<Pin<KBox<Self>>> {
        let mut set: bindings::blk_mq_tag_set = pin_init::zeroed();
        set.ops = OPERATIONS;
        // CAST: There are at most 4096.
        set.nr_hw_queues = queues.len() as u32;
        set.queue_depth = depth.into();
        set.cmd_size = size_of::<batch::Pdu>() as u32;
        set.numa_node = bindings::NUMA_NO_NODE;
        set.driver_data = queues.as_ptr().cast_mut().cast();
        let init = try_pin_init!(Self {
            // SAFETY: The place does not move from now on, nor do the queues.
            set <- Opaque::try_ffi_init(|place: *mut bindings::blk_mq_tag_set| unsafe {
                place.write(set);
                to_result(bindings::blk_mq_alloc_tag_set(place))
            }),
            queues,
        });
        KBox::pin_init(init, GFP_KERNEL)
    }

    pub(crate) fn all(&self) -> &[Queue] {
        &self.queues
    }

    /// Returns whether a CPU uses this queue.
    pub(crate) fn is_of(&self, queue: u32, cpu: u32) -> bool {
        // SAFETY: The set is allocated, and its map has an entry for each possible CPU.
        cpu < nr_cpu_ids()
            && unsafe { *(*self.set.get()).map[USUAL_MAP].mq_map.add(cpu as usize) == queue }
    }
}

#[pinned_drop]
impl PinnedDrop for Queues {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariant. There is no disk.
        unsafe { bindings::blk_mq_free_tag_set(self.set.get()) };
    }
}

/// The properties of a disk.
pub(crate) struct Shape {
    pub(crate) sectors: u64,
    pub(crate) is_read_only: bool,
    pub(crate) is_rotational: bool,
    pub(crate) has_cache: bool,
    pub(crate) has_fua: bool,
    pub(crate) limits: bindings::queue_limits,
}

/// A disk that user space can open.
///
/// # Invariants
///
/// `disk` was added, and the value has a reference.
pub(crate) struct Disk {
    disk: NonNull<bindings::gendisk>,
}

// SAFETY: Any thread may end a disk.
unsafe impl Send for Disk {}
// SAFETY: The functions that are called take the kernel's locks.
unsafe impl Sync for Disk {}

const FILE: &bindings::block_device_operations = &bindings::block_device_operations {
    owner: this_module::<LocalModule>().as_ptr(),
    open: Some(open),
    free_disk: Some(free),
    ..pin_init::zeroed()
};

impl Disk {
    /// Adds a disk, whose partitions are not read yet. `EINVAL`, `EEXIST`, `ENOMEM`. Sleeps.
    pub(crate) fn add(shape: Shape, number: u32, device: Arc<Device>) -> Result<Self> {
        let mut limits = shape.limits;
        if shape.has_cache {
            limits.features |= FEATURE_WRITE_CACHE;
            if shape.has_fua {
                limits.features |= FEATURE_FUA;
            }
        }
        if shape.is_rotational {
            limits.features |= bindings::BLK_FEAT_ROTATIONAL;
        }
        let tags = device.queues.set.get();
        // SAFETY: The tags are allocated, and outlive the disk, which has the device.
        let disk = from_err_ptr(unsafe {
            bindings::__blk_mq_alloc_disk(
                tags,
                &mut limits,
                core::ptr::null_mut(),
                static_lock_class!().as_ptr(),
            )
        })?;
        let disk = NonNull::new(disk).ok_or(ENOMEM)?;
        let owner = device.into_foreign().cast::<c_void>();
        let guard = ScopeGuard::new_with_data(disk, |disk: NonNull<bindings::gendisk>| {
            // SAFETY: It is not added, so `free` is not called.
            unsafe {
                bindings::put_disk(disk.as_ptr());
                drop(Arc::<Device>::from_foreign(owner.cast()));
            }
        });
        // SAFETY: It is new, and nobody else uses it yet.
        unsafe {
            let name = &mut (*disk.as_ptr()).disk_name;
            let mut writer = NullTerminatedFormatter::new(name).ok_or(EINVAL)?;
            let prefix = control_file::name().to_str().map_err(|_| EINVAL)?;
            write!(writer, "{prefix}b{number}").map_err(|_| ENAMETOOLONG)?;
            (*disk.as_ptr()).private_data = owner;
            (*disk.as_ptr()).fops = FILE;
            (*disk.as_ptr()).state |= NO_PARTITION_SCAN;
            bindings::set_capacity(disk.as_ptr(), shape.sectors);
            if shape.is_read_only {
                bindings::set_disk_ro(disk.as_ptr(), true);
            }
            let (parent, groups) = (core::ptr::null_mut(), core::ptr::null_mut());
            to_result(bindings::device_add_disk(parent, disk.as_ptr(), groups))?;
        }
        // INVARIANT: It is added. The guard ends nothing any more.
        Ok(Self {
            disk: guard.dismiss(),
        })
    }

    /// Removes it for user space. Waits for all requests. There are no more behind this.
    pub(crate) fn remove(self: Arc<Self>) {
        // SAFETY: By the type's invariant. The device removes it once.
        unsafe { bindings::del_gendisk(self.disk.as_ptr()) };
    }

    /// Lets requests continue that were put back.
    pub(crate) fn kick(&self) {
        // SAFETY: By the type's invariant.
        unsafe { bindings::blk_mq_kick_requeue_list((*self.disk.as_ptr()).queue) };
    }

    /// Changes the size, and sends user space an event.
    pub(crate) fn resize(&self, sectors: u64) {
        // SAFETY: By the type's invariant.
        unsafe { bindings::set_capacity_and_notify(self.disk.as_ptr(), sectors) };
    }

    /// Sets the flag unless somebody has the disk open: `EBUSY`. Sleeps.
    pub(crate) fn close(&self, is_closed: &Closed) -> Result {
        // SAFETY: By the type's invariant. Whoever reads the flag holds the disk's lock, too.
        to_result(unsafe { ublk_rust_disk_close(self.disk.as_ptr(), is_closed.0.get()) })
    }

    /// Partitions may be read, but are not.
    pub(crate) fn allow_scan(&self) {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_disk_allow_scan(self.disk.as_ptr()) };
    }

    /// Reads the table of partitions. Sleeps.
    pub(crate) fn scan(&self) {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_disk_scan(self.disk.as_ptr()) };
    }

    /// Returns the number of its file.
    pub(crate) fn number(&self) -> (u32, u32) {
        // SAFETY: By the type's invariant.
        unsafe {
            (
                ublk_rust_disk_number(self.disk.as_ptr(), true),
                ublk_rust_disk_number(self.disk.as_ptr(), false),
            )
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant.
        unsafe { bindings::put_disk(self.disk.as_ptr()) };
    }
}

/// A flag that closes a disk for all but administrators.
pub(crate) struct Closed(UnsafeCell<bool>);

// SAFETY: All accesses hold the lock under which disks are opened, or there is no disk.
unsafe impl Sync for Closed {}

impl Closed {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(false))
    }
}

/// A process opens the disk.
///
/// # Safety
///
/// The block layer calls this for a disk of this driver.
unsafe extern "C" fn open(disk: *mut bindings::gendisk, _mode: bindings::blk_mode_t) -> c_int {
    // SAFETY: The block layer passes a disk that is added, and holds its lock.
    let (device, is_closed) = unsafe {
        let device = Arc::<Device>::borrow((*disk).private_data.cast());
        let is_closed = *device.is_closed.0.get();
        (device, is_closed)
    };
    if process::is_admin() {
        return 0;
    }
    // A user could make a device, and let others use it as a trap.
    if device.is_of_other_user() {
        return EPERM.to_errno();
    }
    match is_closed {
        true => ENXIO.to_errno(),
        false => 0,
    }
}

/// Nobody uses the disk any more.
///
/// # Safety
///
/// The block layer calls this once for a disk of this driver.
unsafe extern "C" fn free(disk: *mut bindings::gendisk) {
    // SAFETY: The block layer calls this once for a disk that was added, when nobody uses it any
    // more.
    unsafe {
        let device = Arc::<Device>::from_foreign((*disk).private_data.cast());
        *device.is_closed.0.get() = false;
        device.disk_is_free();
    }
}

/// Gives a hardware context its queue.
///
/// # Safety
///
/// The block layer calls this for the tags of a device, before it has requests.
unsafe extern "C" fn begin(
    context: *mut bindings::blk_mq_hw_ctx,
    queues: *mut c_void,
    index: c_uint,
) -> c_int {
    // SAFETY: The block layer passes the set's data, and one of as many numbers.
    unsafe {
        (*context).driver_data = queues.cast::<Queue>().add(index as usize).cast();
    }
    0
}

/// Takes a request.
///
/// # Safety
///
/// The block layer calls this with a request of this driver.
unsafe extern "C" fn queue(
    context: *mut bindings::blk_mq_hw_ctx,
    data: *const bindings::blk_mq_queue_data,
) -> bindings::blk_status_t {
    // SAFETY: The block layer passes a context that `begin` has seen, and a request of it.
    let Taken(status) = unsafe {
        let queue = &*(*context).driver_data.cast::<Queue>();
        queue.accept(Incoming::new((*data).rq))
    };
    status
}

/// A request takes long.
///
/// # Safety
///
/// The block layer calls this for a request of this driver.
unsafe extern "C" fn timed_out(request: *mut bindings::request) -> bindings::blk_eh_timer_return {
    // SAFETY: The block layer passes a request of a disk that is added, whose context has a queue.
    unsafe {
        let disk = (*(*request).q).disk;
        let device = Arc::<Device>::borrow((*disk).private_data.cast());
        let queue = &*(*(*request).mq_hctx).driver_data.cast::<Queue>();
        device.request_takes_long(queue.own_slot((*request).tag as u16));
    }
    bindings::blk_eh_timer_return_BLK_EH_RESET_TIMER
}
