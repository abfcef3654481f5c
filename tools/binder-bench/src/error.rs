// SPDX-License-Identifier: GPL-2.0
//! What can go wrong, said in one line, and the exit code that scripts can rely on.

use std::io;
use std::process::ExitCode;

use nix::errno::Errno;

/// A failure that ends the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument that parses but makes no sense on this machine; others are refused by clap with the same code.
    #[error("{0}")]
    Usage(String),
    /// The kernel has no Binder, or the path is not a Binder device.
    #[error("{0}")]
    NoBinder(String),
    /// The device or the mount needs rights that we lack.
    #[error("{0}")]
    Permission(String),
    /// A process of the benchmark went away or misbehaved while it was needed.
    #[error("{0}")]
    PeerDied(String),
    /// A result file cannot be used.
    #[error("{0}")]
    BadInput(String),
    /// The device has no context manager, though an existing one was asked for.
    #[error("{0}")]
    NoManager(String),
    /// The driver answered something that the protocol does not allow here.
    #[error("{0}")]
    Protocol(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What we were doing.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The exit code of this failure; listed in `--help`.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// The same as a number, which another process can be told.
    pub fn code(&self) -> u8 {
        match self {
            Error::Io { .. } | Error::Protocol(_) => 1,
            Error::Usage(_) => 2,
            Error::NoBinder(_) => 3,
            Error::Permission(_) => 4,
            Error::PeerDied(_) => 5,
            Error::BadInput(_) => 6,
            Error::NoManager(_) => 7,
        }
    }

    /// A failure of another process, by its code.
    pub fn of_another(code: u8, text: String) -> Error {
        match code {
            2 => Error::Usage(text),
            3 => Error::NoBinder(text),
            4 => Error::Permission(text),
            5 => Error::PeerDied(text),
            6 => Error::BadInput(text),
            7 => Error::NoManager(text),
            _ => Error::Protocol(text),
        }
    }

    /// Wraps a failed system call on a Binder path: permission and absence have exit codes of their own.
    pub fn from_path(what: impl Into<String>, errno: Errno) -> Error {
        let text = format!("{}: {}", what.into(), errno.desc());
        match errno {
            Errno::EACCES | Errno::EPERM => Error::Permission(text),
            Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::ENOTTY => Error::NoBinder(text),
            _ => Error::Io { what: text, source: io::Error::from(errno) },
        }
    }
}

/// Says what was being done when a system call failed.
pub trait Context<T> {
    /// Attaches `what` to the failure.
    fn context(self, what: impl Into<String>) -> Result<T>;
}

impl<T> Context<T> for std::result::Result<T, Errno> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|e| Error::Io { what: what.into(), source: io::Error::from(e) })
    }
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::Io { what: what.into(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_survives_the_way_to_another_process() {
        for code in 1..=7 {
            assert_eq!(Error::of_another(code, String::new()).code(), code);
        }
    }
}
