// SPDX-License-Identifier: GPL-2.0

//! The kernel's coarse clock: to read it costs one load.

use kernel::bindings;

/// A moment, in ticks of the kernel's timer modulo 2^32, which take 49 days or more.
#[derive(Clone, Copy)]
pub(crate) struct Ticks(u32);

impl Ticks {
    /// Returns the present moment. May be called in any context.
    #[inline]
    pub(crate) fn now() -> Self {
        // SAFETY: `jiffies` is an aligned word that exists as long as the kernel runs. It is
        // written as a whole, so a volatile read, which is one load, gives a value that it has had.
        let ticks = unsafe { (&raw const bindings::jiffies).read_volatile() };
        Self(ticks as u32)
    }

    /// Returns the milliseconds that have passed since this moment, to the precision of a tick, if
    /// fewer than 2^32 ticks have.
    pub(crate) fn elapsed_milliseconds(self) -> u64 {
        let ticks = Self::now().0.wrapping_sub(self.0);
        // SAFETY: This computes; any number may be passed.
        unsafe { bindings::jiffies64_to_msecs(ticks.into()) }
    }
}
