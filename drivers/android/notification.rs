// SPDX-License-Identifier: GPL-2.0

//! The request of a process to be told of something: that a node has died, or that its owner is frozen or thawed.
//!
//! A [`Notification`] belongs to the handle that it was requested for. Two others know it:
//!
//! ```text
//!   handle ───► Notification ◄─── node, or its owner    until it is removed there     (owner's state lock)
//!                    ▲      ◄─── work queue             while something waits         (holder's state lock)
//!                    └────────── delivered              until user space confirms it  (the same)
//! ```
//!
//! What is still to be told is the state machine of its [`Subject`], guarded by the *holder's* state lock. The
//! registration at the node or its owner is guarded by the *owner's*; the two are never held together. So
//! the owner may have taken a notification off its list when the holder cancels it: whoever comes second finds in
//! the state machine that there is nothing left to tell (lesson R01).
//!
//! A notification begins and ends under the holder's handles lock as a whole, so that it is one step for
//! user space.

use crate::{
    common::stats::{Counted, Kind},
    defs::Return,
    process::{Process, ProcessState},
    pure::{
        death_state::DeathState,
        freeze_notification_state::FreezeNotificationState,
        registrations::{DeliveredNotifications, Place, RemovedFrom}, //
    },
    work::{Dequeued, Wake, Work, WorkPosition, WorkTicket}, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        LockedBy, //
    }, //
};

/// The request to be told when a node dies.
pub(crate) type DeathNotification = Notification<DeathState<WorkTicket>>;

/// The request to be told when the owner of a node is frozen or thawed.
pub(crate) type FreezeNotification = Notification<FreezeNotificationState<WorkTicket>>;

/// What a notification is about: the state machine that says what is still to be told.
pub(crate) trait Subject: Sized {
    /// What user space reads.
    type Told: Copy;

    /// As what notifications of this subject are counted.
    const KIND: Kind;

    /// Nothing has happened yet. `ticket` is the place in the queue for what is to be told.
    fn new(ticket: WorkTicket) -> Self;

    /// What was queued is read. Gives what to tell, if it is still to be told.
    fn read(&mut self, ticket: WorkTicket) -> Option<Self::Told>;

    /// The handle is gone: nothing is told any more (contract NODE-10).
    fn cancel(&mut self);

    /// Whether the owner may still have the notification on its list.
    fn may_be_registered(&self) -> bool;

    /// Whether something was told that user space has not confirmed.
    fn is_delivered(&self) -> bool;

    /// Whether user space confirms this, and a read ends with it.
    fn is_confirmed(told: Self::Told) -> bool;

    /// The code and the payload that user space reads; of the payload, as much as the code has.
    fn encode(told: Self::Told, cookie: u64) -> (Return, [u8; 16]);

    /// The notifications of this subject that a process has been told of and has not confirmed.
    fn delivered(holder: &mut ProcessState) -> &mut DeliveredNotifications<Notification<Self>>;

    /// The work that lets the holder read of it.
    fn work(notification: Arc<Notification<Self>>) -> Work;
}

/// The request of a process to be told of something.
pub(crate) struct Notification<S> {
    /// What the holder calls the request. Need not be unique.
    pub(crate) cookie: u64,
    /// The process that is told.
    pub(crate) holder: Arc<Process>,
    /// Where what is to be told is queued, when it is.
    position: WorkPosition,
    state: LockedBy<NotificationState<S>, ProcessState>,
    _counted: Counted,
}

/// What changes in the life of a notification, guarded by the holder's state lock.
pub(crate) struct NotificationState<S> {
    pub(crate) subject: S,
    /// A place among the delivered ones, while the notification is not there.
    pub(crate) place: Option<Place<Notification<S>>>,
    /// Its number there, once it was delivered.
    number: u64,
}

