// SPDX-License-Identifier: GPL-2.0

//! Addresses that readers can tell apart and not learn.

use kernel::{ffi::c_void, seq_file::SeqFile};

extern "C" {
    fn kernel_ext_seq_hashed(seq: *mut c_void, address: *const c_void);
    fn kernel_ext_seq_restricted(seq: *mut c_void, address: *const c_void);
}

/// Writes an address of user space as a number that depends on it and on a secret of the kernel; 0
/// as itself. With the kernel parameter `no_hash_pointers` it is the address.
pub(crate) fn write(out: &SeqFile, address: usize) {
    let seq = core::ptr::from_ref(out).cast_mut().cast();
    // SAFETY: A `SeqFile` is a `seq_file` that no other thread uses, and which may be changed
    // through a shared reference. The address is not used as one.
    unsafe { kernel_ext_seq_hashed(seq, core::ptr::without_provenance(address)) };
}

/// Writes an address of the kernel as `kptr_restrict` allows the reader to see it; 0 as itself.
/// Unless that hides it, it is hashed as by [`write()`].
pub(crate) fn write_restricted(out: &SeqFile, address: usize) {
    let seq = core::ptr::from_ref(out).cast_mut().cast();
    // SAFETY: A `SeqFile` is a `seq_file` that no other thread uses, and which may be changed
    // through a shared reference. The address is not used as one.
    unsafe { kernel_ext_seq_restricted(seq, core::ptr::without_provenance(address)) };
}
