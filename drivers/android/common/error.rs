// SPDX-License-Identifier: GPL-2.0

//! Transaction errors: why a call or a reply does not go through, and what its sender reads.
//!
//! An ioctl fails with an errno of the `kernel` crate. A transaction that fails does not make the
//! ioctl fail: the sender reads a `BR_*` code and may ask for the errno behind it afterwards. That
//! pair is a [`TransactionError`].

use crate::defs::Return;
use kernel::{
    alloc::AllocError,
    error::Error,
    prelude::*, //
};

/// Why a transaction does not go through.
#[derive(Clone, Copy)]
pub(crate) struct TransactionError {
    /// The code that the sender reads.
    pub(crate) return_code: Return,
    /// The negative errno of the extended error, or 0 where the contract has none.
    pub(crate) param: i32,
}

impl TransactionError {
    /// Returns the error of a request that is invalid, or for which there was no room.
    pub(crate) fn failed(error: Error) -> Self {
        Self {
            return_code: Return::FailedReply,
            param: error.to_errno(),
        }
    }

    /// Returns the error of a transaction without a living target, for the reason given.
    pub(crate) fn dead(error: Error) -> Self {
        Self {
            return_code: Return::DeadReply,
            param: error.to_errno(),
        }
    }

    /// The target process or thread has died since the transaction began.
    pub(crate) const DIED: Self = Self {
        return_code: Return::DeadReply,
        param: 0,
    };

    /// The target process is frozen (contract FRZ-4).
    pub(crate) const FROZEN: Self = Self {
        return_code: Return::FrozenReply,
        param: 0,
    };

    /// The transaction reached its target, but could not be delivered to it.
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
