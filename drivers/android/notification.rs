// SPDX-License-Identifier: GPL-2.0

//! Notifications: the requests of a process to be notified that a node has died, or that the owner
//! of a node is frozen or thawed.
//!
//! A [`Notification`] belongs to the handle that it was requested for. Other references to it are:
//!
//! ```text
//!   handle ───► Notification ◄─── node, or its owner  until it is removed there    (owner's lock)
//!                    ▲      ◄─── work queue           while something waits        (holder's lock)
//!                    └────────── delivered            until user space confirms it (the same)
//! ```
//!
//! It has a place in one collection at a time, its link; see [`crate::kernel_ext::link`]. A death
//! notification waits at its node, then in a work queue, then among the delivered ones, and needs
//! no other memory. A freeze notification waits at the owner all the time, in a place of its own.
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
    defs::{FreezeNotice, Return},
    kernel_ext::{
        link::{has_field, Link},
        park::WakeHint, //
    },
    process::{Process, ProcessState},
    pure::{death_state::DeathState, freeze_notification_state::FreezeNotificationState},
    work::{OwnPlace, Work}, //
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
pub(crate) type DeathNotification = Notification<DeathState<OwnPlace>>;

// With its reference count as large as the kernel's allocator has room for before the next size.
const _: () =
    assert!(size_of::<DeathNotification>() <= 56 || cfg!(not(target_pointer_width = "64")));

/// A death notification for the next request.
pub(crate) type SpareDeath = SpareNotification<DeathState<OwnPlace>>;

/// The request to be notified when the owner of a node is frozen or thawed.
pub(crate) type FreezeNotification = Notification<FreezeNotificationState<OwnPlace>>;

/// What a notification is about: the state machine that knows what is still to be notified.
pub(crate) trait Subject: Sized {
    /// What user space reads.
    type Message: Copy;

    /// What a notification needs to be delivered, besides its link.
    type Delivery;

    /// What is left of a registration that was removed, to be dropped without a lock.
    type Registration;

    /// What is left of a delivery that was withdrawn, to be dropped without a lock.
    type Withdrawn;

    /// What decides in which order the notifications of one owner come.
    type Order;

    /// The kind by which notifications of this subject are counted.
    const KIND: Kind;

    /// Returns the state in which nothing has happened yet.
    fn new() -> Self;

    /// Returns the order of a notification that is not registered.
    fn no_order() -> Self::Order;

    /// Reads what was queued. Returns what to write for user space, if it is still to be notified.
    fn read(&mut self) -> Option<Self::Message>;

    /// Records that the handle is removed: user space is not notified any more (contract NODE-10).
    fn cancel(&mut self);

    /// Whether the owner may still have the notification on its list.
    fn may_be_registered(&self) -> bool;

    /// Whether something was delivered that user space has not confirmed.
    fn is_delivered(&self) -> bool;

    /// Whether user space confirms `message`, and a read ends after it.
    fn is_confirmed(message: Self::Message) -> bool;

    /// Returns the code that user space reads, and the word behind the cookie, for codes that have
    /// one.
    fn code(message: Self::Message) -> (Return, u32);

    /// Adds a notification, which is being delivered, to those that are not confirmed yet.
    fn deliver(notification: &Arc<Notification<Self>>, holder: &mut ProcessState);

    /// Removes it from there, because it will not be confirmed any more.
    fn withdraw(notification: &Notification<Self>, holder: &mut ProcessState) -> Self::Withdrawn;

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
pub(crate) struct Notification<S: Subject> {
    /// The number by which the holder knows the request. It need not be unique.
    pub(crate) cookie: u64,
    /// The process that is notified.
    pub(crate) holder: Arc<Process>,
    /// Where it comes among those of the same owner.
    pub(crate) order: S::Order,
    /// Its place in one of the collections that notifications are in.
    link: Link,
    state: LockedBy<NotificationState<S>, ProcessState>,
}

has_field!(impl<S: Subject> for Notification<S>, link: Link);

/// The state of a notification that changes, guarded by the holder's state lock.
pub(crate) struct NotificationState<S: Subject> {
    pub(crate) subject: S,
    pub(crate) delivery: S::Delivery,
    /// Absent while the notification is a spare one.
    counted: Option<Counted>,
}

/// A notification for the next request of its holder, which then need not allocate. Nothing else
/// refers to it.
pub(crate) struct SpareNotification<S: Subject>(Pin<UniqueArc<Notification<S>>>);

impl FreezeNotification {
    /// Returns the pointer by which the owner names the node. It is the same as long as the
    /// notification is registered.
    pub(crate) fn node_pointer(&self) -> u64 {
        self.order.load(Relaxed)
    }
}

/// What a notification held that was cancelled with its handle: to be dropped after the locks are
/// released.
pub(crate) struct CancelledNotification<S: Subject> {
    _registration: Option<S::Registration>,
    _delivered: Option<S::Withdrawn>,
    _queued: Option<Work>,
    _notification: Arc<Notification<S>>,
}

/// What a death notification held.
pub(crate) type CancelledDeath = CancelledNotification<DeathState<OwnPlace>>;

/// What a freeze notification held.
pub(crate) type CancelledFreeze = CancelledNotification<FreezeNotificationState<OwnPlace>>;

impl<S: Subject<Delivery: Unpin, Order: Unpin> + Unpin> SpareNotification<S> {
    /// Returns `None` if another reference exists; then that is the one to drop the notification.
    /// The caller holds the holder's state lock.
    pub(crate) fn new(
        notification: Arc<Notification<S>>,
        holder: &mut ProcessState,
    ) -> Option<Self> {
        let unique = Arc::into_unique_or_drop(notification)?;
        unique.state(holder).counted = None;
        Some(Self(unique))
    }

