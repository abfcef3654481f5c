// SPDX-License-Identifier: GPL-2.0
//! The driver's log files: those of `binder_logs` in a mounted binderfs, or of `binder` in debugfs. Both show all devices.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use binder_logs::Log;
use binder_logs::Mode;
use binder_logs::State;
use binder_logs::Stats;
use binder_logs::TransactionLog;
use binder_logs::UnknownLine;

use crate::driver;
use crate::error::reason;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Result;
use crate::instances;
use crate::options::Options;

const DEBUGFS: &str = "/sys/kernel/debug/binder";

/// Where the log files are.
#[derive(Clone, Debug)]
pub struct Logs {
    directory: PathBuf,
}

impl Logs {
    /// Finds the log files: those of the instance asked for, of any instance that has them, or of debugfs.
    pub fn find(options: &Options) -> Result<Self> {
        if options.binderfs.is_some() {
            let instance = instances::chosen(options)?;
            let directory = instance.directory.join("binder_logs");
            return match instance.logs {
                true => Ok(Self { directory }),
                false => Err(none(&format!("{} has no log files", instance.directory.display()))),
            };
        }
        if let Some(instance) = instances::mounted()?.into_iter().find(|instance| instance.logs) {
            return Ok(Self { directory: instance.directory.join("binder_logs") });
        }
        match Path::new(DEBUGFS).join("state").symlink_metadata() {
            Ok(_) => Ok(Self { directory: DEBUGFS.into() }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Error::at("look into", Path::new(DEBUGFS), error)
                    .hint(format!("root may; others need an instance with log files: {MOUNT}")))
            }
            Err(_) => Err(none("no binderfs is mounted with log files, and debugfs has none")),
        }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `state`: all processes, threads, nodes and handles.
    pub fn state(&self) -> Result<State> {
        self.read("state")
    }

    /// `stats`: counts of everything.
    pub fn stats(&self) -> Result<Stats> {
        self.read("stats")
    }

    /// `transaction_log`: the last transactions.
    pub fn transaction_log(&self) -> Result<TransactionLog> {
        self.read("transaction_log")
    }

    /// `failed_transaction_log`: the last that failed.
    pub fn failed_transaction_log(&self) -> Result<TransactionLog> {
        self.read("failed_transaction_log")
    }

    /// Lines that are not understood are left out: a device's name may have a line end in it. A file that begins with
    /// one is something else.
    fn read<T: Log + Unknown>(&self, name: &str) -> Result<T> {
        let path = self.directory.join(name);
        let log = T::read(&path, Mode::Lenient).map_err(|error| match error {
            binder_logs::Error::Read { why, .. } => unreadable(&path, why),
            error => Error::new(Kind::Io, format!("cannot understand {error}")),
        })?;
        match log.unknown().first() {
            Some(line) if line.number == 1 => Err(Error::new(
                Kind::Io,
                format!(
                    "{} is no log file of a Binder driver: it begins with {:?}",
                    path.display(),
                    line.text
                ),
            )),
            _ => Ok(log),
        }
    }
}

/// A log file of which some lines were not understood.
pub trait Unknown {
    /// These lines.
    fn unknown(&self) -> &[UnknownLine];
}

macro_rules! unknown {
    ($($log:ty),*) => {
        $(impl Unknown for $log {
            fn unknown(&self) -> &[UnknownLine] {
                &self.unknown
            }
        })*
    };
}

unknown!(State, Stats, TransactionLog);

const MOUNT: &str = "binderctl mount --logs DIR";

fn none(what: &str) -> Error {
    match driver::detect() {
        Some(_) => Error::new(Kind::NotThere, what).hint(format!("as root: {MOUNT}")),
        None => Error::new(Kind::NotThere, "the kernel has no Binder driver")
            .hint("load one: modprobe binder_rust, or modprobe binder_linux"),
    }
}

fn unreadable(path: &Path, why: io::Error) -> Error {
    match why.kind() {
        io::ErrorKind::NotFound => {
            let driver = driver::detect();
            let name = driver.as_ref().map_or("no driver", |driver| driver.kind.name());
            match path.parent().is_some_and(Path::exists) {
                true => Error::new(
                    Kind::NotOffered,
                    format!("there is no {}: {name} does not offer it", path.display()),
                ),
                false => {
                    Error::new(Kind::Gone, format!("{} is gone: its binderfs was unmounted", path.display()))
                }
            }
        }
        io::ErrorKind::PermissionDenied => Error::at("read", path, why).hint("root may"),
        _ => Error::new(Kind::Io, format!("cannot read {}: {}", path.display(), reason(&why))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn logs(name: &str) -> Logs {
        let directory = std::env::temp_dir().join(format!("binderctl-logs-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Logs { directory }
    }

    #[test]
    fn what_a_driver_does_not_offer_is_told_from_what_is_gone() {
        let logs = logs("absent");
        assert_eq!(logs.failed_transaction_log().unwrap_err().kind, Kind::NotOffered);
        fs::remove_dir(logs.directory()).unwrap();
        assert_eq!(logs.failed_transaction_log().unwrap_err().kind, Kind::Gone);
    }

    #[test]
    fn what_is_no_log_file_is_not_understood() {
        let logs = logs("foreign");
        fs::write(logs.directory().join("state"), "hello\x1b\n").unwrap();
        let error = logs.state().unwrap_err();
        assert_eq!(error.kind, Kind::Io);
        assert!(error.message.ends_with(r#"it begins with "hello\u{1b}""#), "{error}");
    }
}
