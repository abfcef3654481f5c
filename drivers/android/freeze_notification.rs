// SPDX-License-Identifier: GPL-2.0

//! Freeze notifications: the requests of a process to be notified when the owner of a node that it
//! has a handle on is frozen or thawed.
//!
//! They belong to a handle as [death notifications](crate::death_notification) do, under the same
//! locks. But a freeze notification is registered with the owner of the node all the time, and has
//! memory for that. Its link is in a work queue or among the delivered ones.
//!
//! The owner looks up one notification after the other, and notifies it without a lock. A
//! notification that is removed in the meantime has a state in which nothing is left to notify. One
//! that is added has been notified by its own request (lessons R01, R09, C09).

use crate::{
    common::stats::{Counted, Kind},
    defs::{FreezeNotice, Return},
    kernel_ext::{
        link::{has_field, Keyed, Link},
        once::read_once,
        sched::{self, WakeHint}, //
    },
    node::Node,
    process::{Process, ProcessState},
    pure::{
        freeze_state::FreezeEvent,
        notification_state::{FreezeNotificationState, Message}, //
    },
    work::{Wake, Work}, //
};
use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::{
        Arc,
        LockedBy, //
    }, //
};

/// The notifications of the holders that are notified when a process is frozen or thawed. The key
/// is the pointer by which the process names the node, and the address of the notification, which
/// only distinguishes holders of the same node. So the notifications of one holder are in the order
/// of the owner's pointers, as with the C driver.
pub(crate) type FreezeRegistrations = RBTree<RegistrationKey, Arc<FreezeNotification>>;

type RegistrationKey = (u64, usize);

/// The tree node of a registration, allocated before a lock is taken.
type RegistrationPlace = RBTreeNodeReservation<RegistrationKey, Arc<FreezeNotification>>;

/// The request of a process to be notified when the owner of a node is frozen or thawed.
pub(crate) struct FreezeNotification {
    /// The number by which the holder identifies the request. It need not be unique.
    cookie: u64,
    /// The process that is notified.
    holder: Arc<Process>,
    /// Its place in a work queue, or among those that are delivered.
    link: Link,
    /// Its state, and the place of the registration, once that is removed with the handle.
    delivery: LockedBy<(FreezeNotificationState, Option<RegistrationPlace>), ProcessState>,
    _counted: Counted,
}

has_field!(impl for FreezeNotification, link: Link);

/// Those that are delivered are ordered by what user space confirms them with.
impl Keyed for FreezeNotification {
    type Room = Link;

    fn key(&self) -> u64 {
        self.cookie
    }
}

impl FreezeNotification {
    /// Allocates a notification that is not registered. `ENOMEM` is the only error.
    fn new(holder: &Arc<Process>, cookie: u64) -> Result<Arc<Self>> {
        let delivery = (FreezeNotificationState::new(), None);
        let notification = Self {
            cookie,
            holder: holder.clone(),
            link: Link::new(),
            delivery: LockedBy::new(&holder.state, delivery),
            _counted: Counted::new(Kind::FreezeNotification),
        };
        Ok(Arc::new(notification, GFP_KERNEL)?)
    }

    /// Returns the message that user space gets when it reads the notification, if that is queued.
    /// The caller holds the holder's state lock.
    pub(crate) fn queued(&self, holder: &ProcessState) -> Option<Message> {
        self.delivery.access(holder).0.queued()
    }

    /// Takes a step of the state machine after which user space may have to be notified, unless the
    /// holder has ended, and releases `locks` before anything is woken. No state lock may be held.
    fn step(
        self: &Arc<Self>,
        locks: impl Sized,
        step: impl FnOnce(&mut FreezeNotificationState) -> bool,
    ) {
        let mut holder = self.holder.state.lock();
        if read_once(&self.holder.has_ended) {
            return;
        }
        if step(&mut self.delivery.access_mut(&mut holder).0) {
            let wake = holder.push_to_process(Work::Freeze(self.clone()));
            wake.after((holder, locks), &self.holder, WakeHint::Anywhere);
        }
    }

    /// Notifies the holder that the owner is frozen or thawed, unless it has read of a later event
    /// or has cleared its request, or the owner has ended. No state lock may be held; `locks` are
    /// released.
    ///
    /// The end of the owner sets `has_ended` before it takes the holder's lock to notify the holder
    /// of a death. So under that lock, either no death is queued yet or the owner is seen to have
    /// ended.
    fn notify(self: &Arc<Self>, event: FreezeEvent, owner: &Process, locks: impl Sized) {
        self.step(locks, |state| {
            !read_once(&owner.has_ended) && state.notify(event)
        });
    }

