// SPDX-License-Identifier: GPL-2.0

//! The counts of a node, and a record of those that its owner was notified of.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it. It follows
//! NODE-4 to NODE-8 of the contract:
//!
//! ```text
//!                       BR_ACQUIRE                    BC_ACQUIRE_DONE
//!   OwnerRef::None ───────────────► OwnerRef::Pending ───────────────► OwnerRef::Held
//!      ▲                                                                     │
//!      └─────────────────────────────────────────────────────────────────────┘
//!                       BR_RELEASE, once no strong count is left
//! ```
//!
//! and likewise `BR_INCREFS`, `BC_INCREFS_DONE`, `BR_DECREFS` for weak counts. While a confirmation
//! of the owner is pending, the owner itself counts as a user of the node, so a release never
//! overtakes it.

use crate::pure::numbers::MOST_COUNTS;

/// The strength of a count: it keeps an object in use (strong) or only its name (weak).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    Strong,
    Weak,
}

/// The owner's reference: the latest notification about one kind of count that the owner has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerRef {
    /// The count is 0.
    None,
    /// The owner was notified that the count is not 0, and has not confirmed it yet.
    Pending,
    /// The owner has confirmed that the count is not 0.
    Held,
}

/// The notifications that the owner has to receive, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeUpdate {
    pub(crate) increfs: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
    pub(crate) decrefs: bool,
    /// Nothing needs the node any more: it has to be removed before the owner reads this update.
    pub(crate) forget: bool,
}

/// The error of a count that is not taken. The node is gone or was not in use, so the count would
/// have no meaning; or the count is at its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uncounted;

/// The life of a node, which determines the references that it can gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    /// In the owner's tree of nodes, or, if the owner has begun to end, in the tree as it was at
    /// that time.
    Known,
    /// No reference was left. If the owner sends the same name again, that is another node.
    Forgotten,
    /// The owner died first. Handles on the node stay valid for counting.
    Orphaned,
}

/// The counts of one node. Its other records use the room that is left in their last word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeCounts {
    /// Handles on the node in other processes; each of them needs at least the name of the node.
    pub(crate) refs: u32,
    /// The handles that keep the node in use.
    pub(crate) strong_refs: u32,
    /// Buffers and the context that keep the node in use.
    local_strong: u32,
    /// Buffers and the context that need the name of the node.
    local_weak: u32,
    /// Transactions under construction that name the node.
    pub(crate) pins: u32,
    strong: OwnerRef,
    weak: OwnerRef,
    pub(crate) life: Life,
    /// True if a oneway call of the node is queued or being handled: only one is at a time.
    pub(crate) is_busy: bool,
}

impl NodeCounts {
    /// Returns the counts of a node that nothing needs yet.
    pub(crate) const fn new() -> Self {
        Self {
            refs: 0,
            strong_refs: 0,
            local_strong: 0,
            local_weak: 0,
            pins: 0,
            strong: OwnerRef::None,
            weak: OwnerRef::None,
            life: Life::Known,
            is_busy: false,
        }
    }

