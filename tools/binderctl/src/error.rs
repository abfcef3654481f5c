// SPDX-License-Identifier: GPL-2.0
//! An error that ends a command early: a line with the failed operation and its cause, often a second line with the
//! next step, and an exit code for scripts.

use nix::errno::Errno;
use serde::Serialize;
use std::io;
use std::path::Path;

/// The kind of failure. The numbers are the exit codes that `--help` and the documentation list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The reader of the output is gone, which is no failure of the command.
    Unread = 0,
    /// The arguments are invalid. clap exits with the same code.
    Usage = 2,
    /// Rights are missing.
    Permission = 3,
    /// The driver, mount, device or process does not exist.
    NotThere = 4,
    /// The driver that is loaded does not offer it.
    NotOffered = 5,
    /// The kernel refuses: a name that exists or is too long, a quota that is reached, a mount that is read-only.
    Refused = 6,
    /// It was there when the command started to watch it, and is gone.
    Gone = 7,
    /// A file could not be read, written or parsed.
    Io = 8,
}

/// A failure that ends the command.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
    pub hint: Option<String>,
}

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure without a next step.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// The same failure with a next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure with a next step that helps where rights are missing.
    pub fn hint_if_denied(self, hint: &str) -> Self {
        match self.kind {
            Kind::Permission => self.hint(hint),
            _ => self,
        }
    }

    /// A failed system call about a path. `what` is the operation: "read", "remove".
    pub fn at(what: &str, path: &Path, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let kind = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EACCES | Errno::EPERM) => Kind::Permission,
            Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ENODEV | Errno::ENXIO | Errno::ESRCH) => {
                Kind::NotThere
            }
            Some(Errno::EEXIST | Errno::ENOSPC | Errno::ENAMETOOLONG | Errno::EBUSY | Errno::EROFS) => {
                Kind::Refused
            }
            _ => Kind::Io,
        };
        Self::new(kind, format!("cannot {what} {}: {}", path.display(), reason(&error)))
    }
}

/// The system's description of an error, without its number.
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}
