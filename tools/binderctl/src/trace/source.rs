// SPDX-License-Identifier: GPL-2.0
//! The events of all CPUs, in the order in which they happened.
//!
//! A recorded event wakes no reader, because the wake-up would be a part of what is measured: the rings are read from
//! time to time, one after the other. So an event of one CPU may be read, and an earlier one of another CPU not yet. It
//! is kept until the next time.
//!
//! They are recorded in a tracing instance of our own, whose rings and switches no other trace shares.

use super::event::{Decoder, Event, Wanted, What, FAILURES, OF_DRIVER, OF_SCHEDULER, RETURNS};
use super::ring::Layout;
use crate::driver;
use crate::error::{Error, Kind, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::time::{clock_gettime, ClockId};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A page of a ring has at most so many bytes.
const PAGE_MAX: usize = 1 << 16;

/// As many pages are read of one ring before the next one's turn.
const PAGES_AT_ONCE: usize = 1 << 12;

/// An event is in its ring at most this long after its time stamp.
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
    /// Since when events were recorded.
    pub started: u64,
}

impl Source {
    /// Starts recording: all events that describe calls, or only those that are needed to follow them.
    pub fn start(all: bool, kib: usize) -> Result<Self> {
        let (instance, decoder, layout) = Instance::start(all, kib)?;
        let open = |path: PathBuf| {
            let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path);
            file.map_err(|error| Error::at("open", &path, error)).map(|file| (path, file))
        };
        let rings = instance.rings()?.into_iter().map(open).collect::<Result<_>>()?;
        let started = now();
        Ok(Self { rings, instance, decoder, layout, page: vec![0; PAGE_MAX], held: Vec::new(), started })
    }

    /// The information that is missing because the driver lacks an event.
    pub fn missing(&self) -> &[&'static str] {
        &self.instance.missing
    }

    /// The events since the last call, in their order.
    pub fn read(&mut self) -> Result<Vec<Event>> {
        if !self.instance.is_alive() {
            return Err(Error::new(Kind::Gone, "the driver is gone, and its trace events with it"));
        }
        let settled = now().saturating_sub(SETTLED.as_nanos() as u64);
        self.drain()?;
        Ok(self.release(settled))
    }

    /// Stops recording, and returns the events until then.
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
                if records.lost > 0 {
                    let what = What::Lost(records.lost);
                    self.held.push(Event { time: records.time, thread: 0, what });
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
}

