// SPDX-License-Identifier: GPL-2.0

//! `BC_REQUEST_DEATH_NOTIFICATION` and what follows from it: a process is notified when a node dies
//! that it has a handle on.
//!
//! What is notified when is decided in [`crate::pure::death_state`].

use crate::{
    common::stats::Kind,
    defs::Return,
    kernel_ext::{
        link::{Keyed, Link},
        park::WakeHint,
        sched, //
    },
    node::{FirstToNotify, Node},
    notification::{DeathNotification, Notification, SpareDeath, Subject},
    process::{Process, ProcessState},
    pure::death_state::{DeathReturn, DeathState},
    thread::Thread,
    work::{OwnPlace, Wake, Waking, Work}, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Those that are delivered are ordered by what user space confirms them with.
impl Keyed for DeathNotification {
    type Room = Link;

    fn key(&self) -> u64 {
        self.cookie
    }
}

impl Subject for DeathState<OwnPlace> {
    type Message = DeathReturn;

    type Delivery = ();

    type Registration = Arc<DeathNotification>;

    type Withdrawn = Option<Arc<DeathNotification>>;

    /// A node has a list of its own, and the nodes are told of in the order of their pointers.
    type Order = ();

    const KIND: Kind = Kind::DeathNotification;

    fn new() -> Self {
        Self::Registered(OwnPlace)
    }

    fn no_order() {}

    fn read(&mut self) -> Option<DeathReturn> {
        self.step(|death| death.read(OwnPlace))
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

    fn deliver(notification: &Arc<DeathNotification>, holder: &mut ProcessState) {
        // Its place is free: it was in the queue until now. What is dropped is not the last
        // reference.
        let inserted = holder.delivered_deaths.insert(notification.clone());
        debug_assert!(inserted.is_ok());
    }

    fn withdraw(
        notification: &DeathNotification,
        holder: &mut ProcessState,
    ) -> Option<Arc<DeathNotification>> {
        holder.delivered_deaths.take(notification)
    }

    fn work(notification: Arc<DeathNotification>) -> Work {
        Work::Death(notification)
    }

    fn keep(
        notification: Arc<DeathNotification>,
        holder: &mut ProcessState,
    ) -> Option<Arc<DeathNotification>> {
        let is_cleared = notification.state(holder).subject.is_cleared();
        if !is_cleared || holder.spare_death.is_some() {
            return Some(notification);
        }
        holder.spare_death = SpareDeath::new(notification, holder);
        None
    }
}

/// Takes the spare notification of a process, if it has one, for a request with this cookie. Takes
/// the state lock.
fn take_spare(process: &Process, cookie: u64) -> Option<Arc<DeathNotification>> {
    let mut holder = process.lock_state();
    let notification = holder.spare_death.take()?.request(cookie, &mut holder);
    let state = notification.state(&mut holder);
    state.subject.step(|death| (death.renew(), ()));
    drop(holder);
    Some(notification)
}

/// Executes `BC_REQUEST_DEATH_NOTIFICATION` (contract DN-1): the process is notified when the node
/// behind `handle` dies, or at once if it is dead.
///
/// Fails with `ENOMEM`; with `EINVAL` if there is no such handle or it has a death notification
/// already.
pub(crate) fn request(process: &Arc<Process>, handle: u32, cookie: u64) -> Result {
    let mut new = None;
    loop {
        let mut handles = process.handles.lock();
        let reference = handles.get_mut(handle).ok_or(EINVAL)?;
        if reference.death.is_some() {
            return Err(EINVAL);
        }
        let Some(notification) = new.take().or_else(|| take_spare(process, cookie)) else {
            drop(handles);
            new = Some(Notification::new(process, cookie, ())?);
            continue;
        };
        reference.death = Some(notification.clone());
        if !reference.node.add_death_registration(&notification) {
            notify(&notification, handles);
        }
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
    let wake = step_as_holder(&notification, &mut state, thread, DeathState::clear);
    wake.after((state, handles), process, WakeHint::Anywhere);
    drop((registration, notification));
    Ok(())
}

/// Executes `BC_DEAD_BINDER_DONE`: confirms a death of which user space has read (contract DN-2).
/// `EINVAL` if no notification with this cookie is delivered.
pub(crate) fn confirm(thread: &Arc<Thread>, cookie: u64) -> Result {
    let mut process = thread.process.lock_state();
    let notification = process.delivered_deaths.take_first(cookie).ok_or(EINVAL)?;
    let wake = step_as_holder(&notification, &mut process, thread, DeathState::confirm);
    wake.after(process, &thread.process, WakeHint::Anywhere);
    drop(notification);
    Ok(())
}

/// Notifies the holder that the node has died, unless the holder has cleared its request meanwhile.
/// The notification is not on the node's list any more. No state lock may be held; `locks` are
/// released.
fn notify(notification: &Arc<DeathNotification>, locks: impl Sized) {
    notification.notify(locks, |state| state.subject.step(DeathState::node_died));
}

/// Takes a step of the state machine after which user space may have to read that its request is
/// cleared. The work is queued for the thread that has cleared it if that is in the pool, else for
/// the process (contract DN-4). Returns the wake for it.
#[inline]
fn step_as_holder(
    notification: &Arc<DeathNotification>,
    holder: &mut ProcessState,
    thread: &Arc<Thread>,
    step: impl FnOnce(DeathState<OwnPlace>) -> (DeathState<OwnPlace>, Option<OwnPlace>),
) -> Wake {
    let Some(OwnPlace) = notification.state(holder).subject.step(step) else {
        return Wake::Nobody;
    };
    let work = Work::Death(notification.clone());
    if thread.state(holder).looper.is_in_pool() {
        let wake = holder.push_to_thread(thread, work, Waking::Now);
        wake.of(thread)
    } else {
        holder.push_to_process(work)
    }
}

/// Notifies the holders of all death notifications of a node whose owner is dead, one by one
/// (lesson R01), beginning with `first`, which was taken out already. Nothing can be registered any
/// more. To be called with no lock held.
pub(crate) fn notify_all(node: &Node, first: Option<FirstToNotify>) {
    let mut next = first;
    while let Some(FirstToNotify {
        notification,
        is_last,
    }) = next
    {
        notify(&notification, ());
        next = if is_last {
            None
        } else {
            // The number of holders is limited only by memory.
            sched::cond_resched();
            node.pop_death_registration()
        };
    }
}
