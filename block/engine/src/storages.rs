// SPDX-License-Identifier: GPL-2.0
//! Storages: memory, a file, and two that make another one worse.

use crate::storage::{Durability, Features, Storage};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Memory of this process, zeroed at first.
pub struct Ram(Vec<u8>);

impl Ram {
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    fn part(&mut self, at: u64, length: usize) -> Result<&mut [u8]> {
        let at = usize::try_from(at).map_err(|_| ErrorKind::InvalidInput)?;
        let end = at.checked_add(length).ok_or(ErrorKind::InvalidInput)?;
        Ok(self.0.get_mut(at..end).ok_or(ErrorKind::InvalidInput)?)
    }
}

impl Storage for Ram {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn features(&self) -> Features {
        Features { discard: true, ..Features::default() }
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(self.part(at, into.len())?);
        Ok(())
    }

    fn write(&mut self, at: u64, from: &[u8], _: Durability) -> Result<()> {
        self.part(at, from.len())?.copy_from_slice(from);
        Ok(())
    }

    fn discard(&mut self, at: u64, length: u64) -> Result<()> {
        let length = usize::try_from(length).map_err(|_| ErrorKind::InvalidInput)?;
        self.part(at, length)?.fill(0);
        Ok(())
    }
}

/// A file, or another block device.
pub struct FileStorage {
    file: File,
    size: u64,
}

impl FileStorage {
    /// Opens a file that exists.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // The length of a block device is where it ends.
        let size = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0))?;
        Ok(Self { file, size })
    }
}

impl Storage for FileStorage {
    fn size(&self) -> u64 {
        self.size
    }

    fn features(&self) -> Features {
        Features { cache: true, ..Features::default() }
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn write(&mut self, at: u64, from: &[u8], durability: Durability) -> Result<()> {
        self.file.write_all_at(from, at)?;
        match durability {
            Durability::AtOnce => self.file.sync_data(),
            Durability::WhenFlushed => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.sync_data()
    }
}

/// Returns a storage that fails each `period`-th read or write of another one, before it changes anything. `period` is
/// at least 1.
pub fn flaky<S: Storage>(inner: S, period: u64) -> impl Storage {
    let mut requests = 0;
    let before = move || {
        requests += 1;
        match requests % period.max(1) {
            0 => Err(Error::other("this one fails")),
            _ => Ok(()),
        }
    };
    Before { inner, before }
}

/// Returns a storage that takes at least a given time for each read or write of another one.
pub fn slow<S: Storage>(inner: S, least: Duration) -> impl Storage {
    let before = move || {
        std::thread::sleep(least);
        Ok(())
    };
    Before { inner, before }
}

/// A storage of which each read or write first runs `before`, and fails with it.
struct Before<S, F> {
    inner: S,
    before: F,
}

impl<S: Storage, F: FnMut() -> Result<()> + Send + 'static> Storage for Before<S, F> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        (self.before)()?;
        self.inner.read(at, into)
    }

    fn write(&mut self, at: u64, from: &[u8], durability: Durability) -> Result<()> {
        (self.before)()?;
        self.inner.write(at, from, durability)
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&mut self, at: u64, length: u64) -> Result<()> {
        self.inner.discard(at, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_where_it_ends() {
        let mut ram = Ram::new(1024);
        assert!(ram.write(512, &[1; 512], Durability::WhenFlushed).is_ok());
        for at in [513, 1024, u64::MAX - 511] {
            assert_eq!(
                ram.read(at, &mut [0; 512]).map_err(|error| error.kind()),
                Err(ErrorKind::InvalidInput)
            );
        }
        assert!(ram.discard(512, 512).is_ok());
        assert_eq!(ram.0, [0; 1024]);
    }

    #[test]
    fn a_request_that_fails_changes_nothing() {
        let mut flaky = flaky(Ram::new(512), 2);
        assert!(flaky.write(0, &[1; 512], Durability::WhenFlushed).is_ok());
        assert!(flaky.write(0, &[2; 512], Durability::WhenFlushed).is_err());
        let mut read = [0; 512];
        assert!(flaky.read(0, &mut read).is_ok() && read == [1; 512]);
    }

    #[test]
    fn slow_takes_its_time() {
        let (least, began) = (Duration::from_millis(20), std::time::Instant::now());
        assert!(slow(Ram::new(512), least).read(0, &mut [0; 512]).is_ok());
        assert!(began.elapsed() >= least);
    }
}
