// SPDX-License-Identifier: GPL-2.0

//! Where C calls us: the devices' file operations, and their contexts.
//!
//! Every function here turns what the kernel promises about its arguments into types that say so, and
//! does nothing else.

use crate::{
    buffers::space,
    common::stats,
    context::Context,
    entry::ioctls::{self, Opened},
    kernel_ext::descriptors::{Descriptors, OpenedAs},
    lifecycle::{registry, teardown::end_process, threads},
    node::Node,
    process::Process,
    LocalModule, //
};
use kernel::{
    bindings,
    error::{from_result, to_result},
    ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void},
    fs::File,
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        poll::PollTable,
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

extern "C" {
    fn rust_binderfs_init() -> c_int;
    fn rust_binderfs_exit();
    fn rust_binderfs_device_context(inode: *const c_void, file: *const c_void) -> *const c_void;
}

/// The devices: they can be opened as long as this exists.
pub(crate) struct Devices {
    // Dropped after the devices are gone.
    _pool: space::PoolHandle,
}

/// Whether somebody has begun to make the devices.
static ARE_MADE: AtomicFlag = AtomicFlag::new(false);

impl Devices {
    /// Makes the filesystem known, and the devices that the module's parameters ask for. `EBUSY` for
    /// whoever is not the first to call this since the module was loaded. `charges_buffers` is the
    /// parameter of that name.
    pub(crate) fn make(charges_buffers: bool) -> Result<Self> {
        if ARE_MADE.xchg(true, Relaxed) {
            return Err(EBUSY);
        }
        // SAFETY: Called once, as was just seen, and nothing has looked at the lock before: it is for
        // those who have a device open, and until below there is none.
        unsafe { registry::OPENED.init() };
        // SAFETY: As above; it is for those who open a device, too.
        unsafe { space::POOL.init() };
        let pool = space::PoolHandle::make(charges_buffers)?;
        // SAFETY: Called from module init, in process context; what the devices call back is ready:
        // the registry is initialised, the pool is there, and nothing else needs to be.
        to_result(unsafe { rust_binderfs_init() })?;
        Ok(Self { _pool: pool })
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // SAFETY: Follows the call of `rust_binderfs_init` that made `self`, which is dropped once, at
        // module exit, when no device is open any more.
        unsafe { rust_binderfs_exit() };
        stats::report_leaks();
    }
}

