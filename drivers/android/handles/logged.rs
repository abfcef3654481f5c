// SPDX-License-Identifier: GPL-2.0

//! What the logs show of handles.

use super::{Handles, NodeKey, Ref};
use crate::node::Node;
use kernel::sync::Arc;

impl Handles {
    /// Returns a few handles that are not less than `from`, in ascending order, and the first
    /// handle behind those; nothing if there is none.
    pub(crate) fn few_from(&self, from: u32) -> Option<(impl Iterator<Item = (u32, &Ref)>, u64)> {
        self.table.leaf_from(from)
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
