// SPDX-License-Identifier: GPL-2.0
//! A clock that is cheap next to the measured calls.
//!
//! A guest without a vDSO (User Mode Linux) pays a whole system call for `clock_gettime`, as much as a quarter
//! of a round trip. If the CPU has a time-stamp counter that never stops or changes its pace, that is
//! the clock. Under QEMU's `-icount` the same counter counts executed instructions.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::time::{clock_gettime, ClockId};

use crate::error::{Error, Result};

/// A counter and its pace. Copied into each process; the pace is found once, by the first.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// True for the CPU's time-stamp counter; otherwise the clock is `CLOCK_MONOTONIC`.
    tsc: bool,
    ns_per_tick: f64,
}

impl Clock {
    pub fn calibrated() -> Clock {
        let tsc = tsc::is_steady();
        Clock { tsc, ns_per_tick: if tsc { measure_pace(Duration::from_millis(20)) } else { 1.0 } }
    }

    /// The clock that counts instructions under `-icount shift=0`: one tick, one instruction. Fails unless it does: anything else
    /// must not be called an exact count.
    ///
    /// Two loops whose lengths differ by a known number of instructions are timed. Under `-icount shift=0` the
    /// difference is that number, but for a timer interrupt in one of them, so the best of several tries counts.
    pub fn counting() -> Result<Clock> {
        let clock = Clock { tsc: tsc::EXISTS, ns_per_tick: 1.0 };
        // The code is the same for both lengths, however it is optimised.
        let time = |turns: u64| {
            let start = clock.now();
            two_instructions_per_turn(turns);
            clock.now() - start
        };
        let [short, long] =
            [1_000, 101_000].map(|turns| (0..5).map(|_| time(black_box(turns))).min().unwrap_or(0));
        match long.saturating_sub(short) {
            200_000 => Ok(clock),
            seen => Err(Error::failed(format!(
                "--count: 200000 instructions took {seen} ticks; it needs a guest under `qemu -icount shift=0`"
            ))),
        }
    }

    pub fn name(&self) -> &'static str {
        if self.tsc {
            "tsc"
        } else {
            "monotonic"
        }
    }

    /// Ticks since some moment that all processes share.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        if self.tsc {
            tsc::read()
        } else {
            monotonic()
        }
    }

    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    pub fn ticks(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.ns_per_tick) as u64
    }
}

/// Nanoseconds of a clock that all processes share.
pub fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has a monotonic clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn measure_pace(over: Duration) -> f64 {
    let (start, ticks) = (Instant::now(), tsc::read());
    while start.elapsed() < over {
        std::hint::spin_loop();
    }
    let (elapsed, end) = (start.elapsed(), tsc::read());
    elapsed.as_nanos() as f64 / (end - ticks) as f64
}

#[cfg(target_arch = "x86_64")]
mod tsc {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    pub const EXISTS: bool = true;

    /// Returns true if the counter keeps its pace in all power states (leaf 0x80000007, EDX bit 8).
    pub fn is_steady() -> bool {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }

    #[inline(always)]
    pub fn read() -> u64 {
        // SAFETY: every x86-64 CPU has RDTSC, and Linux permits it in user space.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod tsc {
    pub const EXISTS: bool = false;

    pub fn is_steady() -> bool {
        false
    }

    pub fn read() -> u64 {
        unreachable!("no clock here has a time-stamp counter")
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
    // SAFETY: the loop touches one register, declared as its operand, and the flags, which `asm!` clobbers by
    // default; `turns` is never 0, so it ends.
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
    fn a_clock_agrees_with_another_on_a_nap() {
        for clock in [Clock::calibrated(), Clock { tsc: false, ns_per_tick: 1.0 }] {
            let (start, real) = (clock.now(), Instant::now());
            std::thread::sleep(Duration::from_millis(20));
            let (ns, real) = (clock.ns(clock.now() - start), real.elapsed().as_nanos() as f64);
            assert!((ns / real - 1.0).abs() < 0.1, "{clock:?}: {ns} against {real}");
        }
    }
}