/// Makes the context of a new device, for the C files.
///
/// The name is for those who print contexts; nobody does so yet.
#[no_mangle]
extern "C" fn rust_binder_context_create(_name: *const c_char) -> *mut c_void {
    match Context::<Node>::new() {
        Ok(context) => context.into_foreign(),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Takes back a device's reference to its context.
///
/// # Safety
///
/// `context` must have come from [`rust_binder_context_create`], and not have been released.
#[no_mangle]
unsafe extern "C" fn rust_binder_context_release(context: *mut c_void) {
    // SAFETY: Promised by the caller.
    drop(unsafe { Arc::<Context<Node>>::from_foreign(context) });
}

/// The file operations of all devices, for the C files.
#[repr(transparent)]
pub(crate) struct DeviceOperations(bindings::file_operations);

// SAFETY: The table is never written, and the functions in it may be called from any thread.
unsafe impl Sync for DeviceOperations {}

/// See [`DeviceOperations`].
#[no_mangle]
pub(crate) static rust_binder_fops: DeviceOperations =
    DeviceOperations(bindings::file_operations {
        owner: kernel::module::this_module::<LocalModule>().as_ptr(),
        open: Some(binder_open),
        flush: Some(binder_flush),
        release: Some(binder_release),
        mmap: Some(binder_mmap),
        poll: Some(binder_poll),
        unlocked_ioctl: Some(binder_ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        // SAFETY: All zeroes is what C means by leaving the other fields out: no such operation.
        ..unsafe { core::mem::MaybeUninit::<bindings::file_operations>::zeroed().assume_init() }
    });

// SAFETY: The VFS uses `fdget_pos` for reading, writing, seeking and listing, and there are no such
// operations among these. They are those of the files that `binder_open` opens, and it alone gives these
// their private data.
unsafe impl OpenedAs for Process {
    fn operations() -> &'static bindings::file_operations {
        &rust_binder_fops.0
    }
}

/// The process that a file stands for.
///
/// # Safety
///
/// `file` must be a file that [`binder_open`] opened and [`binder_release`] has not got, for the
/// lifetime `'a`.
unsafe fn process_of<'a>(file: *mut bindings::file) -> ArcBorrow<'a, Process> {
    // SAFETY: The file is valid, and `private_data` is written by `binder_open` alone, with what
    // `into_foreign` gave.
    unsafe { Arc::<Process>::borrow((*file).private_data) }
}

/// # Safety
///
/// Called by the VFS with an inode and a file of a device.
unsafe extern "C" fn binder_open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    from_result(|| {
        // SAFETY: Both are valid during this call, and belong to a device of ours.
        let context = unsafe { rust_binderfs_device_context(inode.cast(), file.cast()) };
        if context.is_null() {
            return Err(ENODEV);
        }
        // SAFETY: The device's own reference keeps the context alive during this call; it was made
        // by `rust_binder_context_create`.
        let context = unsafe { Arc::<Context<Node>>::borrow(context.cast_mut()) };
        // SAFETY: `file` is valid during this call and nobody else uses it yet.
        let opened = unsafe { File::from_raw_file(file) };
        let process = registry::open(context.into(), opened.cred())?;
        // SAFETY: As above; both arguments are those of this call. It never fails.
        unsafe { bindings::nonseekable_open(inode, file) };
        // SAFETY: The file is opened by this call, which succeeds from here on, so `binder_release` will
        // get it. None of the operations above uses a position.
        unsafe { process.file.set(file) };
        // SAFETY: As for the credentials.
        unsafe { (*file).private_data = process.into_foreign() };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened.
unsafe extern "C" fn binder_flush(
    file: *mut bindings::file,
    _owner: bindings::fl_owner_t,
) -> c_int {
    // SAFETY: Promised by the VFS.
    unsafe { process_of(file) }.flush();
    0
}

/// # Safety
///
/// Called by the VFS once, when nobody can use the file any more.
unsafe extern "C" fn binder_release(
    _inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: `private_data` came from `into_foreign`, and this is the end of the file.
    let process = unsafe { Arc::<Process>::from_foreign((*file).private_data) };
    process.file.clear();
    end_process(&process);
    0
}

/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened and a VMA under construction.
unsafe extern "C" fn binder_mmap(
    file: *mut bindings::file,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    from_result(|| {
        // SAFETY: Promised by the VFS.
        let process = unsafe { process_of(file) };
        // SAFETY: The VMA is being set up, and the mmap lock is held for writing.
        Process::mmap(&process, unsafe { VmaNew::from_raw(vma) })?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened.
unsafe extern "C" fn binder_poll(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: Promised by the VFS.
    let process = unsafe { process_of(file) };
    // SAFETY: `file` is valid during this call; poll does not use its position.
    let file = unsafe { File::from_raw_file(file) };
    // SAFETY: The table is null or valid during this call.
    let table = unsafe { PollTable::from_raw(table) };
    match threads::current_thread(process).map(|thread| process.poll(&thread, file, table)) {
        Ok(true) => bindings::POLLIN,
        Ok(false) => 0,
        Err(_) => bindings::POLLERR,
    }
}

/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened.
unsafe extern "C" fn binder_ioctl(
    file: *mut bindings::file,
    command: c_uint,
    argument: c_ulong,
) -> c_long {
    from_result(|| {
        // SAFETY: Promised by the VFS.
        let process = unsafe { process_of(file) };
        // SAFETY: `file` is valid during this call; ioctls do not use its position.
        let file = unsafe { File::from_raw_file(file) };
        // SAFETY: This is one of the operations, which the kernel calls, and what is made here lives no longer.
        let descriptors = unsafe { Descriptors::of_caller() };
        let opened = Opened {
            process,
            credential: file.cred(),
            descriptors,
            may_wait: file.flags() & kernel::fs::file::flags::O_NONBLOCK == 0,
        };
        ioctls::run(&opened, command, argument).map(|()| 0)
    })
}
