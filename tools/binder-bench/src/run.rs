// SPDX-License-Identifier: GPL-2.0
//! One run: one workload after the other, each with its own processes.

use nix::sched::sched_getaffinity;
use nix::sched::CpuSet;
use nix::sys::utsname::uname;
use nix::unistd::Pid;

use crate::cli::Common;
use crate::cli::RunBasics;
use crate::clock;
use crate::clock::Clock;
use crate::clock::Source;
use crate::count;
use crate::device::Site;
use crate::error::Context;
use crate::error::Error;
use crate::error::Result;
use crate::measure;
use crate::result::check_writable;
use crate::result::Cell;
use crate::result::Environment;
use crate::result::RunFile;
use crate::result::SCHEMA;
use crate::stage::Stage;
use crate::workload::Workload;

/// What every measurement has: a clock, a device, CPUs, and where its result goes.
pub struct Session<'a> {
    basics: &'a RunBasics,
    /// The clock.
    pub clock: Clock,
    /// The device.
    pub site: Site,
    /// The CPUs that may be used.
    pub cpus: Vec<usize>,
}

impl<'a> Session<'a> {
    /// Prepares all of it; fails early when the result could not be written in the end.
    pub fn start(basics: &'a RunBasics, clock: Wanted, cpus: Option<&[usize]>) -> Result<Session<'a>> {
        check_output(basics)?;
        let clock = clock.find()?;
        let site = Site::prepare(&basics.device)?;
        Ok(Session { basics, clock, site, cpus: self::cpus(cpus)? })
    }

    /// The result file of what was measured. The device goes back.
    pub fn finish(self, placement: &str, cells: Vec<Cell>) -> Result<RunFile> {
        let environment = environment(placement, &self.site, &self.clock, self.cpus)?;
        Ok(RunFile { schema: SCHEMA, driver: self.basics.driver.clone(), environment, cells })
    }
}

/// Which clock a measurement needs.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// One that tells the time: this one if it is named, else the best of the machine.
    Time(Option<Source>),
    /// One that counts instructions.
    Instructions,
}

impl Wanted {
    fn find(self) -> Result<Clock> {
        match self {
            Wanted::Time(source) => Clock::calibrated(source),
            Wanted::Instructions => {
                let clock = Clock::counting();
                clock::require_instruction_clock(&clock)?;
                Ok(clock)
            }
        }
    }
}

/// Measures the driver that is loaded now.
pub fn run(common: &Common, workloads: &[Box<dyn Workload>]) -> Result<RunFile> {
    let conditions = &common.conditions;
    let clock = if common.count { Wanted::Instructions } else { Wanted::Time(conditions.clock) };
    let session = Session::start(&common.run, clock, conditions.cpus.as_deref())?;
    let mut cells = Vec::new();
    for workload in workloads {
        let mut stage = Stage::new(common, &session.site, session.clock, &session.cpus)?;
        let carriers = common.carriers.clone().unwrap_or_else(|| workload.carriers());
        workload.set_up(&carriers, &mut stage)?;
        let points = stage.points();
        let measure = if common.count { count::measure } else { measure::measure };
        cells.extend(measure(&mut stage, &points, common)?);
    }
    session.finish(conditions.placement.name(), cells)
}

/// Fails early when the result could not be written in the end.
pub fn check_output(basics: &RunBasics) -> Result<()> {
    basics.output.as_deref().filter(|p| p.as_os_str() != "-").map_or(Ok(()), check_writable)
}

/// The CPUs of the run: those asked for, as far as the system allows us to use them.
pub fn cpus(wanted: Option<&[usize]>) -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let allowed: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect();
    match wanted {
        Some(wish) => match wish.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(Error::Usage(format!("--cpus: CPU {cpu} is not available; {allowed:?} are"))),
            None => Ok(wish.to_vec()),
        },
        None if cpuinfo().contains("User Mode Linux") => Ok(allowed[..1.min(allowed.len())].to_vec()),
        None => Ok(allowed),
    }
}

fn cpuinfo() -> String {
    std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// The first processor's model: x86's line, then what other architectures call theirs.
fn processor(cpuinfo: &str) -> String {
    let line = |key: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_string())
    };
    ["model name", "Hardware", "uarch", "CPU part", "host"].into_iter().find_map(line).unwrap_or_default()
}

/// Facts about this machine and this run.
pub fn environment(placement: &str, site: &Site, clock: &Clock, cpus: Vec<usize>) -> Result<Environment> {
    let uts = uname().context("uname")?;
    let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
    Ok(Environment {
        tool: env!("CARGO_PKG_VERSION").into(),
        kernel: format!("{} {}", text(uts.release()), text(uts.version())),
        machine: text(uts.machine()),
        processor: processor(&cpuinfo()),
        cpus,
        boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into(),
        clock: clock.name().into(),
        placement: placement.into(),
        protocol: site.protocol,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_on_several_architectures() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: Some CPU @ 2: GHz\n"), "Some CPU @ 2: GHz");
        assert_eq!(processor("processor : 0\nCPU part : 0xd0c\n"), "0xd0c");
        assert_eq!(processor(""), "");
    }
}
