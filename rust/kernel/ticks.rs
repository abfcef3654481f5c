// SPDX-License-Identifier: GPL-2.0

//! The kernel's coarse clock: to read it costs one load.

use kernel::bindings;

extern "C" {
    fn kernel_ext_milliseconds(ticks: u64) -> u64;
}

/// A moment, in ticks of the kernel's timer since boot. On 32-bit kernels its count begins anew after
/// 49 days or more (2^32 ticks).
#[derive(Clone, Copy)]
pub(crate) struct Ticks(usize);

impl Ticks {
    /// Returns the present moment. May be called in any context.
    #[inline]
    pub(crate) fn now() -> Self {
        // SAFETY: `jiffies` is an aligned word that exists as long as the kernel runs. It is written as
        // a whole, so a volatile read, which is one load, gives a value that it has had.
        Self(unsafe { (&raw const bindings::jiffies).read_volatile() })
    }

    /// Returns the count of ticks modulo 2^32, of which only differences mean something.
    pub(crate) fn count(self) -> u32 {
        self.0 as u32
    }

    /// Returns the milliseconds that have passed since this moment, to the precision of a tick.
    pub(crate) fn elapsed_milliseconds(self) -> u64 {
        milliseconds(Self::now().0.wrapping_sub(self.0) as u64)
    }
}

/// A moment in half the room: its ticks modulo 2^32, which take 49 days or more.
#[derive(Clone, Copy)]
pub(crate) struct ShortTicks(u32);

impl ShortTicks {
    /// Returns the present moment. May be called in any context.
    #[inline]
    pub(crate) fn now() -> Self {
        Self(Ticks::now().count())
    }

    /// Returns the count of ticks modulo 2^32, of which only differences mean something.
    pub(crate) fn count(self) -> u32 {
        self.0
    }

    /// Returns the milliseconds that have passed since this moment, to the precision of a tick, if fewer
    /// than 2^32 ticks have.
    pub(crate) fn elapsed_milliseconds(self) -> u64 {
        milliseconds(Self::now().0.wrapping_sub(self.0).into())
    }
}

/// Returns how long a number of ticks takes.
pub(crate) fn milliseconds(ticks: u64) -> u64 {
    // SAFETY: This computes; any number may be passed.
    unsafe { kernel_ext_milliseconds(ticks) }
}
