// SPDX-License-Identifier: GPL-2.0

//! Whether a process takes calls, and how it comes to stop taking them.
//!
//! A pure state machine without kernel types, so that host tests can enumerate it (contract FRZ-1 to
//! FRZ-7). To freeze a process takes time, for what is on its way to it has to come to an end first:
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
//! Calls are refused from the beginning of the first attempt (FRZ-5). Several may try at once; they
//! share one attempt, which fails only when the last of them gives up, and which none of them can
//! complete any more once somebody thaws the process.
//!
//! What others hear of it are [`FreezeEvent`]s, of complete transitions alone (FRZN-5). They are
//! numbered, for they are passed on without a lock and may overtake each other.

use crate::pure::numbers::FIRST_LONG_NUMBER;

/// That a process is frozen from now on, or takes calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreezeEvent {
    /// Grows with each announcement of the process.
    pub(crate) number: u64,
    pub(crate) is_frozen: bool,
}

/// Where a process is between running and frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It takes calls.
    Thawed,
    /// It takes no more calls that wait for a reply; so many want it to be frozen once those that it
    /// has taken are over.
    Freezing { freezers: u32 },
    /// It neither takes such calls nor has any.
    Frozen,
}

/// The right to complete or to give up freezing a process.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    round: u64,
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeProgress {
    /// So many transactions have yet to end.
    Waiting { outstanding: u32 },
    /// Another one completed it.
    Completed,
    /// Somebody thawed the process meanwhile.
    Superseded,
}

/// What becomes of a call that has reached its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is taken.
    Accepted,
    /// It is taken, and may have to wait until the process is thawed.
    Pending,
    /// It is refused.
    Rejected,
}

/// Whether those who try to freeze the process should look again, once the lock is gone.
#[must_use = "somebody may be waiting for the process to come to rest"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakeFreezers(bool);

impl WakeFreezers {
    /// Whether there is anybody to wake.
    pub(crate) fn is_needed(self) -> bool {
        self.0
    }
}

/// The freezing of one process.
#[derive(Clone, Debug)]
pub(crate) struct FreezeState {
    stage: Stage,
    /// Which attempt `Freezing` and `Frozen` belong to.
    round: u64,
    /// Transactions that count for the process: calls from being queued until they are replied to,
    /// oneway calls and replies until they are delivered (contract TXN-24).
    outstanding: u32,
    /// A call was refused since the process was last frozen or thawed.
    has_rejected_sync: bool,
    /// A oneway call came since then.
    has_received_oneway: bool,
    last: FreezeEvent,
}

impl FreezeState {
    /// A process that takes calls.
    pub(crate) const fn new() -> Self {
        Self {
            stage: Stage::Thawed,
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

    /// A call has come: whether it is taken (contract FRZ-4). Remembered if that depends on freezing.
    pub(crate) fn admit(&mut self, is_oneway: bool) -> Admission {
        if self.stage == Stage::Thawed {
            Admission::Accepted
        } else if is_oneway {
            self.has_received_oneway = true;
            Admission::Pending
        } else {
            self.has_rejected_sync = true;
            Admission::Rejected
        }
    }

    /// A transaction counts for the process from now on.
    pub(crate) fn add_transaction(&mut self) {
        self.outstanding += 1;
    }

    /// A transaction no longer counts for the process.
    pub(crate) fn end_transaction(&mut self) -> WakeFreezers {
        self.outstanding -= 1;
        WakeFreezers(self.outstanding == 0 && self.is_freezing())
    }

    /// How many transactions count for the process.
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Starts to freeze the process, or joins those who do (contract FRZ-2).
    pub(crate) fn begin(&mut self) -> Attempt {
        self.forget_received();
        self.stage = match self.stage {
            Stage::Freezing { freezers } => Stage::Freezing {
                freezers: freezers + 1,
            },
            Stage::Thawed | Stage::Frozen => {
                self.round += 1;
                Stage::Freezing { freezers: 1 }
            }
        };
        Attempt { round: self.round }
    }

    /// How the attempt stands.
    pub(crate) fn progress(&self, attempt: &Attempt) -> FreezeProgress {
        match self.stage {
            _ if attempt.round != self.round => FreezeProgress::Superseded,
            Stage::Thawed => FreezeProgress::Superseded,
            Stage::Frozen => FreezeProgress::Completed,
            Stage::Freezing { .. } => FreezeProgress::Waiting {
                outstanding: self.outstanding,
            },
        }
    }

    /// The process is frozen, if the attempt was not overruled. Says what others are to hear of it.
    pub(crate) fn complete(&mut self, attempt: Attempt) -> (Option<FreezeEvent>, WakeFreezers) {
        match self.progress(&attempt) {
            FreezeProgress::Waiting { .. } => {
                self.stage = Stage::Frozen;
                (self.notify(true), WakeFreezers(true))
            }
            FreezeProgress::Completed | FreezeProgress::Superseded => (None, WakeFreezers(false)),
        }
    }

    /// The attempt has failed. If it was the last one, the process takes calls again. Says what
    /// others are to hear of it, which is nothing if they thought so anyway.
    pub(crate) fn give_up(&mut self, attempt: Attempt) -> Option<FreezeEvent> {
        match self.stage {
            Stage::Freezing { freezers } if attempt.round == self.round => {
                if freezers > 1 {
                    self.stage = Stage::Freezing {
                        freezers: freezers - 1,
                    };
                    return None;
                }
                self.stage = Stage::Thawed;
                self.notify(false)
            }
            _ => None,
        }
    }

    /// The process takes calls again, whoever may want it frozen (contract FRZ-3).
    pub(crate) fn thaw(&mut self) -> (Option<FreezeEvent>, WakeFreezers) {
        self.forget_received();
        let wake = WakeFreezers(self.is_freezing());
        self.stage = Stage::Thawed;
        (self.notify(false), wake)
    }

    /// The process ends: it is not frozen any more, and nobody hears of that (contract FRZ-7).
    pub(crate) fn end(&mut self) -> WakeFreezers {
        let wake = WakeFreezers(self.is_freezing());
        self.stage = Stage::Thawed;
        self.forget_received();
        wake
    }

    /// The latest announcement: what somebody who asks only now is told.
    pub(crate) fn last_event(&self) -> FreezeEvent {
        self.last
    }

    /// Whether a call was refused, and whether a oneway call came, since the process was last frozen
    /// or thawed.
    pub(crate) fn received(&self) -> (bool, bool) {
        (self.has_rejected_sync, self.has_received_oneway)
    }

    fn is_freezing(&self) -> bool {
        matches!(self.stage, Stage::Freezing { .. })
    }

    fn forget_received(&mut self) {
        self.has_rejected_sync = false;
        self.has_received_oneway = false;
    }

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
