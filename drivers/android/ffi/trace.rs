// SPDX-License-Identifier: GPL-2.0

//! The trace events that `trace/events.h` defines: one function for each moment that some are
//! about, to be called then.
//!
//! The names, fields and moments are those of the C driver (`docs/logs-and-traces.md`), so programs
//! that read the traces of the C driver read these too. Fields that have to be looked up are passed
//! as a closure, which runs only if the event is on.
//!
//! Events may be emitted under a spinlock.

// Values are computed for events that the kernel has.
#![cfg_attr(not(CONFIG_TRACEPOINTS), allow(dead_code, unused_imports))]

use core::marker::PhantomData;
use kernel::{
    bindings,
    ffi::{c_char, c_int},
    prelude::*,
    str::CStrExt, //
};

/// The number of a process or thread in the initial pid namespace.
type Pid = i32;

/// The name of a device, for C.
///
/// # Invariants
///
/// It points to a string that ends with a zero byte and that is not written or freed during `'a`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct DeviceName<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for DeviceName<'a> {
    fn from(name: &'a CStr) -> Self {
        // INVARIANT: A `CStr` is such a string, and borrowed for `'a`.
        Self(name.as_char_ptr(), PhantomData)
    }
}

/// Emits an event if it is on, with these values of arguments of these types.
///
/// An event that is off costs one instruction that does nothing, where the kernel can rewrite its
/// code; without tracepoints in the kernel it costs nothing at all.
macro_rules! emit {
    ($event:ident($($argument:ident: $type:ty),+)) => {
        emit!($event($($argument: $type),+) = ($($argument,)+))
    };
    ($event:ident($($argument:ident: $type:ty),+) = $values:expr) => { ::kernel::macros::paste! {
        #[cfg(CONFIG_TRACEPOINTS)]
        {
            #[allow(improper_ctypes)] // Of a tracepoint, nothing but the key is used.
            extern "C" {
                static [<__tracepoint_ $event>]: bindings::tracepoint;
                #[cold]
                fn [<rust_do_trace_ $event>]($($argument: $type),+);
            }
            // SAFETY: `events.c` defines the tracepoint, whose key is a static key.
            if unsafe {
                ::kernel::jump_label::static_branch_unlikely!(
                    [<__tracepoint_ $event>],
                    bindings::tracepoint,
                    key
                )
            } {
                let ($($argument,)+): ($($type,)+) = $values;
                // SAFETY: `events.c` defines the function with these arguments, which it copies,
                // and it may be called in any context.
                unsafe { [<rust_do_trace_ $event>]($($argument),+) };
            }
        }
        #[cfg(not(CONFIG_TRACEPOINTS))]
        let _ = move || -> ($($type,)+) { $values };
    } };
}

