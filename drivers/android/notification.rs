// SPDX-License-Identifier: GPL-2.0

//! Notifications: the requests of a process to be notified that a node has died, or that the owner
//! of a node is frozen or thawed.
//!
//! A [`Notification`] belongs to the handle that it was requested for. Other references to it are:
//!
//! ```text
//!   handle ───► Notification ◄─── node, or its owner    until it is removed there     (owner's state lock)
//!                    ▲      ◄─── work queue             while something waits         (holder's state lock)
//!                    └────────── delivered              until user space confirms it  (the same)
//! ```
//!
//! The state machine of its [`Subject`] records what is still to be notified; it is guarded by the
//! *holder's* state lock. The registration at the node or its owner is guarded by the *owner's*;
//! the two locks are never held together. So the owner may have taken a notification off its list
//! when the holder cancels it: the second of the two finds in the state machine that nothing is
//! left to notify (lesson R01).
//!
//! A notification is requested and cleared or cancelled under the holder's handles lock as a whole,
//! so that each of these is one step for user space.

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
        LockedBy,
        UniqueArc, //
    }, //
};

/// The request to be notified when a node dies.
pub(crate) type DeathNotification = Notification<DeathState<WorkTicket>>;

/// A death notification for the next request.
pub(crate) type SpareDeath = SpareNotification<DeathState<WorkTicket>>;

/// The request to be notified when the owner of a node is frozen or thawed.
pub(crate) type FreezeNotification = Notification<FreezeNotificationState<WorkTicket>>;

/// What a notification is about: the state machine that knows what is still to be notified.
pub(crate) trait Subject: Sized {
    /// What user space reads.
    type Message: Copy;

    /// The kind by which notifications of this subject are counted.
    const KIND: Kind;

    /// Returns the state in which nothing has happened yet. `ticket` is the place in the queue for
    /// what is to be notified.
    fn new(ticket: WorkTicket) -> Self;

    /// Reads what was queued, and takes back its ticket. Returns what to write for user space, if
    /// it is still to be notified.
    fn read(&mut self, ticket: WorkTicket) -> Option<Self::Message>;

    /// Records that the handle is removed: user space is not notified any more (contract NODE-10).
    fn cancel(&mut self);

    /// Whether the owner may still have the notification on its list.
    fn may_be_registered(&self) -> bool;

    /// Whether something was delivered that user space has not confirmed.
    fn is_delivered(&self) -> bool;

    /// Whether user space confirms `message`, and a read ends after it.
    fn is_confirmed(message: Self::Message) -> bool;

    /// Returns the code that user space reads, and the word behind the cookie, for codes that have one.
    fn code(message: Self::Message) -> (Return, u32);

    /// Returns the notifications of this subject that are delivered to a process and not confirmed
    /// yet.
    fn delivered(holder: &mut ProcessState) -> &mut DeliveredNotifications<Notification<Self>>;

    /// Returns the work that is queued for the holder.
    fn work(notification: Arc<Notification<Self>>) -> Work;

    /// Keeps a notification that nothing queues or registers any more for the next request of the
    /// holder. Returns it if it is not kept, to be dropped without the lock.
    fn keep(
        notification: Arc<Notification<Self>>,
        _holder: &mut ProcessState,
    ) -> Option<Arc<Notification<Self>>> {
        Some(notification)
    }
}

/// The request of a process to be notified of something.
pub(crate) struct Notification<S> {
    /// The number by which the holder knows the request. It need not be unique.
    pub(crate) cookie: u64,
    /// The process that is notified.
    pub(crate) holder: Arc<Process>,
    /// The position of the notification in a work queue, while it is queued.
    position: WorkPosition,
    state: LockedBy<NotificationState<S>, ProcessState>,
    /// Absent while the notification is a spare one.
    counted: Option<Counted>,
}

