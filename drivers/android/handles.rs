// SPDX-License-Identifier: GPL-2.0

//! The handles of a process on nodes of others: the node behind each, and the counts that the
//! process holds on it.
//!
//! The table itself is [`crate::pure::handle_table`]. Its lock is taken before the state lock of
//! any process, never after one.

use crate::{
    common::{
        limits::LIMITS,
        stats::{next_debug_id, Counted, Kind}, //
    },
    death_notification::DeathNotification,
    defs::NodeInfoForRef,
    freeze_notification::FreezeNotification,
    kernel_ext::sched,
    node::Node,
    process::Process,
    pure::{
        handle_table::{HandleTable, RoomForLeaf},
        node_counts::{Strength, Uncounted},
        numbers::MOST_COUNTS, //
    },
    thread::Thread, //
};
use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::Arc, //
};

/// The reference that one process has to a node, by a handle.
pub(crate) struct Ref {
    pub(crate) node: Arc<Node>,
    pub(crate) strong: u32,
    pub(crate) weak: u32,
    /// The death notification that the process has requested, if any.
    pub(crate) death: Option<Arc<DeathNotification>>,
    /// The freeze notification that it has requested, if any.
    pub(crate) freeze: Option<Arc<FreezeNotification>>,
}

/// The handle on a node, and what of the ref behind it is seldom asked for.
struct HandleOfNode {
    handle: u32,
    /// The number of the ref in logs and trace events; see [`Node::debug_id`].
    debug_id: u32,
    _counted: Counted,
}

// As large as the kernel's allocator has room for before the next size. An item in a tree also has
// the three pointers of a tree.
const _: () = assert!(HandleTable::<Ref>::BYTES.0 <= 2048 && HandleTable::<Ref>::BYTES.1 <= 40);
const _: () = assert!(size_of::<(usize, HandleOfNode)>() <= 40);

/// The handles of a process.
pub(crate) struct Handles {
    pub(crate) table: HandleTable<Ref>,
    /// The handle on each node, by [`key_of`] the node; the process has at most one on it.
    by_node: RBTree<usize, HandleOfNode>,
    /// The memory of an entry of `by_node` for the next handle.
    spare_place: Option<PlaceByNode>,
}

/// The memory of an entry of [`Handles::by_node`].
type PlaceByNode = RBTreeNodeReservation<usize, HandleOfNode>;

/// Returns the address of a node. It is unique at any time, and a ref keeps its node.
fn key_of(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node).addr()
}

impl Handles {
    pub(crate) fn new() -> Self {
        Self {
            table: HandleTable::new(),
            by_node: RBTree::new(),
            spare_place: None,
        }
    }

    /// Returns the number of one of these refs in logs and trace events.
    pub(crate) fn debug_id(&self, reference: &Ref) -> u32 {
        let found = self.by_node.get(&key_of(&reference.node));
        found.map_or(0, |of_node| of_node.debug_id)
    }
}

impl Ref {
    /// Cancels the notifications that the process has requested through the handle, because they
    /// end with it. To be called under the handles lock as long as the process can request another
    /// one.
    #[inline]
    fn cancel_notifications(&self) {
        if let Some(death) = &self.death {
            death.cancel(&self.node);
        }
        if let Some(freeze) = &self.freeze {
            freeze.cancel(&self.node);
        }
    }

    fn count(&mut self, strength: Strength) -> &mut u32 {
        match strength {
            Strength::Strong => &mut self.strong,
            Strength::Weak => &mut self.weak,
        }
    }

    /// Adds a count, and counts it for the node if it is the first of its kind. `EINVAL` if the
    /// count is full or the node does not take it.
    fn raise(&mut self, strength: Strength, sender: Option<&Arc<Thread>>) -> Result {
        let is_new = self.strong == 0 && self.weak == 0;
        let count = *self.count(strength);
        if count == MOST_COUNTS {
            return Err(EINVAL);
        }
        if count == 0 {
            let raised = self.node.raise(is_new, strength, sender);
            raised.map_err(|Uncounted| EINVAL)?;
        }
        *self.count(strength) = count + 1;
        Ok(())
    }
}

impl Process {
    /// Returns the node behind a handle, which has to be held strongly if `strength` is strong.
    #[inline(always)] // Each call through a handle would pay for it.
    pub(crate) fn node_of_handle(&self, handle: u32, strength: Strength) -> Option<Arc<Node>> {
        let handles = self.handles.lock();
        let reference = handles.table.get(handle)?;
        if strength == Strength::Strong && reference.strong == 0 {
            return None;
        }
        Some(reference.node.clone())
    }

    /// Returns the debug id of the ref behind a handle; 0 if there is none.
    pub(crate) fn debug_id_of_handle(&self, handle: u32) -> u32 {
        let handles = self.handles.lock();
        let reference = handles.table.get(handle);
        reference.map_or(0, |reference| handles.debug_id(reference))
    }

