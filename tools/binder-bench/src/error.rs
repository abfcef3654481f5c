// SPDX-License-Identifier: GPL-2.0
//! Failures, each with an exit code that scripts can rely on.

use std::fmt::Display;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// The kind of a failure; its number is the exit code, which `--help` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A system call failed, or the driver broke the protocol.
    Failed = 1,
    /// An argument makes no sense on this machine; clap refuses others with the same code.
    Usage,
    /// The kernel has no Binder, or the path is not a Binder device.
    NoBinder,
    /// The device or the mount needs rights that the program lacks.
    Permission,
    /// A process of the benchmark died or hung.
    PeerDied,
    /// A result file cannot be used.
    BadInput,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Error {
    pub kind: Kind,
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Kind {
    pub fn error(self, text: impl Into<String>) -> Error {
        Error { kind: self, text: text.into() }
    }
}

impl Error {
    pub fn failed(text: impl Into<String>) -> Error {
        Kind::Failed.error(text)
    }

    /// A failed system call on a Binder path: permission and absence have exit codes of their own.
    pub fn from_path(what: impl Display, errno: Errno) -> Error {
        let kind = match errno {
            Errno::EACCES | Errno::EPERM => Kind::Permission,
            Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::ENOTTY => Kind::NoBinder,
            _ => Kind::Failed,
        };
        kind.error(format!("{what}: {}", errno.desc()))
    }
}

/// Names what was being done when something failed.
pub trait Context<T> {
    /// Puts `what` before the failure's words.
    fn context(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Error::failed(format!("{what}: {error}")))
    }
}
