// SPDX-License-Identifier: GPL-2.0

//! `BC_REQUEST_FREEZE_NOTIFICATION` and what follows from it: a process is notified when the owner
//! of a node that it has a handle on is frozen or thawed.
//!
//! What is notified when is decided in [`crate::pure::freeze_notification_state`]. The owner looks
//! up one notification after the other, and notifies it without a lock. A notification that is
//! removed meanwhile has a state in which nothing is left to notify; one that is added meanwhile
//! has been notified by its own request (lessons R01, R09, C09).

use crate::{
    common::stats::Kind,
    defs::Return,
    kernel_ext::{park::WakeHint, sched},
    node::Node,
    notification::{FreezeNotification, Notification, Subject},
    process::{Process, ProcessState},
    pure::{
        freeze_notification_state::{FreezeNotificationState, FreezeReturn},
        freeze_state::FreezeEvent,
        registrations::{Place, RemovedFrom}, //
    },
    work::{OwnPlace, Wake, Work}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, //
    }, //
};

/// What a freeze notification needs to be delivered.
pub(crate) struct Delivery {
    /// A place among the delivered notifications, while this one is not there.
    place: Option<Place<FreezeNotification>>,
    /// Its number there, once it has been delivered.
    number: u64,
}

impl Subject for FreezeNotificationState<OwnPlace> {
    type Message = FreezeReturn;

    type Delivery = Delivery;

    type Registration = Place<FreezeNotification>;

    type Withdrawn = Option<RemovedFrom<FreezeNotification>>;

    /// The pointer of the node. Written under the owner's state lock, before the notification is
    /// registered, and read under it.
    type Order = Atomic<u64>;

    const KIND: Kind = Kind::FreezeNotification;

    fn new() -> Self {
        Self::new(OwnPlace)
    }

    fn no_order() -> Atomic<u64> {
        Atomic::new(0)
    }

    fn read(&mut self) -> Option<FreezeReturn> {
        self.read(OwnPlace)
    }

    fn cancel(&mut self) {
        self.cancel();
    }

    fn may_be_registered(&self) -> bool {
        true
    }

    fn is_delivered(&self) -> bool {
        self.is_delivered()
    }

    fn is_confirmed(message: FreezeReturn) -> bool {
        matches!(message, FreezeReturn::Frozen(_))
    }

    fn code(message: FreezeReturn) -> (Return, u32) {
        match message {
            FreezeReturn::Frozen(is_frozen) => (Return::FrozenBinder, is_frozen.into()),
            FreezeReturn::ClearDone => (Return::ClearFreezeNotificationDone, 0),
        }
    }

    fn deliver(notification: &Arc<FreezeNotification>, holder: &mut ProcessState) {
        // Present: it came with the request, or was put back with the last confirmation.
        let Some(place) = notification.state(holder).delivery.place.take() else {
            return;
        };
        let delivered = &mut holder.delivered_freezes;
        let number = delivered.insert(notification, notification.cookie, place);
        notification.state(holder).delivery.number = number;
    }

    fn withdraw(
        notification: &FreezeNotification,
        holder: &mut ProcessState,
    ) -> Option<RemovedFrom<FreezeNotification>> {
        let number = notification.state(holder).delivery.number;
        holder.delivered_freezes.remove(notification.cookie, number)
    }

    fn work(notification: Arc<FreezeNotification>) -> Work {
        Work::Freeze(notification)
    }
}

/// Executes `BC_REQUEST_FREEZE_NOTIFICATION` (contract FRZN-1): the process is notified when the
/// owner of the node behind `handle` is frozen or thawed, and at once of whether it is frozen now.
///
/// Fails with `ENOMEM`; with `EINVAL` if there is no such handle or it has a freeze notification
/// already.
pub(crate) fn request(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let delivery = Delivery {
        place: Some(Place::new(GFP_KERNEL)?),
        number: 0,
    };
    let notification = Notification::new(process, cookie, delivery)?;
    let mut place = Some(Place::new(GFP_KERNEL)?);
    let mut handles = process.handles.lock();
    let reference = handles.get_mut(handle).ok_or(EINVAL)?;
    if reference.freeze.is_some() {
        return Err(EINVAL);
    }
    reference.freeze = Some(notification.clone());
    // An owner that is dead will not be frozen any more.
    if let Some(event) = register(&reference.node, &notification, &mut place) {
        let owner = reference.node.owner().clone();
        notify(&notification, event, &owner, handles);
    }
    Ok(())
}

/// Executes `BC_CLEAR_FREEZE_NOTIFICATION` (contract FRZN-4): clears the notification of `handle`,
/// if this is its cookie. `EINVAL` if it is not, or if there is no notification or no such handle.
pub(crate) fn clear(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let mut handles = process.handles.lock();
    let reference = handles.get_mut(handle).ok_or(EINVAL)?;
    let notification = reference.freeze.take_if(|freeze| freeze.cookie == cookie);
    let notification = notification.ok_or(EINVAL)?;
    let owner = reference.node.owner();
    let registration = owner.remove_freeze_registration(&notification);
    notification.notify(handles, |state| state.subject.clear());
    drop((registration, notification));
    Ok(())
}

/// Executes `BC_FREEZE_NOTIFICATION_DONE`: confirms what user space has read (contract FRZN-3).
/// `EINVAL` if no notification with this cookie is delivered.
pub(crate) fn confirm(process: &Process, cookie: u64) -> Result {
    let mut state = process.lock_state();
    let (notification, removed) = state.delivered_freezes.take(cookie).ok_or(EINVAL)?;
    let own = notification.state(&mut state);
    // This does not drop the last reference to the notification: `notification` is another.
    own.delivery.place = Some(removed.into_reservation());
    let wake = match own.subject.confirm() {
        Some(OwnPlace) => state.push_to_process(Work::Freeze(notification.clone())),
        None => Wake::Nobody,
    };
    wake.after(state, process, WakeHint::Anywhere);
    Ok(())
}

/// Notifies the holder that the owner is frozen or thawed, unless it has read of a later event or
/// has cleared its request, or the owner has ended. No state lock may be held; `locks` are
/// released.
///
/// Whoever ends the owner sets `has_ended` before it takes the holder's lock to notify it of a
/// death. So under that lock, either no death is queued yet or the owner is seen to have ended.
fn notify(
    notification: &Arc<FreezeNotification>,
    event: FreezeEvent,
    owner: &Process,
    locks: impl Sized,
) {
    notification.notify(locks, |state| {
        if owner.has_ended.load(Relaxed) {
            return None;
        }
        state.subject.notify(event)
    });
}

/// Registers a notification with the owner of a node. Returns the event to notify now, or nothing
/// if the owner has ended; then `place` keeps its value.
fn register(
    node: &Node,
    notification: &Arc<FreezeNotification>,
    place: &mut Option<Place<FreezeNotification>>,
) -> Option<FreezeEvent> {
    let owner = node.owner();
    let mut state = owner.lock_state();
    if owner.has_ended.load(Relaxed) {
        return None;
    }
    notification.order.store(node.name.ptr, Relaxed);
    state
        .freeze_registrations
        .insert(node.name.ptr, notification, place.take()?);
    Some(state.freeze.last_event())
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
        notify(&notification, event, process, ());
        if is_only {
            return;
        }
        // The number of registrations is limited only by memory.
        sched::cond_resched();
        from = behind;
    }
}
