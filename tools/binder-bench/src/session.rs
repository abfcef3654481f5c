// SPDX-License-Identifier: GPL-2.0
//! What every measurement has: a clock, a device, CPUs, and where its result goes.

use nix::sched::{sched_getaffinity, CpuSet};
use nix::sys::utsname::uname;
use nix::unistd::Pid;

use crate::cli::{Placement, RunBasics};
use crate::clock::Clock;
use crate::device::Site;
use crate::error::{Context, Result};
use crate::result::{check_writable, Cell, Environment, RunFile};

pub struct Session<'a> {
    basics: &'a RunBasics,
    pub clock: Clock,
    pub site: Site,
    pub cpus: Vec<usize>,
}

impl<'a> Session<'a> {
    /// Prepares all of it, with a clock that counts instructions if it is wanted; fails early when the result could not be written
    /// in the end.
    pub fn start(basics: &'a RunBasics, count: bool) -> Result<Session<'a>> {
        basics.output.as_deref().filter(|p| p.as_os_str() != "-").map_or(Ok(()), check_writable)?;
        let clock = if count { Clock::counting()? } else { Clock::calibrated() };
        Ok(Session { basics, clock, site: Site::prepare(&basics.device)?, cpus: cpus()? })
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

/// The CPUs of the run: all that the system allows; in User Mode Linux the first, since its CPUs usually share one of the host's.
fn cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let mut allowed: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect();
    if std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default().contains("User Mode Linux") {
        allowed.truncate(1);
    }
    Ok(allowed)
}
