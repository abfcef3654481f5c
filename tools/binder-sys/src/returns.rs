// SPDX-License-Identifier: GPL-2.0
//! A stream of `BR_*` returns: an iterator over what a read has brought.

use crate::codes::*;
use crate::ioctl::size_of_number;
use crate::structs::*;
use std::fmt;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// One return. Codes that no driver ever sends are [`Return::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// `BR_ERROR`: the code alone, as both incumbents write it.
    Error,
    /// `BR_OK`.
    Ok,
    /// `BR_TRANSACTION`.
    Transaction(BinderTransactionData),
    /// `BR_TRANSACTION_SEC_CTX`.
    TransactionSecctx(BinderTransactionDataSecctx),
    /// `BR_REPLY`.
    Reply(BinderTransactionData),
    /// `BR_DEAD_REPLY`.
    DeadReply,
    /// `BR_TRANSACTION_COMPLETE`.
    TransactionComplete,
    /// `BR_INCREFS`.
    Increfs(BinderPtrCookie),
    /// `BR_ACQUIRE`.
    Acquire(BinderPtrCookie),
    /// `BR_RELEASE`.
    Release(BinderPtrCookie),
    /// `BR_DECREFS`.
    Decrefs(BinderPtrCookie),
    /// `BR_NOOP`.
    Noop,
    /// `BR_SPAWN_LOOPER`.
    SpawnLooper,
    /// `BR_DEAD_BINDER`, with its cookie.
    DeadBinder(u64),
    /// `BR_CLEAR_DEATH_NOTIFICATION_DONE`, with its cookie.
    ClearDeathNotificationDone(u64),
    /// `BR_FAILED_REPLY`.
    FailedReply,
    /// `BR_FROZEN_REPLY`.
    FrozenReply,
    /// `BR_ONEWAY_SPAM_SUSPECT`.
    OnewaySpamSuspect,
    /// `BR_TRANSACTION_PENDING_FROZEN`.
    TransactionPendingFrozen,
    /// `BR_FROZEN_BINDER`.
    FrozenBinder(BinderFrozenStateInfo),
    /// `BR_CLEAR_FREEZE_NOTIFICATION_DONE`, with its cookie.
    ClearFreezeNotificationDone(u64),
    /// Any other code; its payload, as long as the code says, has been skipped.
    Unknown(u32),
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

    fn decode(&mut self) -> Result<Return, DecodeError> {
        let Ok((code, rest)) = u32::read_from_prefix(self.0) else {
            self.0 = &[];
            return Err(DecodeError(None));
        };
        self.0 = rest;
        Ok(match code {
            BR_ERROR => Return::Error,
            BR_OK => Return::Ok,
            BR_TRANSACTION => Return::Transaction(self.payload(code)?),
            BR_TRANSACTION_SEC_CTX => Return::TransactionSecctx(self.payload(code)?),
            BR_REPLY => Return::Reply(self.payload(code)?),
            BR_DEAD_REPLY => Return::DeadReply,
            BR_TRANSACTION_COMPLETE => Return::TransactionComplete,
            BR_INCREFS => Return::Increfs(self.payload(code)?),
            BR_ACQUIRE => Return::Acquire(self.payload(code)?),
            BR_RELEASE => Return::Release(self.payload(code)?),
            BR_DECREFS => Return::Decrefs(self.payload(code)?),
            BR_NOOP => Return::Noop,
            BR_SPAWN_LOOPER => Return::SpawnLooper,
            BR_DEAD_BINDER => Return::DeadBinder(self.payload(code)?),
            BR_CLEAR_DEATH_NOTIFICATION_DONE => Return::ClearDeathNotificationDone(self.payload(code)?),
            BR_FAILED_REPLY => Return::FailedReply,
            BR_FROZEN_REPLY => Return::FrozenReply,
            BR_ONEWAY_SPAM_SUSPECT => Return::OnewaySpamSuspect,
            BR_TRANSACTION_PENDING_FROZEN => Return::TransactionPendingFrozen,
            BR_FROZEN_BINDER => Return::FrozenBinder(self.payload(code)?),
            BR_CLEAR_FREEZE_NOTIFICATION_DONE => Return::ClearFreezeNotificationDone(self.payload(code)?),
            other => {
                let size = size_of_number(other);
                self.0 = self.0.get(size..).ok_or_else(|| {
                    self.0 = &[];
                    DecodeError(Some(other))
                })?;
                Return::Unknown(other)
            }
        })
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
    use zerocopy::IntoBytes;

    #[test]
    fn a_mixed_stream_is_taken_apart() {
        let mut bytes = Vec::new();
        bytes.extend(BR_NOOP.to_ne_bytes());
        bytes.extend(BR_INCREFS.to_ne_bytes());
        bytes.extend_from_slice(BinderPtrCookie { ptr: 1, cookie: 2 }.as_bytes());
        bytes.extend(BR_FINISHED.to_ne_bytes());
        bytes.extend(BR_DEAD_REPLY.to_ne_bytes());
        let mut returns = Returns::new(&bytes);
        assert_eq!((returns.next(), returns.remaining()), (Some(Ok(Return::Noop)), bytes.len() - 4));
        let items: Result<Vec<_>, _> = Returns::new(&bytes).collect();
        assert_eq!(
            items.unwrap(),
            [
                Return::Noop,
                Return::Increfs(BinderPtrCookie { ptr: 1, cookie: 2 }),
                Return::Unknown(BR_FINISHED),
                Return::DeadReply
            ]
        );
    }

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