/// The time of the clock that events have.
pub fn now() -> u64 {
    // Every Linux has the monotonic clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// The usual places of tracefs: its own mount, or debugfs, which mounts it on first access.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The prefix of the names of binderctl's instances; the PID follows.
const PREFIX: &str = "binderctl-";

/// Systems that a driver may have its events in: that of the C driver and Rust Binder, and that of upstream's driver.
const SYSTEMS: [&str; 2] = ["binder", "rust_binder"];

const AS_ROOT: &str = "trace events are for root: run it as root";

/// The instance; it is removed when dropped.
#[derive(Debug)]
struct Instance {
    folder: PathBuf,
    system: &'static str,
    /// The information that is missing because the driver lacks an event.
    missing: Vec<&'static str>,
}

impl Instance {
    /// Makes an instance in which events of the driver are recorded: all that describe calls, or only those that are
    /// needed to follow them. `kib`: for each CPU.
    fn start(all: bool, kib: usize) -> Result<(Self, Decoder, Layout)> {
        let tracing = tracing()?;
        remove_stale(&tracing);
        let system = system(&tracing)?;
        let folder = tracing.join("instances").join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| {
            Error::at("make the tracing instance", &folder, error).hint_if_denied(AS_ROOT)
        })?;
        let mut instance = Self { folder, system, missing: Vec::new() };
        instance.write("buffer_size_kb", &kib.to_string())?;
        instance.write("trace_clock", "mono")?;
        let layout = instance.layout()?;
        let mut decoder = Decoder::default();
        let of_driver = OF_DRIVER.iter().filter(|wanted| all || wanted.needed);
        let wanted: Vec<_> =
            of_driver.map(|wanted| (system, wanted)).chain([("sched", &OF_SCHEDULER)]).collect();
        // All are understood before one is switched on.
        for (system, wanted) in &wanted {
            instance.understand(system, wanted, &mut decoder)?;
        }
        for (system, wanted) in wanted {
            if !instance.missing.contains(&wanted.tells) {
                instance.write(&format!("events/{system}/{}/enable", wanted.name), "1")?;
            }
        }
        Ok((instance, decoder, layout))
    }

    /// Returns true if the driver still has its events.
    fn is_alive(&self) -> bool {
        self.folder.join("events").join(self.system).exists()
    }

    /// Records nothing any more.
    fn stop(&self) -> Result<()> {
        self.write("tracing_on", "0")
    }

    /// The rings, one for each CPU.
    fn rings(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("per_cpu");
        let ring = |entry: io::Result<fs::DirEntry>| Ok(entry?.path().join("trace_pipe_raw"));
        let rings = fs::read_dir(&folder).and_then(|entries| entries.map(ring).collect());
        rings.map_err(|error| Error::at("read", &folder, error))
    }

    fn layout(&self) -> Result<Layout> {
        let path = self.folder.join("events/header_page");
        let text = text(&path).map_err(|error| Error::at("read", &path, error))?;
        Layout::parse(&text).ok_or_else(|| not_understood(&path))
    }

    fn understand(&mut self, system: &str, wanted: &Wanted, decoder: &mut Decoder) -> Result<()> {
        let folder = self.folder.join("events").join(system).join(wanted.name);
        let path = folder.join("format");
        let format = match text(&path) {
            Ok(format) => format,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted.needed => {
                self.missing.push(wanted.tells);
                return Ok(());
            }
            Err(error) => return Err(Error::at("read", &path, error)),
        };
        if !decoder.add(wanted, &format) {
            return Err(not_understood(&path));
        }
        if wanted.name == RETURNS {
            let one_of: Vec<_> = FAILURES.iter().map(|code| format!("cmd == {code}")).collect();
            self.write(&format!("events/{system}/{}/filter", wanted.name), &one_of.join(" || "))?;
        }
        Ok(())
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(|error| Error::at("write", &path, error).hint_if_denied(AS_ROOT))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance with an open file cannot be removed; the next run of binderctl tries again.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The contents of a small file. tracefs returns the whole of some files with the first read, or never.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = vec![0; 1 << 14];
    let length = File::open(path)?.read(&mut bytes)?;
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn not_understood(path: &Path) -> Error {
    Error::new(Kind::Io, format!("cannot understand {}", path.display()))
}

/// The directory of tracefs.
fn tracing() -> Result<PathBuf> {
    for place in PLACES.map(Path::new) {
        match fs::symlink_metadata(place.join("instances")) {
            Ok(_) => return Ok(place.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::at("look into", place, error).hint(AS_ROOT));
            }
            Err(_) => {}
        }
    }
    Err(Error::new(Kind::NotThere, format!("tracefs is not mounted on {}", PLACES[0]))
        .hint(format!("as root, on a kernel with CONFIG_FTRACE: mount -t tracefs tracefs {}", PLACES[0])))
}

/// The system of the driver's events.
fn system(tracing: &Path) -> Result<&'static str> {
    let events = tracing.join("events");
    if let Err(error) = fs::read_dir(&events) {
        return Err(Error::at("read", &events, error).hint_if_denied(AS_ROOT));
    }
    let needed = OF_DRIVER.iter().filter(|wanted| wanted.needed);
    let has_events =
        |system: &str| needed.clone().all(|wanted| events.join(system).join(wanted.name).exists());
    SYSTEMS.into_iter().find(|system| has_events(system)).ok_or_else(|| match driver::detect() {
        Some(driver) => {
            Error::new(Kind::NotOffered, format!("{} has no trace events of calls here", driver.kind.name()))
                .hint("its kernel may have been built without CONFIG_TRACEPOINTS")
        }
        None => driver::missing(),
    })
}

/// Removes what those have left behind who were killed.
fn remove_stale(tracing: &Path) {
    let Ok(entries) = fs::read_dir(tracing.join("instances")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        // A process with this number has ended before this one began.
        let is_stale = |pid: u32| {
            pid == std::process::id()
                || nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), None) == Err(Errno::ESRCH)
        };
        if pid.is_some_and(is_stale) {
            // Another process may have removed it already.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
