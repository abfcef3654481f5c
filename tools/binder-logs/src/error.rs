// SPDX-License-Identifier: GPL-2.0
//! What can be wrong with a file.

/// Why a file could not be read or understood.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{file}: {why}")]
    Read {
        /// The file's name.
        file: String,
        /// What the system says.
        why: std::io::Error,
    },
    /// A line is not one that the drivers print there.
    #[error("{file}:{number}: {reason}: {text:?}")]
    Line {
        /// The file's name.
        file: String,
        /// The line's number, from 1.
        number: usize,
        /// The line, or the beginning of a long one.
        text: String,
        /// What is wrong with it.
        reason: Reason,
    },
    /// The file ends where more has to follow.
    #[error("{file}: {missing} is missing at the end")]
    Ends {
        /// The file's name.
        file: String,
        /// What had to follow.
        missing: &'static str,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No driver prints such a line.
    #[error("no line that is known here")]
    Unknown,
    /// It is known, but cannot follow the one before it.
    #[error("a line out of its order")]
    OutOfOrder,
    /// It is not UTF-8.
    #[error("no text")]
    NotText,
    /// Its end is missing.
    #[error("a line without an end")]
    Cut,
}
