// SPDX-License-Identifier: GPL-2.0
//! A stream of `BR_*` returns: an iterator over what a read has brought.

use crate::codes::*;
use crate::ioctl::size_of_number;
use crate::structs::*;
use std::fmt;
use zerocopy::{FromBytes, Immutable, KnownLayout};

macro_rules! returns {
    ($($name:ident = $code:ident $(($payload:ty))?;)*) => {
        /// One return. Codes that no driver ever sends are [`Return::Unknown`]. A number that comes along is a cookie.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Return {
            $(#[doc = concat!("`", stringify!($code), "`")] $name $(($payload))?,)*
            /// Any other code. Its payload, with the length that the code contains, has been skipped.
            Unknown(u32),
        }

        impl Returns<'_> {
            fn decode(&mut self) -> Result<Return, DecodeError> {
                let Ok((code, rest)) = u32::read_from_prefix(self.0) else {
                    self.0 = &[];
                    return Err(DecodeError(None));
                };
                self.0 = rest;
                Ok(match code {
                    $($code => Return::$name $((self.payload::<$payload>(code)?))?,)*
                    other => {
                        self.0 = self.0.get(size_of_number(other)..).ok_or_else(|| {
                            self.0 = &[];
                            DecodeError(Some(other))
                        })?;
                        Return::Unknown(other)
                    }
                })
            }
        }
    };
}

returns! {
    // The code alone, as both incumbents write it.
    Error = BR_ERROR;
    Ok = BR_OK;
    Transaction = BR_TRANSACTION (BinderTransactionData);
    TransactionSecctx = BR_TRANSACTION_SEC_CTX (BinderTransactionDataSecctx);
    Reply = BR_REPLY (BinderTransactionData);
    DeadReply = BR_DEAD_REPLY;
    TransactionComplete = BR_TRANSACTION_COMPLETE;
    Increfs = BR_INCREFS (BinderPtrCookie);
    Acquire = BR_ACQUIRE (BinderPtrCookie);
    Release = BR_RELEASE (BinderPtrCookie);
    Decrefs = BR_DECREFS (BinderPtrCookie);
    Noop = BR_NOOP;
    SpawnLooper = BR_SPAWN_LOOPER;
    DeadBinder = BR_DEAD_BINDER (u64);
    ClearDeathNotificationDone = BR_CLEAR_DEATH_NOTIFICATION_DONE (u64);
    FailedReply = BR_FAILED_REPLY;
    FrozenReply = BR_FROZEN_REPLY;
    OnewaySpamSuspect = BR_ONEWAY_SPAM_SUSPECT;
    TransactionPendingFrozen = BR_TRANSACTION_PENDING_FROZEN;
    FrozenBinder = BR_FROZEN_BINDER (BinderFrozenStateInfo);
    ClearFreezeNotificationDone = BR_CLEAR_FREEZE_NOTIFICATION_DONE (u64);
}

/// The stream ends inside an item: in the payload of a code, or where a code should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(Option<u32>);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|code| return_name(code).unwrap_or("an unknown code")) {
            Some(name) => write!(f, "the payload of {name} is cut short"),
            None => f.write_str("stray bytes at the end of the returns"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decodes a stream. After an error the iterator ends.
#[derive(Clone, Debug)]
pub struct Returns<'a>(&'a [u8]);

impl<'a> Returns<'a> {
    /// Reads from exactly the bytes that the driver has written.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes that have not been decoded yet.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    fn payload<T: FromBytes + KnownLayout + Immutable>(&mut self, code: u32) -> Result<T, DecodeError> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| {
            self.0 = &[];
            DecodeError(Some(code))
        })?;
        self.0 = rest;
        Ok(value)
    }
}

impl Iterator for Returns<'_> {
    type Item = Result<Return, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.decode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_stream_is_an_error_once() {
        let mut bytes = BR_INCREFS.to_ne_bytes().to_vec();
        bytes.extend([0; 15]);
        let items: Vec<_> = Returns::new(&bytes).collect();
        assert_eq!(items, [Err(DecodeError(Some(BR_INCREFS)))]);
        let items: Vec<_> = Returns::new(&[1, 2, 3]).collect();
        assert_eq!(items, [Err(DecodeError(None))]);
    }
}
