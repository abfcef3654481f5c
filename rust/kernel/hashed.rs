// SPDX-License-Identifier: GPL-2.0

//! Addresses that readers can tell apart and not learn, by formats that only the kernel's
//! `printf()` has.

use kernel::{
    bindings,
    ffi::c_void,
    seq_file::SeqFile,
    str::{CStr, CStrExt}, //
};

/// Writes an address of user space as a number that depends on it and on a secret of the kernel; 0
/// as itself. With the kernel parameter `no_hash_pointers` it is the address.
pub(crate) fn write(out: &SeqFile, address: usize) {
    write_as(out, c"%p", address);
}

/// Writes an address of the kernel as `kptr_restrict` allows the reader to see it; 0 as itself.
/// Unless that hides it, it is hashed as by [`write()`].
pub(crate) fn write_restricted(out: &SeqFile, address: usize) {
    write_as(out, c"%pK", address);
}

/// Writes an address by a format for one pointer, which only prints it.
fn write_as(out: &SeqFile, format: &CStr, address: usize) {
    let seq = core::ptr::from_ref(out).cast_mut().cast();
    let address: *const c_void = core::ptr::without_provenance(address);
    // SAFETY: A `SeqFile` is a `seq_file` that no other thread uses, and which may be changed
    // through a shared reference. The format has one pointer, which is given.
    unsafe { bindings::seq_printf(seq, format.as_char_ptr(), address) };
}
