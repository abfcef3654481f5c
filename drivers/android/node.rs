// SPDX-License-Identifier: GPL-2.0

//! A node: an object that a process offers to others. It has a name, counts, and a record of the
//! counts that its owner was notified of.
//!
//! A node is in its owner's tree from the first time that the owner sends it until no reference to
//! it exists and the owner has read so. Other processes hold it through the handles of
//! [`crate::handles`]; an `Arc<Node>` alone keeps the memory, not the object. The state is guarded
//! by the owner's state lock and, once the owner has ended, by a lock in the owner's name.

use crate::{
    common::stats::{next_debug_id, Counted, Kind},
    death_notification::DeathNotification,
    defs::NodeName,
    kernel_ext::{
        link::{has_field, Branches, Keyed, Link, LinkedQueue, Unplaced},
        once::read_once,
        owned_by::{Locked, OwnedBy, Severable},
        sched::{self, WakeHint}, //
    },
    names::ProcessName,
    process::{Process, ProcessState},
    pure::{
        freeze_state::WakeFreezers,
        node_counts::{Life, NodeCounts, NodeUpdate, Strength, Uncounted},
        priority_rules::{NodeFlags, NodePriority}, //
    },
    thread::Thread,
    transaction::{CallStage, Content},
    work::{Wake, Work}, //
};
use kernel::{
    prelude::*,
    sync::{Arc, UniqueArc}, //
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
    pub(crate) counted: Option<Counted>,
    /// The place of its node update in a work queue.
    link: Link,
    /// Its place in the owner's tree, in which no other node has its name.
    place: Branches,
    /// The state that changes, and the process that offers the node.
    pub(crate) state: OwnedBy<NodeState, ProcessName, Process, ProcessState>,
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
pub(crate) struct NodeState {
    pub(crate) counts: NodeCounts,
    /// The thread of the owner for which the node update is queued, if it is queued for a thread.
    /// The node waits by its link in the queue of that thread, in the queue of the owner, or
    /// nowhere.
    ///
    /// This is never the last reference to the thread. As long as a node update is in its queue,
    /// either the thread has not ended, or the operation that queued the update still holds a
    /// reference.
    pub(crate) updated_thread: Option<Arc<Thread>>,
    /// The oneway calls that wait until those before them have ended.
    pub(crate) waiting: LinkedQueue<Work>,
    /// Death notifications of the holders that are notified when the owner dies.
    death_registrations: LinkedQueue<Arc<DeathNotification>>,
}

/// The kind of a node's count that went down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fell {
    /// That of a call, or the strong one of a handle.
    Use,
    /// One by which somebody has the name of the node: of a handle, of an object in a buffer, or of
    /// a confirmation.
    Name,
}

/// The node of a call whose buffer was freed: a node of the process that has freed it. It is in use
/// by the call until `end` or [`Node::end_use_locked`] is called.
#[must_use]
pub(crate) struct NodeInUse(pub(crate) Arc<Node>);

impl NodeInUse {
    /// Ends the use. No lock may be held.
    pub(crate) fn end(self) {
        self.0
            .lower(Fell::Use, |counts| counts.drop_local(Strength::Strong));
    }
}

