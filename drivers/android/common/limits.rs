// SPDX-License-Identifier: GPL-2.0

//! How much one process may have: parameters of the module that can be changed while it is loaded.
//!
//! Each is looked at when something is about to be added, under the lock that guards the number of
//! what there is. So a limit is never exceeded by a race, and one that is lowered takes nothing away: it
//! holds for what comes next.

use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed}, //
};

/// What the parameters say at present. `binderfs/limits.c` declares them and knows this struct's layout; each
/// setter writes one field, by one store.
#[allow(unsafe_code)] // For its name alone, by which C finds it.
#[no_mangle]
static rust_binder_limits: Limits = Limits {
    nodes: Limit(Atomic::new(0)),
    refs: Limit(Atomic::new(0)),
    threads: Limit(Atomic::new(0)),
    oneway_quota: Atomic::new(0),
};

/// What one process may have, as the module's parameters say at present.
#[inline]
pub(crate) fn limits() -> &'static Limits {
    &rust_binder_limits
}

/// All of them.
#[repr(C)]
pub(crate) struct Limits {
    /// Nodes that a process offers.
    pub(crate) nodes: Limit,
    /// Handles that a process has on the nodes of others.
    pub(crate) refs: Limit,
    /// Threads that the driver knows of a process.
    pub(crate) threads: Limit,
    /// The part of a receiver's oneway space that the calls of one sender may hold, in percent; 0 if all
    /// senders share all of it.
    oneway_quota: Atomic<u32>,
}

/// The most of something that there may be at a time; 0 if any number.
#[repr(transparent)]
pub(crate) struct Limit(Atomic<u32>);

impl Limit {
    /// Whether one more may be added to so many.
    #[inline]
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let most = self.0.load(Relaxed);
        most == 0 || count < most as usize
    }

    /// `ENOMEM`, as if memory had run out, if none may be added to so many.
    #[inline]
    pub(crate) fn check(&self, count: usize) -> Result {
        if self.has_room(count) {
            Ok(())
        } else {
            Err(ENOMEM)
        }
    }
}

impl Limits {
    /// See [`crate::range_alloc::CallKind::Oneway`].
    pub(crate) fn oneway_quota(&self) -> u8 {
        // CAST: the parameter's setter takes nothing above 100.
        self.oneway_quota.load(Relaxed) as u8
    }
}
