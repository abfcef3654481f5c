// SPDX-License-Identifier: GPL-2.0
//! The kernel crate of `tests/host`, with what threads share as loom has it: it runs a test in all
//! orders of such accesses, and with all values that a load may see in C11's memory model.

pub use host::{alloc, error, prelude};

pub mod sync;

/// Two CPUs, of which the second one runs everything.
pub mod cpu {
    /// The number of a CPU.
    pub struct CpuId(u32);

    impl CpuId {
        /// The CPU that runs this.
        pub fn current() -> Self {
            Self(1)
        }

        /// Its number.
        pub fn as_u32(&self) -> u32 {
            self.0
        }
    }

    /// The number of CPU numbers.
    pub fn nr_cpu_ids() -> u32 {
        2
    }
}
