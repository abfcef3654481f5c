// SPDX-License-Identifier: GPL-2.0

//! The functions that C calls: the file operations of the devices, and the creation and release of
//! their contexts.
//!
//! Every function here turns what the kernel guarantees about its arguments into types that express
//! these guarantees, and does nothing else.

use crate::{
    allocation::space,
    common::{
        debug::{binder_debug, errno_name},
        stats,
        transaction_log, //
    },
    context::Context,
    entry::ioctls::{self, Opened},
    ffi::register_reports,
    kernel_ext::{
        callers::Operation,
        files::OpenedAs,
        pid::{self, UserNamespace},
        sched::{self, Worker}, //
    },
    lifecycle::{
        freeze,
        processes::{self, close_process, end_process},
        threads, //
    },
    logs::{Log, Reader},
    process::{Pid, Process},
    LocalModule, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::{from_result, to_result},
    ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void},
    fs::File,
    mm::virt::VmaNew,
    module::this_module,
    net::netlink::Registration,
    prelude::*,
    seq_file::SeqFile,
    str::CStr,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        poll::PollTable,
        Arc, //
    },
    types::ForeignOwnable, //
};

extern "C" {
    fn rust_binderfs_init() -> c_int;
    fn rust_binderfs_exit();
    fn rust_binderfs_device_context(inode: *const c_void, file: *const c_void) -> *const c_void;
    fn rust_binder_logs_opened(device: *const c_void, pid: Pid);
    fn rust_binder_logs_closed(device: *const c_void, pid: Pid);
}

/// The devices. They can be opened as long as this value exists.
pub(crate) struct Devices {
    /// The worker that ends processes.
    worker: Option<Worker>,
    // Both are dropped after `Drop::drop` has removed the devices.
    _pool: space::PoolHandle,
    _reports: Option<Registration>,
}

/// True if [`Devices::make`] has been called since the module was loaded.
static ARE_MADE: AtomicFlag = AtomicFlag::new(false);

impl Devices {
    /// Registers the filesystem and the family of reports, and makes the devices that the module's
    /// parameters name. `charges_buffers` is the value of the parameter `charge_buffers`.
    ///
    /// Fails with `EBUSY` when it has been called before since the module was loaded.
    pub(crate) fn make(charges_buffers: bool) -> Result<Self> {
        if ARE_MADE.xchg(true, Relaxed) {
            return Err(EBUSY);
        }
        // SAFETY: Called once, because of the check above. Nothing has used the locks before: only
        // processes that have a device open and readers of log files use them, and neither exists
        // before `rust_binderfs_init` is called.
        unsafe {
            processes::REGISTRY.init();
            freeze::CHANGING.init();
            space::POOL.init();
            transaction_log::LOGS.init();
        }
        let pool = space::PoolHandle::make(charges_buffers)?;
        // SAFETY: Both are called once, because of the check above, and no device exists.
        let (reports, worker) = unsafe { (register_reports(), Worker::begin(c"binder_rust")) };
        let worker = worker?;
        // SAFETY: Called from module init, in process context. The functions that the devices call
        // back need the locks, the pool and the worker, and nothing else.
        if let Err(error) = to_result(unsafe { rust_binderfs_init() }) {
            // SAFETY: No device exists, so no process ends.
            unsafe { worker.end() };
            return Err(error);
        }
        Ok(Self {
            worker: Some(worker),
            _pool: pool,
            _reports: reports,
        })
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            // SAFETY: At module exit no device is open, so no process ends any more; those that
            // have ended are waited for.
            unsafe { worker.end() };
        }
        // SAFETY: Follows the successful call of `rust_binderfs_init` in `Self::make`. `self` is
        // dropped once, at module exit, when no device is open any more.
        unsafe { rust_binderfs_exit() };
        stats::report_leaks();
    }
}

