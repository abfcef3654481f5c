// SPDX-License-Identifier: GPL-2.0

//! Limits of one process: parameters of the module that can be changed while it is loaded.
//!
//! Each limit is checked when something is about to be added, under the lock that guards the count.
//! So a race cannot exceed a limit, and lowering one takes nothing away: it applies to what is
//! added after.

use crate::kernel_ext::once::read_once;
use kernel::{
    prelude::*,
    sync::atomic::Atomic, //
};

/// The limits of one process, which are the current values of the module's parameters.
/// `binderfs/module.c` declares them and the layout of this struct; each setter writes one field,
/// by one store.
#[allow(unsafe_code)] // For the symbol name alone, by which C finds it.
#[export_name = "rust_binder_limits"]
pub(crate) static LIMITS: ProcessLimits = ProcessLimits {
    nodes: Limit(Atomic::new(0)),
    refs: Limit(Atomic::new(0)),
    threads: Limit(Atomic::new(0)),
    oneway_quota: Atomic::new(0),
};

/// All limits of one process.
#[repr(C)]
pub(crate) struct ProcessLimits {
    /// Nodes that a process offers.
    pub(crate) nodes: Limit,
    /// Handles that a process has on the nodes of others.
    pub(crate) refs: Limit,
    /// Threads of a process that the driver has records of.
    pub(crate) threads: Limit,
    /// The part of a receiver's oneway space that the calls of one sender may fill, in percent; 0
    /// if all senders share all of it.
    oneway_quota: Atomic<u32>,
}

/// The maximum number of something; 0 if there is no limit.
#[repr(transparent)]
pub(crate) struct Limit(Atomic<u32>);

impl Limit {
    /// Returns whether one more may be added to `count`.
    #[inline]
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let most = read_once(&self.0);
        most == 0 || count < most as usize
    }

    /// Fails with `ENOMEM`, as if memory had run out, if none may be added to `count`.
    #[inline]
    pub(crate) fn check(&self, count: usize) -> Result {
        self.has_room(count).then_some(()).ok_or(ENOMEM)
    }
}

impl ProcessLimits {
    /// Returns the oneway quota; see [`crate::range_alloc::CallKind::Oneway`].
    pub(crate) fn oneway_quota(&self) -> u8 {
        // CAST: the parameter's setter accepts nothing above 100.
        read_once(&self.oneway_quota) as u8
    }
}
