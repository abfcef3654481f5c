// SPDX-License-Identifier: GPL-2.0

//! Who still needs a node, and how much of that its owner has been told.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it. Facts follow the
//! contract's NODE-4 to NODE-8:
//!
//! ```text
//!                 BR_ACQUIRE              BC_ACQUIRE_DONE
//!   Told::No ───────────────► Told::Asked ───────────────► Told::Yes
//!      ▲                                                       │
//!      └───────────────────────────────────────────────────────┘
//!                 BR_RELEASE, once nothing strong is left
//! ```
//!
//! and likewise `BR_INCREFS`, `BC_INCREFS_DONE`, `BR_DECREFS` for weak counts. An owner who has been
//! asked and has not said DONE yet counts as a user himself, so a release never overtakes it.

use crate::{defs::Strength, pure::numbers::MOST_COUNTS};

/// What the owner knows of one kind of count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerRef {
    /// That there is none.
    None,
    /// He was told that there is some and has not confirmed it yet.
    Pending,
    /// That there is some.
    Held,
}

/// What to tell the owner, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeUpdate {
    pub(crate) increfs: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
    pub(crate) decrefs: bool,
    /// Nobody needs the node any more: it is to be forgotten before the owner hears of it.
    pub(crate) forget: bool,
}

/// Says that a count is not taken: it would mean nothing, for the node is gone or was not in use, or there
/// are as many already as can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uncounted;

/// The counts of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeCounts {
    /// Handles on the node in other processes; each of them needs its name at least.
    refs: u32,
    /// Those among them that keep it in use.
    strong_refs: u32,
    /// Buffers and the context that keep it in use.
    local_strong: u32,
    /// Buffers and the context that need its name.
    local_weak: u32,
    /// Transactions under construction that name it.
    pins: u32,
    strong: OwnerRef,
    weak: OwnerRef,
}

impl NodeCounts {
    /// A node that nobody needs yet.
    pub(crate) const fn new() -> Self {
        Self {
            refs: 0,
            strong_refs: 0,
            local_strong: 0,
            local_weak: 0,
            pins: 0,
            strong: OwnerRef::None,
            weak: OwnerRef::None,
        }
    }

    /// A node that can be counted once more of each kind.
    #[cfg(test)]
    pub(crate) const fn nearly_full() -> Self {
        Self {
            refs: MOST_COUNTS - 1,
            strong_refs: MOST_COUNTS - 1,
            local_strong: MOST_COUNTS - 1,
            local_weak: MOST_COUNTS - 1,
            pins: MOST_COUNTS - 1,
            strong: OwnerRef::Held,
            weak: OwnerRef::Held,
        }
    }

    /// The context takes the node as its manager: it is in use as long as its owner lives, and the
    /// owner is never told so (contract CTX-2).
    pub(crate) fn become_manager(&mut self) -> Result<(), Uncounted> {
        let strong = one_more(self.local_strong)?;
        self.local_weak = one_more(self.local_weak)?;
        self.local_strong = strong;
        self.strong = OwnerRef::Held;
        self.weak = OwnerRef::Held;
        Ok(())
    }

    /// Whether anything keeps the node in use.
    pub(crate) fn has_strong(&self) -> bool {
        self.strong_refs > 0 || self.local_strong > 0 || self.strong == OwnerRef::Pending
    }

    /// Whether anything needs the node's name.
    pub(crate) fn has_weak(&self) -> bool {
        self.refs > 0
            || self.local_weak > 0
            || self.pins > 0
            || self.weak == OwnerRef::Pending
            || self.has_strong()
    }

    /// What the owner was told of strong and of weak counts.
    pub(crate) fn owner_refs(&self) -> (bool, bool) {
        (self.strong != OwnerRef::None, self.weak != OwnerRef::None)
    }

    /// How many keep the node in use, and how many need its name locally.
    pub(crate) fn totals(&self) -> (u32, u32) {
        let is_pending = |owner| u32::from(owner == OwnerRef::Pending);
        let strong = self.strong_refs.saturating_add(self.local_strong);
        (
            strong.saturating_add(is_pending(self.strong)),
            self.local_weak.saturating_add(is_pending(self.weak)),
        )
    }

