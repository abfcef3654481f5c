// SPDX-License-Identifier: GPL-2.0

//! A node: an object that a process offers to others. It has a name, counts, and a record of what
//! its owner knows of the counts.
//!
//! A node is in its owner's tree from the first time that the owner sends it until no reference to
//! it exists and the owner has read so. Other processes hold it through the handles of
//! [`crate::handles`]; an `Arc<Node>` alone keeps the memory, not the object. The state is guarded
//! by the owner's state lock, also after the owner's death.

mod lowered;
mod making;

pub(crate) use lowered::{EndedUse, NodeInUse};
pub(crate) use making::SpareNode;

use lowered::AfterCountChange;

use crate::{
    common::stats::Counted,
    defs::{NodeDebugInfo, NodeName},
    kernel_ext::{
        link::{has_field, Branches, Keyed, Link, LinkedQueue},
        owned_by::OwnedBy,
        park::WakeHint,
        sched, //
    },
    notification::DeathNotification,
    process::{Process, ProcessState},
    pure::{
        node_counts::{Life, NodeCounts, NodeUpdate, Strength, Uncounted},
        priority_rules::{NodeFlags, NodePriority}, //
    },
    thread::Thread,
    transaction::{CallStage, Transaction, TransactionBox},
    work::{Wake, Waking, Work}, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An object that a process offers.
pub(crate) struct Node {
    /// Its number in logs and trace events; not unique for ever, so it identifies nothing in the
    /// driver.
    pub(crate) debug_id: u32,
    /// The name that the owner gave it.
    pub(crate) name: NodeName,
    /// The flags that the owner sent when the node became known, and the priority at which its
    /// calls are served.
    pub(crate) priority: NodePriority,
    /// Absent while the node is a spare one.
    counted: Option<Counted>,
    /// The place of its node update in a work queue.
    link: Link,
    /// Its place in the owner's tree, in which no other node has its name.
    place: Branches,
    /// What changes, and the process that offers the node.
    state: OwnedBy<NodeState, Process, ProcessState>,
}

has_field!(impl for Node, link: Link);
has_field!(impl for Node, place: Branches);

/// The owner's nodes are ordered by the pointer in their name.
impl Keyed for Node {
    type Room = Branches;

    fn key(&self) -> u64 {
        self.name.ptr
    }
}

// With its count of references, as large as the kernel's allocator has room for before the next
// size.
const _: () = assert!(size_of::<Node>() <= 120);

/// The state of a node that changes.
struct NodeState {
    counts: NodeCounts,
    /// The thread of the owner for which the node update is queued, if it is queued for one: the
    /// node waits by its link in the queue of that thread, or else in that of the owner, or
    /// nowhere.
    ///
    /// This is never the last reference to the thread: as long as a node update is in its queue,
    /// either the thread has not ended, or the operation that queued the update still holds a
    /// reference.
    updated_thread: Option<Arc<Thread>>,
    /// The oneway calls that wait until those before them have ended.
    waiting: LinkedQueue<Work>,
    /// Death notifications of the holders that are notified when the owner dies.
    death_registrations: LinkedQueue<Arc<DeathNotification>>,
}

/// Which count of a node went down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fell {
    /// That of a call, or the strong one of a handle.
    Use,
    /// One by which somebody has the name of the node: of a handle, of an object in a buffer, or of
    /// a confirmation.
    Name,
}

/// A death notification that was taken out to be notified.
pub(crate) struct FirstToNotify {
    pub(crate) notification: Arc<DeathNotification>,
    /// Whether no other notification was left.
    pub(crate) is_last: bool,
}

/// A node that was removed from the owner's tree: to be dropped after the lock is released.
pub(crate) type RemovedNode = Arc<Node>;

impl NodeState {
    fn pop_death_registration(&mut self) -> Option<FirstToNotify> {
        let notification = self.death_registrations.pop_front()?;
        Some(FirstToNotify {
            notification,
            is_last: self.death_registrations.is_empty(),
        })
    }
}

