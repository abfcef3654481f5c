// SPDX-License-Identifier: GPL-2.0

//! What the logs show of handles.

use super::{Handles, NodeKey, Ref};
use crate::node::Node;
use kernel::sync::Arc;

/// How far a reader of all handles is, which gives up the lock between a few and the next.
///
/// Its way ends at the highest handle that there was when it began, so that handles that are added
/// meanwhile do not lead it on.
#[derive(Clone, Copy)]
pub(crate) struct HandlePlace {
    /// The handles from this number on are left.
    next: u64,
    /// Ends the way: no leaf of handles that begins behind it is visited.
    last: u32,
}

impl HandlePlace {
    pub(crate) const START: Self = Self {
        next: 0,
        last: u32::MAX,
    };

    /// Goes back to a handle of the last few, which the reader has no room for now.
    pub(crate) fn return_to(&mut self, handle: u32) {
        self.next = handle.into();
    }

    /// Goes on behind a handle.
    pub(crate) fn go_behind(&mut self, handle: u32) {
        self.next = u64::from(handle) + 1;
    }
}

impl Handles {
    /// Returns a few handles in ascending order, and moves `place` behind them; nothing if there
    /// are no more.
    pub(crate) fn few_from(
        &self,
        place: &mut HandlePlace,
    ) -> Option<impl Iterator<Item = (u32, &Ref)>> {
        place.last = place.last.min(self.table.last()?);
        let from = u32::try_from(place.next).ok()?;
        if from > place.last {
            return None;
        }
        let (few, next) = self.table.leaf_from(from)?;
        place.next = next;
        Some(few)
    }

    /// Whether the process has a handle on `node`.
    pub(crate) fn has(&self, node: &Arc<Node>) -> bool {
        self.by_node.get(&NodeKey::of(node)).is_some()
    }
}

impl Ref {
    /// Returns the strong and the weak counts that the process holds through the handle.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.strong, self.weak)
    }
}
