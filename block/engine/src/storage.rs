// SPDX-License-Identifier: GPL-2.0
//! The interface between a disk and its data.

use std::io::{Error, ErrorKind, Result};

/// The data of a disk. Positions and lengths are in bytes, and multiples of the disk's block size.
///
/// An error fails the request with its errno, or with `EIO` if it has none. One thread calls, one request after the
/// other.
pub trait Storage: Send + 'static {
    /// Returns the size in bytes when the disk starts. The disk has as many whole blocks as fit.
    fn size(&self) -> u64;

    /// Returns the abilities of the disk besides reading and writing.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Fills `into` with the data from position `at` on.
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()>;

    /// Writes `from` from position `at` on.
    fn write(&mut self, at: u64, from: &[u8], durability: Durability) -> Result<()>;

    /// Makes all data durable whose write has ended. Called if the disk has a [cache](Features::cache).
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Drops data. The range may hold anything then. Called if the disk [discards](Features::discard).
    fn discard(&mut self, at: u64, length: u64) -> Result<()> {
        let _ = (at, length);
        Err(Error::from(ErrorKind::Unsupported))
    }
}

/// Abilities of a disk besides reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Writes are durable only after a flush.
    pub cache: bool,
    /// Ranges can be discarded.
    pub discard: bool,
}

/// When a write has to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the next flush.
    WhenFlushed,
    /// When it ends (`REQ_FUA`).
    AtOnce,
}