/// The state of a notification that changes, guarded by the holder's state lock.
pub(crate) struct NotificationState<S> {
    pub(crate) subject: S,
    /// A place among the delivered notifications, while this one is not there.
    pub(crate) place: Option<Place<Notification<S>>>,
    /// Its number there, once it has been delivered.
    number: u64,
}

/// A notification for the next request of its holder, which then need not allocate. Nothing else refers
/// to it.
pub(crate) struct SpareNotification<S>(Pin<UniqueArc<Notification<S>>>);

/// What a notification held that was cancelled with its handle: to be dropped after the locks are
/// released.
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

impl<S: Subject + Unpin> SpareNotification<S> {
    /// Returns `None` if another reference exists; then that is the one to drop the notification.
    pub(crate) fn new(notification: Arc<Notification<S>>) -> Option<Self> {
        let mut unique = Arc::into_unique_or_drop(notification)?;
        unique.counted = None;
        Some(Self(unique))
    }

    /// Returns the notification, requested with this cookie. Its state is what it was.
    pub(crate) fn request(self, cookie: u64) -> Arc<Notification<S>> {
        let Self(mut unique) = self;
        unique.cookie = cookie;
        unique.counted = Some(Counted::new(S::KIND));
        unique.into()
    }
}

impl<S: Subject> Notification<S> {
    /// Allocates a notification that is not registered. `ENOMEM` is the only error.
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
            counted: Some(Counted::new(S::KIND)),
        };
        Ok(Arc::new(notification, GFP_KERNEL)?)
    }

    /// Returns the state. The caller holds the holder's state lock.
    pub(crate) fn state<'a>(
        &'a self,
        holder: &'a mut ProcessState,
    ) -> &'a mut NotificationState<S> {
        self.state.access_mut(holder)
    }

    /// The same, to be read.
    pub(crate) fn state_shared<'a>(&'a self, holder: &'a ProcessState) -> &'a NotificationState<S>
    where
        NotificationState<S>: Sync,
    {
        self.state.access(holder)
    }

    /// Notifies the holder of something, if it has not ended. `change` records it in the state, and
    /// returns the place in the queue if user space is to read of it now. Returns the wake for it.
    /// No state lock may be held.
    pub(crate) fn notify(
        self: &Arc<Self>,
        change: impl FnOnce(&mut NotificationState<S>) -> Option<WorkTicket>,
    ) -> Wake {
        let mut holder = self.holder.lock_state();
        if self.holder.has_ended.load(Relaxed) {
            // Before `change` is dropped, which may own memory.
            drop(holder);
            return Wake::Nobody;
        }
        match change(self.state(&mut holder)) {
            Some(ticket) => holder.push_to_process(ticket, S::work(self.clone())),
            None => Wake::Nobody,
        }
    }

    /// Reads what was queued. Returns what to write for user space, if it is still to be notified.
    pub(crate) fn read(
        self: &Arc<Self>,
        ticket: WorkTicket,
        holder: &mut ProcessState,
    ) -> Option<S::Message> {
        let state = self.state(holder);
        let message = state.subject.read(ticket)?;
        if S::is_confirmed(message) {
            // Present: it came with the event, or was put back with the last confirmation.
            let place = state.place.take()?;
            let number = S::delivered(holder).insert(self, self.cookie, place);
            self.state(holder).number = number;
        }
        Some(message)
    }

    /// Returns the code and the payload that user space reads; of the payload, as many bytes as the code
    /// has.
    pub(crate) fn encode(&self, message: S::Message) -> (Return, [u8; 16]) {
        let (code, word) = S::code(message);
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&self.cookie.to_ne_bytes());
        payload[8..12].copy_from_slice(&word.to_ne_bytes());
        (code, payload)
    }

    /// Cancels the notification, because its handle is removed; user space is not notified of that
    /// (contract NODE-10). `unregister` removes it from the owner's list. To be called under the
    /// handles lock as long as user space can request another notification.
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
        // A notification that still has its handle is queued in the work queue of the process only.
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