impl Node {
    /// Allocates a node without references.
    pub(crate) fn new(
        owner: &Arc<Process>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<Unplaced<Self>> {
        let state = NodeState {
            counts: NodeCounts::new(),
            updated_thread: None,
            waiting: LinkedQueue::new(),
            death_registrations: LinkedQueue::new(),
        };
        // Initialised in place, because it is large.
        let node = init!(Self {
            debug_id: next_debug_id(),
            name,
            priority: NodePriority::new(flags),
            counted: Some(Counted::new(Kind::Node)),
            link: Link::new(),
            place: Branches::new(),
            state: OwnedBy::new(owner.name.clone(), state),
        });
        Ok(Unplaced::new(UniqueArc::init(node, GFP_KERNEL)?))
    }

    /// Returns the reference to the process that offers it.
    #[inline(always)]
    pub(crate) fn owner(&self) -> &Severable<Process> {
        self.state.owner()
    }

    /// Returns whether that process has ended, or is ending.
    pub(crate) fn is_dead(&self) -> bool {
        let has_ended = |owner: Option<&Process>| owner.is_none_or(|it| read_once(&it.has_ended));
        self.owner().with(has_ended)
    }

    /// Returns the counts at this time. No lock may be held.
    pub(crate) fn counts(&self) -> NodeCounts {
        let mut locked = self.state.lock();
        self.state.in_lock(&mut locked).counts.clone()
    }

    /// Removes a [pin](NodeCounts::pin).
    pub(crate) fn unpin(self: &Arc<Self>) {
        self.lower(Fell::Name, |counts| counts.unpin());
    }

    /// Adds a local count: a buffer of the owner names the node from now on, and the owner receives
    /// its own object.
    ///
    /// Fails if the handle by which the sender names the node was dropped in the meantime, and the
    /// owner may have read that.
    pub(crate) fn add_local(&self, strength: Strength) -> Result<(), Uncounted> {
        let mut owner = self.state.lock();
        self.state.in_lock(&mut owner).counts.add_local(strength)
    }

    /// Removes a local count: a buffer of the owner no longer names the node in its data.
    pub(crate) fn drop_local(self: &Arc<Self>, strength: Strength) {
        self.lower(Fell::Name, |counts| counts.drop_local(strength));
    }

    /// Ends a call for this node whose buffer was not delivered: removes its local count, and
    /// stops counting it for the owner. To be called with no lock held.
    pub(crate) fn end_call(self: &Arc<Self>) {
        let mut locked = self.state.lock();
        let Some(owner) = locked.of_owner() else {
            // Nothing is counted for it any more.
            return;
        };
        let WakeFreezers(wakes_freezers) = owner.freeze.end_transaction();
        let wake = self.end_use_locked(owner);
        self.after_change(locked, &wake, wakes_freezers);
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
        let mut locked = self.state.lock();
        let state = self.state.in_lock(&mut locked);
        let strong = strength == Strength::Strong;
        let is_unused = strong && sender.is_none() && !state.counts.has_strong();
        if state.counts.life == Life::Forgotten || is_unused {
            return Err(Uncounted);
        }
        state.counts.raise(is_new, strong)?;
        if let (Some(sender), true) = (sender, state.counts.life == Life::Known) {
            if let Some(owner) = locked.of_owner() {
                self.queue_for_sender(owner, sender, strong);
            }
        }
        Ok(())
    }

    /// Stops counting a handle for the node: as a strong one, as a ref, or both. To be called
    /// without the owner's state lock.
    pub(crate) fn release(self: &Arc<Self>, was_last: bool, was_strong: bool) {
        let fell = if was_last { Fell::Name } else { Fell::Use };
        self.lower(fell, |counts| counts.lower(was_last, was_strong));
    }

    /// Confirms a count: the owner has read of it and answers. Returns `false` if no confirmation
    /// was pending, or the cookie is wrong. Such an answer is the place of a later release, too
    /// (contract NODE-8).
    pub(crate) fn confirm(self: &Arc<Self>, cookie: u64, strength: Strength) -> bool {
        let fits = self.name.cookie == cookie;
        let mut is_pending = false;
        self.lower(Fell::Name, |counts| {
            is_pending = fits && counts.confirm(strength);
        });
        is_pending
    }

    /// Takes the node update, which the owner reads, and returns what to write for it. The node may
    /// be forgotten then.
    pub(crate) fn take_update(&self, owner: &mut ProcessState) -> NodeUpdate {
        let state = self.state.access_mut(owner);
        state.updated_thread = None;
        if state.counts.life != Life::Known {
            return NodeUpdate::default();
        }
        let update = state.counts.take_update();
        if update.forget {
            self.forget(owner);
        }
        update
    }

    /// Removes the node, to which no reference is left, from the owner's tree. The reference of the
    /// tree is not the last one: the caller has another.
    fn forget(&self, owner: &mut ProcessState) {
        self.state.access_mut(owner).counts.life = Life::Forgotten;
        drop(owner.nodes.take(self));
    }

    /// Ends the counts of an owner that dies. Returns the waiting oneway calls, which will not be
    /// handled and are to be dropped without the lock, and the first death notification to be
    /// notified.
    pub(crate) fn orphan(
        &self,
        owner: &mut ProcessState,
    ) -> (LinkedQueue<Work>, Option<(Arc<DeathNotification>, bool)>) {
        let state = self.state.access_mut(owner);
        // A node that was forgotten after the owner began to end stays so: no handle on it exists.
        if state.counts.life == Life::Known {
            state.counts.orphan();
        }
        let waiting = core::mem::replace(&mut state.waiting, LinkedQueue::new());
        (waiting, self.pop_death_registration(owner))
    }

    /// Registers a death notification, whose place is free. Fails and returns it if the node is
    /// dead already.
    pub(crate) fn add_death_registration(
        &self,
        notification: Arc<DeathNotification>,
    ) -> Result<(), Arc<DeathNotification>> {
        let mut locked = self.state.lock();
        let state = self.state.in_lock(&mut locked);
        if state.counts.life == Life::Orphaned {
            return Err(notification);
        }
        let registered = state.death_registrations.push(notification);
        debug_assert!(registered.is_ok());
        Ok(())
    }

    /// Removes the registration of a death notification. Returns it, to be dropped without the
    /// lock, or nothing if it was taken out to be notified.
    pub(crate) fn remove_death_registration(
        &self,
        notification: &DeathNotification,
    ) -> Option<Arc<DeathNotification>> {
        let mut locked = self.state.lock();
        self.state
            .in_lock(&mut locked)
            .death_registrations
            .take(notification)
    }

    /// Takes out the next registered death notification. Returns also whether another one is left.
    pub(crate) fn pop_death_registration(
        &self,
        owner: &mut ProcessState,
    ) -> Option<(Arc<DeathNotification>, bool)> {
        let registered = &mut self.state.access_mut(owner).death_registrations;
        let notification = registered.pop_front()?;
        Some((notification, !registered.is_empty()))
    }

    /// Ends the oneway call that the node is busy with, and queues the next one for the owner. To
    /// be called with no lock held.
    pub(crate) fn end_oneway(&self) {
        let mut locked = self.state.lock();
        // Those that wait for an owner that has ended are dropped.
        if let Some(owner) = locked.of_owner() {
            let wake = self.begin_next_oneway(owner);
            self.after_change(locked, &wake, false);
        }
    }

    /// The same, and then ends the use of the node by that call, whose buffer is freed by the
    /// owner, `process`. To be called with no lock held.
    #[inline(never)] // All commands would have its stack frame.
    pub(crate) fn end_oneway_use(self: &Arc<Self>, process: &Process) {
        let mut owner = process.state.lock();
        let wake = self.begin_next_oneway(&mut owner);
        let update = self.end_use_locked(&mut owner);
        sched::unpreempted_if(wake.is_needed() || update.is_needed(), || {
            drop(owner);
            wake.now(process, WakeHint::Anywhere);
            update.now(process, WakeHint::Anywhere);
        });
    }

    fn begin_next_oneway(&self, owner: &mut ProcessState) -> Wake {
        let state = self.state.access_mut(owner);
        match state.waiting.pop_front() {
            Some(Work::Call(mut next)) => {
                if let Content::Call { stage, .. } = &mut next.content {
                    *stage = CallStage::HasTurn;
                }
                owner.push_to_process(Work::Call(next))
            }
            _ => {
                state.counts.is_busy = false;
                Wake::Nobody
            }
        }
    }

    /// Applies `change`, which lowers counts in the way of `fell`, and does what follows from it.
    /// To be called with no lock held.
    fn lower(self: &Arc<Self>, fell: Fell, change: impl FnOnce(&mut NodeCounts)) {
        let mut locked = self.state.lock();
        let Some(owner) = locked.of_owner() else {
            // No owner reads of it.
            return change(&mut self.state.in_lock(&mut locked).counts);
        };
        let wake = self.lower_locked(owner, fell, change);
        self.after_change(locked, &wake, false);
    }

    /// The same with the owner's state lock held. Returns the wake for what follows.
    #[inline]
    fn lower_locked(
        self: &Arc<Self>,
        owner: &mut ProcessState,
        fell: Fell,
        change: impl FnOnce(&mut NodeCounts),
    ) -> Wake {
        let counts = &mut self.state.access_mut(owner).counts;
        change(counts);
        match counts.is_known_to_be_held() {
            true => Wake::Nobody,
            false => self.settle(owner, fell),
        }
    }

    /// Removes the strong local count of a call. Returns the wake for what follows.
    #[inline]
    pub(crate) fn end_use_locked(self: &Arc<Self>, owner: &mut ProcessState) -> Wake {
        self.lower_locked(owner, Fell::Use, |counts| {
            counts.drop_local(Strength::Strong)
        })
    }

    /// Queues a node update for the owner after counts went down, or removes the node. Returns the
    /// wake for the update.
    #[inline(never)] // Few calls need it, and all would pay for it.
    fn settle(self: &Arc<Self>, owner: &mut ProcessState, fell: Fell) -> Wake {
        let state = self.state.access_mut(owner);
        if state.counts.life != Life::Known {
            // No owner reads of it.
            return Wake::Nobody;
        }
        if state.counts.is_unreferenced() {
            // Nobody has read of it, so an update that is queued goes with it, as in the C driver.
            self.unqueue_update(owner, None);
            self.forget(owner);
            return Wake::Nobody;
        }
        // The release has its place among what the owner reads when the last name goes, even if
        // calls use the node until it is read (contract NODE-7).
        let is_due = state.counts.has_update_after_fall()
            || (fell == Fell::Name && state.counts.is_only_used());
        // An update that is queued already shows the counts of the time when it is read.
        if self.link.is_used() || !is_due {
            return Wake::Nobody;
        }
        owner.push_to_process(Work::Node(self.clone()))
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
        // It wakes nobody: it waits until the thread reads something else (contract LOOP-10).
        let sender = sender.state.access_mut(owner);
        sender.push(Work::Node(self.clone()));
    }

    /// Takes the node update out of whichever queue it is in, if it is in one. `next` is the thread
    /// for which the update is to be queued now, if for any.
    fn unqueue_update(&self, owner: &mut ProcessState, next: Option<Arc<Thread>>) {
        let state = self.state.access_mut(owner);
        // The queued work is a reference to this node, and not the last one, since the caller has
        // another.
        match core::mem::replace(&mut state.updated_thread, next) {
            Some(thread) => thread.state.access_mut(owner).take_update(self),
            None if self.link.is_used() => drop(owner.work.take(self)),
            None => {}
        }
    }

    /// Releases the lock of the owner and wakes what `wake` names, and the tasks that wait to
    /// freeze the owner if `wakes_freezers`.
    #[inline]
    fn after_change(&self, locked: Locked<'_, ProcessState>, wake: &Wake, wakes_freezers: bool) {
        let needs_owner = wakes_freezers || matches!(wake, Wake::Pollers);
        match needs_owner.then(|| self.owner().get()).flatten() {
            None => wake.after_without_pollers(locked),
            Some(owner) => owner.unlock_and_wake(locked, wake, WakeHint::Anywhere, wakes_freezers),
        }
    }
}
