// SPDX-License-Identifier: GPL-2.0

//! The kernel's coarse clock: to read it costs one load. And the CPU's counter of cycles, which costs one
//! instruction.

use kernel::bindings;

extern "C" {
    fn kernel_ext_milliseconds(ticks: u64) -> u64;
    #[cfg(not(target_arch = "x86_64"))]
    fn kernel_ext_cycles() -> u64;
}

/// A moment, in ticks of the kernel's timer modulo 2^32, which take 49 days or more.
#[derive(Clone, Copy)]
pub(crate) struct Ticks(u32);

impl Ticks {
    /// Returns the present moment. May be called in any context.
    #[inline]
    pub(crate) fn now() -> Self {
        // SAFETY: `jiffies` is an aligned word that exists as long as the kernel runs. It is written as
        // a whole, so a volatile read, which is one load, gives a value that it has had.
        let ticks = unsafe { (&raw const bindings::jiffies).read_volatile() };
        Self(ticks as u32)
    }

    /// Returns the moment of a [count](Self::count).
    pub(crate) fn of(count: u32) -> Self {
        Self(count)
    }

    /// Returns the count of ticks, of which only differences mean something.
    pub(crate) fn count(self) -> u32 {
        self.0
    }

    /// Returns the milliseconds that have passed since this moment, to the precision of a tick, if fewer
    /// than 2^32 ticks have.
    pub(crate) fn elapsed_milliseconds(self) -> u64 {
        let ticks = Self::now().0.wrapping_sub(self.0);
        // SAFETY: This computes; any number may be passed.
        unsafe { kernel_ext_milliseconds(ticks.into()) }
    }
}

/// A moment, by the counter of cycles of the CPU. Only what is before and what is after means something: and
/// where CPUs count differently, which the kernel's own clock makes up for, not even that for moments on
/// different CPUs that are close to each other.
#[derive(Clone, Copy)]
pub(crate) struct Cycles {
    low: u32,
    high: u32,
}

impl Cycles {
    /// Returns the present moment. May be called in any context. The CPU may read the counter a few
    /// instructions earlier or later.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn now() -> Self {
        let (low, high);
        // SAFETY: Every CPU of this architecture has the instruction, which changes these two registers and
        // nothing else. A kernel may execute it always, and User Mode Linux like any program that has not
        // forbidden it to itself.
        unsafe {
            core::arch::asm!(
                "rdtsc",
                out("eax") low,
                out("edx") high,
                options(nomem, nostack, preserves_flags)
            );
        }
        Self { low, high }
    }

    /// Returns the present moment. May be called in any context.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    pub(crate) fn now() -> Self {
        // SAFETY: The function may be called in any context.
        Self::of_count(unsafe { kernel_ext_cycles() })
    }

    fn of_count(count: u64) -> Self {
        // CAST: To either half.
        Self {
            low: count as u32,
            high: (count >> 32) as u32,
        }
    }

    fn count(self) -> u64 {
        u64::from(self.low) | u64::from(self.high) << 32
    }

    /// Returns a moment so many cycles later.
    pub(crate) fn later(self, cycles: u64) -> Self {
        Self::of_count(self.count().wrapping_add(cycles))
    }

    /// Returns how many cycles this moment is after another one. That is a huge number if it is before, or if
    /// the counter has begun anew in between.
    pub(crate) fn since(self, other: Self) -> u64 {
        self.count().wrapping_sub(other.count())
    }

    /// Returns the lower and the upper half of the count.
    #[inline(always)]
    pub(crate) fn halves(self) -> [u32; 2] {
        [self.low, self.high]
    }

    /// Returns the moment whose count has these halves.
    pub(crate) fn of_halves([low, high]: [u32; 2]) -> Self {
        Self { low, high }
    }
}