    /// Returns counts each of which can be increased exactly once more.
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
            ..Self::new()
        }
    }

    /// Counts the context, which takes the node as its manager. The node is in use as long as its
    /// owner lives, and the owner is never notified of that (contract CTX-2).
    pub(crate) fn become_manager(&mut self) -> Result<(), Uncounted> {
        let strong = raised(self.local_strong, true)?;
        self.local_weak = raised(self.local_weak, true)?;
        self.local_strong = strong;
        // The owner still confirms the notifications that it has received.
        for owner in [&mut self.strong, &mut self.weak] {
            if *owner != OwnerRef::Pending {
                *owner = OwnerRef::Held;
            }
        }
        Ok(())
    }

    /// Returns whether anything keeps the node in use.
    pub(crate) fn has_strong(&self) -> bool {
        self.strong_refs > 0 || self.local_strong > 0 || self.strong == OwnerRef::Pending
    }

    /// Returns whether anything needs the name of the node.
    pub(crate) fn has_weak(&self) -> bool {
        self.has_weak_alone() || self.has_strong()
    }

    /// Returns whether anything needs the name of the node, apart from what keeps it in use.
    fn has_weak_alone(&self) -> bool {
        self.refs > 0 || self.local_weak > 0 || self.pins > 0 || self.weak == OwnerRef::Pending
    }

    /// Returns whether the owner was notified of strong and of weak counts.
    pub(crate) fn owner_refs(&self) -> (bool, bool) {
        (self.strong != OwnerRef::None, self.weak != OwnerRef::None)
    }

    /// Returns how many strong counts keep the node in use, and how many local weak counts need its
    /// name.
    pub(crate) fn totals(&self) -> (u32, u32) {
        let (strong, weak) = self.locals();
        (self.strong_refs.saturating_add(strong), weak)
    }

    /// Returns the strong and the weak counts of buffers and the context. An owner that has yet to
    /// confirm a count has one, too.
    pub(crate) fn locals(&self) -> (u32, u32) {
        let is_pending = |owner| u32::from(owner == OwnerRef::Pending);
        (
            self.local_strong.saturating_add(is_pending(self.strong)),
            self.local_weak.saturating_add(is_pending(self.weak)),
        )
    }

    /// Returns whether handles keep the node in use, and the owner was notified of strong and weak
    /// counts. Then it [has no update](Self::has_update), and is not
    /// [only used](Self::is_only_used), because each handle counts as a ref.
    pub(crate) fn is_known_to_be_held(&self) -> bool {
        self.strong_refs > 0 && self.strong != OwnerRef::None && self.weak != OwnerRef::None
    }

    /// Returns whether the owner has to be notified of anything now.
    pub(crate) fn has_update(&self) -> bool {
        let (owner_has_strong, owner_has_weak) = self.owner_refs();
        self.has_strong() != owner_has_strong || self.has_weak() != owner_has_weak
    }

    /// Returns whether the owner has to be notified, after counts went down. If the owner was never
    /// notified of the node, the sender of the node notifies it: before the end of the transaction,
    /// and not at all if that fails.
    pub(crate) fn has_update_after_fall(&self) -> bool {
        self.owner_refs() != (false, false) && self.has_update()
    }

    /// Returns whether calls use the node, and nothing else needs its name; and the owner was
    /// notified of a count.
    pub(crate) fn is_only_used(&self) -> bool {
        self.owner_refs() != (false, false) && self.has_strong() && !self.has_weak_alone()
    }

    /// Returns whether nothing needs the node, and the owner was notified of no count: the node can
    /// be removed without notifying the owner.
    pub(crate) fn is_unreferenced(&self) -> bool {
        !self.has_weak() && self.owner_refs() == (false, false)
    }

    /// Changes the owner's references to what the counts demand, and returns the update that the
    /// owner has to read for it.
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

    /// Notes that the owner has confirmed strong or weak counts. Returns `false` if no confirmation
    /// was pending.
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

    /// Counts a handle that is new, begins to keep the node in use, or both.
    pub(crate) fn raise(&mut self, is_new: bool, is_strong: bool) -> Result<(), Uncounted> {
        let refs = raised(self.refs, is_new)?;
        self.strong_refs = raised(self.strong_refs, is_strong)?;
        self.refs = refs;
        Ok(())
    }

    /// Stops counting a handle that is removed, no longer keeps the node in use, or both.
    pub(crate) fn lower(&mut self, was_last: bool, was_strong: bool) {
        self.refs -= u32::from(was_last);
        self.strong_refs -= u32::from(was_strong);
    }

    /// Counts a buffer of the owner that names the node from now on, or that belongs to a call for
    /// the node. Local counts of an owner that has died mean nothing.
    ///
    /// Fails if the count would bring the node back into use. Its owner may have been notified that
    /// nothing needs the node. It would then read its own pointer before it is notified that
    /// something needs the node again. Nothing needs a node that was removed.
    pub(crate) fn add_local(&mut self, strength: Strength) -> Result<(), Uncounted> {
        let (is_in_use, count) = match strength {
            _ if self.life == Life::Orphaned => return Ok(()),
            Strength::Strong => (
                self.strong != OwnerRef::None || self.has_strong(),
                &mut self.local_strong,
            ),
            Strength::Weak => (
                self.weak != OwnerRef::None || self.has_weak(),
                &mut self.local_weak,
            ),
        };
        if !is_in_use || *count == MOST_COUNTS {
            return Err(Uncounted);
        }
        *count += 1;
        Ok(())
    }

    /// Stops counting a buffer of the owner that no longer names the node, or whose call has ended.
    pub(crate) fn drop_local(&mut self, strength: Strength) {
        match strength {
            // The count has ended with the owner.
            _ if self.life == Life::Orphaned => {}
            Strength::Strong => self.local_strong -= 1,
            Strength::Weak => self.local_weak -= 1,
        }
    }

    /// Counts a transaction under construction that names the node.
    pub(crate) fn pin(&mut self) -> Result<(), Uncounted> {
        self.pins = raised(self.pins, true)?;
        Ok(())
    }

    /// Stops counting that transaction, which is sent or given up.
    pub(crate) fn unpin(&mut self) {
        self.pins -= 1;
    }

    /// Removes all counts of the owner, which has died: it cannot be notified any more. Handles
    /// continue to be counted, up and down.
    pub(crate) fn orphan(&mut self) {
        self.life = Life::Orphaned;
        self.local_strong = 0;
        self.local_weak = 0;
        self.strong = OwnerRef::None;
        self.weak = OwnerRef::None;
    }
}

/// Returns the count, increased by one if `is_more`. Fails if it is full.
fn raised(count: u32, is_more: bool) -> Result<u32, Uncounted> {
    if is_more && count == MOST_COUNTS {
        return Err(Uncounted);
    }
    Ok(count + u32::from(is_more))
}
