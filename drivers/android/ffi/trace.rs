// SPDX-License-Identifier: GPL-2.0

//! The trace events that `trace/events.c` defines: one function for each moment that some are
//! about, to be called then.
//!
//! The names, fields and moments are those of the C driver (contract section 16), so that what
//! reads its traces reads ours. What an event says is passed as a closure wherever it has to be
//! found out first, and computed only if the event is on.
//!
//! Events may be emitted under a spinlock.

// Values are computed for events that the kernel has.
#![cfg_attr(not(CONFIG_TRACEPOINTS), allow(dead_code, unused_imports))]

use super::{netlink, Text};
#[cfg(CONFIG_TRACEPOINTS)]
use kernel::bindings;
use kernel::{
    ffi::c_int,
    prelude::*, //
};

/// The number of a process or thread in the initial pid namespace.
type Pid = i32;

/// Defines functions that emit events: for each event its name, and type and value of each argument
/// of the function of `events.c`. `[values]` stands for a closure to be called if the event is on.
///
/// An event that is off costs one instruction that does nothing, where the kernel can rewrite its
/// code; without tracepoints in the kernel it costs nothing at all.
macro_rules! events {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($parameter:ident: $type:ty),*) {
            $($([$made:ident])? $event:ident($($argument:ident: $of:ty = $value:expr),+);)+
        }
    )+) => { ::kernel::macros::paste! { $(
        $(#[$meta])*
        #[inline(always)]
        pub(crate) fn $name($($parameter: $type),*) {
            #[cfg(CONFIG_TRACEPOINTS)]
            #[allow(improper_ctypes)] // Of a tracepoint, nothing but the key is used.
            extern "C" {
                $(
                    static [<__tracepoint_ $event>]: bindings::tracepoint;
                    #[cold]
                    fn [<rust_do_trace_ $event>]($($argument: $of),+);
                )+
            }
            $(
                #[cfg(CONFIG_TRACEPOINTS)]
                // SAFETY: `events.c` defines the tracepoint, whose key is a static key.
                if unsafe {
                    ::kernel::jump_label::static_branch_unlikely!(
                        [<__tracepoint_ $event>],
                        bindings::tracepoint,
                        key
                    )
                } {
                    $(let $made = $made();)?
                    let ($($argument,)+) = ($($value,)+);
                    // SAFETY: `events.c` defines the function with these arguments, which it
                    // copies, and it may be called in any context.
                    unsafe { [<rust_do_trace_ $event>]($($argument),+) };
                }
            )+
            #[cfg(not(CONFIG_TRACEPOINTS))]
            let _ = ($($parameter,)*);
        }
    )+ } };
}

/// What a thread that is about to wait has.
pub(crate) struct Waiting {
    pub(crate) takes_common_work: bool,
    pub(crate) has_calls: bool,
    pub(crate) has_own_work: bool,
}

/// A call or a reply.
pub(crate) struct Sent {
    pub(crate) id: u32,
    /// The node that is called; 0 for a reply.
    pub(crate) node: u32,
    pub(crate) process: Pid,
    /// The thread that it is for; 0 if any thread of the process may take it.
    pub(crate) thread: Pid,
    pub(crate) is_reply: bool,
    pub(crate) code: u32,
    pub(crate) flags: u32,
}

/// A call or a reply that has ended; numbers of processes and threads that are not known are 0.
pub(crate) struct Ended {
    pub(crate) id: u32,
    pub(crate) from_process: Pid,
    pub(crate) from_thread: Pid,
    pub(crate) to_process: Pid,
    pub(crate) to_thread: Pid,
    pub(crate) code: u32,
    pub(crate) flags: u32,
}

/// A node, as its owner names it.
pub(crate) struct NodeNamed {
    pub(crate) id: u32,
    pub(crate) ptr: u64,
}

/// A ref, by its debug id and its handle.
pub(crate) struct RefNamed {
    pub(crate) id: u32,
    pub(crate) handle: u32,
}

/// The sizes of a buffer's parts, and the call or reply whose data it has.
pub(crate) struct BufferOf {
    pub(crate) id: u32,
    pub(crate) data_size: usize,
    pub(crate) offsets_size: usize,
    pub(crate) extra_size: usize,
}