/// Defines functions that emit events, whose arguments they have.
macro_rules! events {
    ($($(#[$meta:meta])* fn $name:ident $arguments:tt => $($event:ident),+;)+) => { $(
        $(#[$meta])*
        #[inline(always)]
        #[allow(clippy::too_many_arguments)] // As many as the event has.
        pub(crate) fn $name $arguments {
            $(emit!($event $arguments);)+
        }
    )+ };
}

/// Defines functions that emit an event, each with the values that a closure returns.
macro_rules! events_of {
    ($($(#[$meta:meta])* fn $name:ident($($field:ident: $type:ty),+) => $event:ident;)+) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub(crate) fn $name(values: impl FnOnce() -> ($($type,)+)) {
            emit!($event($($field: $type),+) = values());
        }
    )+ };
}

events! {
    /// An ioctl begins.
    fn ioctl(command: u32, argument: usize) => binder_ioctl;

    /// An ioctl ends.
    fn ioctl_done(errno: c_int) => binder_ioctl_done;

    /// The write half of `BINDER_WRITE_READ` ends.
    fn write_done(errno: c_int) => binder_write_done;

    /// The read half of `BINDER_WRITE_READ` ends.
    fn read_done(errno: c_int) => binder_read_done;

    /// A `BC_*` was read, whether it exists or not.
    fn command(code: u32) => binder_command;

    /// A `BR_*` was written.
    fn return_code(code: u32) => binder_return;

    /// A call or a reply was written to its receiver.
    fn transaction_received(id: u32) => binder_transaction_received;

    /// A report is about to be sent to listeners.
    fn netlink_report(
        device: DeviceName<'_>, outcome: u32, from_process: Pid, from_thread: Pid, to_process: Pid,
        to_thread: Pid, is_reply: bool, flags: u32, code: u32, data_size: usize
    ) => binder_netlink_report;

    /// The file of descriptor `fd` was taken from the sender; `at` is the place of its number.
    fn transaction_fd_send(id: u32, fd: u32, at: usize) => binder_transaction_fd_send;

    /// Number `fd` of the receiver was reserved for a file; `at` is the place of the number.
    fn transaction_fd_recv(id: u32, fd: u32, at: usize) => binder_transaction_fd_recv;

    /// `bytes` bytes of a process's space, whole pages, come into use or are free.
    fn update_page_range(process: Pid, are_taken: bool, at: usize, bytes: usize)
        => binder_update_page_range;

    /// A present page comes into use.
    fn alloc_lru(process: Pid, index: usize) => binder_alloc_lru_start, binder_alloc_lru_end;

    /// A present page is free.
    fn free_lru(process: Pid, index: usize) => binder_free_lru_start, binder_free_lru_end;

    /// A page is about to be allocated.
    fn alloc_page_start(process: Pid, index: usize) => binder_alloc_page_start;

    /// A page was allocated and mapped.
    fn alloc_page_end(process: Pid, index: usize) => binder_alloc_page_end;

    /// A page was taken from its process.
    fn unmap_kernel(process: Pid, index: usize)
        => binder_unmap_kernel_start, binder_unmap_kernel_end;

    /// A page that was taken is about to be unmapped.
    fn unmap_user_start(process: Pid, index: usize) => binder_unmap_user_start;

    /// A page that was taken was unmapped.
    fn unmap_user_end(process: Pid, index: usize) => binder_unmap_user_end;
}

// Numbers of processes and threads that are not known are 0.
events_of! {
    /// A thread looks for work, and waits if it finds none.
    fn wait_for_work(takes_common_work: bool, has_calls: bool, has_own_work: bool)
        => binder_wait_for_work;

    /// The target of a call or a reply is known. A reply has no node. The thread is 0 if any of the
    /// process may take the call.
    fn transaction(
        id: u32, node: u32, process: Pid, thread: Pid, is_reply: bool, code: u32, flags: u32
    ) => binder_transaction;

    /// A call or a reply has ended.
    fn txn_latency_free(
        id: u32, from_process: Pid, from_thread: Pid, to_process: Pid, to_thread: Pid, code: u32,
        flags: u32
    ) => binder_txn_latency_free;

    /// A buffer was reserved for the data of a call or a reply.
    fn transaction_alloc_buf(id: u32, data_size: usize, offsets_size: usize, extra_size: usize)
        => binder_transaction_alloc_buf;

    /// The receiver frees a buffer.
    fn transaction_buffer_release(id: u32, data_size: usize, offsets_size: usize, extra_size: usize)
        => binder_transaction_buffer_release;

    /// A buffer is freed because its sender fails.
    fn transaction_failed_buffer_release(
        id: u32, data_size: usize, offsets_size: usize, extra_size: usize
    ) => binder_transaction_failed_buffer_release;

    /// A buffer is freed because a newer call has taken the place of its own.
    fn transaction_update_buffer_release(
        id: u32, data_size: usize, offsets_size: usize, extra_size: usize
    ) => binder_transaction_update_buffer_release;

    /// A node in the data becomes a handle of the receiver.
    fn transaction_node_to_ref(id: u32, node: u32, ptr: u64, to: u32, handle: u32)
        => binder_transaction_node_to_ref;

    /// A handle in the data becomes a node of the receiver.
    fn transaction_ref_to_node(id: u32, from: u32, handle: u32, node: u32, ptr: u64)
        => binder_transaction_ref_to_node;

    /// A handle in the data becomes a handle of the receiver.
    fn transaction_ref_to_ref(
        id: u32, node: u32, from: u32, from_handle: u32, to: u32, to_handle: u32
    ) => binder_transaction_ref_to_ref;
}

#[cfg(CONFIG_TRACEPOINTS)]
extern "C" {
    static rust_binder_page_events: super::StaticKey;
}

/// Returns whether an event is on about pages that come into use or are free.
#[inline(always)]
pub(crate) fn are_pages_on() -> bool {
    #[cfg(CONFIG_TRACEPOINTS)]
    // SAFETY: `events.c` defines the static key.
    return unsafe {
        kernel::jump_label::static_branch_unlikely!(rust_binder_page_events, super::StaticKey, key)
    };
    #[cfg(not(CONFIG_TRACEPOINTS))]
    false
}

/// Returns an errno as C functions do: 0 or negative.
#[inline]
pub(crate) fn errno(result: &Result) -> c_int {
    result.err().map_or(0, |error| error.to_errno())
}
