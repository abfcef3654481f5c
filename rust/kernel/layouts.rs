// SPDX-License-Identifier: GPL-2.0

//! Whether Rust sees the kernel's structs as C does.
//!
//! `bindgen` makes Rust types of the kernel's headers, and is wrong about one of them. In a kernel
//! without `CONFIG_SCHEDSTATS`, each field of `task_struct` behind an empty, aligned struct is read
//! from the wrong place. Then a task has number 0 and no memory, and the data that is read instead
//! is used as a pointer.
//!
//! The table lists the structs that a module relies on. The module, or the `kernel` crate inlined
//! into it, accesses their fields by itself, or allocates them for C to fill. It has the size of
//! those that are allocated, and each field that Rust code names (`make test ONLY=fields`). All
//! else is read through C functions, which the compiler made for this kernel.

use core::mem::{offset_of, size_of};
use kernel::{
    bindings::*,
    error::code,
    ffi::c_char,
    prelude::*,
    str::CStr, //
};

/// One row of the C side: `struct kernel_ext_layout` of `helpers/layouts.c`.
#[repr(C)]
struct LayoutRow {
    name: *const c_char,
    bytes: usize,
}

extern "C" {
    static kernel_ext_layouts: [LayoutRow; 0];
    static kernel_ext_layouts_count: usize;
}

/// The rows of the C side, in its order.
const OF_RUST: &[usize] = &[
    size_of::<callback_head>(),
    offset_of!(cred, euid.val),
    offset_of!(file, f_cred),
    offset_of!(file, f_flags),
    offset_of!(file, f_op),
    offset_of!(file, private_data),
    size_of::<file_operations>(),
    offset_of!(file_operations, compat_ioctl),
    offset_of!(file_operations, flush),
    offset_of!(file_operations, mmap),
    offset_of!(file_operations, open),
    offset_of!(file_operations, owner),
    offset_of!(file_operations, poll),
    offset_of!(file_operations, release),
    offset_of!(file_operations, unlocked_ioctl),
    offset_of!(genl_family, mcgrps),
    offset_of!(genl_family, module),
    offset_of!(genl_family, n_mcgrps),
    offset_of!(genl_family, name),
    offset_of!(genl_family, version),
    offset_of!(genl_multicast_group, name),
    offset_of!(kernel_param, __bindgen_anon_1.arg),
    offset_of!(kernel_param, flags),
    offset_of!(kernel_param, level),
    offset_of!(kernel_param, mod_),
    offset_of!(kernel_param, name),
    offset_of!(kernel_param, ops),
    offset_of!(kernel_param, perm),
    offset_of!(kernel_param_ops, flags),
    offset_of!(kernel_param_ops, free),
    offset_of!(kernel_param_ops, get),
    offset_of!(kernel_param_ops, set),
    size_of::<kmem_cache_args>(),
    size_of::<list_head>(),
    offset_of!(list_head, next),
    offset_of!(list_head, prev),
    size_of::<list_lru>(),
    offset_of!(list_lru_one, lock),
    size_of::<lock_class_key>(),
    offset_of!(lsm_context, context),
    offset_of!(lsm_context, len),
    size_of::<mutex>(),
    size_of::<page>(),
    size_of::<poll_table_struct>(),
    size_of::<rb_node>(),
    offset_of!(rb_node, rb_left),
    offset_of!(rb_node, rb_right),
    offset_of!(rb_root, rb_node),
    size_of::<shrink_control>(),
    offset_of!(shrink_control, memcg),
    offset_of!(shrink_control, nid),
    offset_of!(shrink_control, nr_scanned),
    offset_of!(shrink_control, nr_to_scan),
    offset_of!(shrinker, count_objects),
    offset_of!(shrinker, private_data),
    offset_of!(shrinker, scan_objects),
    size_of::<spinlock>(),
    offset_of!(task_struct, group_leader),
    offset_of!(task_struct, mm),
    offset_of!(task_struct, pid),
    offset_of!(task_struct, tgid),
    offset_of!(tracepoint, key),
    offset_of!(vm_area_struct, __bindgen_anon_1.__bindgen_anon_1.vm_end),
    offset_of!(vm_area_struct, __bindgen_anon_2.vm_flags),
    offset_of!(vm_area_struct, vm_mm),
    offset_of!(vm_area_struct, vm_ops),
    offset_of!(vm_area_struct, vm_pgoff),
    offset_of!(vm_area_struct, vm_private_data),
    offset_of!(vm_area_struct, __bindgen_anon_1.__bindgen_anon_1.vm_start),
    offset_of!(vm_fault, __bindgen_anon_1.address),
    offset_of!(vm_fault, __bindgen_anon_1.vma),
    size_of::<vm_operations_struct>(),
    offset_of!(vm_operations_struct, close),
    offset_of!(vm_operations_struct, fault),
    offset_of!(vm_operations_struct, open),
    size_of::<wait_queue_entry>(),
    size_of::<wait_queue_head>(),
];

/// Compares all rows. To be called before anything else. `ENOEXEC` if Rust would read or write a
/// struct of this kernel in the wrong place; prints the first such row.
pub(crate) fn check() -> Result {
    // SAFETY: The C side defines both, never writes them, and the count is that of the table.
    let of_c = unsafe {
        core::slice::from_raw_parts(kernel_ext_layouts.as_ptr(), kernel_ext_layouts_count)
    };
    if of_c.len() != OF_RUST.len() {
        let (of_c, of_rust) = (of_c.len(), OF_RUST.len());
        pr_err!("layouts: {of_c} rows in C, {of_rust} in Rust; not loaded\n");
        return Err(code::ENOEXEC);
    }
    for (LayoutRow { name, bytes }, of_rust) in of_c.iter().zip(OF_RUST) {
        if bytes != of_rust {
            // SAFETY: All names are string literals of the C side.
            let name = unsafe { CStr::from_char_ptr(*name) };
            pr_err!("{name:?}: {bytes} bytes in C, {of_rust} by bindgen; not loaded\n");
            return Err(code::ENOEXEC);
        }
    }
    Ok(())
}
