// SPDX-License-Identifier: GPL-2.0

//! The kernel's coarse clock: to read it costs one load.

use kernel::sync::atomic::{Atomic, Relaxed};

// Why these are safe to use: the kernel has the variable, an aligned word that it writes as a
// whole, as long as it runs. The function computes; any number may be passed.
unsafe extern "C" {
    #[link_name = "jiffies"]
    safe static JIFFIES: Atomic<usize>;
    safe fn jiffies64_to_msecs(ticks: u64) -> u64;
}

/// A moment, in ticks of the kernel's timer modulo 2^32, which take 49 days or more.
#[derive(Clone, Copy)]
pub(crate) struct Ticks(u32);

impl Ticks {
    /// Returns the present moment. May be called in any context.
    #[inline]
    pub(crate) fn now() -> Self {
        // CAST: Modulo 2^32.
        Self(JIFFIES.load(Relaxed) as u32)
    }

    /// Returns the milliseconds that have passed since this moment, to the precision of a tick, if
    /// fewer than 2^32 ticks have.
    pub(crate) fn elapsed_milliseconds(self) -> u64 {
        jiffies64_to_msecs(Self::now().0.wrapping_sub(self.0).into())
    }
}
