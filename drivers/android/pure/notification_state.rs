// SPDX-License-Identifier: GPL-2.0

//! The state of a death or freeze notification: the messages that its holder has read, and those
//! that are still to be delivered.
//!
//! Two pure state machines without kernel types, so that a model can explore them (contract
//! DN-1 to DN-6, FRZN-1 to FRZN-5). A step returns whether the notification is to be queued now; it
//! is in no queue then. An event for which a state has no transition came too late and changes
//! nothing.

use crate::pure::freeze_state::FreezeEvent;

/// A message of a notification to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The node is dead; or its owner is frozen, or thawed again.
    Event,
    /// The request is cleared.
    ClearDone,
}

/// The state of one death notification.
///
/// ```text
///                node dies           read               BC_DEAD_BINDER_DONE
///   Registered ───────────► Queued ────────► Delivered ─────────────────────► Done
///       │                     │ clear            │ clear                       │
///       │ clear               ▼      read        ▼                             │ clear
///       │               Queued, cleared ─► Delivered, cleared                  │
///       │                                        │ BC_DEAD_BINDER_DONE         │
///       └──────────────────────────────────► Clearing ◄────────────────────────┘
///                                                │ read
///                                                ▼
///                                             Cleared
///
///   any that is not cleared ──────────────►    Over
///                           handle removed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeathState {
    /// The notification waits for the node's death: the death has not been noted here.
    Registered,
    /// `BR_DEAD_BINDER` is queued.
    Queued { is_cleared: bool },
    /// `BR_DEAD_BINDER` is delivered, and user space has not confirmed it yet.
    Delivered { is_cleared: bool },
    /// User space has confirmed it. The request still exists, and delivers nothing any more.
    Done,
    /// `BR_CLEAR_DEATH_NOTIFICATION_DONE` is queued.
    Clearing,
    /// User space has read it. Nothing is delivered any more.
    Cleared,
    /// The handle of the request is removed (contract NODE-10): nothing is delivered any more. The
    /// notification may still be queued; it has no effect when it is read.
    Over,
}

impl DeathState {
    /// Notes that the node is dead.
    pub(crate) fn node_died(&mut self) -> bool {
        let is_waiting = *self == Self::Registered;
        if is_waiting {
            *self = Self::Queued { is_cleared: false };
        }
        is_waiting
    }

    /// Clears the request, as user space demands.
    pub(crate) fn clear(&mut self) -> bool {
        match self {
            Self::Registered | Self::Done => {
                *self = Self::Clearing;
                return true;
            }
            Self::Queued { is_cleared } | Self::Delivered { is_cleared } => *is_cleared = true,
            Self::Clearing | Self::Cleared | Self::Over => {}
        }
        false
    }

    /// Confirms `BR_DEAD_BINDER`, as user space demands.
    pub(crate) fn confirm(&mut self) -> bool {
        let Self::Delivered { is_cleared } = *self else {
            return false;
        };
        *self = if is_cleared {
            Self::Clearing
        } else {
            Self::Done
        };
        is_cleared
    }

    /// Reads the notification that was queued. Returns what to deliver to user space, if anything.
    pub(crate) fn read(&mut self) -> Option<Message> {
        match *self {
            Self::Queued { is_cleared } => {
                *self = Self::Delivered { is_cleared };
                Some(Message::Event)
            }
            Self::Clearing => {
                *self = Self::Cleared;
                Some(Message::ClearDone)
            }
            _ => None,
        }
    }
}

/// The message of a freeze notification that user space has to read or to confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unread {
    Nothing,
    /// The notification is queued.
    Queued,
    /// User space has to confirm the event that was delivered; `again` is true if another event is
    /// to be delivered after that.
    Delivered {
        again: bool,
    },
    /// Nothing is delivered any more. The notification may still be queued; it has no effect when
    /// it is read.
    Over,
}

/// The state of one freeze notification.
///
/// ```text
///                notify               read, BR_FROZEN_BINDER
///   Nothing ───────────────► Queued ────────────────────────► Delivered
///     ▲                        ▲                                 │ notify
///     │                        │  BC_FREEZE_NOTIFICATION_DONE    ▼
///     │                        └──────────────────────────── Delivered, again
///     └─────────────────────────────────────────────────────────┘ BC_FREEZE_NOTIFICATION_DONE
/// ```
///
/// To clear the request works like an event, after which no other event counts: the next read
/// returns `BR_CLEAR_FREEZE_NOTIFICATION_DONE` and ends the state machine.
///
/// Events may overtake each other on their way to this state. An event that is older than one that
/// has arrived is ignored, so the event that is delivered last is the one that was announced last
/// (lesson R09).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FreezeNotificationState {
    unread: Unread,
    /// True if user space has cleared the request.
    is_cleared: bool,
    /// The latest event that has arrived.
    latest: Option<FreezeEvent>,
}

impl FreezeNotificationState {
    /// Returns the state of a new request, of which no event has arrived.
    pub(crate) fn new() -> Self {
        Self {
            unread: Unread::Nothing,
            is_cleared: false,
            latest: None,
        }
    }

    /// Notes a freeze event.
    pub(crate) fn notify(&mut self, event: FreezeEvent) -> bool {
        let is_stale = |latest: FreezeEvent| latest.number >= event.number;
        if self.is_cleared || self.latest.is_some_and(is_stale) {
            return false;
        }
        self.latest = Some(event);
        self.queue()
    }

    /// Clears the request, as user space demands.
    pub(crate) fn clear(&mut self) -> bool {
        self.is_cleared = true;
        self.queue()
    }

    /// Reads the notification that was queued. Returns what to deliver to user space, if anything.
    pub(crate) fn read(&mut self) -> Option<Message> {
        let message = self.queued()?;
        self.unread = match message {
            Message::Event => Unread::Delivered { again: false },
            Message::ClearDone => Unread::Over,
        };
        Some(message)
    }

    /// Confirms what was delivered, as user space demands.
    pub(crate) fn confirm(&mut self) -> bool {
        let Unread::Delivered { again } = self.unread else {
            return false;
        };
        self.unread = if again {
            Unread::Queued
        } else {
            Unread::Nothing
        };
        again
    }

    /// Returns whether the owner is frozen, according to the latest event.
    pub(crate) fn is_frozen(&self) -> bool {
        self.latest.is_some_and(|latest| latest.is_frozen)
    }

    /// Returns the message that user space gets when it reads the notification, if that is queued.
    pub(crate) fn queued(&self) -> Option<Message> {
        let message = match self.is_cleared {
            true => Message::ClearDone,
            false => Message::Event,
        };
        (self.unread == Unread::Queued).then_some(message)
    }

    /// Ends the state machine, because the handle is removed: nothing is delivered any more
    /// (contract NODE-10).
    pub(crate) fn cancel(&mut self) {
        self.unread = Unread::Over;
    }

    /// Queues the notification if nothing is unread, and otherwise notes that another event is to
    /// be delivered.
    fn queue(&mut self) -> bool {
        match &mut self.unread {
            Unread::Nothing => {
                self.unread = Unread::Queued;
                return true;
            }
            Unread::Delivered { again } => *again = true,
            Unread::Queued | Unread::Over => {}
        }
        false
    }
}
