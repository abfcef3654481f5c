// SPDX-License-Identifier: GPL-2.0

//! What one process has heard of another's freezing, and what it is still to hear.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it (contract FRZN-1 to
//! FRZN-5). What it says it says through one place in a queue, `T`, which is in the state while nothing
//! waits in that place:
//!
//! ```text
//!              announce              read, BR_FROZEN_BINDER
//!   Idle ─────────────────► Queued ──────────────────────────► Told
//!    ▲                        ▲                                 │ announce
//!    │                        │  BC_FREEZE_NOTIFICATION_DONE    ▼
//!    │                        └────────────────────────────── Told, again
//!    └─────────────────────────────────────────────────────────┘ BC_FREEZE_NOTIFICATION_DONE
//! ```
//!
//! To withdraw the request works like an announcement, after which no other counts: what is read next
//! is `BR_CLEAR_FREEZE_NOTIFICATION_DONE`, and the end. When the handle goes, so does all the rest.
//!
//! Announcements may overtake each other on their way here; one that is older than another that has
//! come is not heard. So what is told last is what was announced last (lesson R09).

use crate::pure::freeze_state::FreezeEvent;

/// What user space reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeReturn {
    /// The other process is frozen, or runs again.
    Frozen(bool),
    /// The request is withdrawn.
    ClearDone,
}

/// Where the place in the queue is.
#[derive(Debug, PartialEq, Eq)]
enum Stage<T> {
    /// Here: there is nothing to say.
    Idle(T),
    /// In the queue.
    Queued,
    /// Here, until user space has confirmed what it was told; and whether there is more to say then.
    Delivered { place: T, again: bool },
    /// Nowhere, or soon: nothing will be said any more.
    Over,
}

/// Whether user space still wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    Active,
    Withdrawn,
}

/// The state of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FreezeNotificationState<T> {
    stage: Stage<T>,
    subscription: Subscription,
    /// The latest announcement that has come.
    latest: Option<FreezeEvent>,
}

impl<T> FreezeNotificationState<T> {
    /// A request of which nothing has been heard.
    pub(crate) fn new(place: T) -> Self {
        Self {
            stage: Stage::Idle(place),
            subscription: Subscription::Active,
            latest: None,
        }
    }

    /// Something is announced. Gives the place in which to queue, if that is to be done.
    pub(crate) fn notify(&mut self, event: FreezeEvent) -> Option<T> {
        let is_stale = |latest: FreezeEvent| latest.number >= event.number;
        if self.subscription == Subscription::Withdrawn || self.latest.is_some_and(is_stale) {
            return None;
        }
        self.latest = Some(event);
        self.queue()
    }

    /// User space withdraws its request. Gives the place in which to queue, if that is to be done.
    pub(crate) fn clear(&mut self) -> Option<T> {
        self.subscription = Subscription::Withdrawn;
        self.queue()
    }

    /// What was queued in `place` is read. Gives what to tell, if anything.
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

    /// User space confirms what it was told. Gives the place in which to queue, if there is more.
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

    /// Whether user space was told something that it has not confirmed.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.stage, Stage::Delivered { .. })
    }

    /// The handle is gone: nothing is said any more (contract NODE-10).
    pub(crate) fn cancel(&mut self) {
        self.stage = Stage::Over;
    }

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
