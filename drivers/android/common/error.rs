// SPDX-License-Identifier: GPL-2.0

//! Transaction errors: why a call or a reply does not go through, and what its sender reads.
//!
//! An ioctl fails with an errno of the `kernel` crate. A transaction that fails does not make the
//! ioctl fail: the sender reads a `BR_*` code and may ask for the errno behind it afterwards. That
//! pair is a [`TransactionError`], with what only messages and logs tell: the reason, the object,
//! and where it was found.

use super::reason::Reason;
use crate::defs::Return;
use core::panic::Location;
use kernel::{
    alloc::AllocError,
    error::Error,
    prelude::*, //
};

/// Why a transaction does not go through.
#[derive(Clone, Copy)]
pub(crate) struct TransactionError {
    outcome: Outcome,
    pub(crate) reason: Reason,
    /// The negative errno, or 0.
    param: i16,
    /// The line of the source that has found it: in the file of the step that fails, so that it
    /// means something together with the reason alone.
    pub(crate) line: u16,
    /// Counted from 1; 0 if it is not about one of the objects. The highest number also means all
    /// higher ones.
    object: u16,
}

// As large as what user space learns of it: calls that succeed return one, too, in a register.
const _: () = assert!(size_of::<Result<(), TransactionError>>() == 8);

/// What the sender reads.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Outcome {
    Failed,
    Dead,
    Frozen,
}

impl TransactionError {
    /// Returns the error of a request that is invalid, or for which there was no room. `ENOMEM` has
    /// one reason, whatever the step that fails.
    #[track_caller]
    pub(crate) fn failed(reason: Reason, error: Error) -> Self {
        let reason = if error == ENOMEM {
            Reason::NoMemory
        } else {
            reason
        };
        Self::new(Outcome::Failed, reason, error.to_errno())
    }

    /// Returns the error of a transaction without a living target.
    #[track_caller]
    pub(crate) fn dead(reason: Reason, error: Error) -> Self {
        Self::new(Outcome::Dead, reason, error.to_errno())
    }

    /// Returns the error of a transaction whose target process or thread has died since it began;
    /// the contract has no errno for that.
    #[track_caller]
    pub(crate) fn died(reason: Reason) -> Self {
        Self::new(Outcome::Dead, reason, 0)
    }

    /// Returns the error of a call to a process that is frozen (contract FRZ-4).
    #[track_caller]
    pub(crate) fn frozen() -> Self {
        Self::new(Outcome::Frozen, Reason::ReceiverFrozen, 0)
    }

    /// Returns the error of a transaction that reached its target, but could not be delivered to
    /// it.
    #[track_caller]
    pub(crate) fn undeliverable() -> Self {
        Self::new(Outcome::Failed, Reason::Undeliverable, 0)
    }

    #[cold]
    #[track_caller]
    fn new(outcome: Outcome, reason: Reason, errno: i32) -> Self {
        Self {
            outcome,
            reason,
            // CAST: an errno is not below -4095, and a file of the driver has fewer lines than
            // 2^16.
            param: errno as i16,
            line: Location::caller().line() as u16,
            object: 0,
        }
    }

    /// Returns the same error, about the object that is entry `index` of the array of offsets.
    #[cold]
    pub(crate) fn of_object(self, index: u64) -> Self {
        let object = u16::try_from(index + 1).unwrap_or(u16::MAX);
        Self { object, ..self }
    }

    /// Returns the code that the sender reads.
    pub(crate) fn return_code(self) -> Return {
        match self.outcome {
            Outcome::Failed => Return::FailedReply,
            Outcome::Dead => Return::DeadReply,
            Outcome::Frozen => Return::FrozenReply,
        }
    }

    /// Returns the negative errno of the extended error, or 0 where the contract has none.
    pub(crate) fn param(self) -> i32 {
        self.param.into()
    }

    /// Returns the index of the object that it is about, if it is about one and that is known.
    pub(crate) fn object(self) -> Option<u16> {
        self.object.checked_sub(1)
    }
}

// There is no conversion from `Error`: an errno is not a reason.
impl From<AllocError> for TransactionError {
    #[track_caller]
    fn from(_: AllocError) -> Self {
        Self::failed(Reason::NoMemory, ENOMEM)
    }
}
