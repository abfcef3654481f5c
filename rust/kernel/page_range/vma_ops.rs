// SPDX-License-Identifier: GPL-2.0

//! The operations and the private data of a VMA, for which the `kernel` crate has no types yet.
//!
//! The private data is an `Arc<PageRange>`: each VMA with these operations owns a reference count,
//! taken when the VMA is made or copied, dropped when it is closed. Therefore comparing the pointer
//! is enough to identify the range of a VMA: as long as a VMA with this pointer exists, no other
//! range can get the same address.

use super::{PageRange, GONE};
use kernel::{
    bindings,
    mm::virt::{VmaNew, VmaRef},
    page::PAGE_SHIFT,
    sync::{atomic::ordering, Arc, ArcBorrow},
};

/// A table of operations. With `CONFIG_USERFAULTFD` it contains a pointer.
#[repr(transparent)]
pub(super) struct Operations(bindings::vm_operations_struct);

// SAFETY: The tables are never written, their functions may be called from any thread, and the
// pointer is null.
unsafe impl Sync for Operations {}

/// The operations by which a VMA of a page range is recognised.
pub(super) static OPERATIONS: Operations = Operations(bindings::vm_operations_struct {
    open: Some(open),
    close: Some(close),
    fault: Some(fault),
    ..pin_init::zeroed()
});

/// Makes `vma` a mapping of `range`.
pub(super) fn install(vma: &VmaNew, range: Arc<PageRange>) {
    let vma = vma.as_ptr();
    // SAFETY: The VMA is being set up and not visible to other threads, by the invariants of
    // `VmaNew`.
    // INVARIANT: The private data owns the reference count of `range`.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(range).cast_mut().cast();
        (*vma).vm_ops = &OPERATIONS.0;
    }
}

/// Whether `vma` is a mapping of `range`.
pub(super) fn shows(vma: &VmaRef, range: &PageRange) -> bool {
    let vma = vma.as_ptr();
    // SAFETY: By the invariants of `VmaRef` the VMA is locked for reading. Neither field changes as
    // long as any thread can hold that lock: they are written before the VMA can be found by other
    // threads, and when it is closed, which is after it can no longer be found.
    let (ops, data) = unsafe { ((*vma).vm_ops, (*vma).vm_private_data) };
    core::ptr::eq(ops, &OPERATIONS.0) && core::ptr::eq(data.cast(), range)
}

/// Returns the address of the beginning of the file, if the VMA covered it.
pub(super) fn base(vma: &VmaRef) -> usize {
    // SAFETY: By the invariants of `VmaRef` the VMA is locked for reading or stronger.
    let file_page = unsafe { (*vma.as_ptr()).vm_pgoff };
    vma.start().wrapping_sub(file_page << PAGE_SHIFT)
}

/// Called when a VMA was made from one with these operations: as a part of it when it was split, or
/// at another address.
///
/// A part changes nothing as long as it stays. A mapping that was moved is no longer at the address
/// that the range reports, so it counts as gone, even if an empty VMA stays at the old address.
///
/// # Safety
///
/// Only to be called by the kernel, as the `open` operation of a VMA with [`OPERATIONS`].
unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The VMA has a copy of the private data of another with these operations, which owns a
    // reference count and is not closed before this returns.
    let range = unsafe { ArcBorrow::from_raw((*vma).vm_private_data.cast::<PageRange>()) };
    // SAFETY: The VMA is valid, and the mmap lock is held for writing.
    let vma = unsafe { VmaRef::from_raw(vma) };
    if base(vma) != range.base.load(ordering::Relaxed) {
        range.frontier.store(GONE, ordering::Relaxed);
    }
    // INVARIANT: The private data of the new VMA owns a reference count of its own.
    let _ = Arc::into_raw(Arc::from(range));
}

/// Called when a part of the mapping was removed. From then on the mapping counts as gone, because
/// not all of it can be used any more.
///
/// # Safety
///
/// Only to be called by the kernel, as the `close` operation of a VMA with [`OPERATIONS`].
unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The private data of a VMA with these operations owns a reference count. The VMA is
    // closed only once, and its private data is not read after that: the VMA cannot be found any
    // more.
    let range = unsafe { Arc::from_raw((*vma).vm_private_data.cast::<PageRange>()) };
    range.frontier.store(GONE, ordering::Relaxed);
}

/// Called when the process accesses a page that is not present.
///
/// # Safety
///
/// Only to be called by the kernel.
unsafe extern "C" fn fault(_fault: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    bindings::vm_fault_reason_VM_FAULT_SIGBUS
}
