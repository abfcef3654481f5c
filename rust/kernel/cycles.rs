// SPDX-License-Identifier: GPL-2.0

//! The CPU's counter of cycles: where there is an instruction for it, to read it costs that one.

#[cfg(not(target_arch = "x86_64"))]
extern "C" {
    fn kernel_ext_cycles() -> u64;
}

/// A moment, by the counter of cycles of the CPU. Only what is before and what is after means
/// something: and where CPUs count differently, which the kernel's own clock makes up for, not even
/// that for moments on different CPUs that are close to each other.
#[derive(Clone, Copy)]
pub(crate) struct Cycles(u64);

impl Cycles {
    /// Returns the present moment. May be called in any context. The CPU may read the counter a few
    /// instructions earlier or later.
    #[inline(always)]
    pub(crate) fn now() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let (low, high): (u32, u32);
            // SAFETY: Every CPU of this architecture has the instruction, which changes these two
            // registers and nothing else. A kernel may execute it always, and User Mode Linux like
            // any program that has not forbidden it to itself.
            unsafe {
                core::arch::asm!(
                    "rdtsc",
                    out("eax") low,
                    out("edx") high,
                    options(nomem, nostack, preserves_flags)
                );
            }
            Self::of_halves([low, high])
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            // SAFETY: The function may be called in any context.
            Self(unsafe { kernel_ext_cycles() })
        }
    }

    /// Returns a moment so many cycles later.
    pub(crate) fn later(self, cycles: u64) -> Self {
        Self(self.0.wrapping_add(cycles))
    }

    /// Returns how many cycles this moment is after another one. That is a huge number if it is
    /// before, or if the counter has begun anew in between.
    pub(crate) fn since(self, other: Self) -> u64 {
        self.0.wrapping_sub(other.0)
    }

    /// Returns the lower and the upper half of the count.
    #[inline(always)]
    pub(crate) fn halves(self) -> [u32; 2] {
        // CAST: To either half.
        [self.0 as u32, (self.0 >> 32) as u32]
    }

    /// Returns the moment whose count has these halves.
    #[inline(always)]
    pub(crate) fn of_halves([low, high]: [u32; 2]) -> Self {
        Self(u64::from(low) | u64::from(high) << 32)
    }
}
