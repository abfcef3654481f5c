// SPDX-License-Identifier: GPL-2.0

//! The functions of `inline.c`, and those of the kernel without a binding.

#![allow(improper_ctypes)] // The structs are the kernel's, and C uses their fields.

use kernel::{bindings, prelude::*};

/// The file of a device, and what it belongs to.
#[repr(C)]
pub(super) struct Node {
    _unused: [u8; 0],
}

unsafe extern "C" {
    /// Returns the module's parameter. It does not change.
    pub(super) fn ublk_rust_name() -> *const c_char;
    pub(super) safe fn ublk_rust_most_unprivileged() -> c_uint;

    /// Registers what all devices share. Sleeps.
    pub(super) fn ublk_rust_begin() -> c_int;
    /// Waits for all works, and undoes that.
    pub(super) fn ublk_rust_end();
    /// Returns the queue of works, between these two.
    pub(super) fn ublk_rust_works() -> *mut bindings::workqueue_struct;

    /// Takes the lowest number that is free, for `u32::MAX`, or this one: `EEXIST`. `ENOMEM`,
    /// `ENOSPC`. Sleeps.
    pub(super) safe fn ublk_rust_number(wanted: u32) -> c_int;
    pub(super) fn ublk_rust_free_number(number: u32);

    /// Adds a file. `gone` is called with the owner when nobody uses the file any more, also if this
    /// fails. Returns an error's pointer then. Sleeps.
    pub(super) fn ublk_rust_node_add(
        number: u32,
        operations: *const bindings::file_operations,
        owner: *mut c_void,
        gone: unsafe extern "C" fn(*mut c_void),
    ) -> *mut Node;
    pub(super) fn ublk_rust_node_remove(node: *mut Node);
    /// Returns the owner of a file that is being opened.
    pub(super) fn ublk_rust_node_owner(inode: *mut bindings::inode) -> *mut c_void;
    pub(super) safe fn ublk_rust_file_major() -> u32;
    pub(super) fn ublk_rust_disk_number(disk: *mut bindings::gendisk, is_major: bool) -> u32;

    /// Checks that a path leads to the file of this number, and that the task may access it.
    pub(super) fn ublk_rust_check_path(name: *const c_char, number: u32, mask: c_int) -> c_int;
    /// Returns the task's user and group in the initial namespace; -1 if it has none there.
    pub(super) fn ublk_rust_ids(uid: *mut u32, gid: *mut u32);

    /// Returns the task's process, with a reference.
    pub(super) fn ublk_rust_pid() -> *mut bindings::pid;
    /// Returns whether the process has this number for the task.
    pub(super) fn ublk_rust_pid_is(pid: *mut bindings::pid, number: c_int) -> bool;
    /// Returns the process' number for the task, or 0.
    pub(super) fn pid_vnr(pid: *mut bindings::pid) -> c_int;
    pub(super) fn put_pid(pid: *mut bindings::pid);

    /// Completes a command.
    pub(super) fn __io_uring_cmd_done(
        command: *mut bindings::io_uring_cmd,
        result: i32,
        result2: u64,
        context: c_uint,
        is_large: bool,
    );
    /// Lets the task of a command run a function.
    pub(super) fn __io_uring_cmd_do_in_task(
        command: *mut bindings::io_uring_cmd,
        function: unsafe extern "C" fn(super::uring::InTask, super::uring::Token),
        flags: c_uint,
    );
    /// From now on the command is cancelled if its ring or task ends.
    pub(super) fn io_uring_cmd_mark_cancelable(
        command: *mut bindings::io_uring_cmd,
        context: c_uint,
    );
    pub(super) fn io_buffer_register_request(
        command: *mut bindings::io_uring_cmd,
        request: *mut bindings::request,
        release: unsafe extern "C" fn(*mut c_void),
        index: c_uint,
        context: c_uint,
    ) -> c_int;
    pub(super) fn io_buffer_unregister(
        command: *mut bindings::io_uring_cmd,
        index: c_uint,
        context: c_uint,
    ) -> c_int;
    /// Returns whether two commands are of one ring and one task.
    pub(super) fn ublk_rust_is_same_task(
        one: *mut bindings::io_uring_cmd,
        other: *mut bindings::io_uring_cmd,
    ) -> bool;
    /// Returns the ring of a command, for comparisons.
    pub(super) fn ublk_rust_ring(command: *mut bindings::io_uring_cmd) -> *mut c_void;

    pub(super) fn ublk_rust_end_request(request: *mut bindings::request, status: u8);
    /// Ends the first bytes of a request. The rest is put back.
    pub(super) fn ublk_rust_end_bytes(request: *mut bindings::request, bytes: u32);

    /// Copies to or from user memory, from a part of a page. Returns how many bytes were copied. May
    /// sleep.
    pub(super) fn ublk_rust_copy_out(
        to: u64,
        from: *mut bindings::page,
        offset: usize,
        size: usize,
    ) -> usize;
    pub(super) fn ublk_rust_copy_in(
        to: *mut bindings::page,
        offset: usize,
        from: u64,
        size: usize,
    ) -> usize;
    pub(super) fn ublk_rust_iter_out(
        from: *mut bindings::page,
        offset: usize,
        size: usize,
        iter: *mut bindings::iov_iter,
    ) -> usize;
    pub(super) fn ublk_rust_iter_in(
        to: *mut bindings::page,
        offset: usize,
        size: usize,
        iter: *mut bindings::iov_iter,
    ) -> usize;
    /// Returns how many bytes it describes. `EACCES` if they are not in user memory.
    pub(super) fn ublk_rust_user_bytes(iter: *mut bindings::iov_iter) -> isize;

    /// Returns memory of zeros that can be mapped, or null. Sleeps.
    pub(super) fn ublk_rust_memory(size: usize) -> *mut c_void;
    pub(super) fn vfree(memory: *const c_void);
    pub(super) fn remap_vmalloc_range(
        vma: *mut bindings::vm_area_struct,
        memory: *mut c_void,
        first_page: c_ulong,
    ) -> c_int;

    /// Sets the flag unless somebody has the disk open: `EBUSY`. Opening waits for this. Sleeps.
    pub(super) fn ublk_rust_disk_close(disk: *mut bindings::gendisk, is_closed: *mut bool)
        -> c_int;
    /// Lets others read the table of partitions.
    pub(super) fn ublk_rust_disk_allow_scan(disk: *mut bindings::gendisk);
    /// Reads the table of partitions, if that was put off. Sleeps.
    pub(super) fn ublk_rust_disk_scan(disk: *mut bindings::gendisk);
}