impl Node {
    /// Returns a copy of the counts.
    pub(crate) fn counts(&self, owner: &ProcessState) -> NodeCounts {
        self.state.access(owner).counts.clone()
    }

    /// Returns whether a oneway call of the node is queued or being handled.
    pub(crate) fn is_busy(&self, owner: &ProcessState) -> bool {
        self.state.access(owner).counts.is_busy
    }

    /// Returns the oneway calls that wait until those before them have ended.
    pub(crate) fn waiting<'a>(&'a self, owner: &'a ProcessState) -> &'a LinkedQueue<Work> {
        &self.state.access(owner).waiting
    }

    /// Returns the process that offers it.
    #[inline(always)] // It is a field.
    pub(crate) fn owner(&self) -> &Arc<Process> {
        self.state.owner()
    }

    /// Returns the flags that the owner sent when the node became known.
    pub(crate) fn flags(&self) -> NodeFlags {
        self.priority.flags()
    }

    /// Adds a pin, which keeps the node from being forgotten while a transaction that names it is
    /// under construction. Fails if the count is full.
    pub(crate) fn pin(&self, owner: &mut ProcessState) -> Result<(), Uncounted> {
        self.state.access_mut(owner).counts.pin()
    }

    /// Removes a pin that [`Self::pin`] added.
    pub(crate) fn unpin(self: &Arc<Self>) {
        self.lower(|counts| counts.unpin());
    }

    /// Makes this the node that handle 0 means. Fails if a count is full.
    pub(crate) fn become_manager(&self, owner: &mut ProcessState) -> Result<(), Uncounted> {
        self.state.access_mut(owner).counts.become_manager()
    }

    /// Adds the strong local count of a call that is about to be queued for this node, which keeps
    /// the node in use until the buffer of the call is freed.
    ///
    /// Fails if the last strong handle was dropped meanwhile and the owner may have read so.
    pub(crate) fn begin_call(&self, owner: &mut ProcessState) -> Result<(), Uncounted> {
        let state = self.state.access_mut(owner);
        match state.counts.life {
            Life::Known => state.counts.add_local(Strength::Strong),
            Life::Forgotten | Life::Orphaned => Err(Uncounted),
        }
    }

    /// Adds a local count: a buffer of the owner names the node from now on, and the owner receives
    /// its own object.
    ///
    /// Fails if the handle by which the sender names the node was dropped meanwhile and the owner
    /// may have read so.
    pub(crate) fn add_local(&self, strength: Strength) -> Result<(), Uncounted> {
        let mut owner = self.owner().lock_state();
        let state = self.state.access_mut(&mut owner);
        match state.counts.life {
            Life::Known => state.counts.add_local(strength),
            Life::Forgotten => Err(Uncounted),
            // Local counts of an owner that has died mean nothing.
            Life::Orphaned => Ok(()),
        }
    }

    /// Removes a local count: a buffer of the owner no longer names the node in its data.
    pub(crate) fn drop_local(self: &Arc<Self>, strength: Strength) {
        self.lower(|counts| counts.drop_local(strength));
    }

    /// Ends a call for this node whose buffer was not delivered: undoes [`Self::begin_call`], and
    /// that the call is outstanding for the owner. To be called with no lock held.
    pub(crate) fn end_call(self: &Arc<Self>) {
        let mut owner = self.owner().lock_state();
        let freezers = owner.freeze.end_transaction();
        let after = self.end_use_locked(&mut owner);
        let is_needed = freezers.is_needed() || AfterCountChange::is_wake_needed(after.as_ref());
        sched::unpreempted_if(is_needed, || {
            drop(owner);
            AfterCountChange::wake(after.as_ref(), self.owner());
            self.owner().wake_freezers(freezers);
        });
    }

