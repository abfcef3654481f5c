// SPDX-License-Identifier: GPL-2.0

//! An object that a process offers to others: its name, its counts, and its owner's knowledge of
//! them.
//!
//! A node is known in its owner's tree from the first time that the owner sends it until nobody
//! needs it and the owner has been told so. Others hold it through the handles of [`crate::handles`];
//! an `Arc<Node>` alone keeps the memory, not the object. The state is guarded by the owner's state
//! lock, also after the owner's death.

use crate::{
    common::stats::{Counted, Kind},
    defs::{NodeFlags, NodeName, Strength},
    kernel_ext::park::WakeHint,
    notification::DeathNotification,
    process::{Process, ProcessState},
    pure::{
        node_counts::{NodeCounts, NodeUpdate, Uncounted},
        priority_rules::NodePriority, //
        registrations::{Place, Popped, Registrations},
    },
    thread::Thread,
    transaction::{Transaction, Turn},
    work::{Urgency, Wake, Work, WorkPosition, WorkQueue, WorkTicket}, //
};
use kernel::{
    prelude::*,
    rbtree::{RBTreeNode, RBTreeNodeReservation},
    sync::{Arc, LockedBy}, //
};

/// An object that a process offers.
pub(crate) struct Node {
    /// What the owner calls it.
    pub(crate) name: NodeName,
    /// What the owner asked for when the node became known.
    pub(crate) flags: NodeFlags,
    /// What they say of the priority at which its calls are served.
    pub(crate) priority: NodePriority,
    /// The process that offers it.
    pub(crate) owner: Arc<Process>,
    /// Where its news wait, when they do.
    position: WorkPosition,
    state: LockedBy<NodeState, ProcessState>,
    _counted: Counted,
}

/// What changes in the life of a node.
struct NodeState {
    counts: NodeCounts,
    life: Life,
    node_update: UpdateQueue,
    /// Whether a oneway call of the node is queued or being handled: they come one at a time.
    is_busy: bool,
    /// The oneway calls that wait for their turn.
    waiting: WorkQueue,
    /// Who wants to be told when the owner dies.
    death_registrations: Registrations<DeathNotification>,
}

/// Whether a node can gain users.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// In the owner's tree of nodes, or in what was that when the owner began to end.
    Known,
    /// Nobody needed it: should the owner send the same name again, that is another node.
    Forgotten,
    /// The owner died first; handles on it stay valid for counting.
    Orphaned,
}

/// Where the message to the owner that counts have changed is.
enum UpdateQueue {
    /// Not on its way; the ticket is for the next time.
    NotQueued(WorkTicket),
    /// Waiting in the queue of this thread of the owner. Never its last reference: as long as news
    /// wait there, the thread has not come to its end, or whoever brings it there is not done.
    OnThread(Arc<Thread>),
    /// Waiting in the owner's common queue.
    OnProcess,
}

/// A place in the owner's tree, allocated before the lock is taken.
type TreeReservation = RBTreeNodeReservation<u64, Arc<Node>>;

/// A node of the owner's tree, taken out of it: to be dropped once the lock is gone.
pub(crate) type RemovedNode = RBTreeNode<u64, Arc<Node>>;