    /// Whether the owner would be told something now.
    pub(crate) fn has_update(&self) -> bool {
        let (owner_has_strong, owner_has_weak) = self.owner_refs();
        self.has_strong() != owner_has_strong || self.has_weak() != owner_has_weak
    }

    /// Whether nobody needs the node and its owner knows of nobody: it can be forgotten silently.
    pub(crate) fn is_unreferenced(&self) -> bool {
        !self.has_weak() && self.owner_refs() == (false, false)
    }

    /// Brings the owner up to date and says what he has to hear for it.
    pub(crate) fn take_update(&mut self) -> NodeUpdate {
        let mut node_update = NodeUpdate::default();
        if self.has_weak() && self.weak == OwnerRef::None {
            self.weak = OwnerRef::Pending;
            node_update.increfs = true;
        }
        if self.has_strong() && self.strong == OwnerRef::None {
            self.strong = OwnerRef::Pending;
            node_update.acquire = true;
        }
        if !self.has_strong() && self.strong == OwnerRef::Held {
            self.strong = OwnerRef::None;
            node_update.release = true;
        }
        if !self.has_weak() && self.weak == OwnerRef::Held {
            self.weak = OwnerRef::None;
            node_update.decrefs = true;
        }
        node_update.forget = !self.has_weak();
        node_update
    }

    /// The owner confirms that he has heard of strong or weak counts. `false` when he was not asked.
    pub(crate) fn confirm(&mut self, strength: Strength) -> bool {
        let owner = match strength {
            Strength::Strong => &mut self.strong,
            Strength::Weak => &mut self.weak,
        };
        let is_pending = *owner == OwnerRef::Pending;
        if is_pending {
            *owner = OwnerRef::Held;
        }
        is_pending
    }

    /// A handle on the node comes to be, begins to keep it in use, or both.
    pub(crate) fn raise(&mut self, is_new: bool, is_strong: bool) -> Result<(), Uncounted> {
        let refs = one_more_if(is_new, self.refs)?;
        self.strong_refs = one_more_if(is_strong, self.strong_refs)?;
        self.refs = refs;
        Ok(())
    }

    /// A handle on the node is gone, no longer keeps it in use, or both.
    pub(crate) fn lower(&mut self, was_last: bool, was_strong: bool) {
        self.refs -= u32::from(was_last);
        self.strong_refs -= u32::from(was_strong);
    }

    /// A buffer of the owner names the node from now on, or brings him a call for it.
    ///
    /// Not where that would bring the node back into use: its owner may have been told that
    /// nobody needs it, and would read his own pointer before he is told otherwise.
    pub(crate) fn add_local(&mut self, strength: Strength) -> Result<(), Uncounted> {
        let (owner_has_strong, owner_has_weak) = self.owner_refs();
        let is_in_use = match strength {
            Strength::Strong => owner_has_strong || self.has_strong(),
            Strength::Weak => owner_has_weak || self.has_weak(),
        };
        if !is_in_use {
            return Err(Uncounted);
        }
        let count = self.local(strength);
        *count = one_more(*count)?;
        Ok(())
    }

    /// A buffer of the owner no longer names the node.
    pub(crate) fn drop_local(&mut self, strength: Strength) {
        *self.local(strength) -= 1;
    }

    /// A transaction under construction names the node.
    pub(crate) fn pin(&mut self) -> Result<(), Uncounted> {
        self.pins = one_more(self.pins)?;
        Ok(())
    }

    /// That transaction is sent or given up.
    pub(crate) fn unpin(&mut self) {
        self.pins -= 1;
    }

    /// The owner died: nothing of his own counts any more, and there is nobody to tell. Handles go on
    /// counting, up and down.
    pub(crate) fn orphan(&mut self) {
        self.local_strong = 0;
        self.local_weak = 0;
        self.strong = OwnerRef::None;
        self.weak = OwnerRef::None;
    }

    fn local(&mut self, strength: Strength) -> &mut u32 {
        match strength {
            Strength::Strong => &mut self.local_strong,
            Strength::Weak => &mut self.local_weak,
        }
    }
}

fn one_more(count: u32) -> Result<u32, Uncounted> {
    one_more_if(true, count)
}

fn one_more_if(is_more: bool, count: u32) -> Result<u32, Uncounted> {
    if is_more && count == MOST_COUNTS {
        return Err(Uncounted);
    }
    Ok(count + u32::from(is_more))
}
