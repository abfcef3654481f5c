// SPDX-License-Identifier: GPL-2.0

//! The freeze state of a process, which determines the calls that it takes, and the steps of
//! freezing it.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it (contract FRZ-1
//! to FRZ-7). Freezing a process takes time, because its outstanding transactions have to end
//! first:
//!
//! ```text
//!             begin                   complete
//!   Thawed ──────────► Freezing ─────────────────► Frozen
//!     ▲ ▲                │   ▲                       │ │
//!     │ └────────────────┘   └───────────────────────┘ │
//!     │      give_up, thaw            begin            │
//!     └────────────────────────────────────────────────┘
//!                              thaw
//! ```
//!
//! Calls are rejected from the beginning of the first freeze attempt (FRZ-5). Several freezers may
//! try at once; they share one attempt. It fails only when the last of them gives up, and none of
//! them can complete it after the process was thawed.
//!
//! Other processes are notified by [`FreezeEvent`]s, of complete transitions alone (FRZN-5). Events
//! are numbered, because they are passed on without a lock and may overtake each other.

use crate::pure::numbers::FIRST_LONG_NUMBER;

/// One change of a process: it is frozen from now on, or takes calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FreezeEvent {
    /// Increases with each event of the process.
    pub(crate) number: u64,
    pub(crate) is_frozen: bool,
}

/// The stage of a process between thawed and frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FreezeStage {
    /// It takes calls.
    Thawed,
    /// It takes no more calls that wait for a reply. `freezers` attempts wait until the
    /// transactions that it has taken have ended.
    Freezing { freezers: u32 },
    /// It neither takes such calls nor has any.
    Frozen,
}

/// One freeze attempt: the right to complete it or to give it up.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(crate) struct Attempt {
    round: u64,
}

/// The progress of a freeze attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeProgress {
    /// This number of transactions is still outstanding.
    Waiting { outstanding: u32 },
    /// Another freezer has completed it.
    Completed,
    /// The process was thawed in the meantime.
    Superseded,
}

/// The decision about a call that has reached a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is taken.
    Accepted,
    /// It is taken, and may have to wait until the process is thawed.
    Pending,
    /// It is rejected.
    Rejected,
}

/// A flag, true if the threads that wait in freeze attempts have to be woken after the lock is
/// released, to read the progress again.
#[must_use = "a freeze attempt may wait for the end of the outstanding transactions"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakeFreezers(pub(crate) bool);

/// The freeze state of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(C)] // What each call looks at or changes comes first.
pub(crate) struct FreezeState {
    /// Transactions that count for the process: calls from the time they are queued until they are
    /// replied to, oneway calls and replies until they are delivered (contract TXN-24).
    pub(crate) outstanding: u32,
    /// True if a call was rejected since the process was last frozen or thawed.
    pub(crate) has_rejected_sync: bool,
    /// True if a oneway call arrived since then.
    pub(crate) has_received_oneway: bool,
    stage: FreezeStage,
    /// The number of the attempt to which `Freezing` and `Frozen` belong.
    round: u64,
    /// The last event, which is delivered first to a new freeze notification.
    pub(crate) last: FreezeEvent,
}

impl FreezeState {
    /// Returns the state of a process that takes calls.
    pub(crate) const fn new() -> Self {
        Self {
            stage: FreezeStage::Thawed,
            round: FIRST_LONG_NUMBER,
            outstanding: 0,
            has_rejected_sync: false,
            has_received_oneway: false,
            last: FreezeEvent {
                number: FIRST_LONG_NUMBER,
                is_frozen: false,
            },
        }
    }

    /// Returns whether a call that has arrived is taken (contract FRZ-4), and notes its arrival if
    /// that depends on freezing.
    pub(crate) fn admit(&mut self, is_oneway: bool) -> Admission {
        if self.stage == FreezeStage::Thawed {
            Admission::Accepted
        } else if is_oneway {
            self.has_received_oneway = true;
            Admission::Pending
        } else {
            self.has_rejected_sync = true;
            Admission::Rejected
        }
    }

    /// Stops counting a transaction for the process. Returns whether freezers have to be woken.
    pub(crate) fn end_transaction(&mut self) -> WakeFreezers {
        self.outstanding -= 1;
        let is_freezing = matches!(self.stage, FreezeStage::Freezing { .. });
        WakeFreezers(self.outstanding == 0 && is_freezing)
    }

    /// Begins to freeze the process, or joins the attempt that has begun (contract FRZ-2).
    pub(crate) fn begin(&mut self) -> Attempt {
        self.forget_received();
        match &mut self.stage {
            FreezeStage::Freezing { freezers } => *freezers += 1,
            FreezeStage::Thawed | FreezeStage::Frozen => {
                self.round += 1;
                self.stage = FreezeStage::Freezing { freezers: 1 };
            }
        }
        Attempt { round: self.round }
    }

    /// Returns the progress of the attempt.
    pub(crate) fn progress(&self, attempt: &Attempt) -> FreezeProgress {
        match self.stage {
            _ if attempt.round != self.round => FreezeProgress::Superseded,
            FreezeStage::Thawed => FreezeProgress::Superseded,
            FreezeStage::Frozen => FreezeProgress::Completed,
            FreezeStage::Freezing { .. } => FreezeProgress::Waiting {
                outstanding: self.outstanding,
            },
        }
    }

    /// Freezes the process, unless the attempt was superseded. Returns the event of which other
    /// processes have to be notified, if any.
    pub(crate) fn complete(&mut self, attempt: Attempt) -> (Option<FreezeEvent>, WakeFreezers) {
        match self.progress(&attempt) {
            FreezeProgress::Waiting { .. } => {
                self.stage = FreezeStage::Frozen;
                (self.notify(true), WakeFreezers(true))
            }
            FreezeProgress::Completed | FreezeProgress::Superseded => (None, WakeFreezers(false)),
        }
    }

    /// Gives up the attempt. If it was the last one, the process takes calls again. Returns the
    /// event of which other processes have to be notified, which is none if their last event was
    /// the same.
    pub(crate) fn give_up(&mut self, attempt: Attempt) -> Option<FreezeEvent> {
        match &mut self.stage {
            FreezeStage::Freezing { freezers } if attempt.round == self.round => {
                *freezers -= 1;
                if *freezers > 0 {
                    return None;
                }
                self.stage = FreezeStage::Thawed;
                self.notify(false)
            }
            _ => None,
        }
    }

    /// Thaws the process, whatever attempts exist (contract FRZ-3): it takes calls again. Returns
    /// the event of which other processes have to be notified, if any.
    pub(crate) fn thaw(&mut self) -> (Option<FreezeEvent>, WakeFreezers) {
        self.forget_received();
        let wake = WakeFreezers(matches!(self.stage, FreezeStage::Freezing { .. }));
        self.stage = FreezeStage::Thawed;
        (self.notify(false), wake)
    }

    fn forget_received(&mut self) {
        self.has_rejected_sync = false;
        self.has_received_oneway = false;
    }

    /// Returns the event of a change, or [`None`] if the last event was the same.
    fn notify(&mut self, is_frozen: bool) -> Option<FreezeEvent> {
        if self.last.is_frozen == is_frozen {
            return None;
        }
        self.last = FreezeEvent {
            number: self.last.number + 1,
            is_frozen,
        };
        Some(self.last)
    }
}