/// Makes the context of a new device, for the C files. Returns null when no memory is available.
///
/// # Safety
///
/// `name` must be a string that ends with a zero byte, and `owner` a valid `struct user_namespace`.
#[no_mangle]
unsafe extern "C" fn rust_binder_context_create(
    name: *const c_char,
    owner: NonNull<c_void>,
) -> *mut c_void {
    // SAFETY: Guaranteed by the caller; the string is copied during this call.
    let (name, owner) = unsafe { (CStr::from_char_ptr(name), UserNamespace::from_raw(owner)) };
    match Context::new(name, owner) {
        Ok(context) => context.into_foreign(),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Drops a device's reference to its context. The device is open nowhere.
///
/// # Safety
///
/// `context` must have been returned by [`rust_binder_context_create`], and not have been released.
#[no_mangle]
unsafe extern "C" fn rust_binder_context_release(context: *mut c_void) {
    // SAFETY: Guaranteed by the caller.
    drop(unsafe { Arc::<Context>::from_foreign(context) });
}

/// The file operations of all devices, for the C files.
///
/// The private data of a file is what `into_foreign` has returned for its process. [`binder_open`]
/// alone sets it. The process is borrowed from it until [`binder_release`] takes it back.
#[repr(transparent)]
pub(crate) struct DeviceOperations(bindings::file_operations);

// SAFETY: The table is never written, and the functions in it may be called from any thread.
unsafe impl Sync for DeviceOperations {}

/// The table of file operations; see [`DeviceOperations`].
#[no_mangle]
pub(crate) static rust_binder_fops: DeviceOperations =
    DeviceOperations(bindings::file_operations {
        owner: this_module::<LocalModule>().as_ptr(),
        open: Some(binder_open),
        flush: Some(binder_flush),
        release: Some(binder_release),
        mmap: Some(binder_mmap),
        poll: Some(binder_poll),
        unlocked_ioctl: Some(binder_ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        // SAFETY: All zeroes is valid for this C struct: an initialiser in C sets the fields that
        // it leaves out to zero, which means that no such operation exists.
        ..unsafe { core::mem::MaybeUninit::<bindings::file_operations>::zeroed().assume_init() }
    });

// SAFETY: The VFS uses `fdget_pos` for reading, writing, seeking and listing, and the table has no
// such operation. It belongs to the files that `binder_open` opens, and `binder_open` alone sets
// their private data.
unsafe impl OpenedAs for Process {
    fn operations() -> &'static bindings::file_operations {
        &rust_binder_fops.0
    }
}

/// The `open` operation: opens a device for the calling task.
///
/// # Safety
///
/// Called by the VFS with an inode and a file of a device.
unsafe extern "C" fn binder_open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    from_result(|| {
        // SAFETY: Both are valid during this call, and belong to a device of this driver.
        let context = unsafe { rust_binderfs_device_context(inode.cast(), file.cast()) };
        if context.is_null() {
            return Err(ENODEV);
        }
        // SAFETY: `rust_binder_context_create` has made the context, which the device's own
        // reference keeps alive during this call.
        let context = unsafe { Arc::<Context>::borrow(context.cast_mut()) };
        // SAFETY: `file` is valid during this call and nothing else uses it yet.
        let opened = unsafe { File::from_raw_file(file) };
        let process = processes::open(context.into(), opened.cred())?;
        // SAFETY: Both arguments are those of this call, which cannot fail from here on, so
        // `binder_release` will be called. None of the operations in `rust_binder_fops` uses a
        // position.
        unsafe {
            bindings::nonseekable_open(inode, file);
            process.file.set(file);
        }
        // SAFETY: The inode is valid during this call, and that of a device. `binder_release` calls
        // the counterpart, with the same inode and pid. Nothing else uses the file yet.
        unsafe {
            rust_binder_logs_opened(inode.cast(), process.pid);
            (*file).private_data = process.into_foreign();
        }
        Ok(0)
    })
}

/// The `flush` operation: a descriptor of the file is closed, maybe by a process to which it was
/// sent (contract REL-1).
///
/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened.
unsafe extern "C" fn binder_flush(
    file: *mut bindings::file,
    _owner: bindings::fl_owner_t,
) -> c_int {
    // SAFETY: The file is open, so its private data is its process, see `DeviceOperations`.
    let process = unsafe { Arc::<Process>::borrow((*file).private_data) };
    if threads::flush(&process) {
        // SAFETY: The file keeps the module loaded, and so the devices with their worker exist.
        unsafe { sched::run_later(process.into(), threads::flush_all) };
    }
    0
}

/// The `release` operation: the last reference to the file is gone, and its process ends.
///
/// # Safety
///
/// Called by the VFS once, when nothing can use the file any more.
unsafe extern "C" fn binder_release(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: `into_foreign` has returned `private_data`, and nothing uses it after this call.
    let process = unsafe { Arc::<Process>::from_foreign((*file).private_data) };
    process.file.clear();
    // SAFETY: No operation of the file is left when it is released.
    unsafe { process.callers.clear() };
    close_process(&process);
    // SAFETY: The file keeps the module loaded, and so the devices with their worker exist.
    unsafe { sched::run_later(process.clone(), end_process) };
    // The file goes later, and is empty from now on.
    // SAFETY: The inode is that of `binder_open`, and valid during this call. It follows the call
    // there, with the same pid.
    unsafe { rust_binder_logs_closed(inode.cast(), process.pid) };
    0
}

/// Makes the reader of a log file, for the C files. Returns null when no memory is available.
#[no_mangle]
extern "C" fn rust_binder_log_open(log: c_uint, pid: Pid) -> *mut c_void {
    let reader = Log::of(log, pid).map(|log| KBox::new(Reader::new(log), GFP_KERNEL));
    match reader {
        Some(Ok(reader)) => reader.into_foreign(),
        _ => core::ptr::null_mut(),
    }
}

/// Frees the reader of a log file.
///
/// # Safety
///
/// `reader` must have been returned by [`rust_binder_log_open`], and not have been freed.
#[no_mangle]
unsafe extern "C" fn rust_binder_log_close(reader: *mut c_void) {
    // SAFETY: Guaranteed by the caller.
    drop(unsafe { KBox::<Reader>::from_foreign(reader) });
}

/// Goes to a record. The first one begins a new snapshot. Returns whether there is one, or a
/// negative error.
///
/// # Safety
///
/// `reader` must have been returned by [`rust_binder_log_open`] and not have been freed, and no
/// other thread may use it during this call.
#[no_mangle]
unsafe extern "C" fn rust_binder_log_seek(
    reader: *mut c_void,
    position: bindings::loff_t,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    let reader = unsafe { KBox::<Reader>::borrow_mut(reader) };
    // CAST: A position is not negative.
    from_result(|| reader.seek(position as usize).map(c_int::from))
}

/// Writes a record.
///
/// # Safety
///
/// As for [`rust_binder_log_seek`]; also `seq` must be valid, and no other thread may use it
/// during this call.
#[no_mangle]
unsafe extern "C" fn rust_binder_show_log(
    seq: *mut bindings::seq_file,
    reader: *mut c_void,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    let (out, reader) = unsafe { (SeqFile::from_raw(seq), KBox::<Reader>::borrow_mut(reader)) };
    from_result(|| reader.show(out).map(|()| 0))
}

/// The `mmap` operation: maps the space in which the process receives data.
///
/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened and a VMA under construction.
unsafe extern "C" fn binder_mmap(
    file: *mut bindings::file,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    from_result(|| {
        // SAFETY: The file is open, so its private data is its process, see `DeviceOperations`. The
        // VMA is being set up, with the mmap lock held for writing.
        let (process, vma) = unsafe {
            let process = Arc::<Process>::borrow((*file).private_data);
            (process, VmaNew::from_raw(vma))
        };
        Process::mmap(&process, vma).inspect_err(|error| {
            let errno = error.to_errno();
            binder_debug!(
                SpaceError,
                "mmap of {} bytes of {} fails with {} ({errno})",
                vma.end() - vma.start(),
                process.context.name(),
                errno_name(errno)
            );
        })?;
        Ok(0)
    })
}

/// The `poll` operation: whether the calling thread has work to read.
///
/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened.
unsafe extern "C" fn binder_poll(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: The file is open, so its private data is its process, see `DeviceOperations`.
    let process = unsafe { Arc::<Process>::borrow((*file).private_data) };
    // SAFETY: Both are valid during this call, the table unless it is null; poll does not use the
    // file's position.
    let (file, table) = unsafe { (File::from_raw_file(file), PollTable::from_raw(table)) };
    match threads::current_thread(process).map(|thread| process.poll(&thread, file, table)) {
        Ok(true) => bindings::POLLIN,
        Ok(false) => 0,
        // Asynchronous I/O first polls in a thread of the opener, and polls again from a worker of
        // the kernel when it is woken. The worker has no record, and cannot look up what work that
        // thread may take. `POLLIN` is correct here: there may be work, and the read finds out.
        Err(_) if pid::is_kernel_thread() => bindings::POLLIN,
        Err(_) => bindings::POLLERR,
    }
}

/// The `unlocked_ioctl` operation: runs an ioctl, see [`ioctls`].
///
/// # Safety
///
/// Called by the VFS with a file that `binder_open` opened.
unsafe extern "C" fn binder_ioctl(
    file: *mut bindings::file,
    command: c_uint,
    argument: c_ulong,
) -> c_long {
    from_result(|| {
        // SAFETY: The file is open, so its private data is its process, see `DeviceOperations`.
        // Ioctls do not use its position.
        let (process, file) = unsafe {
            let process = Arc::<Process>::borrow((*file).private_data);
            (process, File::from_raw_file(file))
        };
        let mut opened = Opened {
            // SAFETY: The kernel calls this function as one of the operations of `Process`, and the
            // result does not outlive this call, which makes no other.
            operation: unsafe { Operation::of_caller(process) },
            credential: file.cred(),
            may_wait: file.flags() & kernel::fs::file::flags::O_NONBLOCK == 0,
        };
        ioctls::run(&mut opened, command, argument).map(|()| 0)
    })
}

#[cfg(kunit_suites)]
#[kunit_tests(binder_module)]
mod tests {
    use super::{Devices, EBUSY};
    use crate::kernel_ext::expect::{ensure_eq, Failed};

    #[test]
    fn lesson_s16_devices_are_made_once() -> Result<(), Failed> {
        // Module init has made the devices.
        ensure_eq!(Devices::make(false).err(), Some(EBUSY));
        Ok(())
    }
}
