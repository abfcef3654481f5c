// SPDX-License-Identifier: GPL-2.0

//! The trace events: one function for each, to be called at the moment that the event is about.
//!
//! The names, fields and moments are those of the C driver (contract section 16), so that what
//! reads its traces reads ours. What an event says is passed as a closure wherever it has to be
//! found out first, and computed only if the event is on.
//!
//! Events may be emitted under a spinlock.

use crate::ffi::{netlink, tracepoints};
use kernel::prelude::*;

/// The number of a process or thread in the initial pid namespace.
type Pid = i32;

/// An ioctl begins.
#[inline(always)]
pub(crate) fn ioctl(command: u32, argument: usize) {
    tracepoints::binder_ioctl(|| (command, argument));
}

/// An ioctl ends.
#[inline(always)]
pub(crate) fn ioctl_done(result: &Result) {
    tracepoints::binder_ioctl_done(|| (errno(result),));
}

/// The write half of `BINDER_WRITE_READ` ends.
#[inline(always)]
pub(crate) fn write_done(result: &Result) {
    tracepoints::binder_write_done(|| (errno(result),));
}

/// The read half of `BINDER_WRITE_READ` ends.
#[inline(always)]
pub(crate) fn read_done(result: &Result) {
    tracepoints::binder_read_done(|| (errno(result),));
}

/// A `BC_*` was read, whether it exists or not.
#[inline(always)]
pub(crate) fn command(code: u32) {
    tracepoints::binder_command(|| (code,));
}

/// A `BR_*` was written.
#[inline(always)]
pub(crate) fn return_code(code: u32) {
    tracepoints::binder_return(|| (code,));
}

/// What a thread that is about to wait has.
pub(crate) struct Waiting {
    pub(crate) takes_common_work: bool,
    pub(crate) has_calls: bool,
    pub(crate) has_own_work: bool,
}

