// SPDX-License-Identifier: GPL-2.0

//! The names of processes and threads: all that nodes and calls keep of them. Both may exist long
//! after the process or the thread has ended, because others hold or serve them.
//!
//! A name leads to its process or thread until that has ended. Other CPUs read it in each call, so
//! it has a cache line for itself: what shared that would be slowed down, or slow the call down.
//! The counters of a thread, which changes them in each call, too, are in the rest of the line.

use crate::{
    common::{
        netlink::Party,
        stats::ThreadCounts, //
    },
    kernel_ext::{
        link::has_field,
        once::{read_once, write_once},
        owned_by::{After, OwnedBy, Severable},
        spin_lock::{new_spin_lock, SpinLock}, //
    },
    process::{Pid, Process, ProcessState},
    thread::Thread, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc, //
    }, //
};

/// The name of a process.
#[pin_data]
pub(crate) struct ProcessName {
    /// The process, until it has ended.
    pub(crate) process: Severable<Process>,
    /// Its pid.
    pub(crate) pid: Pid,
    /// The lock of its nodes after that.
    #[pin]
    after: SpinLock<After>,
    _rest_of_line: [u64; 4],
}

has_field!(impl for ProcessName, process: Severable<Process>);
has_field!(impl for ProcessName, after: SpinLock<After>);

impl ProcessName {
    /// Allocates the name of a process of this pid, which is not made yet.
    pub(crate) fn new(pid: Pid) -> Result<Arc<Self>> {
        let name = pin_init!(Self {
            process: Severable::new(),
            pid,
            after <- new_spin_lock!(After::default(), "ProcessName::after"),
            _rest_of_line: [0; 4],
        });
        Arc::pin_init(name, GFP_KERNEL)
    }
}

/// The name of a thread.
pub(crate) struct ThreadName {
    /// The thread, from the time when its process has it until it has ended.
    thread: OwnedBy<Option<Arc<Thread>>, ProcessName, Process, ProcessState>,
    /// The kernel's number for it, in the initial pid namespace.
    id: Pid,
    /// Nothing can be queued for the thread any more. Set under the state lock.
    has_ended: Atomic<bool>,
    /// Its counters of codes.
    pub(crate) counts: ThreadCounts,
}

// With its reference count a cache line, which the kernel's allocator aligns.
#[cfg(all(CONFIG_64BIT, not(any(CONFIG_DEBUG_SPINLOCK, CONFIG_PREEMPT_RT))))]
const _: () = assert!(size_of::<ProcessName>() <= 56 && size_of::<ThreadName>() == 56);

impl ThreadName {
    /// Allocates the name of a thread that its process does not have yet.
    pub(crate) fn new(process: &Arc<ProcessName>, id: Pid) -> Result<Arc<Self>> {
        let name = Self {
            thread: OwnedBy::new(process.clone(), None),
            id,
            has_ended: Atomic::new(false),
            counts: ThreadCounts::new(),
        };
        Ok(Arc::new(name, GFP_KERNEL)?)
    }

    /// Records the thread, which its process has now.
    pub(crate) fn begin(&self, process: &mut ProcessState, thread: Arc<Thread>) {
        *self.thread.access_mut(process) = Some(thread);
    }

    /// Records that nothing can be queued for the thread any more. Returns the reference to it, to
    /// be dropped without the lock; nothing if it has ended before.
    pub(crate) fn end(&self, process: &mut ProcessState) -> Option<Arc<Thread>> {
        write_once(&self.has_ended, true);
        self.thread.access_mut(process).take()
    }

    /// Returns whether nothing can be queued for the thread any more.
    #[inline(always)]
    pub(crate) fn has_ended(&self) -> bool {
        read_once(&self.has_ended)
    }

    /// Returns the thread, unless it has ended. Takes the state lock of its process; no other one
    /// may be held.
    pub(crate) fn thread(&self) -> Option<Arc<Thread>> {
        self.thread.in_lock(&mut self.thread.lock()).clone()
    }

    /// Calls `f` with the thread, unless it has ended, and with the locked state of its process. No
    /// other lock may be held.
    pub(crate) fn with_state<R>(
        &self,
        f: impl FnOnce(&Thread, &mut ProcessState) -> R,
    ) -> Option<R> {
        let mut locked = self.thread.lock();
        // Under the lock this is not the last reference.
        let thread = self.thread.in_lock(&mut locked).clone()?;
        locked.of_owner().map(|state| f(&thread, state))
    }

    /// Returns the name of its process.
    pub(crate) fn process(&self) -> &Arc<ProcessName> {
        self.thread.name()
    }

    /// Names the thread, in the initial pid namespace.
    #[inline(always)]
    pub(crate) fn party(&self) -> Party {
        Party {
            pid: self.process().pid,
            tid: self.id,
        }
    }
}
