// SPDX-License-Identifier: GPL-2.0
//! The common part of all measurements: a clock, a device that is given or added to a binderfs, CPUs, the result's file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use binder_sys::{Device, Errno, PROTOCOL_VERSION};
use nix::sched::{sched_getaffinity, CpuSet};
use nix::sys::utsname::uname;
use nix::unistd::Pid;

use crate::cli::{Placement, RunBasics};
use crate::clock::Clock;
use crate::error::{Context, Error, Kind, Result};
use crate::result::{check_writable, Cell, Environment, RunFile};

pub struct Session<'a> {
    basics: &'a RunBasics,
    pub clock: Clock,
    pub device: PathBuf,
    pub cpus: Vec<usize>,
}

impl<'a> Session<'a> {
    /// Prepares all of it, with a clock that counts instructions if `count`; fails early if it cannot write
    /// the result.
    pub fn start(basics: &'a RunBasics, count: bool) -> Result<Session<'a>> {
        basics.output.as_deref().filter(|p| p.as_os_str() != "-").map_or(Ok(()), check_writable)?;
        let clock = if count { Clock::counting()? } else { Clock::calibrated() };
        let device = basics.device.clone().map_or_else(|| add_to(&basics.binderfs), Ok)?;
        let session = Session { basics, clock, device, cpus: cpus()? };
        check(&session.device)?;
        Ok(session)
    }

    /// The result file of what was measured. The device goes back.
    pub fn finish(self, placement: Placement, cells: Vec<Cell>) -> Result<RunFile> {
        Ok(RunFile::new(&self.basics.driver, self.environment(placement)?, cells))
    }

    /// Facts about this machine and this run.
    fn environment(&self, placement: Placement) -> Result<Environment> {
        let uts = uname().context("uname")?;
        let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
        let facts = [
            ("tool", env!("CARGO_PKG_VERSION").into()),
            ("kernel", format!("{} {}", text(uts.release()), text(uts.version()))),
            ("machine", text(uts.machine())),
            ("clock", self.clock.name().into()),
            ("placement", format!("{placement:?}").to_lowercase()),
        ];
        Ok(facts.map(|(name, fact)| (name.into(), fact)).into())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.basics.device.is_none() {
            let _ = std::fs::remove_file(&self.device);
        }
    }
}

/// Adds a device to a mounted binderfs: its path.
fn add_to(directory: &Path) -> Result<PathBuf> {
    // Two drivers that are measured in turns may be the same one.
    static ADDED: AtomicU32 = AtomicU32::new(0);
    let name = format!("bench-{}-{}", std::process::id(), ADDED.fetch_add(1, Ordering::Relaxed));
    binder_sys::fs::add_device(directory, &name).map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ENOTTY => {
            Kind::NoBinder.error(format!("{} is not a mounted binderfs", directory.display()))
        }
        errno => Error::from_path(format!("cannot add a device to {}", directory.display()), errno),
    })?;
    Ok(directory.join(name))
}

/// Fails unless this is a Binder device.
fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    let device = Device::open(path).map_err(|e| Error::from_path(format!("cannot open {shown}"), e))?;
    let version =
        device.version().map_err(|_| Kind::NoBinder.error(format!("{shown} is not a Binder device")))?;
    if version != PROTOCOL_VERSION {
        return Err(Kind::NoBinder.error(format!(
            "{shown} implements Binder protocol {version}; binder-bench needs {PROTOCOL_VERSION}"
        )));
    }
    Ok(())
}

/// The CPUs of the run: all that the system allows; in User Mode Linux the first, since its CPUs usually share one of the host's.
fn cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let mut allowed: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect();
    if std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default().contains("User Mode Linux") {
        allowed.truncate(1);
    }
    Ok(allowed)
}