    /// Returns the notification, requested with this cookie. Its state is what it was. The caller
    /// holds the holder's state lock.
    pub(crate) fn request(self, cookie: u64, holder: &mut ProcessState) -> Arc<Notification<S>> {
        let Self(mut unique) = self;
        unique.cookie = cookie;
        unique.state(holder).counted = Some(Counted::new(S::KIND));
        unique.into()
    }
}

impl<S: Subject> Notification<S> {
    /// Allocates a notification that is not registered. `ENOMEM` is the only error.
    pub(crate) fn new(
        holder: &Arc<Process>,
        cookie: u64,
        delivery: S::Delivery,
    ) -> Result<Arc<Self>> {
        let state = NotificationState {
            subject: S::new(),
            delivery,
            counted: Some(Counted::new(S::KIND)),
        };
        let notification = Self {
            cookie,
            holder: holder.clone(),
            order: S::no_order(),
            link: Link::new(),
            state: LockedBy::new(holder.state_lock(), state),
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

    /// Notifies the holder of something, if it has not ended, and releases `locks`, which the
    /// caller holds, before anything is woken. `change` records it in the state, and returns its
    /// place if user space is to read of it now. No state lock may be held.
    pub(crate) fn notify(
        self: &Arc<Self>,
        locks: impl Sized,
        change: impl FnOnce(&mut NotificationState<S>) -> Option<OwnPlace>,
    ) {
        let mut holder = self.holder.lock_state();
        if self.holder.has_ended.load(Relaxed) {
            return;
        }
        if let Some(OwnPlace) = change(self.state(&mut holder)) {
            let wake = holder.push_to_process(S::work(self.clone()));
            wake.after((holder, locks), &self.holder, WakeHint::Anywhere);
        }
    }

    /// Reads what was queued. Returns what to write for user space, if it is still to be notified.
    pub(crate) fn read(self: &Arc<Self>, holder: &mut ProcessState) -> Option<S::Message> {
        let message = self.state(holder).subject.read()?;
        if S::is_confirmed(message) {
            S::deliver(self, holder);
        }
        Some(message)
    }

    /// Returns the code and the payload that user space reads; of the payload, as many bytes as the
    /// code has.
    pub(crate) fn notice(&self, message: S::Message) -> (Return, FreezeNotice) {
        let (code, is_frozen) = S::code(message);
        let notice = FreezeNotice {
            cookie: self.cookie,
            is_frozen,
            reserved: 0,
        };
        (code, notice)
    }

    /// Cancels the notification, because its handle is removed; user space is not notified of that
    /// (contract NODE-10). `unregister` removes it from the owner's list. To be called under the
    /// handles lock as long as user space can request another notification.
    pub(crate) fn cancel(
        self: Arc<Self>,
        unregister: impl FnOnce(&Arc<Self>) -> Option<S::Registration>,
    ) -> CancelledNotification<S> {
        let mut holder = self.holder.lock_state();
        let state = self.state(&mut holder);
        let (is_registered, is_delivered) = (
            state.subject.may_be_registered(),
            state.subject.is_delivered(),
        );
        state.subject.cancel();
        let delivered = if is_delivered {
            Some(S::withdraw(&self, &mut holder))
        } else {
            None
        };
        // A notification that still has its handle is queued in the work queue of the process only.
        let queued = holder.work.take(&*self);
        drop(holder);
        let registration = if is_registered {
            unregister(&self)
        } else {
            None
        };
        CancelledNotification {
            _registration: registration,
            _delivered: delivered,
            _queued: queued,
            _notification: self,
        }
    }
}