    /// Counts a handle for the node: as a new ref, as a strong one, or both.
    ///
    /// `sender` is the thread that sends a node of its own process: it reads the node update before
    /// it reads anything about the transaction. Without a sender, the node has to be in use already
    /// (contract NODE-11). Fails if it is not, or if the node is forgotten.
    pub(crate) fn raise(
        self: &Arc<Self>,
        is_new: bool,
        strength: Strength,
        sender: Option<&Arc<Thread>>,
    ) -> Result<(), Uncounted> {
        let mut owner = self.owner().lock_state();
        let state = self.state.access_mut(&mut owner);
        let strong = strength == Strength::Strong;
        let is_unused = strong && sender.is_none() && !state.counts.has_strong();
        if state.counts.life == Life::Forgotten || is_unused {
            return Err(Uncounted);
        }
        state.counts.raise(is_new, strong)?;
        if let (Some(sender), true) = (sender, state.counts.life == Life::Known) {
            self.queue_for_sender(&mut owner, sender, strong);
        }
        Ok(())
    }

    /// Stops counting a handle for the node: as a strong one, as a ref, or both. To be called
    /// without the owner's state lock.
    pub(crate) fn release(self: &Arc<Self>, was_last: bool, was_strong: bool) {
        let mut owner = self.owner().lock_state();
        let state = self.state.access_mut(&mut owner);
        state.counts.lower(was_last, was_strong);
        let fell = if was_last { Fell::Name } else { Fell::Use };
        let after = self.settle(&mut owner, fell);
        AfterCountChange::finish(after, owner, self.owner());
    }

    /// Confirms a count: the owner has read of it and answers. Returns `false` if no confirmation
    /// was pending.
    pub(crate) fn confirm(self: &Arc<Self>, strength: Strength) -> bool {
        let mut is_pending = false;
        self.lower(|counts| is_pending = counts.confirm(strength));
        is_pending
    }

    /// Takes the node update, which the owner reads: returns what to write for it and, if the node
    /// is to be forgotten, its entry of the owner's tree.
    pub(crate) fn take_update(
        &self,
        owner: &mut ProcessState,
    ) -> (NodeUpdate, Option<RemovedNode>) {
        let state = self.state.access_mut(owner);
        state.updated_thread = None;
        if state.counts.life != Life::Known {
            return (NodeUpdate::default(), None);
        }
        let update = state.counts.take_update();
        let mut removed = None;
        if update.forget {
            state.counts.life = Life::Forgotten;
            removed = owner.nodes.take(self);
        }
        (update, removed)
    }

    /// Records that the node update moves from the queue of an ending thread to that of the
    /// process.
    pub(crate) fn move_update_to_process(&self, owner: &mut ProcessState) {
        self.state.access_mut(owner).updated_thread = None;
    }

    /// Ends the counts of an owner that dies. Returns the waiting oneway calls, which will not be
    /// handled and are to be dropped without the lock, and the first death notification to be
    /// notified.
    pub(crate) fn orphan(
        &self,
        owner: &mut ProcessState,
    ) -> (LinkedQueue<Work>, Option<FirstToNotify>) {
        let state = self.state.access_mut(owner);
        // A node that was forgotten after the owner began to end stays so: no handle on it exists.
        if state.counts.life == Life::Known {
            state.counts.orphan();
        }
        let waiting = core::mem::replace(&mut state.waiting, LinkedQueue::new());
        (waiting, state.pop_death_registration())
    }

    /// Registers a death notification, whose place is free. Returns `false` if the node is dead
    /// already.
    pub(crate) fn add_death_registration(&self, notification: &Arc<DeathNotification>) -> bool {
        let mut owner = self.owner().lock_state();
        let state = self.state.access_mut(&mut owner);
        if state.counts.life == Life::Orphaned {
            return false;
        }
        let registered = state.death_registrations.push(notification.clone());
        debug_assert!(registered.is_ok());
        true
    }

    /// Removes the registration of a death notification. Returns it, to be dropped without the
    /// lock, or nothing if it was taken out to be notified.
    pub(crate) fn remove_death_registration(
        &self,
        notification: &DeathNotification,
    ) -> Option<Arc<DeathNotification>> {
        let mut owner = self.owner().lock_state();
        self.state
            .access_mut(&mut owner)
            .death_registrations
            .take(notification)
    }

