// SPDX-License-Identifier: GPL-2.0

//! The file of a device, which a server opens.

use super::{
    inline::*,
    request::{Data, Place, Request},
    uring,
};
use crate::{device::Device, LocalModule};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::from_err_ptr,
    mm::virt::VmaNew,
    module::this_module,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{Arc, ArcBorrow},
    types::ForeignOwnable,
};

/// A device's file in /dev.
///
/// # Invariants
///
/// It was added, and this value removes it.
pub(crate) struct DeviceFile(NonNull<Node>);

// SAFETY: Any thread may remove it.
unsafe impl Send for DeviceFile {}

const OPERATIONS: &bindings::file_operations = &bindings::file_operations {
    owner: this_module::<LocalModule>().as_ptr(),
    open: Some(open),
    release: Some(release),
    read_iter: Some(read),
    write_iter: Some(write),
    uring_cmd: Some(uring::serve),
    mmap: Some(map),
    ..pin_init::zeroed()
};

impl DeviceFile {
    /// Adds the file of this number. An open file keeps the device. `ENOMEM`, `EEXIST`. Sleeps.
    pub(crate) fn add(number: u32, device: Arc<Device>) -> Result<Self> {
        let owner = device.into_foreign().cast();
        // SAFETY: `gone` takes the owner back.
        let node = from_err_ptr(unsafe { ublk_rust_node_add(number, OPERATIONS, owner, gone) })?;
        // INVARIANT: It is added.
        Ok(Self(NonNull::new(node).ok_or(ENOMEM)?))
    }
}

impl Drop for DeviceFile {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_node_remove(self.0.as_ptr()) };
    }
}

/// Nobody uses the file any more.
///
/// # Safety
///
/// `inline.c` calls this once, with the owner that was passed.
unsafe extern "C" fn gone(owner: *mut c_void) {
    // SAFETY: By the condition, it comes from `into_foreign`.
    drop(unsafe { Arc::<Device>::from_foreign(owner.cast()) });
}

/// Returns the device of a file.
///
/// # Safety
///
/// The file is one of [`DeviceFile`], and open during the lifetime.
#[inline(always)]
pub(super) unsafe fn device_of<'a>(file: *mut bindings::file) -> ArcBorrow<'a, Device> {
    // SAFETY: By the condition, `open` has set it to an owner, which the file has.
    unsafe { Arc::<Device>::borrow((*file).private_data.cast()) }
}

/// A process opens the file of a device.
///
/// # Safety
///
/// The kernel calls this for a file of this kind.
unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: The kernel passes a file of this kind that it opens.
    let device = unsafe {
        let owner = ublk_rust_node_owner(inode);
        (*file).private_data = owner;
        Arc::<Device>::borrow(owner.cast())
    };
    match device.open() {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Nobody has the open file any more.
///
/// # Safety
///
/// The kernel calls this for a file of this kind.
unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: The kernel passes an open file of this kind.
    unsafe { device_of(file) }.release();
    0
}

/// A process maps the descriptors of a queue.
///
/// # Safety
///
/// The kernel calls this for a file of this kind.
unsafe extern "C" fn map(file: *mut bindings::file, vma: *mut bindings::vm_area_struct) -> c_int {
    // SAFETY: The kernel passes an open file of this kind, and an area that is being made.
    let (device, vma, page) = unsafe {
        (
            device_of(file),
            VmaNew::from_raw(vma),
            (*vma).vm_pgoff as u64,
        )
    };
    let map = || {
        let descriptors = device.descriptors_at(page << PAGE_SHIFT)?;
        descriptors.map(vma)
    };
    match if vma.writable() { Err(EPERM) } else { map() } {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Data that a server reads or writes.
///
/// # Invariants
///
/// `iter` describes the task's memory, for this direction of data.
pub(crate) struct ServerData {
    iter: *mut bindings::iov_iter,
    pub(crate) direction: Data,
}

impl ServerData {
    /// Copies data of a request, from this byte on.
    pub(super) fn copy(&mut self, request: &Request, start: usize) -> Result<usize> {
        request.copy_iter(start, self.iter, self.direction)
    }

    /// The same, from a place on, which is of this request.
    #[inline(always)]
    pub(super) fn copy_on(
        &mut self,
        request: &Request,
        start: usize,
        place: &mut Place,
    ) -> Result<usize> {
        request.copy_on(start, place, self.iter, self.direction)
    }
}

/// Copies between requests and the server.
///
/// # Safety
///
/// The kernel passes an open file of this kind, and where the data go.
unsafe fn transfer(
    call: *mut bindings::kiocb,
    iter: *mut bindings::iov_iter,
    direction: Data,
) -> isize {
    // SAFETY: By the condition.
    let (device, position) = unsafe { (device_of((*call).ki_filp), (*call).ki_pos) };
    // INVARIANT: The kernel passes it for the direction.
    let copied = crate::serve::transfer(&device, position, ServerData { iter, direction });
    match copied {
        // CAST: At most as long as a request.
        Ok(bytes) => bytes as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// A server reads data of a request.
///
/// # Safety
///
/// The kernel calls this for a file of this kind.
unsafe extern "C" fn read(call: *mut bindings::kiocb, iter: *mut bindings::iov_iter) -> isize {
    // SAFETY: The kernel passes an open file of this kind.
    unsafe { transfer(call, iter, Data::ToServer) }
}

/// A server writes data of a request.
///
/// # Safety
///
/// The kernel calls this for a file of this kind.
unsafe extern "C" fn write(call: *mut bindings::kiocb, iter: *mut bindings::iov_iter) -> isize {
    // SAFETY: As above.
    unsafe { transfer(call, iter, Data::FromServer) }
}
