// SPDX-License-Identifier: GPL-2.0

//! The assertions of suites that run in the kernel: a test ends with an error, which drops all that
//! it had.
//!
//! A panic would end the kernel. KUnit's own assertions end the thread and drop nothing: what the
//! test has registered stays registered, and is called when the module is gone.

use core::{fmt::Debug, panic::Location};
use kernel::{alloc::AllocError, error::Error};

/// An expectation of a test does not hold. The expectation and its place have been printed.
#[derive(Debug)]
pub(crate) struct Failed(());

impl Failed {
    /// Prints an expectation, and its place.
    #[cold]
    #[track_caller]
    pub(crate) fn because(why: &dyn Debug) -> Self {
        let place = Location::caller();
        let (file, line) = (place.file(), place.line());
        kernel::pr_err!("{file}:{line}: not as expected: {why:?}\n");
        Self(())
    }
}

impl From<Error> for Failed {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::because(&error)
    }
}

impl From<AllocError> for Failed {
    #[track_caller]
    fn from(error: AllocError) -> Self {
        Self::because(&error)
    }
}

/// Ends a test unless a condition holds. Its user needs [`Failed`] in scope.
macro_rules! ensure {
    ($condition:expr $(,)?) => {
        if !$condition {
            return Err(Failed::because(&stringify!($condition)));
        }
    };
}

/// Ends a test unless two values are equal, and prints them.
macro_rules! ensure_eq {
    ($found:expr, $wanted:expr $(,)?) => {
        match ($found, $wanted) {
            (found, wanted) => {
                if found != wanted {
                    let what = (stringify!($found), found, "instead of", wanted);
                    return Err(Failed::because(&what));
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq};
