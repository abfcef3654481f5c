// SPDX-License-Identifier: GPL-2.0

//! How a process comes by the node of an object that it sends: it has the node already, or renews
//! the one that it has kept since that was forgotten, or allocates one.
//!
//! An object that is sent, dropped by all its receivers, and sent again would otherwise allocate
//! and free memory each time.

use super::{Node, NodeState};
use crate::{
    common::{
        limits::limits,
        stats::{next_debug_id, Counted, Kind}, //
    },
    defs::NodeName,
    kernel_ext::{
        box_queue::SmallQueue,
        link::{Branches, Link},
        linked_tree::Unplaced,
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

impl ProcessState {
    /// Adds a node whose name no other one has. Returns another reference.
    fn add_node(&mut self, node: Unplaced<Node>) -> Arc<Node> {
        let added = node.object().clone();
        self.nodes.insert_unplaced(node);
        added
    }

    /// Adds the spare node, if there is one, under a name that no other one has.
    fn add_spare_node(&mut self, name: NodeName, flags: NodeFlags) -> Option<Arc<Node>> {
        let mut node = self.spare_node.take()?;
        node.debug_id = next_debug_id();
        node.name = name;
        node.priority = NodePriority::new(flags);
        node.counted = Some(Counted::new(Kind::Node));
        // Nothing refers to a node that is forgotten, so all its counts are 0 and its queues empty.
        node.state.access_mut(self).counts.life = Life::Known;
        Some(self.add_node(Unplaced::new(Pin::into_inner(node))))
    }
}

impl Node {
    /// Allocates a node without references.
    fn new(owner: &Arc<Process>, name: NodeName, flags: NodeFlags) -> Result<Unplaced<Self>> {
        let state = NodeState {
            counts: NodeCounts::new(),
            updated_thread: None,
            waiting: SmallQueue::new(),
            death_registrations: SmallQueue::new(),
        };
        // Initialised in place, because it is large.
        let node = init!(Self {
            debug_id: next_debug_id(),
            name,
            priority: NodePriority::new(flags),
            counted: Some(Counted::new(Kind::Node)),
            link: Link::new(),
            place: Branches::new(),
            state: OwnedBy::new(owner.clone(), state),
        });
        Ok(Unplaced::new(UniqueArc::init(node, GFP_KERNEL)?))
    }
}

impl Process {
    /// Keeps a node that was just forgotten for the next object that the process sends, unless
    /// something else refers to it. To be called by a thread that reads, with no lock held: so the
    /// process has not ended, and its end drops the spare node.
    #[inline(never)] // Where it is called, calls without objects would pay for it.
    pub(crate) fn keep_node(&self, node: Arc<Node>) {
        let Some(mut node) = Arc::into_unique_or_drop(node) else {
            return;
        };
        node.counted = None;
        let mut state = self.lock_state();
        let before = state.spare_node.replace(node);
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
                match state.add_spare_node(name, flags) {
                    Some(node) => node,
                    None => return Ok(None),
                }
            }
        };
        let pinned = node.counts_mut(&mut state).pin();
        pinned.map_err(|Uncounted| EINVAL)?;
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
        let pinned = node.counts_mut(&mut state).pin();
        drop(state);
        drop(unused);
        pinned.map(|()| node).map_err(|Uncounted| EINVAL)
    }
}