    /// Takes out the next registered death notification.
    pub(crate) fn pop_death_registration(&self) -> Option<FirstToNotify> {
        let mut owner = self.owner().lock_state();
        self.state.access_mut(&mut owner).pop_death_registration()
    }

    /// Takes the turn of a oneway call that is about to be queued. Returns `false` if it has to
    /// wait, because another one is queued or being handled. The node is busy from now on.
    pub(crate) fn take_turn(&self, owner: &mut ProcessState) -> bool {
        !core::mem::replace(&mut self.state.access_mut(owner).counts.is_busy, true)
    }

    /// Queues a oneway call until those before it have ended.
    pub(crate) fn push_waiting_oneway(
        &self,
        owner: &mut ProcessState,
        transaction: TransactionBox,
    ) {
        let waiting = &mut self.state.access_mut(owner).waiting;
        let queued = waiting.push(Work::Call(transaction));
        debug_assert!(queued.is_ok());
    }

    /// Takes out the waiting oneway call that `newer` supersedes, if one exists. To be dropped
    /// without the lock.
    pub(crate) fn take_superseded(
        &self,
        owner: &mut ProcessState,
        newer: &Transaction,
    ) -> Option<Work> {
        // Most calls may not supersede another; this check saves them the search, whose cost grows
        // with the number of waiting calls.
        if !newer.may_supersede() {
            return None;
        }
        let waiting = &mut self.state.access_mut(owner).waiting;
        waiting.take_first(|work| matches!(work, Work::Call(call) if call.is_superseded_by(newer)))
    }

    /// Ends the oneway call that the node is busy with, and queues the next one for the owner. To
    /// be called with no lock held.
    pub(crate) fn end_oneway(&self) {
        let mut owner = self.owner().lock_state();
        let wake = self.begin_next_oneway(&mut owner);
        wake.after(owner, self.owner(), WakeHint::Anywhere);
    }

    /// The same, and then ends the use of the node by that call, whose buffer is freed. To be
    /// called with no lock held.
    #[inline(never)] // All commands would have its stack frame.
    pub(crate) fn end_oneway_use(self: &Arc<Self>) {
        let mut owner = self.owner().lock_state();
        let wake = self.begin_next_oneway(&mut owner);
        let after = self.end_use_locked(&mut owner);
        let is_needed = wake.is_needed() || AfterCountChange::is_wake_needed(after.as_ref());
        sched::unpreempted_if(is_needed, || {
            drop(owner);
            wake.now(self.owner(), WakeHint::Anywhere);
            AfterCountChange::wake(after.as_ref(), self.owner());
        });
    }

    fn begin_next_oneway(&self, owner: &mut ProcessState) -> Wake {
        let state = self.state.access_mut(owner);
        match state.waiting.pop_front() {
            Some(Work::Call(mut next)) => {
                next.set_stage(CallStage::HasTurn);
                owner.push_to_process(Work::Call(next))
            }
            _ => {
                state.counts.is_busy = false;
                Wake::Nobody
            }
        }
    }

    /// Returns whether the owner knows that strong and weak references exist.
    pub(crate) fn owner_refs(&self, owner: &mut ProcessState) -> (bool, bool) {
        self.state.access_mut(owner).counts.owner_refs()
    }

    /// Returns the number of strong counts of all kinds, and of local weak counts.
    pub(crate) fn totals(&self) -> (u32, u32) {
        let mut owner = self.owner().lock_state();
        self.state.access_mut(&mut owner).counts.totals()
    }

    /// Applies `change`, which lowers counts of the owner itself by which it has the name, and does
    /// what follows from it.
    fn lower(self: &Arc<Self>, change: impl FnOnce(&mut NodeCounts)) {
        let mut owner = self.owner().lock_state();
        let after = self.lower_locked(&mut owner, change, Fell::Name);
        AfterCountChange::finish(after, owner, self.owner());
    }

    /// Removes the strong local count of a call.
    #[inline]
    fn end_use_locked(self: &Arc<Self>, owner: &mut ProcessState) -> Option<AfterCountChange> {
        let end_use = |counts: &mut NodeCounts| counts.drop_local(Strength::Strong);
        self.lower_locked(owner, end_use, Fell::Use)
    }

