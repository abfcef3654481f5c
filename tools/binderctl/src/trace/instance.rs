// SPDX-License-Identifier: GPL-2.0
//! A tracing instance of our own: rings and switches that nobody else's trace is disturbed by, nor disturbs.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;

use super::event::Decoder;
use super::event::Wanted;
use super::event::FAILURES;
use super::event::OF_DRIVER;
use super::event::OF_SCHEDULER;
use super::event::RETURNS;
use super::ring::Layout;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Result;

/// Where tracefs usually is: by itself, or where debugfs mounts it when somebody looks.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// What the names of our instances start with; the number of the process follows.
const PREFIX: &str = "binderctl-";

/// Systems that a driver may have its events in: that of the C driver and Rust Binder, and that of upstream's driver.
const SYSTEMS: [&str; 2] = ["binder", "rust_binder"];

const AS_ROOT: &str = "trace events are for root: run it as root";

/// The instance; it is removed when dropped.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    system: &'static str,
    /// What cannot be told, since the driver has no event that says it.
    pub missing: Vec<&'static str>,
}

impl Instance {
    /// Makes an instance in which events of the driver are recorded: all that tell something of calls, or only those that
    /// are needed to follow them. `kib`: for each CPU.
    pub fn start(all: bool, kib: usize) -> Result<(Self, Decoder, Layout)> {
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

    /// Whether the driver still has its events.
    pub fn is_alive(&self) -> bool {
        self.folder.join("events").join(self.system).exists()
    }

    /// Records nothing any more.
    pub fn stop(&self) -> Result<()> {
        self.write("tracing_on", "0")
    }

    /// The rings, one for each CPU.
    pub fn rings(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("per_cpu");
        let failed = |error: io::Error| Error::at("read", &folder, error);
        let mut rings = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            rings.push(entry.map_err(failed)?.path().join("trace_pipe_raw"));
        }
        rings.sort();
        Ok(rings)
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
        // Whoever has one of its files open keeps it, such as somebody who looks at it; the next one of us tries again.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// What a small file has. tracefs gives the whole of some files with the first read, or never.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = vec![0; 1 << 14];
    let length = File::open(path)?.read(&mut bytes)?;
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn not_understood(path: &Path) -> Error {
    Error::new(Kind::Io, format!("cannot understand {}", path.display()))
}

/// Where tracing is.
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
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    Err(match filesystems.lines().any(|line| line.split_whitespace().last() == Some("tracefs")) {
        true => Error::new(Kind::NotThere, format!("tracefs is not mounted on {}", PLACES[0]))
            .hint(format!("as root: mount -t tracefs tracefs {}", PLACES[0])),
        false => Error::new(Kind::NotOffered, "this kernel has no trace events")
            .hint("a kernel with CONFIG_FTRACE and CONFIG_ENABLE_DEFAULT_TRACERS has them"),
    })
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
    SYSTEMS.into_iter().find(|system| has_events(system)).ok_or_else(|| match crate::driver::detect() {
        Some(driver) => {
            Error::new(Kind::NotOffered, format!("{} has no trace events of calls here", driver.kind.name()))
                .hint("its kernel may have been built without CONFIG_TRACEPOINTS")
        }
        None => Error::new(Kind::NotThere, "the kernel has no Binder driver")
            .hint("load one, such as binder_rust or binder_linux"),
    })
}

/// Removes what those have left behind who were killed.
fn remove_stale(tracing: &Path) {
    let Ok(entries) = fs::read_dir(tracing.join("instances")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        let is_stale = |pid: u32| {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), None) == Err(Errno::ESRCH)
        };
        if pid.is_some_and(is_stale) {
            // Somebody else may be faster.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
