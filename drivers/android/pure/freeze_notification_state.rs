// SPDX-License-Identifier: GPL-2.0

//! The state of one freeze notification: which freeze events its holder has read, and which are
//! still to be delivered to it.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it (contract FRZN-1
//! to FRZN-5). It uses one place in a work queue, `T`. The state contains that place except while
//! the notification is queued in it:
//!
//! ```text
//!               notify               read, BR_FROZEN_BINDER
//!   Idle ─────────────────► Queued ────────────────────────► Delivered
//!    ▲                        ▲                                 │ notify
//!    │                        │  BC_FREEZE_NOTIFICATION_DONE    ▼
//!    │                        └──────────────────────────── Delivered, again
//!    └─────────────────────────────────────────────────────────┘ BC_FREEZE_NOTIFICATION_DONE
//! ```
//!
//! To clear the request works like an event, after which no other event counts: the next read
//! returns `BR_CLEAR_FREEZE_NOTIFICATION_DONE` and ends the state machine. When the handle is
//! removed, everything that is still to be delivered is cancelled.
//!
//! Events may overtake each other on their way to this state. An event that is older than one that
//! has arrived is ignored, so the event that is delivered last is the one that was announced last
//! (lesson R09).

use crate::pure::freeze_state::FreezeEvent;

/// What user space reads of a freeze notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeReturn {
    /// The owner of the node is frozen, or is thawed again.
    Frozen(bool),
    /// The request is cleared.
    ClearDone,
}

/// Where the place in the queue is.
#[derive(Debug, PartialEq, Eq)]
enum Stage<T> {
    /// In the state: nothing is to be delivered.
    Idle(T),
    /// In the queue, with the notification.
    Queued,
    /// In the state, until user space confirms what was delivered; `again` is whether another event
    /// is to be delivered after that.
    Delivered { place: T, again: bool },
    /// Nothing is delivered any more. The place is dropped, or is still in the queue and has no
    /// effect when it is read.
    Over,
}

/// Whether user space still requests the notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    Active,
    Withdrawn,
}

/// The state of one freeze notification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FreezeNotificationState<T> {
    stage: Stage<T>,
    subscription: Subscription,
    /// The latest event that has arrived.
    latest: Option<FreezeEvent>,
}

impl<T> FreezeNotificationState<T> {
    /// Returns the state of a new request, of which no event has arrived. `place` is its place in a
    /// queue.
    pub(crate) fn new(place: T) -> Self {
        Self {
            stage: Stage::Idle(place),
            subscription: Subscription::Active,
            latest: None,
        }
    }

    /// Notes a freeze event. Returns the place in which to queue the notification, if it is to be
    /// queued.
    pub(crate) fn notify(&mut self, event: FreezeEvent) -> Option<T> {
        let is_stale = |latest: FreezeEvent| latest.number >= event.number;
        if self.subscription == Subscription::Withdrawn || self.latest.is_some_and(is_stale) {
            return None;
        }
        self.latest = Some(event);
        self.queue()
    }

    /// Clears the request, as user space demands. Returns the place in which to queue the
    /// notification, if it is to be queued.
    pub(crate) fn clear(&mut self) -> Option<T> {
        self.subscription = Subscription::Withdrawn;
        self.queue()
    }

    /// Reads the notification that was queued in `place`. Returns what to deliver to user space, if
    /// anything.
    pub(crate) fn read(&mut self, place: T) -> Option<FreezeReturn> {
        if !matches!(self.stage, Stage::Queued) {
            return None;
        }
        if self.subscription == Subscription::Withdrawn {
            self.stage = Stage::Over;
            return Some(FreezeReturn::ClearDone);
        }
        let again = false;
        self.stage = Stage::Delivered { place, again };
        self.latest
            .map(|latest| FreezeReturn::Frozen(latest.is_frozen))
    }

    /// Confirms what was delivered, as user space demands. Returns the place in which to queue the
    /// notification, if another event is to be delivered.
    pub(crate) fn confirm(&mut self) -> Option<T> {
        match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Delivered { place, again: true } => {
                self.stage = Stage::Queued;
                Some(place)
            }
            Stage::Delivered { place, .. } => {
                self.stage = Stage::Idle(place);
                None
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// Whether user space has cleared the request.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.subscription == Subscription::Withdrawn
    }

    /// Whether the notification is queued, and user space is told of something when it is read.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued)
    }

    /// Whether something was delivered to user space that it has not confirmed.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.stage, Stage::Delivered { .. })
    }

    /// Ends the state machine, because the handle is removed: nothing is delivered any more
    /// (contract NODE-10).
    pub(crate) fn cancel(&mut self) {
        self.stage = Stage::Over;
    }

    /// Queues the notification if its place is idle, and otherwise notes that another event is to
    /// be delivered. Returns the place in which to queue, if it is to be queued now.
    fn queue(&mut self) -> Option<T> {
        match core::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Idle(place) => {
                self.stage = Stage::Queued;
                Some(place)
            }
            Stage::Delivered { place, .. } => {
                let again = true;
                self.stage = Stage::Delivered { place, again };
                None
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}