    #[inline]
    fn lower_locked(
        self: &Arc<Self>,
        owner: &mut ProcessState,
        change: impl FnOnce(&mut NodeCounts),
        fell: Fell,
    ) -> Option<AfterCountChange> {
        let state = self.state.access_mut(owner);
        // The owner's counts ended with the owner, and a node that has any is not forgotten.
        if state.counts.life == Life::Known {
            change(&mut state.counts);
        }
        self.settle(owner, fell)
    }

    /// Queues a node update for the owner after counts went down, or forgets the node. Returns what
    /// is left to do, if anything.
    #[inline]
    fn settle(self: &Arc<Self>, owner: &mut ProcessState, fell: Fell) -> Option<AfterCountChange> {
        let state = self.state.access_mut(owner);
        if state.counts.life != Life::Known || state.counts.is_known_to_be_held() {
            // No owner reads of it, or there is nothing to read.
            return None;
        }
        self.update(owner, fell)
    }

    /// The same if there may be something to do.
    #[inline(never)]
    fn update(self: &Arc<Self>, owner: &mut ProcessState, fell: Fell) -> Option<AfterCountChange> {
        let state = self.state.access_mut(owner);
        if state.counts.is_unreferenced() {
            // Nobody has read of it, so an update that is queued goes with it, as in the C driver.
            state.counts.life = Life::Forgotten;
            self.unqueue_update(owner, None);
            return Some(AfterCountChange {
                wake: Wake::Nobody,
                _removed: owner.nodes.take(self),
            });
        }
        // The release has its place among what the owner reads when the last name goes, even if
        // calls use the node until it is read (contract NODE-7).
        let is_due = state.counts.has_update_after_fall()
            || (fell == Fell::Name && state.counts.is_only_used());
        // An update that is queued already shows the counts of the time when it is read.
        if self.link.is_used() || !is_due {
            return None;
        }
        Some(AfterCountChange {
            wake: owner.push_to_process(Work::Node(self.clone())),
            _removed: None,
        })
    }

    /// Queues the node update for the thread that sends the node, so that it reads the update no
    /// later than the end of the transaction. An update that it has to read at once (strong) is
    /// taken out of whichever queue it is in.
    fn queue_for_sender(
        self: &Arc<Self>,
        owner: &mut ProcessState,
        sender: &Arc<Thread>,
        strong: bool,
    ) {
        let state = self.state.access_mut(owner);
        let (owner_has_strong, owner_has_weak) = state.counts.owner_refs();
        let is_held_by_owner = if strong {
            owner_has_strong
        } else {
            owner_has_weak
        };
        if is_held_by_owner || (self.link.is_used() && !strong) {
            return;
        }
        self.unqueue_update(owner, Some(sender.clone()));
        // Deferred work wakes no thread, and the sender is running.
        let _ = owner.push_to_thread(sender, Work::Node(self.clone()), Waking::Deferred);
    }

    /// Takes the node update out of whichever queue it is in, if it is in one. `next` is the thread
    /// for which the update is to be queued now, if for any.
    fn unqueue_update(&self, owner: &mut ProcessState, next: Option<Arc<Thread>>) {
        let state = self.state.access_mut(owner);
        // The queued work is a reference to this node, and not the last one, since the caller has
        // another.
        match core::mem::replace(&mut state.updated_thread, next) {
            Some(thread) => thread.state(owner).take_update(self),
            None if self.link.is_used() => drop(owner.work.take(self)),
            None => {}
        }
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
        let info = next.as_ref().map_or(NodeDebugInfo::default(), |node| {
            let (has_strong, has_weak) = node.owner_refs(&mut state);
            NodeDebugInfo {
                ptr: node.name.ptr,
                cookie: node.name.cookie,
                has_strong_ref: has_strong.into(),
                has_weak_ref: has_weak.into(),
            }
        });
        // Either the tree still has the node, or `next` is freed here, after the lock is released.
        drop(state);
        info
    }
}