/// What remains to be done after counts went down, once the lock is gone.
#[must_use]
pub(crate) struct AfterCountChange {
    wake: Wake,
    _removed: Option<RemovedNode>,
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

impl AfterCountChange {
    const NOTHING: Self = Self {
        wake: Wake::Nobody,
        _removed: None,
    };
}

impl Node {
    /// Makes a node that nobody needs yet, with what it takes to make it known to its owner.
    pub(crate) fn new(
        owner: &Arc<Process>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<(Arc<Self>, TreeReservation)> {
        let ticket = WorkTicket::new(GFP_KERNEL)?;
        let position = ticket.position();
        let priority = NodePriority::new(flags);
        // In place, for it is large.
        let node = init!(Self {
            name,
            flags,
            priority,
            owner: owner.clone(),
            position,
            state: LockedBy::new(owner.state_lock(), NodeState::new(ticket)),
            _counted: Counted::new(Kind::Node),
        });
        let node = Arc::init(node, GFP_KERNEL)?;
        Ok((node, RBTreeNodeReservation::new(GFP_KERNEL)?))
    }

    /// Keeps the node from being forgotten while a transaction that names it is under construction.
    pub(crate) fn pin(&self, owner: &mut ProcessState) -> Result<(), Uncounted> {
        self.state.access_mut(owner).counts.pin()
    }

    /// Ends what [`Self::pin`] began.
    pub(crate) fn unpin(self: &Arc<Self>) {
        self.lower(|counts| counts.unpin());
    }

    /// Makes this the node that handle 0 means.
    pub(crate) fn become_manager(&self, owner: &mut ProcessState) -> Result<(), Uncounted> {
        self.state.access_mut(owner).counts.become_manager()
    }

    /// A call for this node is about to be queued: keeps it in use until the call's buffer is freed.
    ///
    /// Fails when the last strong handle went away meanwhile and the owner may have heard of it.
    pub(crate) fn begin_call(&self, owner: &mut ProcessState) -> Result<(), Uncounted> {
        let state = self.state.access_mut(owner);
        match state.life {
            Life::Known => state.counts.add_local(Strength::Strong),
            Life::Forgotten | Life::Orphaned => Err(Uncounted),
        }
    }

    /// A buffer of the owner names the node from now on: its owner gets back his own object.
    ///
    /// Fails when the handle that the sender names it by went away meanwhile and the owner may have
    /// heard of it.
    pub(crate) fn add_local(&self, strength: Strength) -> Result<(), Uncounted> {
        let mut owner = self.owner.lock_state();
        let state = self.state.access_mut(&mut owner);
        match state.life {
            Life::Known => state.counts.add_local(strength),
            Life::Forgotten => Err(Uncounted),
            // Nothing of the owner's counts any more.
            Life::Orphaned => Ok(()),
        }
    }

    /// A buffer of the owner no longer names the node.
    pub(crate) fn drop_local(self: &Arc<Self>, strength: Strength) {
        self.lower(|counts| counts.drop_local(strength));
    }

    /// A call for this node has ended without its buffer being delivered: what [`Self::begin_call`] and
    /// the queueing did is undone.
    pub(crate) fn end_call(self: &Arc<Self>) {
        let mut owner = self.owner.lock_state();
        let freezers = owner.freeze.end_transaction();
        let after = self.lower_locked(&mut owner, |counts| counts.drop_local(Strength::Strong));
        drop(owner);
        after.finish(&self.owner);
        self.owner.wake_freezers(freezers);
    }

    /// A handle starts to count for the node, as a new ref, as a strong one, or both.
    ///
    /// `sender` is the thread that sends its own node: it will be told before anything comes of the
    /// transaction. Without one, the node has to be in use already (contract NODE-11).
    pub(crate) fn raise(
        self: &Arc<Self>,
        is_new: bool,
        strength: Strength,
        sender: Option<&Arc<Thread>>,
    ) -> Result<(), Uncounted> {
        let mut owner = self.owner.lock_state();
        let state = self.state.access_mut(&mut owner);
        let strong = strength == Strength::Strong;
        let is_unused = strong && sender.is_none() && !state.counts.has_strong();
        if state.life == Life::Forgotten || is_unused {
            return Err(Uncounted);
        }
        state.counts.raise(is_new, strong)?;
        if let (Some(sender), true) = (sender, state.life == Life::Known) {
            self.queue_for_sender(&mut owner, sender, strong);
        }
        Ok(())
    }

    /// A handle no longer counts for the node: as a strong one, as a ref, or both.
    pub(crate) fn release(self: &Arc<Self>, was_last: bool, was_strong: bool) {
        let mut owner = self.owner.lock_state();
        let state = self.state.access_mut(&mut owner);
        state.counts.lower(was_last, was_strong);
        let after = self.settle(&mut owner);
        drop(owner);
        after.finish(&self.owner);
    }

    /// The owner confirms a count that he was told of.
    pub(crate) fn confirm(self: &Arc<Self>, strength: Strength) {
        self.lower(|counts| {
            counts.confirm(strength);
        });
    }

    /// The owner reads the news of this node: what to tell him, and the node's place in his tree if
    /// it is to be forgotten.
    pub(crate) fn take_update(
        &self,
        ticket: WorkTicket,
        owner: &mut ProcessState,
    ) -> (NodeUpdate, Option<RemovedNode>) {
        let state = self.state.access_mut(owner);
        state.node_update = UpdateQueue::NotQueued(ticket);
        if state.life != Life::Known {
            return (NodeUpdate::default(), None);
        }
        let update = state.counts.take_update();
        let mut removed = None;
        if update.forget {
            state.life = Life::Forgotten;
            removed = owner.nodes.remove_node(&self.name.ptr);
        }
        (update, removed)
    }

    /// The news of this node moves from an ending thread's queue to the common one.
    pub(crate) fn move_update_to_process(&self, owner: &mut ProcessState) {
        self.state.access_mut(owner).node_update = UpdateQueue::OnProcess;
    }

    /// The owner dies. Gives the oneway calls that nobody will handle, to be dropped without the lock, and
    /// the first of those who want to be told.
    pub(crate) fn orphan(
        &self,
        owner: &mut ProcessState,
    ) -> (Option<WorkQueue>, Option<Popped<DeathNotification>>) {
        let state = self.state.access_mut(owner);
        // Forgotten since the owner began to end, it stays that: nobody has a handle on it.
        if state.life == Life::Known {
            state.life = Life::Orphaned;
            state.counts.orphan();
        }
        let waiting = if state.waiting.is_empty() {
            None
        } else {
            Some(core::mem::replace(&mut state.waiting, WorkQueue::new()))
        };
        (waiting, state.death_registrations.pop())
    }

    /// Somebody with a handle on the node wants to be told of its death. Gives the place back when it
    /// is dead already.
    pub(crate) fn add_death_registration(
        &self,
        notification: &Arc<DeathNotification>,
        place: Place<DeathNotification>,
    ) -> Result<(), Place<DeathNotification>> {
        let mut owner = self.owner.lock_state();
        let state = self.state.access_mut(&mut owner);
        if state.life == Life::Orphaned {
            return Err(place);
        }
        state.death_registrations.insert(notification, place);
        Ok(())
    }

    /// Somebody does not want to be told any more. Nothing when it has been taken out to be told.
    pub(crate) fn remove_death_registration(
        &self,
        notification: &Arc<DeathNotification>,
    ) -> Option<Place<DeathNotification>> {
        let mut owner = self.owner.lock_state();
        self.state
            .access_mut(&mut owner)
            .death_registrations
            .remove(notification)
    }

    /// Takes out another one of those who want to be told.
    pub(crate) fn pop_death_registration(&self) -> Option<Popped<DeathNotification>> {
        let mut owner = self.owner.lock_state();
        self.state.access_mut(&mut owner).death_registrations.pop()
    }

    /// A oneway call is about to be queued: whether it is the one that the node is busy with now.
    pub(crate) fn take_turn(&self, owner: &mut ProcessState) -> Turn {
        let was_busy = core::mem::replace(&mut self.state.access_mut(owner).is_busy, true);
        if was_busy {
            Turn::Awaited
        } else {
            Turn::Taken
        }
    }

    /// Lets a oneway call wait until those before it have ended.
    pub(crate) fn push_waiting_oneway(
        &self,
        owner: &mut ProcessState,
        ticket: WorkTicket,
        transaction: KBox<Transaction>,
    ) {
        let waiting = &mut self.state.access_mut(owner).waiting;
        waiting.push_back(ticket, Work::Call(transaction));
    }

    /// Takes out the oneway call that waits and whose place `newer` is to take, if there is one. To be
    /// dropped without the lock.
    pub(crate) fn take_superseded(
        &self,
        owner: &mut ProcessState,
        newer: &Transaction,
    ) -> Option<(Work, WorkTicket)> {
        // Most may not, and are not to pay for how many wait.
        if !newer.may_supersede() {
            return None;
        }
        let waiting = &mut self.state.access_mut(owner).waiting;
        waiting.take_first(|work| matches!(work, Work::Call(call) if call.is_superseded_by(newer)))
    }

    /// The oneway call that the node was busy with has ended: the next one is queued for the pool.
    pub(crate) fn end_oneway(&self) {
        let mut owner = self.owner.lock_state();
        let state = self.state.access_mut(&mut owner);
        let wake = match state.waiting.pop_front() {
            Some((Work::Call(mut next), ticket)) => {
                next.take_turn();
                owner.push_to_process(ticket, Work::Call(next))
            }
            _ => {
                state.is_busy = false;
                Wake::Nobody
            }
        };
        drop(owner);
        wake.now(&self.owner, WakeHint::Anywhere);
    }

    /// What the owner was told of strong and of weak counts.
    pub(crate) fn owner_refs(&self, owner: &mut ProcessState) -> (bool, bool) {
        self.state.access_mut(owner).counts.owner_refs()
    }

    /// Strong counts of all kinds, and local weak counts.
    pub(crate) fn totals(&self) -> (u32, u32) {
        let mut owner = self.owner.lock_state();
        self.state.access_mut(&mut owner).counts.totals()
    }

    /// Lets counts of the owner's own go down, and does what follows from it.
    fn lower(self: &Arc<Self>, change: impl FnOnce(&mut NodeCounts)) {
        let mut owner = self.owner.lock_state();
        let after = self.lower_locked(&mut owner, change);
        drop(owner);
        after.finish(&self.owner);
    }

    fn lower_locked(
        self: &Arc<Self>,
        owner: &mut ProcessState,
        change: impl FnOnce(&mut NodeCounts),
    ) -> AfterCountChange {
        let state = self.state.access_mut(owner);
        // They ended with the owner, and a node that has any is not forgotten.
        if state.life == Life::Known {
            change(&mut state.counts);
        }
        self.settle(owner)
    }

    /// After counts went down: queues news for the owner, or forgets the node.
    fn settle(self: &Arc<Self>, owner: &mut ProcessState) -> AfterCountChange {
        let state = self.state.access_mut(owner);
        if state.life != Life::Known || !matches!(state.node_update, UpdateQueue::NotQueued(_)) {
            // There is nobody to tell, or whoever reads the news that are on their way sees the counts
            // of then.
            return AfterCountChange::NOTHING;
        }
        if state.counts.is_unreferenced() {
            state.life = Life::Forgotten;
            return AfterCountChange {
                wake: Wake::Nobody,
                _removed: owner.nodes.remove_node(&self.name.ptr),
            };
        }
        if !state.counts.has_update() {
            return AfterCountChange::NOTHING;
        }
        match core::mem::replace(&mut state.node_update, UpdateQueue::OnProcess) {
            UpdateQueue::NotQueued(ticket) => AfterCountChange {
                wake: owner.push_to_process(ticket, Work::Node(self.clone())),
                _removed: None,
            },
            UpdateQueue::OnThread(_) | UpdateQueue::OnProcess => AfterCountChange::NOTHING,
        }
    }

    /// Queues the news for the thread that sends the node, so that he hears of it no later than of
    /// the transaction's end. What must be heard at once (strong) is taken from wherever it waits.
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
        let is_queued = !matches!(state.node_update, UpdateQueue::NotQueued(_));
        if is_held_by_owner || (is_queued && !strong) {
            return;
        }
        // What waits is a reference to this node, and so not the last one.
        let ticket = match core::mem::replace(
            &mut state.node_update,
            UpdateQueue::OnThread(sender.clone()),
        ) {
            UpdateQueue::NotQueued(ticket) => Some(ticket),
            UpdateQueue::OnProcess => owner.work.take(&self.position).map(|(_, ticket)| ticket),
            UpdateQueue::OnThread(thread) => thread.state(owner).take_work(&self.position),
        };
        // There, for news wait where they are said to.
        if let Some(ticket) = ticket {
            let node = Work::Node(self.clone());
            // Deferred work wakes nobody, least of all the thread that is running right now.
            let _ = owner.push_to_thread(sender, ticket, node, Urgency::Deferred);
        }
    }
}

impl AfterCountChange {
    /// Wakes and frees. To be called with no lock held.
    fn finish(self, owner: &Process) {
        self.wake.now(owner, WakeHint::Anywhere);
    }
}
