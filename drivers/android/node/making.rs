// SPDX-License-Identifier: GPL-2.0

//! How a process comes by the node of an object that it sends: it has the node already, or renews the
//! one that it has kept since that was forgotten, or allocates one.
//!
//! An object that is sent, dropped by all its receivers, and sent again would otherwise allocate and
//! free three pieces of memory each time.

use super::{Life, Node, NodeState, RemovedNode, Standing, TreeReservation, UpdateQueue};
use crate::{
    common::{
        limits::limits,
        stats::{next_debug_id, Counted, Kind}, //
    },
    defs::{NodeFlags, NodeName},
    process::{Process, ProcessState},
    pure::{
        node_counts::{NodeCounts, Uncounted},
        priority_rules::NodePriority,
        registrations::Registrations, //
    },
    work::{WorkQueue, WorkTicket}, //
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::{Arc, LockedBy, UniqueArc}, //
};

/// A node that its owner has forgotten, for the next object that it sends. Nothing else refers to it.
pub(crate) struct SpareNode(Pin<UniqueArc<Node>>);

impl SpareNode {
    /// Returns the node under this name, and its place in the tree of the owner.
    fn renew(
        self,
        name: NodeName,
        flags: NodeFlags,
        owner: &mut ProcessState,
    ) -> Option<(Arc<Node>, TreeReservation)> {
        let Self(mut node) = self;
        node.debug_id = next_debug_id();
        node.name = name;
        node.flags = flags;
        node.priority = NodePriority::new(flags);
        let standing = core::mem::replace(&mut node.standing, Standing::object());
        let Standing::Spare(place) = standing else {
            return None; // Only nodes with a place are kept.
        };
        let node = Arc::from(node);
        // Nothing refers to a node that is forgotten, so all its counts are 0 and its queues empty.
        node.state.access_mut(owner).life = Life::Known;
        Some((node, place))
    }
}

impl Standing {
    fn object() -> Self {
        Self::Object {
            _counted: Counted::new(Kind::Node),
        }
    }
}

impl NodeState {
    fn new(ticket: WorkTicket) -> Self {
        Self {
            counts: NodeCounts::new(),
            life: Life::Known,
            node_update: UpdateQueue::NotQueued(ticket),
            is_busy: false,
            waiting: WorkQueue::new(),
            death_registrations: Registrations::new(),
        }
    }
}

impl Node {
    /// Allocates a node without references, and the place for it in its owner's tree.
    fn new(
        owner: &Arc<Process>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<(Arc<Self>, TreeReservation)> {
        let ticket = WorkTicket::new(GFP_KERNEL)?;
        let position = ticket.position();
        let priority = NodePriority::new(flags);
        // Initialised in place, because it is large.
        let node = init!(Self {
            debug_id: next_debug_id(),
            name,
            flags,
            priority,
            owner: owner.clone(),
            position,
            state: LockedBy::new(owner.state_lock(), NodeState::new(ticket)),
            standing: Standing::object(),
        });
        let node = Arc::init(node, GFP_KERNEL)?;
        Ok((node, RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

impl Process {
    /// Keeps a node that was just forgotten, whose entry of the tree this was, for the next object that
    /// the process sends, unless something else refers to it. To be called by a thread that reads, with
    /// no lock held: so the process has not ended, and its end drops the spare node.
    #[inline(never)] // Where it is called, calls without objects would pay for it.
    pub(crate) fn keep_node(&self, node: Arc<Node>, removed: RemovedNode) {
        // First, because the entry refers to the node.
        let place = removed.into_reservation();
        let Some(mut node) = Arc::into_unique_or_drop(node) else {
            return;
        };
        node.standing = Standing::Spare(place);
        let before = self.lock_state().spare_node.replace(SpareNode(node));
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
        let node = match state.nodes.get(&name.ptr) {
            Some(node) => node.clone(),
            None => {
                limits().nodes.check(state.nodes.len())?;
                let Some(spare) = state.spare_node.take() else {
                    return Ok(None);
                };
                let Some((node, place)) = spare.renew(name, flags, &mut state) else {
                    return Ok(None);
                };
                state.nodes.insert(place.into_node(name.ptr, node.clone()));
                node
            }
        };
        node.pin(&mut state).map_err(|Uncounted| EINVAL)?;
        Ok(Some(node))
    }

    fn pin_new_node(self: &Arc<Self>, name: NodeName, flags: NodeFlags) -> Result<Arc<Node>> {
        let (ours, reservation) = Node::new(self, name, flags)?;
        let mut state = self.lock_state();
        let node = match state.nodes.get(&name.ptr) {
            // Another thread has inserted this node meanwhile; `ours` is freed after the lock is
            // released.
            Some(theirs) => theirs.clone(),
            None => {
                limits().nodes.check(state.nodes.len())?;
                state
                    .nodes
                    .insert(reservation.into_node(name.ptr, ours.clone()));
                ours.clone()
            }
        };
        let pinned = node.pin(&mut state);
        drop(state);
        pinned.map(|()| node).map_err(|Uncounted| EINVAL)
    }
}
