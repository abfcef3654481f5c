// SPDX-License-Identifier: GPL-2.0

//! The tracepoints that `trace/events.c` defines, each as a function.

use super::Text;
#[cfg(CONFIG_TRACEPOINTS)]
use kernel::bindings;
use kernel::ffi::{c_int, c_uint, c_ulong};

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

/// Whether any event is on that is about the pages of a buffer.
#[inline(always)]
pub(crate) fn are_page_events_on() -> bool {
    #[cfg(CONFIG_TRACEPOINTS)]
    // SAFETY: `events.c` defines the struct, whose key is a static key.
    return unsafe {
        ::kernel::jump_label::static_branch_unlikely!(rust_binder_page_events, PageEvents, key)
    };
    #[cfg(not(CONFIG_TRACEPOINTS))]
    false
}

/// Defines a function for each tracepoint of `events.c`. It calls the closure that it is given, and
/// emits the event with the values that the closure returns, if the event is on.
///
/// An event that is off costs one instruction that does nothing, where the kernel can rewrite its
/// code; without tracepoints in the kernel it costs nothing at all.
macro_rules! tracepoints {
    ($($name:ident $(<$life:lifetime>)? ($($argument:ident: $type:ty),+);)+) => {
        ::kernel::macros::paste! {
            #[cfg(CONFIG_TRACEPOINTS)]
            #[allow(improper_ctypes)] // Of a tracepoint, nothing but the key is used.
            extern "C" {
                $(
                    static [<__tracepoint_ $name>]: bindings::tracepoint;
                    #[cold]
                    fn [<rust_do_trace_ $name>] $(<$life>)? ($($argument: $type),+);
                )+
            }

            $(
                #[inline(always)]
                pub(crate) fn $name $(<$life>)? (values: impl FnOnce() -> ($($type,)+)) {
                    #[cfg(CONFIG_TRACEPOINTS)]
                    // SAFETY: `events.c` defines the tracepoint, whose key is a static key.
                    if unsafe {
                        ::kernel::jump_label::static_branch_unlikely!(
                            [<__tracepoint_ $name>],
                            bindings::tracepoint,
                            key
                        )
                    } {
                        let ($($argument,)+) = values();
                        // SAFETY: `events.c` defines the function with these arguments, which it
                        // copies, and it may be called in any context.
                        unsafe { [<rust_do_trace_ $name>]($($argument),+) };
                    }
                    #[cfg(not(CONFIG_TRACEPOINTS))]
                    let _ = values;
                }
            )+
        }
    };
}

tracepoints! {
    binder_ioctl(command: c_uint, argument: c_ulong);
    binder_ioctl_done(result: c_int);
    binder_read_done(result: c_int);
    binder_write_done(result: c_int);
    binder_command(code: u32);
    binder_return(code: u32);
    binder_wait_for_work(takes_common_work: bool, has_calls: bool, has_own_work: bool);
    binder_transaction(
        id: c_int, node: c_int, process: c_int, thread: c_int, is_reply: bool, code: u32, flags: u32
    );
    binder_transaction_received(id: c_int);
    binder_txn_latency_free(
        id: c_int, from_process: c_int, from_thread: c_int, to_process: c_int, to_thread: c_int,
        code: u32, flags: u32
    );
    binder_netlink_report<'a>(
        device: Text<'a>, answer: u32, from_process: c_int, from_thread: c_int,
        to_process: c_int, to_thread: c_int, is_reply: bool, flags: u32, code: u32, size: usize
    );
    binder_transaction_node_to_ref(id: c_int, node: c_int, pointer: u64, ref_id: c_int, handle: u32);
    binder_transaction_ref_to_node(id: c_int, ref_id: c_int, handle: u32, node: c_int, pointer: u64);
    binder_transaction_ref_to_ref(
        id: c_int, node: c_int, from_ref: c_int, from_handle: u32, to_ref: c_int, to_handle: u32
    );
    binder_transaction_fd_send(id: c_int, number: c_int, at: usize);
    binder_transaction_fd_recv(id: c_int, number: c_int, at: usize);
    binder_transaction_alloc_buf(id: c_int, data: usize, offsets: usize, extra: usize);
    binder_transaction_buffer_release(id: c_int, data: usize, offsets: usize, extra: usize);
    binder_transaction_failed_buffer_release(id: c_int, data: usize, offsets: usize, extra: usize);
    binder_transaction_update_buffer_release(id: c_int, data: usize, offsets: usize, extra: usize);
    binder_update_page_range(process: c_int, are_taken: bool, at: usize, bytes: usize);
    binder_alloc_lru_start(process: c_int, index: usize);
    binder_alloc_lru_end(process: c_int, index: usize);
    binder_alloc_page_start(process: c_int, index: usize);
    binder_alloc_page_end(process: c_int, index: usize);
    binder_free_lru_start(process: c_int, index: usize);
    binder_free_lru_end(process: c_int, index: usize);
    binder_unmap_kernel_start(process: c_int, index: usize);
    binder_unmap_kernel_end(process: c_int, index: usize);
    binder_unmap_user_start(process: c_int, index: usize);
    binder_unmap_user_end(process: c_int, index: usize);
}
