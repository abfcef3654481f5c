// SPDX-License-Identifier: GPL-2.0

//! The number and the sum of the oneway ranges of each sender, for spaces with so many ranges that
//! adding them up would take long.
//!
//! A sender has an account as long as it has a range. The range that opens an account supplies its
//! memory. When the last range closes the account, the memory is kept for the next sender, or
//! returned to be freed.

use super::{Claim, ReserveError, Spare};
use kernel::rbtree::{RBTree, RBTreeNodeReservation};

/// The number and the sum of the ranges of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) ranges: usize,
    pub(super) bytes: usize,
}

impl Holding {
    /// Adds a range.
    pub(super) fn add(&mut self, bytes: usize) {
        self.ranges += 1;
        self.bytes += bytes;
    }
}

/// The memory of an account.
pub(super) type AccountNode = RBTreeNodeReservation<i32, Holding>;

/// The accounts of all senders.
///
/// # Invariants
///
/// Each sender of a oneway range has an account, and no other account exists; an account has the
/// number and the sum of the ranges of its sender.
pub(super) struct Accounts {
    by_sender: RBTree<i32, Holding>,
    idle: Option<AccountNode>,
}

impl Accounts {
    pub(super) fn new() -> Self {
        Self {
            by_sender: RBTree::new(),
            idle: None,
        }
    }

    /// Returns what a sender holds.
    pub(super) fn of(&self, sender: i32) -> Holding {
        self.by_sender.get(&sender).copied().unwrap_or_default()
    }

    /// Adds a range.
    pub(super) fn add<T, const N: usize>(
        &mut self,
        claim: Claim,
        spare: &mut Spare<T, N>,
    ) -> Result<(), ReserveError> {
        let Some(sender) = claim.oneway_sender else {
            return Ok(());
        };
        if let Some(holding) = self.by_sender.get_mut(&sender) {
            holding.add(claim.size as usize);
            return Ok(());
        }
        let node = match self.idle.take() {
            Some(node) => node,
            None => spare.pop_account()?,
        };
        let mut holding = Holding::default();
        holding.add(claim.size as usize);
        self.by_sender.insert(node.into_node(sender, holding));
        Ok(())
    }

    /// Removes a range. Returns the memory of an account that is not needed.
    pub(super) fn remove(&mut self, claim: Claim) -> Option<AccountNode> {
        let sender = claim.oneway_sender?;
        let holding = self.by_sender.get_mut(&sender)?;
        holding.ranges -= 1;
        holding.bytes -= claim.size as usize;
        if holding.ranges > 0 {
            return None;
        }
        let node = self.by_sender.remove_node(&sender)?.into_reservation();
        self.idle.replace(node)
    }
}
