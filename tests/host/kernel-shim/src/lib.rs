// SPDX-License-Identifier: GPL-2.0
//! As much of the `kernel` crate as the driver's pure rooms use, for tests on the host.
//!
//! The rooms are compiled against this crate by the same paths by which they find the real one in
//! the kernel. It is stricter than the real one in what [`testing`] watches: memory that is
//! allocated or given back to vmalloc while a spinlock is held stops the test, all memory is
//! counted, and any allocation can be made to fail.

#![deny(unsafe_code)]

pub mod alloc;
pub mod rbtree;
pub mod sync;
pub mod testing;

/// The names that the kernel's prelude gives to everyone.
pub mod prelude {
    pub use crate::alloc::{flags::*, KBox, KVVec, KVec};
    pub use crate::error::{code::*, Error, Result};
}

/// The kernel's error type, reduced to what rooms return.
pub mod error {
    use crate::alloc::AllocError;

    /// An errno.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Error(pub i32);

    /// The kernel's `Result`.
    pub type Result<T = (), E = Error> = core::result::Result<T, E>;

    /// The numbers that rooms return.
    pub mod code {
        use super::Error;

        pub const ENOMEM: Error = Error(-12);
        pub const EFAULT: Error = Error(-14);
        pub const EINVAL: Error = Error(-22);
    }

    impl From<AllocError> for Error {
        fn from(_: AllocError) -> Self {
            code::ENOMEM
        }
    }
}