events! {
    /// An ioctl begins.
    fn ioctl(command: u32, argument: usize) {
        binder_ioctl(number: u32 = command, word: usize = argument);
    }

    /// An ioctl ends.
    fn ioctl_done(result: &Result) {
        binder_ioctl_done(error: c_int = errno(result));
    }

    /// The write half of `BINDER_WRITE_READ` ends.
    fn write_done(result: &Result) {
        binder_write_done(error: c_int = errno(result));
    }

    /// The read half of `BINDER_WRITE_READ` ends.
    fn read_done(result: &Result) {
        binder_read_done(error: c_int = errno(result));
    }

    /// A `BC_*` was read, whether it exists or not.
    fn command(code: u32) {
        binder_command(number: u32 = code);
    }

    /// A `BR_*` was written.
    fn return_code(code: u32) {
        binder_return(number: u32 = code);
    }

    /// A thread looks for work, and waits if it finds none.
    fn wait_for_work(waiting: impl FnOnce() -> Waiting) {
        [waiting] binder_wait_for_work(
            takes_common_work: bool = waiting.takes_common_work,
            has_calls: bool = waiting.has_calls, has_own_work: bool = waiting.has_own_work
        );
    }

    /// The target of a call or a reply is known.
    fn transaction(sent: impl FnOnce() -> Sent) {
        [sent] binder_transaction(
            id: c_int = sent.id as c_int, node: c_int = sent.node as c_int,
            process: c_int = sent.process, thread: c_int = sent.thread,
            is_reply: bool = sent.is_reply, code: u32 = sent.code, flags: u32 = sent.flags
        );
    }

    /// A call or a reply was written to its receiver.
    fn transaction_received(id: u32) {
        binder_transaction_received(number: c_int = id as c_int);
    }

    /// A call or a reply has ended.
    fn txn_latency_free(ended: impl FnOnce() -> Ended) {
        [ended] binder_txn_latency_free(
            id: c_int = ended.id as c_int, from_process: c_int = ended.from_process,
            from_thread: c_int = ended.from_thread, to_process: c_int = ended.to_process,
            to_thread: c_int = ended.to_thread, code: u32 = ended.code, flags: u32 = ended.flags
        );
    }

    /// A report is about to be sent to listeners.
    fn netlink_report(report: &netlink::Report<'_>) {
        binder_netlink_report(
            device: Text<'_> = report.context, answer: u32 = report.error,
            from_process: c_int = report.from_pid as c_int,
            from_thread: c_int = report.from_tid as c_int,
            to_process: c_int = report.to_pid as c_int, to_thread: c_int = report.to_tid as c_int,
            is_reply: bool = report.is_reply != 0, flags: u32 = report.flags,
            code: u32 = report.code, size: usize = report.data_size as usize
        );
    }

    /// A node in the data becomes a handle of the receiver.
    fn transaction_node_to_ref(id: u32, values: impl FnOnce() -> (NodeNamed, RefNamed)) {
        [values] binder_transaction_node_to_ref(
            transaction: c_int = id as c_int, node: c_int = values.0.id as c_int,
            ptr: u64 = values.0.ptr, to: c_int = values.1.id as c_int,
            handle: u32 = values.1.handle
        );
    }

    /// A handle in the data becomes a node of the receiver.
    fn transaction_ref_to_node(id: u32, values: impl FnOnce() -> (RefNamed, NodeNamed)) {
        [values] binder_transaction_ref_to_node(
            transaction: c_int = id as c_int, from: c_int = values.0.id as c_int,
            handle: u32 = values.0.handle, node: c_int = values.1.id as c_int,
            ptr: u64 = values.1.ptr
        );
    }

    /// A handle in the data becomes a handle of the receiver, on node `on`.
    fn transaction_ref_to_ref(id: u32, on: u32, values: impl FnOnce() -> (RefNamed, RefNamed)) {
        [values] binder_transaction_ref_to_ref(
            transaction: c_int = id as c_int, node: c_int = on as c_int,
            from: c_int = values.0.id as c_int, from_handle: u32 = values.0.handle,
            to: c_int = values.1.id as c_int, to_handle: u32 = values.1.handle
        );
    }

    /// The file of descriptor `fd` was taken from the sender; `at` is the place of its number.
    fn transaction_fd_send(id: u32, fd: u32, at: usize) {
        binder_transaction_fd_send(
            transaction: c_int = id as c_int, number: c_int = fd as c_int, place: usize = at
        );
    }

    /// Number `fd` of the receiver was reserved for a file; `at` is the place of the number.
    fn transaction_fd_recv(id: u32, fd: u32, at: usize) {
        binder_transaction_fd_recv(
            transaction: c_int = id as c_int, number: c_int = fd as c_int, place: usize = at
        );
    }

    /// A buffer was reserved.
    fn transaction_alloc_buf(buffer: impl FnOnce() -> BufferOf) {
        [buffer] binder_transaction_alloc_buf(
            id: c_int = buffer.id as c_int, data: usize = buffer.data_size,
            offsets: usize = buffer.offsets_size, extra: usize = buffer.extra_size
        );
    }

    /// The receiver frees a buffer.
    fn transaction_buffer_release(buffer: impl FnOnce() -> BufferOf) {
        [buffer] binder_transaction_buffer_release(
            id: c_int = buffer.id as c_int, data: usize = buffer.data_size,
            offsets: usize = buffer.offsets_size, extra: usize = buffer.extra_size
        );
    }

    /// A buffer is freed because its sender fails.
    fn transaction_failed_buffer_release(buffer: impl FnOnce() -> BufferOf) {
        [buffer] binder_transaction_failed_buffer_release(
            id: c_int = buffer.id as c_int, data: usize = buffer.data_size,
            offsets: usize = buffer.offsets_size, extra: usize = buffer.extra_size
        );
    }

    /// A buffer is freed because a newer call has taken the place of its own.
    fn transaction_update_buffer_release(buffer: impl FnOnce() -> BufferOf) {
        [buffer] binder_transaction_update_buffer_release(
            id: c_int = buffer.id as c_int, data: usize = buffer.data_size,
            offsets: usize = buffer.offsets_size, extra: usize = buffer.extra_size
        );
    }

    /// `bytes` bytes of a process's space, whole pages, come into use or are free.
    fn update_page_range(process: Pid, are_taken: bool, at: usize, bytes: usize) {
        binder_update_page_range(
            pid: c_int = process, comes: bool = are_taken, start: usize = at, size: usize = bytes
        );
    }

    /// A present page comes into use.
    fn alloc_lru(process: Pid, index: usize) {
        binder_alloc_lru_start(pid: c_int = process, page: usize = index);
        binder_alloc_lru_end(pid: c_int = process, page: usize = index);
    }

    /// A present page is free.
    fn free_lru(process: Pid, index: usize) {
        binder_free_lru_start(pid: c_int = process, page: usize = index);
        binder_free_lru_end(pid: c_int = process, page: usize = index);
    }

    /// A page is about to be allocated.
    fn alloc_page_start(process: Pid, index: usize) {
        binder_alloc_page_start(pid: c_int = process, page: usize = index);
    }

    /// A page was allocated and mapped.
    fn alloc_page_end(process: Pid, index: usize) {
        binder_alloc_page_end(pid: c_int = process, page: usize = index);
    }

    /// A page was taken from its process.
    fn unmap_kernel(process: Pid, index: usize) {
        binder_unmap_kernel_start(pid: c_int = process, page: usize = index);
        binder_unmap_kernel_end(pid: c_int = process, page: usize = index);
    }

    /// A page that was taken is about to be unmapped.
    fn unmap_user_start(process: Pid, index: usize) {
        binder_unmap_user_start(pid: c_int = process, page: usize = index);
    }

    /// A page that was taken was unmapped.
    fn unmap_user_end(process: Pid, index: usize) {
        binder_unmap_user_end(pid: c_int = process, page: usize = index);
    }
}

/// Whether an event is on about pages that come into use or are free.
#[inline(always)]
pub(crate) fn are_pages_on() -> bool {
    /// As `events.c` defines it.
    #[cfg(CONFIG_TRACEPOINTS)]
    #[repr(C)]
    struct PageEvents {
        key: bindings::static_key_false,
    }
    #[cfg(CONFIG_TRACEPOINTS)]
    extern "C" {
        static rust_binder_page_events: PageEvents;
    }
    #[cfg(CONFIG_TRACEPOINTS)]
    // SAFETY: `events.c` defines the struct, whose key is a static key.
    return unsafe {
        ::kernel::jump_label::static_branch_unlikely!(rust_binder_page_events, PageEvents, key)
    };
    #[cfg(not(CONFIG_TRACEPOINTS))]
    false
}

/// Returns an errno as C functions do: 0 or negative.
fn errno(result: &Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
