// SPDX-License-Identifier: GPL-2.0

//! What is observed of requests. It costs an instruction that does nothing while it is off.

use super::{abi::Descriptor, slot::Ended};
use kernel::{bindings, jump_label::static_branch_unlikely};

/// A key that C defines.
#[repr(C)]
struct Key {
    key: bindings::static_key_false,
}

#[allow(improper_ctypes)] // Of a tracepoint, nothing but the key is used.
unsafe extern "C" {
    static ublk_rust_measures: Key;
    static __tracepoint_ublk_rust_request: bindings::tracepoint;
    static __tracepoint_ublk_rust_result: bindings::tracepoint;

    /// Counts who measures. Sleeps.
    safe fn ublk_rust_measure(is_on: bool);
    #[cold]
    safe fn ublk_rust_trace_request(
        device: u32,
        queue: u16,
        tag: u16,
        operation: u32,
        sector: u64,
        sectors: u32,
    );
    #[cold]
    safe fn ublk_rust_trace_result(device: u32, queue: u16, tag: u16, result: i32);
}

/// The numbers of a queue and its device, for events.
#[derive(Clone, Copy)]
pub(crate) struct QueueName {
    pub(crate) device: u32,
    pub(crate) queue: u16,
}

impl QueueName {
    /// A server gets a request.
    #[inline(always)]
    pub(crate) fn trace_request(self, tag: u16, descriptor: &Descriptor) {
        // SAFETY: C defines the event, whose key is a static key.
        if unsafe {
            static_branch_unlikely!(__tracepoint_ublk_rust_request, bindings::tracepoint, key)
        } {
            ublk_rust_trace_request(
                self.device,
                self.queue,
                tag,
                descriptor.operation,
                descriptor.sector,
                descriptor.sectors,
            );
        }
    }

    /// A request ends with this result of its server.
    #[inline(always)]
    pub(crate) fn trace_result(self, tag: u16, ended: &Ended) {
        // SAFETY: C defines the event, whose key is a static key.
        if unsafe {
            static_branch_unlikely!(__tracepoint_ublk_rust_result, bindings::tracepoint, key)
        } {
            ublk_rust_trace_result(self.device, self.queue, tag, ended.result);
        }
    }
}

/// Returns whether some device is measured.
#[inline(always)]
pub(crate) fn is_measuring() -> bool {
    // SAFETY: C defines the key.
    unsafe { static_branch_unlikely!(ublk_rust_measures, Key, key) }
}

/// While this exists, [`is_measuring`].
pub(crate) struct Measuring(());

impl Measuring {
    /// Sleeps.
    pub(crate) fn begin() -> Self {
        ublk_rust_measure(true);
        Self(())
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        ublk_rust_measure(false);
    }
}

/// Returns the nanoseconds since the boot, without those of sleep.
pub(crate) fn now() -> i64 {
    // SAFETY: May be called in any context.
    unsafe { bindings::ktime_get() }
}
