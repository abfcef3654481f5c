// SPDX-License-Identifier: GPL-2.0

//! `BC_REQUEST_DEATH_NOTIFICATION` and what follows from it: a process is notified when a node dies
//! that it has a handle on.
//!
//! What is notified when is decided in [`crate::pure::death_state`].

use crate::{
    common::stats::Kind,
    defs::Return,
    kernel_ext::park::WakeHint,
    node::Node,
    notification::{DeathNotification, Notification, SpareDeath, Subject},
    process::{Process, ProcessState},
    pure::{
        death_state::{DeathReturn, DeathState},
        registrations::{DeliveredNotifications, Place, Popped}, //
    },
    thread::Thread,
    work::{Urgency, Wake, Work, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl Subject for DeathState<WorkTicket> {
    type Message = DeathReturn;

    const KIND: Kind = Kind::DeathNotification;

    fn new(ticket: WorkTicket) -> Self {
        Self::Registered(ticket)
    }

    fn read(&mut self, ticket: WorkTicket) -> Option<DeathReturn> {
        self.step(|death| death.read(ticket))
    }

    fn cancel(&mut self) {
        self.step(|death| (death.cancel(), ()));
    }

    fn may_be_registered(&self) -> bool {
        self.is_waiting()
    }

    fn is_delivered(&self) -> bool {
        self.is_delivered()
    }

    fn is_confirmed(message: DeathReturn) -> bool {
        message == DeathReturn::Dead
    }

    fn code(message: DeathReturn) -> (Return, u32) {
        match message {
            DeathReturn::Dead => (Return::DeadBinder, 0),
            DeathReturn::ClearDone => (Return::ClearDeathNotificationDone, 0),
        }
    }

    fn delivered(holder: &mut ProcessState) -> &mut DeliveredNotifications<DeathNotification> {
        &mut holder.delivered_deaths
    }

    fn work(notification: Arc<DeathNotification>) -> Work {
        Work::Death(notification)
    }

    fn keep(
        notification: Arc<DeathNotification>,
        holder: &mut ProcessState,
    ) -> Option<Arc<DeathNotification>> {
        let state = notification.state(holder);
        if !state.subject.is_cleared() || state.place.is_none() || holder.spare_death.is_some() {
            return Some(notification);
        }
        holder.spare_death = SpareDeath::new(notification);
        None
    }
}

/// What a request needs: a notification, and a place to register it in.
type Request = (Arc<DeathNotification>, Place<DeathNotification>);

/// Takes the spare notification of a process, if it has one, for a request with this cookie. Takes the
/// state lock.
fn take_spare(process: &Process, cookie: u64) -> Option<Request> {
    let mut holder = process.lock_state();
    let notification = holder.spare_death.take()?.request(cookie);
    let state = notification.state(&mut holder);
    state.subject.step(|death| (death.renew(), ()));
    let place = state.place.take();
    drop(holder);
    // Present: a notification without one is not kept.
    Some((notification, place?))
}

/// Executes `BC_REQUEST_DEATH_NOTIFICATION` (contract DN-1): the process is notified when the node
/// behind `handle` dies, or at once if it is dead.
///
/// Fails with `ENOMEM`; with `EINVAL` if there is no such handle or it has a death notification
/// already.
pub(crate) fn request(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let mut new: Option<Request> = None;
    loop {
        let mut handles = process.handles.lock();
        let reference = handles.get_mut(handle).ok_or(EINVAL)?;
        if reference.death.is_some() {
            return Err(EINVAL);
        }
        let request = new.take().or_else(|| take_spare(process, cookie));
        let Some((notification, place)) = request else {
            drop(handles);
            new = Some((
                Notification::new(process, cookie, None)?,
                Place::new(GFP_KERNEL)?,
            ));
            continue;
        };
        reference.death = Some(notification.clone());
        let registered = reference.node.add_death_registration(&notification, place);
        let wake = match registered {
            Ok(()) => Wake::Nobody,
            Err(place) => notify(&notification, place),
        };
        drop(handles);
        wake.now(process, WakeHint::Anywhere);
        return Ok(());
    }
}

/// Executes `BC_CLEAR_DEATH_NOTIFICATION` (contract DN-3): clears the notification of `handle`, if
/// this is its cookie. `EINVAL` if it is not, or if there is no notification or no such handle.
pub(crate) fn clear(thread: &Arc<Thread>, handle: u32, cookie: u64) -> Result {
    let process = &thread.process;
    let mut handles = process.handles.lock();
    let reference = handles.get_mut(handle).ok_or(EINVAL)?;
    let notification = reference.death.take_if(|death| death.cookie == cookie);
    let notification = notification.ok_or(EINVAL)?;
    let registration = reference.node.remove_death_registration(&notification);
    let mut state = process.lock_state();
    if let Some(place) = registration {
        // There was none: the notification has one place.
        notification.state(&mut state).place = Some(place);
    }
    let wake = step_as_holder(&notification, &mut state, thread, DeathState::clear);
    drop(state);
    drop(handles);
    wake.now(process, WakeHint::Anywhere);
    drop(notification);
    Ok(())
}

/// Executes `BC_DEAD_BINDER_DONE`: confirms a death of which user space has read (contract DN-2).
/// `EINVAL` if no notification with this cookie is delivered.
pub(crate) fn confirm(thread: &Arc<Thread>, cookie: u64) -> Result {
    let mut process = thread.process.lock_state();
    let (notification, removed) = process.delivered_deaths.take(cookie).ok_or(EINVAL)?;
    let wake = step_as_holder(&notification, &mut process, thread, DeathState::confirm);
    drop(process);
    wake.now(&thread.process, WakeHint::Anywhere);
    drop((removed, notification));
    Ok(())
}

/// Notifies the holder that the node has died, unless the holder has cleared its request meanwhile.
/// The notification is not on the node's list any more. No state lock may be held.
fn notify(notification: &Arc<DeathNotification>, place: Place<DeathNotification>) -> Wake {
    notification.notify(|state| {
        state.place = Some(place);
        state.subject.step(DeathState::node_died)
    })
}

/// Takes a step of the state machine after which user space may have to read that its request is
/// cleared. The work is queued for the thread that has cleared it if that is in the pool, else for
/// the process (contract DN-4). Returns the wake for it.
#[inline]
fn step_as_holder(
    notification: &Arc<DeathNotification>,
    holder: &mut ProcessState,
    thread: &Arc<Thread>,
    step: impl FnOnce(DeathState<WorkTicket>) -> (DeathState<WorkTicket>, Option<WorkTicket>),
) -> Wake {
    let Some(ticket) = notification.state(holder).subject.step(step) else {
        return Wake::Nobody;
    };
    let work = Work::Death(notification.clone());
    if thread.state(holder).looper.is_in_pool() {
        let wake = holder.push_to_thread(thread, ticket, work, Urgency::Now);
        wake.of(thread)
    } else {
        holder.push_to_process(ticket, work)
    }
}

/// Notifies the holders of all death notifications of a node whose owner is dead, one by one
/// (lesson R01), beginning with `first`, which was taken out already. Nothing can be registered any
/// more. To be called with no lock held.
pub(crate) fn notify_all(node: &Node, first: Option<Popped<DeathNotification>>) {
    let mut next = first;
    while let Some(Popped {
        notification,
        place,
        is_last,
    }) = next
    {
        let wake = notify(&notification, place);
        wake.now(&notification.holder, WakeHint::Anywhere);
        next = if is_last {
            None
        } else {
            node.pop_death_registration()
        };
    }
}
