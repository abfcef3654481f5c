// SPDX-License-Identifier: GPL-2.0

//! How a process comes by the node of an object that it sends: it has the node already, or renews the
//! one that it has kept since that was forgotten, or allocates one.
//!
//! An object that is sent, dropped by all its receivers, and sent again would otherwise allocate and
//! free memory each time.

use super::{Life, Node, NodeState, RemovedNode};
use crate::{
    common::{
        limits::limits,
        stats::{next_debug_id, Counted, Kind}, //
    },
    defs::{NodeFlags, NodeName},
    kernel_ext::{box_queue::BoxQueue, link::Link},
    process::{Process, ProcessState},
    pure::{
        node_counts::{NodeCounts, Uncounted},
        priority_rules::NodePriority, //
    },
    work::WorkQueue,
};
use kernel::{
    prelude::*,
    sync::{Arc, LockedBy, UniqueArc}, //
};

/// A node that its owner has forgotten, for the next object that it sends. Nothing else refers to it.
pub(crate) struct SpareNode(Pin<UniqueArc<Node>>);

impl SpareNode {
    /// Returns the node under this name.
    fn renew(self, name: NodeName, flags: NodeFlags, owner: &mut ProcessState) -> Arc<Node> {
        let Self(mut node) = self;
        node.debug_id = next_debug_id();
        node.name = name;
        node.flags = flags;
        node.priority = NodePriority::new(flags);
        let node = Arc::from(node);
        // Nothing refers to a node that is forgotten, so all its counts are 0 and its queues empty.
        let state = node.state.access_mut(owner);
        state.life = Life::Known;
        state.counted = Some(Counted::new(Kind::Node));
        node
    }
}

impl NodeState {
    fn new() -> Self {
        Self {
            counts: NodeCounts::new(),
            life: Life::Known,
            updated_thread: None,
            is_busy: false,
            counted: Some(Counted::new(Kind::Node)),
            waiting: WorkQueue::new(),
            death_registrations: BoxQueue::new(),
        }
    }
}

impl Node {
    /// Allocates a node without references.
    fn new(owner: &Arc<Process>, name: NodeName, flags: NodeFlags) -> Result<Arc<Self>> {
        let priority = NodePriority::new(flags);
        // Initialised in place, because it is large.
        let node = init!(Self {
            debug_id: next_debug_id(),
            name,
            flags,
            priority,
            owner: owner.clone(),
            link: Link::new(),
            state: LockedBy::new(owner.state_lock(), NodeState::new()),
            place: Link::new(),
        });
        Arc::init(node, GFP_KERNEL)
    }
}

impl ProcessState {
    /// Adds a node that is in no tree, and of which the caller has another reference.
    fn add_node(&mut self, node: Arc<Node>) {
        let added = self.nodes.insert(node);
        debug_assert!(added.is_ok());
    }
}

impl Process {
    /// Keeps a node that was just forgotten, with what was removed from the tree, for the next object
    /// that the process sends, unless something else refers to it. To be called by a thread that reads,
    /// with no lock held: so the process has not ended, and its end drops the spare node.
    #[inline(never)] // Where it is called, calls without objects would pay for it.
    pub(crate) fn keep_node(&self, node: Arc<Node>, removed: RemovedNode) {
        // First, because it refers to the node.
        drop(removed);
        let Some(node) = Arc::into_unique_or_drop(node) else {
            return;
        };
        let mut state = self.lock_state();
        node.state.access_mut(&mut state).counted = None;
        let before = state.spare_node.replace(SpareNode(node));
        drop(state);
        drop(before);
    }

    /// Returns the node of this name, pinned. Makes it with these flags if the process has not sent it
    /// before.
    ///
    /// Fails with `EINVAL` if it was sent with another cookie or a count is full, with `ENOMEM`
    /// also if the process has as many nodes as its limit allows.
    pub(crate) fn pin_node(
        self: &Arc<Self>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<Arc<Node>> {
        let node = match self.pin_without_memory(name, flags)? {
            Some(node) => node,
            None => self.pin_new_node(name, flags)?,
        };
        if node.name.cookie != name.cookie {
            node.unpin();
            return Err(EINVAL);
        }
        Ok(node)
    }

    /// Returns the node of this name, pinned: one that the process has, or the spare one.
    fn pin_without_memory(&self, name: NodeName, flags: NodeFlags) -> Result<Option<Arc<Node>>> {
        let mut state = self.lock_state();
        let node = match state.nodes.get(name.ptr) {
            Some(node) => Arc::from(node),
            None => {
                limits().nodes.check(state.nodes.len())?;
                let Some(spare) = state.spare_node.take() else {
                    return Ok(None);
                };
                let node = spare.renew(name, flags, &mut state);
                state.add_node(node.clone());
                node
            }
        };
        node.pin(&mut state).map_err(|Uncounted| EINVAL)?;
        Ok(Some(node))
    }

    fn pin_new_node(self: &Arc<Self>, name: NodeName, flags: NodeFlags) -> Result<Arc<Node>> {
        let ours = Node::new(self, name, flags)?;
        let mut state = self.lock_state();
        let node = match state.nodes.get(name.ptr) {
            // Another thread has inserted this node meanwhile; `ours` is freed after the lock is
            // released.
            Some(theirs) => Arc::from(theirs),
            None => {
                limits().nodes.check(state.nodes.len())?;
                state.add_node(ours.clone());
                ours.clone()
            }
        };
        let pinned = node.pin(&mut state);
        drop(state);
        pinned.map(|()| node).map_err(|Uncounted| EINVAL)
    }
}
