// SPDX-License-Identifier: GPL-2.0

//! Freeze notifications: the requests of a process to be notified when the owner of a node that it
//! has a handle on is frozen or thawed.
//!
//! They belong to a handle as [death notifications](crate::death_notification) do, under the same
//! locks. But a freeze notification is registered with the owner of the node all the time, and has
//! memory for that and for its place among the delivered ones. It has a link only for work queues.
//!
//! The owner looks up one notification after the other, and notifies it without a lock. A
//! notification that is removed meanwhile has a state in which nothing is left to notify; one that
//! is added meanwhile has been notified by its own request (lessons R01, R09, C09).

use crate::{
    common::stats::{Counted, Kind},
    defs::{FreezeNotice, Return},
    kernel_ext::{
        link::{has_field, Link},
        sched::{self, WakeHint}, //
    },
    node::Node,
    process::{Process, ProcessState},
    pure::{
        freeze_state::FreezeEvent,
        notification_state::{FreezeNotificationState, Message},
        registrations::Place, //
    },
    work::{Wake, Work}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        LockedBy, //
    }, //
};

/// The request of a process to be notified when the owner of a node is frozen or thawed.
pub(crate) struct FreezeNotification {
    /// The number by which the holder knows the request. It need not be unique.
    cookie: u64,
    /// The process that is notified.
    holder: Arc<Process>,
    /// Its place in a work queue.
    link: Link,
    delivery: LockedBy<FreezeDelivery, ProcessState>,
    _counted: Counted,
}

has_field!(impl for FreezeNotification, link: Link);

/// What of a freeze notification changes, guarded by the holder's state lock.
struct FreezeDelivery {
    state: FreezeNotificationState,
    /// A place among the delivered notifications, while this one is not there.
    place: Option<Place<FreezeNotification>>,
    /// Its number there, which is never used again.
    number: u64,
    /// What is left of the registration, once that is removed with the handle.
    _unregistered: Option<Place<FreezeNotification>>,
}

impl FreezeNotification {
    /// Allocates a notification that is not registered. `ENOMEM` is the only error.
    fn new(holder: &Arc<Process>, cookie: u64) -> Result<Arc<Self>> {
        let delivery = FreezeDelivery {
            state: FreezeNotificationState::new(),
            place: Some(Place::new(GFP_KERNEL)?),
            number: 0,
            _unregistered: None,
        };
        let notification = Self {
            cookie,
            holder: holder.clone(),
            link: Link::new(),
            delivery: LockedBy::new(holder.state_lock(), delivery),
            _counted: Counted::new(Kind::FreezeNotification),
        };
        Ok(Arc::new(notification, GFP_KERNEL)?)
    }

    /// Returns what user space is told when it reads the notification, if that is queued. The
    /// caller holds the holder's state lock.
    pub(crate) fn queued(&self, holder: &ProcessState) -> Option<Message> {
        self.delivery.access(holder).state.queued()
    }

    /// Takes a step of the state machine after which user space may have to be notified, unless the
    /// holder has ended, and releases `locks` before anything is woken. No state lock may be held.
    fn step(
        self: &Arc<Self>,
        locks: impl Sized,
        step: impl FnOnce(&mut FreezeNotificationState) -> bool,
    ) {
        let mut holder = self.holder.lock_state();
        if self.holder.has_ended.load(Relaxed) {
            return;
        }
        if step(&mut self.delivery.access_mut(&mut holder).state) {
            let wake = holder.push_to_process(Work::Freeze(self.clone()));
            wake.after((holder, locks), &self.holder, WakeHint::Anywhere);
        }
    }

    /// Notifies the holder that the owner is frozen or thawed, unless it has read of a later event
    /// or has cleared its request, or the owner has ended. No state lock may be held; `locks` are
    /// released.
    ///
    /// Whoever ends the owner sets `has_ended` before it takes the holder's lock to notify it of a
    /// death. So under that lock, either no death is queued yet or the owner is seen to have ended.
    fn notify(self: &Arc<Self>, event: FreezeEvent, owner: &Process, locks: impl Sized) {
        self.step(locks, |state| {
            !owner.has_ended.load(Relaxed) && state.notify(event)
        });
    }

