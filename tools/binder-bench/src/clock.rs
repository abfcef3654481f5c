// SPDX-License-Identifier: GPL-2.0
//! What time it is, at a price that does not drown what is measured.
//!
//! A guest without a vDSO (User Mode Linux) pays a whole system call for `clock_gettime`, as much as a quarter
//! of a round trip. Where the CPU promises a time-stamp counter that never stops or changes its pace, that is
//! the clock. Under QEMU's `-icount` the same counter counts executed instructions.

use std::time::Duration;
use std::time::Instant;

use nix::time::clock_gettime;
use nix::time::ClockId;

use crate::error::Error;
use crate::error::Result;

/// Which counter gives the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Source {
    /// The CPU's time-stamp counter.
    Tsc,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

/// A counter and its pace. Copied into each process; the pace is found once, by the first.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: Source,
    ns_per_tick: f64,
}

impl Clock {
    /// The best clock of this machine, or the one asked for.
    pub fn calibrated(wish: Option<Source>) -> Result<Clock> {
        let source = match wish {
            Some(Source::Tsc) if !tsc::exists() => {
                return Err(Error::Usage("--clock tsc: this machine has no time-stamp counter".into()))
            }
            Some(source) => source,
            None if tsc::is_steady() => Source::Tsc,
            None => Source::Monotonic,
        };
        let ns_per_tick = match source {
            Source::Monotonic => 1.0,
            Source::Tsc => measure_pace(Duration::from_millis(100)),
        };
        Ok(Clock { source, ns_per_tick })
    }

    /// The clock that counts instructions under `-icount shift=0`: one tick, one instruction.
    pub fn counting() -> Clock {
        Clock { source: if tsc::exists() { Source::Tsc } else { Source::Monotonic }, ns_per_tick: 1.0 }
    }

    /// The name in result files.
    pub fn name(&self) -> &'static str {
        match self.source {
            Source::Tsc => "tsc",
            Source::Monotonic => "monotonic",
        }
    }

    /// Ticks since some moment that all processes share.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        match self.source {
            Source::Tsc => tsc::read(),
            Source::Monotonic => monotonic_ns(),
        }
    }

    /// How many nanoseconds so many ticks are.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// How many ticks so long a time is.
    pub fn ticks(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.ns_per_tick) as u64
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has a monotonic clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

fn measure_pace(over: Duration) -> f64 {
    let (start, ticks) = (Instant::now(), tsc::read());
    while start.elapsed() < over {
        std::hint::spin_loop();
    }
    let (elapsed, end) = (start.elapsed(), tsc::read());
    elapsed.as_nanos() as f64 / (end - ticks) as f64
}

/// Fails unless the clock counts instructions one by one: anything else must not be called an exact count.
///
/// Two loops whose lengths differ by a known number of instructions are timed. Under `-icount shift=0` the
/// difference is that number, but for a timer interrupt in one of them, so the best of several tries counts.
pub fn require_instruction_clock(clock: &Clock) -> Result<()> {
    let time = |turns: u64| {
        (0..5)
            .map(|_| {
                let start = clock.now();
                two_instructions_per_turn(turns);
                clock.now() - start
            })
            .min()
            .unwrap_or(0)
    };
    let (short, long) = (time(1_000), time(101_000));
    let seen = long.saturating_sub(short);
    if seen == 200_000 {
        return Ok(());
    }
    Err(Error::Protocol(format!(
        "--count: 200000 instructions took {seen} ticks; it needs a guest under `qemu -icount shift=0`"
    )))
}

#[cfg(target_arch = "x86_64")]
mod tsc {
    use std::arch::x86_64::__cpuid;
    use std::arch::x86_64::_rdtsc;

    pub fn exists() -> bool {
        true
    }

    /// Whether the counter keeps its pace in all power states (leaf 0x80000007, EDX bit 8).
    pub fn is_steady() -> bool {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }

    #[inline(always)]
    pub fn read() -> u64 {
        // SAFETY: every x86-64 CPU has RDTSC, and Linux lets user space execute it.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod tsc {
    pub fn exists() -> bool {
        false
    }

    pub fn is_steady() -> bool {
        false
    }

    pub fn read() -> u64 {
        super::monotonic_ns()
    }
}

#[cfg(target_arch = "x86_64")]
fn two_instructions_per_turn(turns: u64) {
    // SAFETY: the loop touches one register, declared as its operand, and the flags, which `asm!` clobbers by
    // default; `turns` is never 0, so it ends.
    unsafe {
        std::arch::asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) turns.max(1) => _, options(nomem, nostack));
    }
}

#[cfg(target_arch = "aarch64")]
fn two_instructions_per_turn(turns: u64) {
    // SAFETY: as on x86-64: one register and the flags, and `turns` is never 0.
    unsafe {
        std::arch::asm!("2:", "subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) turns.max(1) => _, options(nomem, nostack));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn two_instructions_per_turn(_turns: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree_on_a_nap() {
        for source in [Source::Tsc, Source::Monotonic] {
            let Ok(clock) = Clock::calibrated(Some(source)) else { continue };
            let (start, real) = (clock.now(), Instant::now());
            std::thread::sleep(Duration::from_millis(20));
            let (ns, real) = (clock.ns(clock.now() - start), real.elapsed().as_nanos() as f64);
            assert!((ns / real - 1.0).abs() < 0.1, "{source:?}: {ns} against {real}");
        }
    }

    #[test]
    fn ticks_and_nanoseconds_are_inverse() {
        let clock = Clock { source: Source::Tsc, ns_per_tick: 0.4 };
        assert_eq!(clock.ticks(Duration::from_nanos(400)), 1000);
        assert_eq!(clock.ns(1000), 400.0);
    }

    #[test]
    fn a_real_machine_is_not_taken_for_an_instruction_counter() {
        assert!(require_instruction_clock(&Clock::counting()).is_err());
    }
}
