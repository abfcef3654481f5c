// SPDX-License-Identifier: GPL-2.0
//! The events of all CPUs, in the order in which they happened.
//!
//! Nobody is woken when something is recorded, which would be a part of what is measured: the rings are read from time to
//! time. Each time they are read one after the other, so what happened after the first one was read may be there for one
//! CPU and not for another. It is kept until the next time.

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::time::clock_gettime;
use nix::time::ClockId;

use super::event::Decoder;
use super::event::Event;
use super::event::What;
use super::instance::Instance;
use super::ring::Layout;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Result;

/// A page of a ring has at most so many bytes.
const PAGE_MAX: usize = 1 << 16;

/// As many pages are read of one ring before the next one's turn.
const PAGES_AT_ONCE: usize = 1 << 12;

/// What has a time is in its ring so much later at most.
const SETTLED: Duration = Duration::from_millis(1);

/// The source of events.
#[derive(Debug)]
pub struct Source {
    rings: Vec<(PathBuf, File)>,
    /// It can be removed when its rings are closed: they come first, and so are dropped first.
    instance: Instance,
    decoder: Decoder,
    layout: Layout,
    page: Vec<u8>,
    /// Events that others may still come before.
    held: Vec<Event>,
    started: u64,
}

impl Source {
    /// Starts recording: all that tells something of calls, or only what is needed to follow them.
    pub fn start(all: bool, kib: usize) -> Result<Self> {
        let (instance, decoder, layout) = Instance::start(all, kib)?;
        let open = |path: PathBuf| match File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path)
        {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(Error::at("open", &path, error)),
        };
        let rings = instance.rings()?.into_iter().map(open).collect::<Result<_>>()?;
        let started = now();
        Ok(Self { rings, instance, decoder, layout, page: vec![0; PAGE_MAX], held: Vec::new(), started })
    }

    /// What cannot be told, since the driver has no event that says it.
    pub fn missing(&self) -> &[&'static str] {
        &self.instance.missing
    }

    /// What has happened since the last time, in its order.
    pub fn read(&mut self) -> Result<Vec<Event>> {
        if !self.instance.is_alive() {
            return Err(Error::new(Kind::Gone, "the driver is gone, and its trace events with it"));
        }
        let settled = now().saturating_sub(SETTLED.as_nanos() as u64);
        self.drain()?;
        Ok(self.release(settled))
    }

    /// Stops recording; what has happened until then.
    pub fn finish(&mut self) -> Result<Vec<Event>> {
        self.instance.stop()?;
        self.drain()?;
        Ok(self.release(u64::MAX))
    }

    fn drain(&mut self) -> Result<()> {
        for (path, ring) in &mut self.rings {
            for _ in 0..PAGES_AT_ONCE {
                let length = match ring.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(Error::at("read", path, error)),
                };
                let malformed =
                    |_| Error::new(Kind::Io, format!("cannot understand what is in {}", path.display()));
                let records = self.layout.records(&self.page[..length]).map_err(malformed)?;
                if records.lost() > 0 {
                    let what = What::Lost(records.lost());
                    self.held.push(Event { time: records.time(), thread: 0, what });
                }
                for record in records {
                    let (time, bytes) = record.map_err(malformed)?;
                    self.held.extend(self.decoder.decode(time, bytes));
                }
            }
        }
        Ok(())
    }

    /// The events up to a time.
    fn release(&mut self, until: u64) -> Vec<Event> {
        self.held.sort_by_key(|event| event.time);
        let later = self.held.partition_point(|event| event.time <= until);
        let rest = self.held.split_off(later);
        std::mem::replace(&mut self.held, rest)
    }

    /// The time since which events were recorded.
    pub fn start_time(&self) -> u64 {
        self.started
    }
}

/// The time of the clock that events have.
pub fn now() -> u64 {
    // The monotonic clock is there on each Linux.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}
