// SPDX-License-Identifier: GPL-2.0
//! The interface between a disk and its data.

use std::future::{ready, Future};
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

/// The data of a disk, as [`Storage`], but reads and writes wait for something, such as a network, without a thread.
///
/// All requests that the kernel has sent are under way at a time; it sends no overlapping ones, unless a program
/// does. A flush concerns the writes that have ended before it.
pub trait AsyncStorage: Send + 'static {
    /// As [`Storage::size`].
    fn size(&self) -> u64;

    /// As [`Storage::features`].
    fn features(&self) -> Features {
        Features::default()
    }

    /// As [`Storage::read`].
    fn read(&self, at: u64, into: &mut [u8]) -> impl Future<Output = Result<()>>;

    /// As [`Storage::write`].
    fn write(&self, at: u64, from: &[u8], durability: Durability) -> impl Future<Output = Result<()>>;

    /// As [`Storage::flush`].
    fn flush(&self) -> impl Future<Output = Result<()>> {
        ready(Ok(()))
    }

    /// As [`Storage::discard`].
    fn discard(&self, at: u64, length: u64) -> impl Future<Output = Result<()>> {
        let _ = (at, length);
        ready(Err(Error::from(ErrorKind::Unsupported)))
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