    /// Reads what was queued. Returns the code that user space is to read, with its payload, if
    /// user space is still to be notified; of the payload, as many bytes as the code has.
    pub(crate) fn read(
        self: &Arc<Self>,
        holder: &mut ProcessState,
    ) -> Option<(Return, FreezeNotice)> {
        let own = self.delivery.access_mut(holder);
        let message = own.state.read()?;
        let (mut code, mut is_frozen) = (Return::ClearFreezeNotificationDone, false);
        if message == Message::Event {
            (code, is_frozen) = (Return::FrozenBinder, own.state.is_frozen());
            // Present: it came with the request, or was put back with the last confirmation.
            if let Some(place) = own.place.take() {
                let number = holder.delivered_freezes.insert(self, self.cookie, place);
                self.delivery.access_mut(holder).number = number;
            }
        }
        let notice = FreezeNotice {
            cookie: self.cookie,
            is_frozen: is_frozen.into(),
            reserved: 0,
        };
        Some((code, notice))
    }

    /// Registers the notification with the owner of a node. Returns the event to notify now, or
    /// nothing if the owner has ended; then `place` keeps its value.
    fn register(
        self: &Arc<Self>,
        node: &Node,
        place: &mut Option<Place<Self>>,
    ) -> Option<FreezeEvent> {
        let owner = node.owner();
        let mut state = owner.lock_state();
        if owner.has_ended.load(Relaxed) {
            return None;
        }
        let registrations = &mut state.freeze_registrations;
        registrations.insert(node.name.ptr, self, place.take()?);
        Some(state.freeze.last_event())
    }

    /// Removes the registration with the owner of the node. Returns its place, or nothing if the
    /// notification is not registered.
    fn unregister(self: &Arc<Self>, node: &Node) -> Option<Place<Self>> {
        let mut owner = node.owner().lock_state();
        owner.freeze_registrations.remove(node.name.ptr, self)
    }

    /// Cancels the notification, because its handle, on `node`, is removed; see
    /// [`DeathNotification::cancel`](crate::death_notification::DeathNotification::cancel). Memory
    /// is freed with the notification, which the caller drops without a lock.
    pub(crate) fn cancel(self: &Arc<Self>, node: &Node) {
        let registration = self.unregister(node);
        let mut holder = self.holder.lock_state();
        let number = self.delivery.access(&holder).number;
        let delivered = holder.delivered_freezes.remove(self.cookie, number);
        let own = self.delivery.access_mut(&mut holder);
        own.state.cancel();
        own._unregistered = registration;
        if let Some(delivered) = delivered {
            own.place = Some(delivered.into_reservation());
        }
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
    let mut place = Some(Place::new(GFP_KERNEL)?);
    let mut handles = process.handles.lock();
    let reference = handles.table.get_mut(handle).ok_or(EINVAL)?;
    if reference.freeze.is_some() {
        return Err(EINVAL);
    }
    reference.freeze = Some(notification.clone());
    // An owner that is dead will not be frozen any more.
    if let Some(event) = notification.register(&reference.node, &mut place) {
        let owner = reference.node.owner().clone();
        notification.notify(event, &owner, handles);
    }
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
    let mut state = process.lock_state();
    let (notification, removed) = state.delivered_freezes.take(cookie).ok_or(EINVAL)?;
    let own = notification.delivery.access_mut(&mut state);
    // This does not drop the last reference to the notification: `notification` is another.
    own.place = Some(removed.into_reservation());
    let wake = match own.state.confirm() {
        true => state.push_to_process(Work::Freeze(notification.clone())),
        false => Wake::Nobody,
    };
    wake.after(state, process, WakeHint::Anywhere);
    Ok(())
}

/// Notifies the holders of all freeze notifications that are registered with a process, one by one
/// (lesson R01), until it ends: then they are told of its death. To be called with no lock held.
pub(crate) fn notify_all(process: &Process, event: FreezeEvent) {
    let mut from = (0, 0);
    loop {
        let state = process.lock_state();
        if process.has_ended.load(Relaxed) {
            return;
        }
        let next = state.freeze_registrations.first_from(from);
        let is_only = state.freeze_registrations.is_one();
        drop(state);
        let Some((notification, behind)) = next else {
            return;
        };
        notification.notify(event, process, ());
        if is_only {
            return;
        }
        // The number of registrations is limited only by memory.
        sched::cond_resched();
        from = behind;
    }
}
