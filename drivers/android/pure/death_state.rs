// SPDX-License-Identifier: GPL-2.0

//! The state of one death notification.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it (contract DN-1 to
//! DN-6). It uses one place in a work queue, `T`. The state contains that place except while the
//! notification is queued in it:
//!
//! ```text
//!                node dies           read               BC_DEAD_BINDER_DONE
//!   Registered ───────────► Queued ────────► Delivered ─────────────────────► Done
//!       │                     │ clear            │ clear                       │
//!       │ clear               ▼      read        ▼                             │ clear
//!       │               Queued, cleared ─► Delivered, cleared                  │
//!       │                                        │ BC_DEAD_BINDER_DONE         │
//!       └──────────────────────────────────► Clearing ◄────────────────────────┘
//!                                                │ read
//!                                                ▼        requested anew
//!                                             Cleared ─────────────────────► Registered
//!
//!   any that is not cleared ──────────────►    Over
//!                           handle removed
//! ```
//!
//! Each transition consumes the state that it leaves, so nothing is delivered twice. An event for
//! which a state has no transition came too late and changes nothing.

/// Whether user space has cleared the request, and therefore waits for
/// `BR_CLEAR_DEATH_NOTIFICATION_DONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    No,
    Yes,
}

/// What user space reads of a death notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeathReturn {
    /// The node is dead.
    Dead,
    /// The request is cleared.
    ClearDone,
}

/// The state of one death notification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DeathState<T> {
    /// The notification waits for the node's death: the death has not been noted here.
    Registered(T),
    /// `BR_DEAD_BINDER` is queued.
    Queued(Cleared),
    /// `BR_DEAD_BINDER` is delivered, and user space has not confirmed it yet.
    Delivered(T, Cleared),
    /// User space has confirmed it. The request still exists, and delivers nothing any more.
    Done(T),
    /// `BR_CLEAR_DEATH_NOTIFICATION_DONE` is queued.
    Clearing,
    /// User space has read it. Nothing is delivered any more, unless another request begins anew
    /// with this state.
    Cleared(T),
    /// Nothing is delivered any more. The notification may still be queued; it has no effect when
    /// it is read.
    Over,
}

/// The next state, and the place in which to queue the notification, if it is to be queued now.
type Step<T> = (DeathState<T>, Option<T>);

impl<T> DeathState<T> {
    /// Replaces the state by the result of one of the steps below. Returns the other result of the
    /// step.
    pub(crate) fn step<R>(&mut self, step: impl FnOnce(Self) -> (Self, R)) -> R {
        let (next, result) = step(core::mem::replace(self, Self::Over));
        // The replaced state is `Over`, which has nothing to drop, but the compiler cannot know
        // that.
        core::mem::forget(core::mem::replace(self, next));
        result
    }

    /// Notes that the node is dead.
    pub(crate) fn node_died(self) -> Step<T> {
        match self {
            Self::Registered(place) => (Self::Queued(Cleared::No), Some(place)),
            other => (other, None),
        }
    }

    /// Clears the request, as user space demands.
    pub(crate) fn clear(self) -> Step<T> {
        match self {
            Self::Registered(place) | Self::Done(place) => (Self::Clearing, Some(place)),
            Self::Queued(_) => (Self::Queued(Cleared::Yes), None),
            Self::Delivered(place, _) => (Self::Delivered(place, Cleared::Yes), None),
            other => (other, None),
        }
    }

    /// Confirms `BR_DEAD_BINDER`, as user space demands.
    pub(crate) fn confirm(self) -> Step<T> {
        match self {
            Self::Delivered(place, Cleared::No) => (Self::Done(place), None),
            Self::Delivered(place, Cleared::Yes) => (Self::Clearing, Some(place)),
            other => (other, None),
        }
    }

    /// Reads the notification that was queued in `place`. Returns what to deliver to user space, if
    /// anything.
    pub(crate) fn read(self, place: T) -> (Self, Option<DeathReturn>) {
        match self {
            Self::Queued(cleared) => (Self::Delivered(place, cleared), Some(DeathReturn::Dead)),
            Self::Clearing => (Self::Cleared(place), Some(DeathReturn::ClearDone)),
            other => (other, None),
        }
    }

    /// Begins anew, for another request. Only what is [`Cleared`](Self::Cleared) does.
    pub(crate) fn renew(self) -> Self {
        match self {
            Self::Cleared(place) => Self::Registered(place),
            other => other,
        }
    }

    /// Whether user space has read that the request is cleared.
    pub(crate) fn is_cleared(&self) -> bool {
        matches!(self, Self::Cleared(_))
    }

    /// Whether the notification still waits for the node's death.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Self::Registered(_))
    }

    /// Whether the death is delivered to user space and not confirmed.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered(..))
    }

    /// Ends the state machine, because the handle of the request is removed (contract NODE-10).
    /// Must not be called after the request was cleared: user space then waits for an answer.
    pub(crate) fn cancel(self) -> Self {
        Self::Over
    }
}
