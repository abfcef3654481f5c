// SPDX-License-Identifier: GPL-2.0

//! What the logs show of a node.

use super::Node;
use crate::{
    kernel_ext::box_queue::SmallQueue,
    process::ProcessState,
    pure::node_counts::NodeCounts,
    work::Work, //
};

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
