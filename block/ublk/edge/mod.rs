// SPDX-License-Identifier: GPL-2.0

//! The only code that is `unsafe`: what the driver needs of the kernel, in types that are safe to
//! use.

use kernel::{
    prelude::*,
    sync::atomic::{Atomic, AtomicType},
};

pub(crate) mod abi;
mod batch;
mod control_file;
mod descriptors;
mod disk;
mod inline;
mod node;
mod process;
mod request;
#[path = "../../segments.rs"]
mod segments;
mod slot;
pub(crate) mod trace;
mod uring;

pub(crate) use {
    control_file::{
        check_path, file_major, most_unprivileged, name, works, ControlFile, Number, Shared,
    },
    descriptors::{size_of_descriptors, Descriptors},
    disk::{Closed, Disk, Queues, Shape},
    node::{DeviceFile, ServerData},
    process::{ids, is_admin, memory, Process},
    request::{Data, Incoming, Request, Status, Taken},
    slot::{Committing, Left, Sending, Share, Slot, Values},
    uring::{Command, Context, Issued, Kept},
};

/// As `Atomic::load`, relaxed, without a call of a helper.
#[inline(always)]
pub(crate) fn read_once<T: AtomicType>(atomic: &Atomic<T>) -> T {
    const { assert!(size_of::<T>() <= size_of::<usize>(), "takes two accesses") };
    // SAFETY: The value is there, and may be read at any time.
    unsafe { atomic.as_ptr().read_volatile() }
}

/// As `to_result`, without a call where it succeeds.
#[inline(always)]
fn to_result(code: c_int) -> Result {
    match code {
        0 => Ok(()),
        _ => kernel::error::to_result(code),
    }
}

/// Waits until all CPUs have passed a full memory barrier. Sleeps.
pub(crate) fn wait_for_all_cpus() {
    // SAFETY: May be called where sleep is allowed.
    unsafe { kernel::bindings::synchronize_rcu() };
}