/// A thread looks for work, and waits if it finds none.
#[inline(always)]
pub(crate) fn wait_for_work(waiting: impl FnOnce() -> Waiting) {
    tracepoints::binder_wait_for_work(|| {
        let waiting = waiting();
        (
            waiting.takes_common_work,
            waiting.has_calls,
            waiting.has_own_work,
        )
    });
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

/// The target of a call or a reply is known.
#[inline(always)]
pub(crate) fn transaction(sent: impl FnOnce() -> Sent) {
    tracepoints::binder_transaction(|| {
        let sent = sent();
        (
            sent.id as i32,
            sent.node as i32,
            sent.process,
            sent.thread,
            sent.is_reply,
            sent.code,
            sent.flags,
        )
    });
}

/// A call or a reply was written to its receiver.
#[inline(always)]
pub(crate) fn transaction_received(id: u32) {
    tracepoints::binder_transaction_received(|| (id as i32,));
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

/// A call or a reply has ended.
#[inline(always)]
pub(crate) fn txn_latency_free(ended: impl FnOnce() -> Ended) {
    tracepoints::binder_txn_latency_free(|| {
        let ended = ended();
        (
            ended.id as i32,
            ended.from_process,
            ended.from_thread,
            ended.to_process,
            ended.to_thread,
            ended.code,
            ended.flags,
        )
    });
}

/// A report is about to be sent to listeners.
#[inline(always)]
pub(crate) fn netlink_report(report: &netlink::Report<'_>) {
    tracepoints::binder_netlink_report(|| {
        (
            report.context,
            report.error,
            report.from_pid as Pid,
            report.from_tid as Pid,
            report.to_pid as Pid,
            report.to_tid as Pid,
            report.is_reply != 0,
            report.flags,
            report.code,
            report.data_size as usize,
        )
    });
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

/// A node in the data becomes a handle of the receiver.
#[inline(always)]
pub(crate) fn transaction_node_to_ref(id: u32, translated: impl FnOnce() -> (NodeNamed, RefNamed)) {
    tracepoints::binder_transaction_node_to_ref(|| {
        let (node, to) = translated();
        (id as i32, node.id as i32, node.ptr, to.id as i32, to.handle)
    });
}

/// A handle in the data becomes a node of the receiver.
#[inline(always)]
pub(crate) fn transaction_ref_to_node(id: u32, translated: impl FnOnce() -> (RefNamed, NodeNamed)) {
    tracepoints::binder_transaction_ref_to_node(|| {
        let (from, node) = translated();
        (
            id as i32,
            from.id as i32,
            from.handle,
            node.id as i32,
            node.ptr,
        )
    });
}

/// A handle in the data becomes a handle of the receiver, on node `node`.
#[inline(always)]
pub(crate) fn transaction_ref_to_ref(
    id: u32,
    node: u32,
    translated: impl FnOnce() -> (RefNamed, RefNamed),
) {
    tracepoints::binder_transaction_ref_to_ref(|| {
        let (from, to) = translated();
        (
            id as i32,
            node as i32,
            from.id as i32,
            from.handle,
            to.id as i32,
            to.handle,
        )
    });
}

/// The file of descriptor `fd` was taken from the sender; `at` is the place of its number.
#[inline(always)]
pub(crate) fn transaction_fd_send(id: u32, fd: u32, at: usize) {
    tracepoints::binder_transaction_fd_send(|| (id as i32, fd as i32, at));
}

/// Number `fd` of the receiver was reserved for a file; `at` is the place of the number.
#[inline(always)]
pub(crate) fn transaction_fd_recv(id: u32, fd: u32, at: usize) {
    tracepoints::binder_transaction_fd_recv(|| (id as i32, fd as i32, at));
}

/// The sizes of a buffer's parts, and the call or reply whose data it has.
pub(crate) struct BufferOf {
    pub(crate) id: u32,
    pub(crate) data_size: usize,
    pub(crate) offsets_size: usize,
    pub(crate) extra_size: usize,
}

impl BufferOf {
    fn values(self) -> (i32, usize, usize, usize) {
        (
            self.id as i32,
            self.data_size,
            self.offsets_size,
            self.extra_size,
        )
    }
}

/// A buffer was reserved.
#[inline(always)]
pub(crate) fn transaction_alloc_buf(buffer: impl FnOnce() -> BufferOf) {
    tracepoints::binder_transaction_alloc_buf(|| buffer().values());
}

/// The receiver frees a buffer.
#[inline(always)]
pub(crate) fn transaction_buffer_release(buffer: impl FnOnce() -> BufferOf) {
    tracepoints::binder_transaction_buffer_release(|| buffer().values());
}

/// A buffer is freed because its sender fails.
#[inline(always)]
pub(crate) fn transaction_failed_buffer_release(buffer: impl FnOnce() -> BufferOf) {
    tracepoints::binder_transaction_failed_buffer_release(|| buffer().values());
}

/// A buffer is freed because a newer call has taken the place of its own.
#[inline(always)]
pub(crate) fn transaction_update_buffer_release(buffer: impl FnOnce() -> BufferOf) {
    tracepoints::binder_transaction_update_buffer_release(|| buffer().values());
}

/// `bytes` bytes of a process's space, whole pages, come into use or are free.
#[inline(always)]
pub(crate) fn update_page_range(process: Pid, are_taken: bool, at: usize, bytes: usize) {
    tracepoints::binder_update_page_range(|| (process, are_taken, at, bytes));
}

/// Whether an event is on about pages that come into use or are free.
#[inline(always)]
pub(crate) fn are_pages_on() -> bool {
    tracepoints::are_page_events_on()
}

/// A present page comes into use.
#[inline(always)]
pub(crate) fn alloc_lru(process: Pid, index: usize) {
    tracepoints::binder_alloc_lru_start(|| (process, index));
    tracepoints::binder_alloc_lru_end(|| (process, index));
}

/// A present page is free.
#[inline(always)]
pub(crate) fn free_lru(process: Pid, index: usize) {
    tracepoints::binder_free_lru_start(|| (process, index));
    tracepoints::binder_free_lru_end(|| (process, index));
}

/// A page is about to be allocated.
#[inline(always)]
pub(crate) fn alloc_page_start(process: Pid, index: usize) {
    tracepoints::binder_alloc_page_start(|| (process, index));
}

/// A page was allocated and mapped.
#[inline(always)]
pub(crate) fn alloc_page_end(process: Pid, index: usize) {
    tracepoints::binder_alloc_page_end(|| (process, index));
}

/// A page was taken from its process.
#[inline(always)]
pub(crate) fn unmap_kernel(process: Pid, index: usize) {
    tracepoints::binder_unmap_kernel_start(|| (process, index));
    tracepoints::binder_unmap_kernel_end(|| (process, index));
}

/// A page that was taken is about to be unmapped.
#[inline(always)]
pub(crate) fn unmap_user_start(process: Pid, index: usize) {
    tracepoints::binder_unmap_user_start(|| (process, index));
}

/// A page that was taken was unmapped.
#[inline(always)]
pub(crate) fn unmap_user_end(process: Pid, index: usize) {
    tracepoints::binder_unmap_user_end(|| (process, index));
}

/// Returns an errno as C functions do: 0 or negative.
fn errno(result: &Result) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
