// SPDX-License-Identifier: GPL-2.0

//! What the logs show of delivered buffers.

use super::Delivered;
use crate::node::Node;
use kernel::sync::Arc;

impl Delivered {
    /// Returns the node of the call that the buffer belongs to, if its caller waits for a reply, or
    /// waited.
    pub(crate) fn node_of_call(&self) -> Option<&Arc<Node>> {
        self.node.as_ref().filter(|_| !self.is_oneway)
    }
}
