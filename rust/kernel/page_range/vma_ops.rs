// SPDX-License-Identifier: GPL-2.0

//! The operations and the private data of a VMA, for which the `kernel` crate has no types yet.
//!
//! The private data is an `Arc<PageRange>`: each VMA with these operations owns a reference count,
//! taken when the VMA is made or copied, given up when it is closed. That is why comparing the
//! pointer is enough to know whose VMA it is: as long as there is a VMA with this pointer, no
//! other range can get the same address.

use super::{PageRange, GONE};
use kernel::{
    bindings,
    mm::virt::{VmaNew, VmaRef},
    page::PAGE_SHIFT,
    sync::{atomic::ordering, Arc, ArcBorrow},
};

/// A table of operations. With `CONFIG_USERFAULTFD` it has a pointer in it.
#[repr(transparent)]
pub(super) struct Operations(bindings::vm_operations_struct);

// SAFETY: The tables are never written, their functions may be called from any thread, and the pointer
// is null.
unsafe impl Sync for Operations {}

/// What makes a VMA one of ours.
pub(super) static OPERATIONS: Operations = Operations(bindings::vm_operations_struct {
    open: Some(open),
    close: Some(close),
    fault: Some(fault),
    ..pin_init::zeroed()
});

/// Makes `vma` show `range`.
pub(super) fn install(vma: &VmaNew, range: Arc<PageRange>) {
    let vma = vma.as_ptr();
    // SAFETY: The VMA is being set up and known to nobody else, by the invariants of `VmaNew`.
    // INVARIANT: The private data owns the reference count of `range`.
    unsafe {
        (*vma).vm_private_data = Arc::into_raw(range).cast_mut().cast();
        (*vma).vm_ops = &OPERATIONS.0;
    }
}

/// Whether `vma` shows `range`.
pub(super) fn shows(vma: &VmaRef, range: &PageRange) -> bool {
    let vma = vma.as_ptr();
    // SAFETY: By the invariants of `VmaRef` the VMA is locked for reading. Neither field
    // changes as long as anyone can hold that lock: they are written before the VMA can be
    // found by others, and when it is closed, which is after it can no longer be found.
    let (ops, data) = unsafe { ((*vma).vm_ops, (*vma).vm_private_data) };
    core::ptr::eq(ops, &OPERATIONS.0) && core::ptr::eq(data.cast(), range)
}

/// Where the beginning of the file would be in memory, if the VMA reached that far.
pub(super) fn base(vma: &VmaRef) -> usize {
    // SAFETY: By the invariants of `VmaRef` the VMA is locked for reading or stronger.
    let file_page = unsafe { (*vma.as_ptr()).vm_pgoff };
    vma.start().wrapping_sub(file_page << PAGE_SHIFT)
}

/// A VMA was made from one of ours: as part of it when it was split, or at another address.
///
/// A part changes nothing as long as it stays. What was moved is no longer where we tell
/// others that it is, so it counts as gone, even if a shell of it stays where it was.
///
/// # Safety
///
/// Only to be called by the kernel, as the `open` operation of a VMA with [`OPERATIONS`].
unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The VMA has a copy of the private data of another with these operations, which
    // owns a reference count and is not closed before this returns.
    let range = unsafe { ArcBorrow::from_raw((*vma).vm_private_data.cast::<PageRange>()) };
    // SAFETY: The VMA is valid, and the mmap lock is held for writing.
    let vma = unsafe { VmaRef::from_raw(vma) };
    if base(vma) != range.base.load(ordering::Relaxed) {
        range.frontier.store(GONE, ordering::Release);
    }
    // INVARIANT: The private data of the new VMA gets a reference count of its own.
    let _ = Arc::into_raw(Arc::from(range));
}

/// Some part of the mapping went, and with it the promise that all of it can be used.
///
/// # Safety
///
/// Only to be called by the kernel, as the `close` operation of a VMA with [`OPERATIONS`].
unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The private data of a VMA with these operations owns a reference count. It is
    // closed only once, and nobody looks at its private data after that: it cannot be found
    // any more.
    let range = unsafe { Arc::from_raw((*vma).vm_private_data.cast::<PageRange>()) };
    range.frontier.store(GONE, ordering::Release);
}

/// The process touched a page that is not there.
///
/// # Safety
///
/// Only to be called by the kernel.
unsafe extern "C" fn fault(_fault: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    bindings::vm_fault_reason_VM_FAULT_SIGBUS
}
