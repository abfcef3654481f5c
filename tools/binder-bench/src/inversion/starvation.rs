// SPDX-License-Identifier: GPL-2.0
//! The ways in which an attacker loses its CPU.

use std::fs;

use clap::ValueEnum;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::time::{clock_nanosleep, ClockId, ClockNanosleepFlags};

use super::{Moment, Moments, BURST};
pub use crate::clock::monotonic as now;
use crate::error::{Context, Result};

/// The scheduling of the attacker, and the hog beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Starvation {
    /// The attacker has `SCHED_IDLE`, the hog is ordinary.
    Idle,
    /// The attacker has the nice value 19, the hog is ordinary.
    Nice,
    /// The attacker is in a cgroup with 1 % of a CPU and the least weight, the hog is ordinary.
    Cgroup,
    /// The attacker is ordinary, the hog is real-time.
    Realtime,
}

/// From when on an attacker is awake before it begins.
pub const AWAKE: u64 = 50_000;

/// The mount point of control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The shortest slice that an ordinary process may request: a process with a longer one is preempted at once.
const SLICE: u64 = 100_000;

impl Starvation {
    pub fn name(self) -> &'static str {
        ["SCHED_IDLE", "nice 19", "starved cgroup", "real-time hog"][self as usize]
    }

    /// Makes this process the attacker.
    pub fn attacker(self) -> Result<()> {
        punctual()?;
        match self {
            Starvation::Idle => policy(libc::SCHED_IDLE, 0, 0),
            Starvation::Nice => policy(libc::SCHED_OTHER, 19, 0),
            Starvation::Cgroup => starve(),
            Starvation::Realtime => Ok(()),
        }
    }

    /// From an order to the moment when the attacker begins: enough for the order to arrive, and for a group to have its share again.
    pub fn lead(self) -> u64 {
        if self == Starvation::Cgroup {
            200_000_000
        } else {
            1_000_000
        }
    }

    /// Makes this process the hog.
    pub fn hog(self) -> Result<()> {
        punctual()?;
        match self {
            Starvation::Realtime => policy(libc::SCHED_FIFO, 0, 50),
            _ => policy(libc::SCHED_OTHER, 0, 0),
        }
    }
}

/// Has timers of this process expire at their moment, and not up to 50 µs later.
pub fn punctual() -> Result<()> {
    prctl::set_timerslack(1).context("PR_SET_TIMERSLACK")
}

fn policy(policy: i32, nice: i32, priority: u32) -> Result<()> {
    let fair = u64::from(priority == 0);
    let wanted = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: priority,
        sched_runtime: if nice == 0 { fair * SLICE } else { 0 },
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the structure is whole, and read only.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) })
        .map(drop)
        .context("sched_setattr")
}

/// Moves this process into a group that may have 1 % of a CPU.
fn starve() -> Result<()> {
    let group = format!("{CGROUPS}/starved");
    let put = |file: String, text: &str| fs::write(&file, text).context(file);
    put(format!("{CGROUPS}/cgroup.subtree_control"), "+cpu")?;
    fs::create_dir_all(&group).context(&group)?;
    put(format!("{group}/cpu.max"), "1000 100000")?;
    put(format!("{group}/cpu.weight"), "1")?;
    put(format!("{group}/cgroup.procs"), "0")
}

pub fn sleep_until(at: u64) {
    let at = TimeSpec::new((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at).is_err() {}
}

/// Waits for a moment, and is awake when it comes.
pub fn spin_until(at: u64) {
    sleep_until(at.saturating_sub(AWAKE));
    while now() < at {}
}

/// Has the CPU from a moment on, until the victim has what it waits for.
pub fn burst(moments: &Moments, at: u64) -> Result<()> {
    sleep_until(at);
    moments.stamp(Moment::Hog);
    while moments.at(Moment::Done) == 0 && now() < at + BURST {
        // An emulator that emulates one CPU after another goes to the next one here.
        std::hint::spin_loop();
    }
    Ok(())
}