    /// Adds a count on `node`, through the handle that the process has on it or a new one. Returns
    /// the handle.
    ///
    /// `sender` is the thread of the node's owner that sends the node. Fails with `ESRCH` if the
    /// process has ended, and with `EINVAL` if the node is not in use any more or the count is
    /// full. `ENOMEM` also means that the process has as many handles as its limit allows.
    pub(crate) fn hold_node(
        &self,
        node: &Arc<Node>,
        strength: Strength,
        sender: Option<&Arc<Thread>>,
    ) -> Result<u32> {
        let mut room = None;
        // The places that a new handle needs: its place among the nodes, and the lowest number for
        // it.
        let mut new: Option<(PlaceByNode, u32)> = None;
        loop {
            let mut handles = self.handles.lock();
            if handles.table.is_closed {
                return Err(ESRCH);
            }
            if let Some(handle) = handles.by_node.get(&key_of(node)).map(|entry| entry.handle) {
                let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
                return reference.raise(strength, sender).map(|()| handle);
            }
            LIMITS.refs.check(handles.table.len as usize)?;
            let Some(lowest) = new.as_ref().map(|(_, lowest)| *lowest) else {
                let kept = handles.spare_place.take();
                drop(handles);
                let lowest = u32::from(!self.context.is_manager(node));
                let place = kept.map_or_else(|| PlaceByNode::new(GFP_KERNEL), Ok)?;
                new = Some((place, lowest));
                continue;
            };
            let Some(handle) = handles.table.lowest_free(lowest, &mut room)? else {
                drop(handles);
                room = Some(RoomForLeaf::new()?);
                continue;
            };
            let mut reference = Ref {
                node: node.clone(),
                strong: 0,
                weak: 0,
                death: None,
                freeze: None,
            };
            // If this fails, the place is freed after the lock is released.
            reference.raise(strength, sender)?;
            handles.table.insert(handle, reference);
            if let Some((place, _)) = new.take() {
                let entry = HandleOfNode {
                    handle,
                    debug_id: next_debug_id(),
                    _counted: Counted::new(Kind::Ref),
                };
                handles.by_node.insert(place.into_node(key_of(node), entry));
            }
            return Ok(handle);
        }
    }

    /// Adds a count through a handle that the process has (contract NODE-9): a strong one only if
    /// it has a strong one already. `EINVAL` otherwise.
    pub(crate) fn hold_handle(&self, handle: u32, strength: Strength) -> Result {
        let mut handles = self.handles.lock();
        let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
        if strength == Strength::Strong && reference.strong == 0 {
            return Err(EINVAL);
        }
        reference.raise(strength, None)
    }

    /// Drops one count. The handle is removed with the last one (contract NODE-10). Returns nothing
    /// if the process has no such count.
    pub(crate) fn drop_handle(&self, handle: u32, strength: Strength) -> Option<()> {
        let mut handles = self.handles.lock();
        let reference = handles.table.get_mut(handle)?;
        let count = reference.count(strength);
        *count = count.checked_sub(1)?;
        let lost_strong = strength == Strength::Strong && reference.strong == 0;
        let is_unheld = reference.strong == 0 && reference.weak == 0;
        if is_unheld {
            // All that is removed is dropped after the lock is released.
            let mut outgrown = None;
            let reference = handles.table.remove(handle, &mut outgrown)?;
            let entry = handles.by_node.remove_node(&key_of(&reference.node));
            let mut place = entry.map(RBTreeNode::into_reservation);
            if handles.spare_place.is_none() {
                handles.spare_place = place.take();
            }
            reference.cancel_notifications();
            drop(handles);
            reference.node.release(true, lost_strong);
            // There is rarely any, and dropping none would be a call.
            if let Some(outgrown) = outgrown {
                drop(outgrown);
            }
        } else if lost_strong {
            let node = reference.node.clone();
            drop(handles);
            node.release(false, true);
        }
        Some(())
    }

    /// Returns the answer of `BINDER_GET_NODE_INFO_FOR_REF` for a strongly held handle. `EINVAL` if
    /// there is no such handle.
    pub(crate) fn node_info(&self, handle: u32) -> Result<NodeInfoForRef> {
        let node = self
            .node_of_handle(handle, Strength::Strong)
            .ok_or(EINVAL)?;
        let counts = node.counts();
        let (strong_count, weak_count) = counts.totals();
        Ok(NodeInfoForRef {
            handle,
            strong_count,
            weak_count,
            ..NodeInfoForRef::default()
        })
    }

    /// Removes all handles of a process that ends: no handle is added any more, and no task of the
    /// process uses one. They are released one by one, without the lock, from the lowest on: this
    /// is the order in which an owner reads of several nodes (contract REL-2).
    pub(crate) fn close_handles(&self) {
        let mut handles = self.handles.lock();
        let mut table = handles.table.close();
        let by_node = core::mem::replace(&mut handles.by_node, RBTree::new());
        let spare_place = handles.spare_place.take();
        drop(handles);
        drop((by_node, spare_place));
        let mut next = 0;
        while let Some(handle) = table.first_from(next) {
            next = handle;
            if let Some(reference) = table.remove(handle, &mut None) {
                reference.cancel_notifications();
                reference.node.release(true, reference.strong > 0);
            }
            // The number of handles is limited only by memory.
            sched::cond_resched();
        }
    }
}
