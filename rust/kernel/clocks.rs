// SPDX-License-Identifier: GPL-2.0

//! Two clocks that cost one instruction to read: the kernel's coarse clock, and the CPU's counter
//! of cycles where there is an instruction for it.

use crate::kernel_ext::once::read_once;
use kernel::sync::atomic::Atomic;

// Why these are safe to use: the kernel has the variable, an aligned word that it writes as a
// whole, as long as it runs. The functions compute, or may be called in any context.
unsafe extern "C" {
    #[link_name = "jiffies"]
    safe static JIFFIES: Atomic<usize>;
    safe fn jiffies64_to_msecs(ticks: u64) -> u64;
    #[cfg(not(target_arch = "x86_64"))]
    #[link_name = "kernel_ext_cycles"]
    pub(crate) safe fn cycles() -> u64;
}

/// A moment, in ticks of the kernel's timer modulo 2^32, which take 49 days or more.
#[derive(Clone, Copy)]
pub(crate) struct Ticks(u32);

impl Ticks {
    /// Returns the present moment. May be called in any context.
    #[inline]
    pub(crate) fn now() -> Self {
        // CAST: Modulo 2^32.
        Self(read_once(&JIFFIES) as u32)
    }

    /// Returns the milliseconds that have passed since this moment, to the precision of a tick, if
    /// fewer than 2^32 ticks have.
    pub(crate) fn elapsed_milliseconds(self) -> u64 {
        jiffies64_to_msecs(Self::now().0.wrapping_sub(self.0).into())
    }
}

/// Returns the CPU's counter of cycles. May be called in any context. The CPU may read the counter
/// a few instructions earlier or later.
///
/// Only the order of two moments is significant. If CPUs count differently, which the kernel's own
/// clock compensates for, the order of close moments on different CPUs is not reliable either.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn cycles() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: Every CPU of this architecture has the instruction, which changes these two
    // registers and nothing else. A kernel may execute it always, and User Mode Linux like any
    // program that has not forbidden it to itself.
    unsafe {
        core::arch::asm!(
            "rdtsc",
            out("eax") low,
            out("edx") high,
            options(nomem, nostack, preserves_flags)
        );
    }
    u64::from(low) | u64::from(high) << 32
}
