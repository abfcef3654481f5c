// SPDX-License-Identifier: GPL-2.0

//! How a process comes by the node of an object that it sends: it has the node already, or renews
//! the one that it has kept since that was forgotten, or allocates one.
//!
//! An object that is sent, dropped by all its receivers, and sent again would otherwise allocate
//! and free memory each time.

use super::{Node, NodeState, RemovedNode};
use crate::{
    common::{
        limits::limits,
        stats::{next_debug_id, Counted, Kind}, //
    },
    defs::NodeName,
    kernel_ext::{
        link::{Branches, Link, LinkedQueue, Unplaced},
        owned_by::OwnedBy, //
    },
    process::{Process, ProcessState},
    pure::{
        node_counts::{Life, NodeCounts, Uncounted},
        priority_rules::{NodeFlags, NodePriority}, //
    },
};
use kernel::{
    prelude::*,
    sync::{Arc, UniqueArc}, //
};

/// A node that its owner has forgotten, for the next object that it sends. Nothing else refers to
/// it.
pub(crate) struct SpareNode(Pin<UniqueArc<Node>>);

impl SpareNode {
    /// Returns the node under this name.
    fn renew(self, name: NodeName, flags: NodeFlags, owner: &mut ProcessState) -> Unplaced<Node> {
        let Self(mut node) = self;
        node.debug_id = next_debug_id();
        node.name = name;
        node.priority = NodePriority::new(flags);
        node.counted = Some(Counted::new(Kind::Node));
        // Nothing refers to a node that is forgotten, so all its counts are 0 and its queues empty.
        node.state.access_mut(owner).counts.life = Life::Known;
        Unplaced::new(Pin::into_inner(node))
    }
}

impl NodeState {
    fn new() -> Self {
        Self {
            counts: NodeCounts::new(),
            updated_thread: None,
            waiting: LinkedQueue::new(),
            death_registrations: LinkedQueue::new(),
        }
    }
}

impl Node {
    /// Allocates a node without references.
    fn new(owner: &Arc<Process>, name: NodeName, flags: NodeFlags) -> Result<Unplaced<Self>> {
        // Initialised in place, because it is large.
        let node = init!(Self {
            debug_id: next_debug_id(),
            name,
            priority: NodePriority::new(flags),
            counted: Some(Counted::new(Kind::Node)),
            link: Link::new(),
            place: Branches::new(),
            state: OwnedBy::new(owner.clone(), NodeState::new()),
        });
        Ok(Unplaced::new(UniqueArc::init(node, GFP_KERNEL)?))
    }
}

impl ProcessState {
    /// Adds a node whose name no other one has. Returns another reference.
    fn add_node(&mut self, node: Unplaced<Node>) -> Arc<Node> {
        let added = node.object().clone();
        self.nodes.insert_unplaced(node);
        added
    }
}

impl Process {
    /// Keeps a node that was just forgotten, with what was removed from the tree, for the next
    /// object that the process sends, unless something else refers to it. To be called by a thread
    /// that reads, with no lock held: so the process has not ended, and its end drops the spare
    /// node.
    #[inline(never)] // Where it is called, calls without objects would pay for it.
    pub(crate) fn keep_node(&self, node: Arc<Node>, removed: RemovedNode) {
        // First, because it refers to the node.
        drop(removed);
        let Some(mut node) = Arc::into_unique_or_drop(node) else {
            return;
        };
        node.counted = None;
        let mut state = self.lock_state();
        let before = state.spare_node.replace(SpareNode(node));
        drop(state);
        drop(before);
    }

    /// Returns the node of this pointer, pinned. Makes it with this name and these flags if the
    /// process has not sent it before.
    ///
    /// Fails with `EINVAL` if a count is full, with `ENOMEM` also if the process has as many nodes
    /// as its limit allows.
    pub(crate) fn pin_node_of_pointer(
        self: &Arc<Self>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<Arc<Node>> {
        match self.pin_without_memory(name, flags)? {
            Some(node) => Ok(node),
            None => self.pin_new_node(name, flags),
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
                state.add_node(node)
            }
        };
        node.pin(&mut state).map_err(|Uncounted| EINVAL)?;
        Ok(Some(node))
    }

    fn pin_new_node(self: &Arc<Self>, name: NodeName, flags: NodeFlags) -> Result<Arc<Node>> {
        let ours = Node::new(self, name, flags)?;
        let mut state = self.lock_state();
        let (node, unused) = match state.nodes.get(name.ptr).map(Arc::from) {
            // Another thread has inserted this node meanwhile; `ours` is freed after the lock is
            // released.
            Some(theirs) => (theirs, Some(ours)),
            None => {
                limits().nodes.check(state.nodes.len())?;
                (state.add_node(ours), None)
            }
        };
        let pinned = node.pin(&mut state);
        drop(state);
        drop(unused);
        pinned.map(|()| node).map_err(|Uncounted| EINVAL)
    }
}
