// SPDX-License-Identifier: GPL-2.0

//! Whether Rust sees the kernel's structs as C does.
//!
//! `bindgen` makes Rust types of the kernel's headers, and is wrong about one of them: in a kernel
//! without `CONFIG_SCHEDSTATS` each field of `task_struct` behind an empty, aligned struct is read
//! from the wrong place. Then a task has number 0 and no memory, and the data that is read instead
//! is used as a pointer.
//!
//! The table lists what a module relies on: the fields that it, or the `kernel` crate inlined
//! into it, reads or writes by itself, and the sizes of the structs that it allocates and C fills.
//! Everything else is read through C functions, which the compiler made for this very kernel.

use core::mem::{offset_of, size_of};
use kernel::{
    bindings,
    ffi::c_char,
    prelude::*,
    str::CStr, //
};

/// One row of the C side: see `rust/kernel_ext/layouts.h`.
#[repr(C)]
struct Layout {
    name: *const c_char,
    bytes: usize,
}

extern "C" {
    static kernel_ext_layouts: [Layout; 0];
    static kernel_ext_layouts_count: usize;
}

macro_rules! size {
    ($type:ident) => {
        (stringify!($type), size_of::<bindings::$type>())
    };
}

/// The offset of a field; anonymous structs and unions around it have names in Rust alone.
macro_rules! field {
    ($type:ident, $($around:ident).+ => $field:ident) => {
        field!(@ $type, $field, offset_of!(bindings::$type, $($around.)+ $field))
    };
    ($type:ident, $field:ident) => {
        field!(@ $type, $field, offset_of!(bindings::$type, $field))
    };
    (@ $type:ident, $field:ident, $offset:expr) => {
        (concat!(stringify!($type), ".", stringify!($field)), $offset)
    };
}

const OF_RUST: &[(&str, usize)] = &[
    size!(callback_head),
    field!(cred, euid),
    field!(file, f_cred),
    field!(file, f_flags),
    field!(file, f_op),
    field!(file, private_data),
    size!(file_operations),
    field!(file_operations, owner),
    field!(file_operations, poll),
    field!(file_operations, unlocked_ioctl),
    field!(file_operations, compat_ioctl),
    field!(file_operations, mmap),
    field!(file_operations, open),
    field!(file_operations, flush),
    field!(file_operations, release),
    size!(kmem_cache_args),
    size!(list_head),
    size!(list_lru),
    size!(lock_class_key),
    size!(mutex),
    size!(page),
    size!(poll_table_struct),
    size!(rb_node),
    size!(shrink_control),
    field!(shrink_control, nid),
    field!(shrink_control, memcg),
    field!(shrink_control, nr_to_scan),
    field!(shrink_control, nr_scanned),
    field!(shrinker, count_objects),
    field!(shrinker, scan_objects),
    field!(shrinker, private_data),
    size!(spinlock),
    field!(task_struct, group_leader),
    field!(task_struct, mm),
    field!(task_struct, pid),
    field!(task_struct, tgid),
    field!(tracepoint, key),
    field!(vm_area_struct, __bindgen_anon_1.__bindgen_anon_1 => vm_end),
    field!(vm_area_struct, __bindgen_anon_2 => vm_flags),
    field!(vm_area_struct, vm_mm),
    field!(vm_area_struct, vm_ops),
    field!(vm_area_struct, vm_pgoff),
    field!(vm_area_struct, vm_private_data),
    field!(vm_area_struct, __bindgen_anon_1.__bindgen_anon_1 => vm_start),
    size!(vm_operations_struct),
    field!(vm_operations_struct, close),
    field!(vm_operations_struct, fault),
    field!(vm_operations_struct, open),
    size!(wait_queue_entry),
    size!(wait_queue_head),
];

/// Returns the rows of the C side, one by one.
fn of_c() -> impl Iterator<Item = (&'static CStr, usize)> {
    // SAFETY: The C side defines both, never writes them, and the count is that of the table.
    let table = unsafe {
        core::slice::from_raw_parts(kernel_ext_layouts.as_ptr(), kernel_ext_layouts_count)
    };
    // SAFETY: All names are string literals of the C side.
    table
        .iter()
        .map(|layout| (unsafe { CStr::from_char_ptr(layout.name) }, layout.bytes))
}

/// Returns how many rows of the tables differ, or are on one side alone. Prints them.
fn count_differences() -> usize {
    let mut different = 0;
    for (name, bytes) in of_c() {
        let twin = OF_RUST
            .iter()
            .find(|(twin, _)| twin.as_bytes() == name.to_bytes());
        if twin.map(|(_, bytes)| *bytes) != Some(bytes) {
            different += 1;
            let seen = twin.map(|(_, bytes)| bytes);
            pr_err!("{name:?}: {bytes} in C, {seen:?} in Rust\n");
        }
    }
    for (name, bytes) in OF_RUST {
        if !of_c().any(|(twin, _)| twin.to_bytes() == name.as_bytes()) {
            different += 1;
            pr_err!("{name}: {bytes} in Rust, nothing in C\n");
        }
    }
    different
}

/// Checks all rows. To be called before anything else. `ENOEXEC` if Rust would read or write a
/// struct of this kernel in the wrong place; prints which.
pub(crate) fn check() -> Result {
    match count_differences() {
        0 => Ok(()),
        _ => Err(ENOEXEC),
    }
}
