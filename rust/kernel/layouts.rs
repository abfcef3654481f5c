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

/// Returns the rows of some structs: for each its size, or the offset of a field.
macro_rules! rows {
    ($($of:ident: $($($part:ident).+),+;)+) => { &[$($(row!($of, $($part).+),)+)+] };
}

macro_rules! row {
    ($of:ident, size) => {
        size_of::<$of>()
    };
    ($of:ident, $($field:ident).+) => {
        offset_of!($of, $($field).+)
    };
}

/// The rows of the C side, in its order.
const OF_RUST: &[usize] = rows! {
    callback_head: size;
    cred: euid.val;
    file: f_cred, f_flags, f_op, private_data;
    file_operations: size, compat_ioctl, flush, mmap, open, owner, poll, release, unlocked_ioctl;
    genl_family: mcgrps, module, n_mcgrps, name, version;
    genl_multicast_group: name;
    kernel_param: __bindgen_anon_1.arg, flags, level, mod_, name, ops, perm;
    kernel_param_ops: flags, free, get, set;
    kmem_cache_args: size;
    list_head: size, next, prev;
    list_lru: size;
    list_lru_one: lock;
    lock_class_key: size;
    lsm_context: context, len;
    mutex: size;
    page: size;
    poll_table_struct: size;
    rb_node: size, rb_left, rb_right;
    rb_root: rb_node;
    shrink_control: size, memcg, nid, nr_scanned, nr_to_scan;
    shrinker: count_objects, private_data, scan_objects;
    spinlock: size;
    task_struct: group_leader, mm, pid, tgid;
    tracepoint: key;
    vm_area_struct:
        __bindgen_anon_1.__bindgen_anon_1.vm_end, __bindgen_anon_2.vm_flags, vm_mm, vm_ops,
        vm_pgoff, vm_private_data, __bindgen_anon_1.__bindgen_anon_1.vm_start;
    vm_fault: __bindgen_anon_1.address, __bindgen_anon_1.vma;
    vm_operations_struct: size, close, fault, open;
    wait_queue_entry: size;
    wait_queue_head: size;
};

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
