// SPDX-License-Identifier: GPL-2.0

//! Counts on a node that go down under a lock which somebody else holds, and what follows once it
//! is released.

use super::{Node, RemovedNode};
use crate::{
    kernel_ext::park::WakeHint,
    process::{Process, ProcessState},
    work::Wake, //
};
use kernel::sync::Arc;

/// What is left to do after counts went down, once the lock is released.
#[must_use]
pub(crate) struct AfterCountChange {
    pub(super) wake: Wake,
    pub(super) _removed: Option<RemovedNode>,
}

impl AfterCountChange {
    /// Releases `locks`, wakes what has to be woken, and frees the removed entry.
    #[inline]
    pub(super) fn finish(after: Option<Self>, locks: impl Sized, owner: &Process) {
        match after {
            Some(after) => after.wake.after(locks, owner, WakeHint::Anywhere),
            None => drop(locks),
        }
    }

    /// Whether anything has to be woken.
    #[inline]
    pub(super) fn is_wake_needed(after: Option<&Self>) -> bool {
        after.is_some_and(|after| after.wake.is_needed())
    }

    /// Wakes it, see [`Wake::now`].
    #[inline]
    pub(super) fn wake(after: Option<&Self>, owner: &Process) {
        if let Some(after) = after {
            after.wake.now(owner, WakeHint::Anywhere);
        }
    }
}

/// The node of a call whose buffer was freed: a node of the process that has freed it. It is in use
/// by the call until one of the functions is called.
#[must_use]
pub(crate) struct NodeInUse(pub(crate) Arc<Node>);

impl NodeInUse {
    /// Ends the use. No lock may be held.
    pub(crate) fn end(self) {
        let mut owner = self.0.owner().lock_state();
        let after = self.0.end_use_locked(&mut owner);
        AfterCountChange::finish(after, owner, self.0.owner());
    }

    /// Ends the use, under the state lock of the owner. What is returned is to be woken as soon as
    /// the lock is released, and dropped without it.
    #[inline(always)] // It has one caller.
    pub(crate) fn end_locked(self, owner: &mut ProcessState) -> EndedUse {
        let node = self.0;
        let after = node.end_use_locked(owner);
        EndedUse { node, after }
    }
}

/// A node that is not in use by a call any more.
#[must_use]
pub(crate) struct EndedUse {
    node: Arc<Node>,
    after: Option<AfterCountChange>,
}

impl EndedUse {
    /// Whether anything has to be woken.
    #[inline]
    pub(crate) fn is_wake_needed(&self) -> bool {
        AfterCountChange::is_wake_needed(self.after.as_ref())
    }

    /// Wakes it, see [`Wake::now`].
    #[inline]
    pub(crate) fn wake(&self) {
        AfterCountChange::wake(self.after.as_ref(), self.node.owner());
    }
}
