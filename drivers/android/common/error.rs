// SPDX-License-Identifier: GPL-2.0

//! Why a call or a reply does not go through, and what its sender is told.
//!
//! An ioctl that fails does so with an errno of the `kernel` crate. A transaction that fails is no
//! failed ioctl: the sender reads a `BR_*` and may ask for the errno behind it afterwards. That
//! pair is a [`TransactionError`].

use crate::defs::Return;
use kernel::{
    alloc::AllocError,
    error::Error,
    prelude::*, //
};

/// The answer to a transaction that does not go through.
#[derive(Clone, Copy)]
pub(crate) struct TransactionError {
    /// What the sender reads.
    pub(crate) return_code: Return,
    /// The negative errno of the extended error, or 0 where the contract gives none.
    pub(crate) param: i32,
}

impl TransactionError {
    /// The request itself is at fault, or there was no room for it.
    pub(crate) fn failed(error: Error) -> Self {
        Self {
            return_code: Return::FailedReply,
            param: error.to_errno(),
        }
    }

    /// Nobody is there to take the transaction, for the reason given.
    pub(crate) fn dead(error: Error) -> Self {
        Self {
            return_code: Return::DeadReply,
            param: error.to_errno(),
        }
    }

    /// The process or the thread that was to take the transaction has died meanwhile.
    pub(crate) const DIED: Self = Self {
        return_code: Return::DeadReply,
        param: 0,
    };

    /// The process that was to take the call is frozen (contract FRZ-4).
    pub(crate) const FROZEN: Self = Self {
        return_code: Return::FrozenReply,
        param: 0,
    };

    /// The transaction reached its target, which could not be given it.
    pub(crate) const UNDELIVERABLE: Self = Self {
        return_code: Return::FailedReply,
        param: 0,
    };
}

impl From<Error> for TransactionError {
    fn from(error: Error) -> Self {
        Self::failed(error)
    }
}

impl From<AllocError> for TransactionError {
    fn from(_: AllocError) -> Self {
        Self::failed(ENOMEM)
    }
}