    /// Reads what was queued. Returns the code that user space is to read, with its payload, if
    /// user space is still to be notified; of the payload, as many bytes as the code has.
    pub(crate) fn read(
        self: &Arc<Self>,
        holder: &mut ProcessState,
    ) -> Option<(Return, FreezeNotice)> {
        let state = &mut self.delivery.access_mut(holder).0;
        let (mut code, mut is_frozen) = (Return::ClearFreezeNotificationDone, false);
        if state.read()? == Message::Event {
            (code, is_frozen) = (Return::FrozenBinder, state.is_frozen());
            // Its link is free: it was in the queue until now. The dropped reference is not the
            // last.
            let inserted = holder.delivered_freezes.insert(self.clone());
            debug_assert!(inserted.is_ok());
        }
        let notice = FreezeNotice {
            cookie: self.cookie,
            is_frozen: is_frozen.into(),
            reserved: 0,
        };
        Some((code, notice))
    }

    fn key(self: &Arc<Self>, node: &Node) -> RegistrationKey {
        (node.name.ptr, Arc::as_ptr(self).addr())
    }

    /// Removes the registration with the owner of the node. Returns its place, or nothing if the
    /// notification is not registered. The reference that is dropped is not the last one, because
    /// the caller has one.
    fn unregister(self: &Arc<Self>, node: &Node) -> Option<RegistrationPlace> {
        let mut owner = node.state.lock();
        let removed = owner
            .of_owner()?
            .freeze_registrations
            .remove_node(&self.key(node))?;
        Some(removed.into_reservation())
    }

    /// Cancels the notification, because its handle, on `node`, is removed; see
    /// [`DeathNotification::cancel`](crate::death_notification::DeathNotification::cancel). Memory
    /// is freed with the notification, which the caller drops without a lock.
    pub(crate) fn cancel(self: &Arc<Self>, node: &Node) {
        let registration = self.unregister(node);
        let mut holder = self.holder.state.lock();
        let (state, unregistered) = self.delivery.access_mut(&mut holder);
        state.cancel();
        *unregistered = registration;
        drop(holder.delivered_freezes.take(self));
        drop(holder.work.take(&**self));
    }
}

/// Executes `BC_REQUEST_FREEZE_NOTIFICATION` (contract FRZN-1): the process is notified when the
/// owner of the node behind `handle` is frozen or thawed, and at once of whether it is frozen now.
///
/// Fails with `ENOMEM`; with `EINVAL` if there is no such handle or it has a freeze notification
/// already.
pub(crate) fn request(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let notification = FreezeNotification::new(process, cookie)?;
    // If it is not used, it is freed after the handles lock is released.
    let place = RegistrationPlace::new(GFP_KERNEL)?;
    let mut handles = process.handles.lock();
    let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
    if reference.freeze.is_some() {
        return Err(EINVAL);
    }
    reference.freeze = Some(notification.clone());
    let Some(owner) = reference.node.owner().get() else {
        return Ok(());
    };
    let mut state = owner.state.lock();
    // An owner that is dead will not be frozen any more.
    if read_once(&owner.has_ended) {
        return Ok(());
    }
    let registration = place.into_node(notification.key(&reference.node), notification.clone());
    state.freeze_registrations.insert(registration);
    let event = state.freeze.last;
    drop(state);
    notification.notify(event, &owner, handles);
    Ok(())
}

/// Executes `BC_CLEAR_FREEZE_NOTIFICATION` (contract FRZN-4): clears the notification of `handle`,
/// if this is its cookie. `EINVAL` if it is not, or if there is no notification or no such handle.
pub(crate) fn clear(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let mut handles = process.handles.lock();
    let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
    let notification = reference.freeze.take_if(|freeze| freeze.cookie == cookie);
    let notification = notification.ok_or(EINVAL)?;
    let registration = notification.unregister(&reference.node);
    notification.step(handles, FreezeNotificationState::clear);
    drop((registration, notification));
    Ok(())
}

/// Executes `BC_FREEZE_NOTIFICATION_DONE`: confirms what user space has read (contract FRZN-3).
/// `EINVAL` if no notification with this cookie is delivered.
pub(crate) fn confirm(process: &Process, cookie: u64) -> Result {
    let mut state = process.state.lock();
    let notification = state.delivered_freezes.take_first(cookie).ok_or(EINVAL)?;
    let wake = match notification.delivery.access_mut(&mut state).0.confirm() {
        true => state.push_to_process(Work::Freeze(notification.clone())),
        false => Wake::Nobody,
    };
    wake.after(state, process, WakeHint::Anywhere);
    drop(notification);
    Ok(())
}

/// Notifies the holders of all freeze notifications that are registered with a process, one by one
/// (lesson R01), until it ends: then they are notified of its death. To be called with no lock
/// held.
pub(crate) fn notify_all(process: &Process, event: FreezeEvent) {
    let mut from = (0, 0);
    loop {
        let state = process.state.lock();
        if read_once(&process.has_ended) {
            return;
        }
        let first = state.freeze_registrations.cursor_lower_bound(&from);
        let first = first.map(|first| {
            let (key, notification) = first.current();
            (*key, notification.clone(), first.peek_next().is_none())
        });
        drop(state);
        let Some((key, notification, is_last)) = first else {
            return;
        };
        notification.notify(event, process, ());
        // A holder that registers later reads this event at once.
        if is_last {
            return;
        }
        // The number of registrations is limited only by memory.
        sched::cond_resched();
        // No object is at the last address.
        from = (key.0, key.1 + 1);
    }
}
