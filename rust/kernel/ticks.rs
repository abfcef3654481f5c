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

    /// Returns the milliseconds that have passed since this moment, to the precision of a tick.
    pub(crate) fn elapsed_milliseconds(self) -> u64 {
        let ticks = Self::now().0.wrapping_sub(self.0);
        // SAFETY: This computes; any number may be passed.
        unsafe { kernel_ext_milliseconds(ticks as u64) }
    }
}
