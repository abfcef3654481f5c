// SPDX-License-Identifier: GPL-2.0

//! How far the promise to tell a process of a node's death has come.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it (contract DN-1 to
//! DN-6). What it says to user space it says through one place in a queue, `T`, which is in the state
//! while nothing waits in that place:
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
//!                                                ▼
//!   any that is not cleared ──────────────►    Over
//!                            handle is gone
//! ```
//!
//! Each arrow consumes the state that it leaves, so nothing is said twice. An event that finds no
//! arrow came too late and changes nothing.

/// Whether user space has withdrawn the request, and so waits for
/// `BR_CLEAR_DEATH_NOTIFICATION_DONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    No,
    Yes,
}

/// What user space reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeathReturn {
    /// The node is dead.
    Dead,
    /// The request is withdrawn.
    ClearDone,
}

/// The state of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DeathState<T> {
    /// The node lives, as far as its holder has heard.
    Registered(T),
    /// `BR_DEAD_BINDER` waits in a queue.
    Queued(Cleared),
    /// It was read, and user space has not confirmed it yet.
    Delivered(T, Cleared),
    /// User space has confirmed it. The request is still there, and says nothing any more.
    Done(T),
    /// `BR_CLEAR_DEATH_NOTIFICATION_DONE` waits in a queue.
    Clearing,
    /// Nothing is to be said any more. Something may still wait in a queue; it is not told.
    Over,
}

/// The next state, and the place in which something has to be queued now, if anything has.
type Step<T> = (DeathState<T>, Option<T>);

impl<T> DeathState<T> {
    /// Takes one of the steps below, in place.
    pub(crate) fn step<R>(&mut self, step: impl FnOnce(Self) -> (Self, R)) -> R {
        let (next, result) = step(core::mem::replace(self, Self::Over));
        // What is replaced is `Over`, in which there is nothing to drop; the compiler does not know that.
        core::mem::forget(core::mem::replace(self, next));
        result
    }

    /// The node has died.
    pub(crate) fn node_died(self) -> Step<T> {
        match self {
            Self::Registered(place) => (Self::Queued(Cleared::No), Some(place)),
            other => (other, None),
        }
    }

    /// User space withdraws the request.
    pub(crate) fn clear(self) -> Step<T> {
        match self {
            Self::Registered(place) | Self::Done(place) => (Self::Clearing, Some(place)),
            Self::Queued(_) => (Self::Queued(Cleared::Yes), None),
            Self::Delivered(place, _) => (Self::Delivered(place, Cleared::Yes), None),
            other => (other, None),
        }
    }

    /// User space confirms that it has heard of the death.
    pub(crate) fn confirm(self) -> Step<T> {
        match self {
            Self::Delivered(place, Cleared::No) => (Self::Done(place), None),
            Self::Delivered(place, Cleared::Yes) => (Self::Clearing, Some(place)),
            other => (other, None),
        }
    }

    /// What was queued comes out of its queue, and with it its place there.
    pub(crate) fn read(self, place: T) -> (Self, Option<DeathReturn>) {
        match self {
            Self::Queued(cleared) => (Self::Delivered(place, cleared), Some(DeathReturn::Dead)),
            Self::Clearing => (Self::Over, Some(DeathReturn::ClearDone)),
            other => (other, None),
        }
    }

    /// Whether the node's death is still waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Self::Registered(_))
    }

    /// Whether user space has been told of the death and has not confirmed it.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered(..))
    }

    /// The handle is gone that the request was made for (contract NODE-10). Not to be called once the
    /// request was withdrawn: user space is then owed an answer.
    pub(crate) fn cancel(self) -> Self {
        Self::Over
    }
}