/// What a notification held that was cancelled with its handle: to be dropped once the locks are gone.
pub(crate) struct CancelledNotification<S> {
    _registration: Option<Place<Notification<S>>>,
    _delivered: Option<RemovedFrom<Notification<S>>>,
    _place: Option<Place<Notification<S>>>,
    _queued: Option<Dequeued>,
    _notification: Arc<Notification<S>>,
}

/// What a death notification held.
pub(crate) type CancelledDeath = CancelledNotification<DeathState<WorkTicket>>;

/// What a freeze notification held.
pub(crate) type CancelledFreeze = CancelledNotification<FreezeNotificationState<WorkTicket>>;

impl<S: Subject> Notification<S> {
    /// Makes a notification that nobody knows. Fails for want of memory only.
    pub(crate) fn new(
        holder: &Arc<Process>,
        cookie: u64,
        place: Option<Place<Self>>,
    ) -> Result<Arc<Self>> {
        let ticket = WorkTicket::new(GFP_KERNEL)?;
        let position = ticket.position();
        let state = NotificationState {
            subject: S::new(ticket),
            place,
            number: 0,
        };
        let notification = Self {
            cookie,
            holder: holder.clone(),
            position,
            state: LockedBy::new(holder.state_lock(), state),
            _counted: Counted::new(S::KIND),
        };
        Ok(Arc::new(notification, GFP_KERNEL)?)
    }

    /// The state, for whoever holds the holder's state lock.
    pub(crate) fn state<'a>(
        &'a self,
        holder: &'a mut ProcessState,
    ) -> &'a mut NotificationState<S> {
        self.state.access_mut(holder)
    }

    /// Something has happened that the holder may have to be told. `change` takes note of it, and gives the place in the
    /// queue if there is something to tell now. Says whom to wake.
    pub(crate) fn notify(
        self: &Arc<Self>,
        change: impl FnOnce(&mut NotificationState<S>) -> Option<WorkTicket>,
    ) -> Wake {
        let mut holder = self.holder.lock_state();
        if self.holder.has_ended.load(Relaxed) {
            // Before `change`, which may hold memory.
            drop(holder);
            return Wake::Nobody;
        }
        match change(self.state(&mut holder)) {
            Some(ticket) => holder.push_to_process(ticket, S::work(self.clone())),
            None => Wake::Nobody,
        }
    }

    /// What was queued is read: what to tell user space, if it is still to be told.
    pub(crate) fn read(
        self: &Arc<Self>,
        ticket: WorkTicket,
        holder: &mut ProcessState,
    ) -> Option<S::Told> {
        let state = self.state(holder);
        let told = state.subject.read(ticket)?;
        if S::is_confirmed(told) {
            // Present: it came with the event, or was given back with the last confirmation.
            let place = state.place.take()?;
            let number = S::delivered(holder).insert(self, self.cookie, place);
            self.state(holder).number = number;
        }
        Some(told)
    }

    /// The handle is gone that the notification belonged to; nobody is told (contract NODE-10).
    /// `unregister` removes it from the owner's list. To be called under the handles lock, as long as
    /// user space can request another one.
    pub(crate) fn cancel(
        self: Arc<Self>,
        unregister: impl FnOnce(&Arc<Self>) -> Option<Place<Self>>,
    ) -> CancelledNotification<S> {
        let mut holder = self.holder.lock_state();
        let state = self.state(&mut holder);
        let (is_registered, is_delivered) = (
            state.subject.may_be_registered(),
            state.subject.is_delivered(),
        );
        state.subject.cancel();
        let (place, number) = (state.place.take(), state.number);
        let delivered = if is_delivered {
            S::delivered(&mut holder).remove(self.cookie, number)
        } else {
            None
        };
        // What is queued for a notification that still has its handle waits in the queue of the process.
        let queued = holder.work.take(&self.position);
        drop(holder);
        let registration = if is_registered {
            unregister(&self)
        } else {
            None
        };
        CancelledNotification {
            _registration: registration,
            _delivered: delivered,
            _place: place,
            _queued: queued,
            _notification: self,
        }
    }
}
