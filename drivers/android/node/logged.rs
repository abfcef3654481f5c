// SPDX-License-Identifier: GPL-2.0

//! What the logs show of a node, and `BINDER_GET_NODE_DEBUG_INFO`.

use super::Node;
use crate::{
    defs::{NodeDebugInfo, NodeName},
    kernel_ext::box_queue::SmallQueue,
    process::{Process, ProcessState},
    pure::node_counts::NodeCounts,
    work::Work, //
};
use kernel::sync::Arc;

impl Node {
    /// Returns a copy of the counts.
    pub(crate) fn counts(&self, owner: &ProcessState) -> NodeCounts {
        self.state.access(owner).counts.clone()
    }

    /// Whether a oneway call of the node is queued or being handled.
    pub(crate) fn is_busy(&self, owner: &ProcessState) -> bool {
        self.state.access(owner).counts.is_busy
    }

    /// Returns the oneway calls that wait until those before them have ended.
    pub(crate) fn waiting<'a>(&'a self, owner: &'a ProcessState) -> &'a SmallQueue<Work> {
        &self.state.access(owner).waiting
    }
}

impl Process {
    /// Returns what this process, as the owner, has read of the references to the first of its
    /// nodes whose pointer is greater than `ptr`.
    pub(crate) fn node_debug_info(&self, ptr: u64) -> NodeDebugInfo {
        let mut state = self.lock_state();
        let next = ptr
            .checked_add(1)
            .and_then(|next| state.nodes.first_from(next))
            .map(Arc::from);
        let (name, (has_strong_ref, has_weak_ref)) = match &next {
            Some(node) => (node.name, node.owner_refs(&mut state)),
            None => (NodeName::default(), (false, false)),
        };
        // Either the tree still has the node, or `next` is freed here, after the lock is released.
        drop(state);
        NodeDebugInfo {
            name,
            has_strong_ref,
            has_weak_ref,
        }
    }
}
