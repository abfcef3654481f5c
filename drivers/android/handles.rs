// SPDX-License-Identifier: GPL-2.0

//! The handles of a process on nodes of others: the node behind each, and the counts that the
//! process holds on it.
//!
//! The table itself is [`crate::pure::handle_table`]. This file has what a handle means: strong and
//! weak counts that the process holds through it, and the node that is updated when they begin and
//! end. The lock of a table is taken before the state lock of a node's owner, never after one.

use crate::{
    common::{
        limits::limits,
        stats::{next_debug_id, Counted, Kind}, //
    },
    defs::NodeInfoForRef,
    kernel_ext::sched,
    node::Node,
    notification::{CancelledDeath, CancelledFreeze, DeathNotification, FreezeNotification},
    process::Process,
    pure::{
        handle_table::{self, HandleTable, Spare},
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

/// What one process holds on a node.
pub(crate) struct Ref {
    pub(crate) node: Arc<Node>,
    strong: u32,
    weak: u32,
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
const _: () = assert!(size_of::<(NodeKey, HandleOfNode)>() <= 40);

/// The handles of a process.
pub(crate) struct Handles {
    table: HandleTable<Ref>,
    /// The handle on each node; the process has at most one on it.
    by_node: RBTree<NodeKey, HandleOfNode>,
    /// The memory of an entry of `by_node` for the next handle.
    spare_place: Option<Place>,
}

/// The memory of an entry of [`Handles::by_node`].
type Place = RBTreeNodeReservation<NodeKey, HandleOfNode>;

/// The address of a node. It is unique at any time, and a ref keeps its node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NodeKey(usize);

impl NodeKey {
    fn of(node: &Arc<Node>) -> Self {
        Self(Arc::as_ptr(node).addr())
    }
}

/// A ref that was removed from the table: to be released at its node and dropped after the lock is
/// released.
struct Removed {
    from_table: handle_table::Removed<Ref>,
    _place: Option<Place>,
}

/// The notifications that were cancelled with a ref: to be dropped after the lock is released. Most
/// refs have none.
#[derive(Default)]
struct CancelledNotifications {
    death: Option<CancelledDeath>,
    freeze: Option<CancelledFreeze>,
}

impl Handles {
    pub(crate) fn new() -> Self {
        Self {
            table: HandleTable::new(),
            by_node: RBTree::new(),
            spare_place: None,
        }
    }

    /// Returns the ref behind a handle.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut Ref> {
        self.table.get_mut(handle)
    }

    /// Returns the number of one of these refs in logs and trace events.
    pub(crate) fn debug_id(&self, reference: &Ref) -> u32 {
        let found = self.by_node.get(&NodeKey::of(&reference.node));
        found.map_or(0, |of_node| of_node.debug_id)
    }

    /// Calls `each` with the handles of the first leaf of the table that has any from `from` on, in
    /// ascending order. Returns where the next ones may begin; nothing if there are no more.
    pub(crate) fn visit_leaf(&self, from: u32, mut each: impl FnMut(u32, &Ref)) -> Option<u32> {
        let (few, next) = self.table.leaf_from(from)?;
        few.for_each(|(handle, reference)| each(handle, reference));
        u32::try_from(next).ok()
    }

    #[inline]
    fn remove(
        &mut self,
        handle: u32,
        notifications: &mut CancelledNotifications,
    ) -> Option<Removed> {
        let mut from_table = self.table.remove(handle)?;
        let reference = &mut from_table.value;
        let entry = self.by_node.remove_node(&NodeKey::of(&reference.node));
        let mut place = entry.map(RBTreeNode::into_reservation);
        if self.spare_place.is_none() {
            self.spare_place = place.take();
        }
        reference.cancel_notifications(notifications);
        Some(Removed {
            from_table,
            _place: place,
        })
    }
}

impl Ref {
    /// Cancels the notifications that the process has requested through the handle, because they
    /// end with it. To be called under the handles lock as long as the process can request another
    /// one.
    #[inline]
    fn cancel_notifications(&mut self, notifications: &mut CancelledNotifications) {
        if let Some(notification) = self.death.take() {
            let unregister = |death: &Arc<_>| self.node.remove_death_registration(death);
            notifications.death = Some(notification.cancel(unregister));
        }
        if let Some(notification) = self.freeze.take() {
            let unregister = |freeze: &Arc<_>| self.node.owner().remove_freeze_registration(freeze);
            notifications.freeze = Some(notification.cancel(unregister));
        }
    }

    /// Returns the strong and the weak counts that the process holds through the handle.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.strong, self.weak)
    }

    fn count(&mut self, strength: Strength) -> &mut u32 {
        match strength {
            Strength::Strong => &mut self.strong,
            Strength::Weak => &mut self.weak,
        }
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

    /// Returns the debug id of the ref behind a handle.
    pub(crate) fn debug_id_of_handle(&self, handle: u32) -> Option<u32> {
        let handles = self.handles.lock();
        handles
            .table
            .get(handle)
            .map(|reference| handles.debug_id(reference))
    }

    /// Adds a count on `node`, through the handle that the process has on it or a new one. Returns
    /// the handle.
    ///
    /// `sender` is the thread of the node's owner that sends the node. Fails with `ESRCH` if the
    /// process has ended, `EINVAL` if the node is not in use any more or the count is full,
    /// `ENOMEM` also if the process has as many handles as its limit allows.
    pub(crate) fn hold_node(
        &self,
        node: &Arc<Node>,
        strength: Strength,
        sender: Option<&Arc<Thread>>,
    ) -> Result<u32> {
        let mut spare = Spare::new();
        let key = NodeKey::of(node);
        // What is needed to add a handle: its place among the nodes, and the lowest number for it.
        let mut new: Option<(Place, u32)> = None;
        loop {
            let mut handles = self.handles.lock();
            if handles.table.is_closed() {
                return Err(ESRCH);
            }
            if let Some(handle) = handles.by_node.get(&key).map(|of_node| of_node.handle) {
                let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
                return reference.raise(strength, sender).map(|()| handle);
            }
            limits().refs.check(handles.table.len())?;
            if let Some(lowest) = new.as_ref().map(|(_, lowest)| *lowest) {
                let handles = &mut *handles;
                if let Some(vacant) = handles.table.lowest_free(lowest, &mut spare) {
                    // If this fails, the place is freed after the lock is released.
                    let handle = vacant.insert(Ref::first(node, strength, sender)?);
                    if let Some((place, _)) = new.take() {
                        let found_by_node = HandleOfNode::new(handle);
                        handles.by_node.insert(place.into_node(key, found_by_node));
                    }
                    return Ok(handle);
                }
            }
            let kept = handles.spare_place.take_if(|_| new.is_none());
            drop(handles);
            if new.is_none() {
                let lowest = u32::from(!self.context.is_manager(node));
                let place = match kept {
                    Some(place) => place,
                    None => Place::new(GFP_KERNEL)?,
                };
                new = Some((place, lowest));
            }
            spare.fill(GFP_KERNEL)?;
        }
    }
}

impl Process {
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
            let mut notifications = CancelledNotifications::default();
            let removed = handles.remove(handle, &mut notifications)?;
            drop(handles);
            removed.from_table.value.node.release(true, lost_strong);
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
        let (strong_count, weak_count) = node.counts(&node.owner().lock_state()).totals();
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
        while let Some(mut removed) = table.first().and_then(|first| table.remove(first)) {
            let mut notifications = CancelledNotifications::default();
            let reference = &mut removed.value;
            reference.cancel_notifications(&mut notifications);
            reference.node.release(true, reference.strong > 0);
            // The number of handles is limited only by memory.
            sched::cond_resched();
        }
    }
}

impl HandleOfNode {
    /// Counts a ref, and gives it its number.
    fn new(handle: u32) -> Self {
        Self {
            handle,
            debug_id: next_debug_id(),
            _counted: Counted::new(Kind::Ref),
        }
    }
}

impl Ref {
    /// Returns a ref with its first count on a node. Fails as [`Self::raise`] does.
    fn first(node: &Arc<Node>, strength: Strength, sender: Option<&Arc<Thread>>) -> Result<Self> {
        let mut reference = Self {
            node: node.clone(),
            strong: 0,
            weak: 0,
            death: None,
            freeze: None,
        };
        reference.raise(strength, sender)?;
        Ok(reference)
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
