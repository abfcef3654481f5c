// SPDX-License-Identifier: GPL-2.0

//! The functions of `inline.c`, and those of the kernel without a binding.

#![allow(improper_ctypes)] // The structs are the kernel's, and C uses their fields.

use kernel::{
    bindings::{badblocks, page, xa_state, xarray},
    prelude::*,
};

// Each `size` is that of bytes that are there, in one page. None sleeps unless its comment states that.
unsafe extern "C" {
    /// Copies between two pages.
    pub(super) fn nullb_copy(
        to: *mut page,
        to_offset: usize,
        from: *mut page,
        from_offset: usize,
        size: usize,
    );
    pub(super) fn nullb_copy_in(to: *mut page, offset: usize, from: *const c_void, size: usize);
    pub(super) fn nullb_copy_out(to: *mut c_void, from: *mut page, offset: usize, size: usize);
    pub(super) fn nullb_zero(page: *mut page, offset: usize, size: usize);

    /// Returns a page, or null, in an RCU read section. The state is that of a walk in it.
    pub(super) fn nullb_pages_find(state: *mut xa_state, index: usize) -> *mut page;
    /// Adds a page of zeros if there is none. Sleeps if it may wait. Null if there is no memory.
    pub(super) fn nullb_pages_add(pages: *mut xarray, index: usize, may_wait: bool) -> *mut page;
    /// Removes pages. They are freed behind the present RCU sections.
    pub(super) fn nullb_pages_remove(pages: *mut xarray, first: usize, last: usize);
    /// Frees all pages of an array that nobody uses any more, and its memory. Sleeps.
    pub(super) fn nullb_pages_free(pages: *mut xarray);

    /// From now on allocations of the thread wait for no I/O. Returns what restores that.
    pub(super) fn nullb_noio_begin() -> u32;
    pub(super) fn nullb_noio_end(flags: u32);

    /// Returns whether memory can be asked for by this number of a node; -1 is any.
    pub(super) safe fn nullb_is_node(node: c_int) -> bool;
    /// Returns whether configfs has a folder of this name at its top. Sleeps.
    pub(super) fn nullb_has_subsystem(name: *const c_char) -> bool;

    /// Makes an empty list. Sleeps. Null if there is no memory.
    pub(super) fn nullb_badblocks_new() -> *mut badblocks;
    pub(super) fn nullb_badblocks_free(list: *mut badblocks);
    /// Returns 0 if none of the sectors is bad; otherwise the results are the first part that is.
    pub(super) fn badblocks_check(
        list: *mut badblocks,
        start: u64,
        sectors: u64,
        first: *mut u64,
        found: *mut u64,
    ) -> c_int;
    pub(super) fn badblocks_set(
        list: *mut badblocks,
        start: u64,
        sectors: u64,
        is_known: c_int,
    ) -> bool;
    pub(super) fn badblocks_clear(list: *mut badblocks, start: u64, sectors: u64) -> bool;
    /// Writes at most a page of text. Returns its length.
    pub(super) fn badblocks_show(list: *mut badblocks, text: *mut c_char, new: c_int) -> isize;
}
