// SPDX-License-Identifier: GPL-2.0

//! The nodes that a process offers: they are found, and made, by the pointer that names them, and
//! one that is forgotten is kept for the next object.

use crate::{
    common::{
        limits::LIMITS,
        stats::{next_debug_id, Counted, Kind}, //
    },
    defs::{NodeDebugInfo, NodeName},
    kernel_ext::link::Unplaced,
    node::Node,
    process::{Process, ProcessState},
    pure::{
        node_counts::{Life, Uncounted},
        priority_rules::{NodeFlags, NodePriority}, //
    }, //
};
use kernel::{prelude::*, sync::Arc};

impl ProcessState {
    /// Takes the spare node, if there is one, under a name that no other one has.
    fn take_spare_node(&mut self, name: NodeName, flags: NodeFlags) -> Option<Unplaced<Node>> {
        let mut node = self.spare_node.take()?;
        node.debug_id = next_debug_id();
        node.name = name;
        node.priority = NodePriority::new(flags);
        node.counted = Some(Counted::new(Kind::Node));
        // Nothing refers to a node that is forgotten, so all its counts are 0 and its queues empty.
        node.state.access_mut(self).counts.life = Life::Known;
        Some(Unplaced::new(Pin::into_inner(node)))
    }
}

impl Process {
    /// Keeps a node that was just removed for the next object that the process sends, unless
    /// something else refers to the node. So an object that is sent, dropped by all its receivers,
    /// and sent again does not allocate each time. To be called by a thread that reads, with no
    /// lock held: so the process has not ended, and its end drops the spare node.
    #[inline(never)] // Where it is called, calls without objects would pay for it.
    pub(crate) fn keep_node(&self, node: Arc<Node>) {
        let Some(mut node) = Arc::into_unique_or_drop(node) else {
            return;
        };
        node.counted = None;
        let mut state = self.state.lock();
        let before = state.spare_node.replace(node);
        drop(state);
        drop(before);
    }

    /// Returns the node of this pointer, pinned. Makes it with this name and these flags if the
    /// process has not sent it before: of the spare node, or a new one.
    ///
    /// Fails with `EINVAL` if a count is full, with `ENOMEM` also if the process has as many nodes
    /// as its limit allows.
    pub(crate) fn pin_node_of_pointer(
        self: &Arc<Self>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<Arc<Node>> {
        // Freed without the lock if another thread inserts this node in the meantime.
        let mut new = None;
        loop {
            let mut state = self.state.lock();
            let known = state.nodes.get(name.ptr).map(Arc::from);
            if known.is_none() {
                LIMITS.nodes.check(state.nodes.len())?;
            }
            let made = || {
                let node = new.take().or_else(|| state.take_spare_node(name, flags))?;
                let added = node.object().clone();
                state.nodes.insert_unplaced(node);
                Some(added)
            };
            let Some(node) = known.or_else(made) else {
                drop(state);
                new = Some(Node::new(self, name, flags)?);
                continue;
            };
            let pinned = node.state.access_mut(&mut state).counts.pin();
            return pinned.map(|()| node).map_err(|Uncounted| EINVAL);
        }
    }

    /// The same for an object that is sent: fails with `EINVAL` also if the node has another cookie
    /// (contract NODE-1).
    pub(crate) fn pin_node(
        self: &Arc<Self>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<Arc<Node>> {
        let node = self.pin_node_of_pointer(name, flags)?;
        if node.name.cookie != name.cookie {
            node.unpin();
            return Err(EINVAL);
        }
        Ok(node)
    }

    /// Returns what this process, as the owner, has read of the references to the first of its
    /// nodes whose pointer is greater than `ptr`.
    pub(crate) fn node_debug_info(&self, ptr: u64) -> NodeDebugInfo {
        let state = self.state.lock();
        let next = ptr
            .checked_add(1)
            .and_then(|next| state.nodes.first_from(next));
        next.map_or(NodeDebugInfo::default(), |node| {
            let (has_strong, has_weak) = node.state.access(&state).counts.owner_refs();
            NodeDebugInfo {
                ptr: node.name.ptr,
                cookie: node.name.cookie,
                has_strong_ref: has_strong.into(),
                has_weak_ref: has_weak.into(),
            }
        })
    }
}
