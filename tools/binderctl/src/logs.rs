// SPDX-License-Identifier: GPL-2.0
//! The driver's log files: those of `binder_logs` in a mounted binderfs, or of `binder` in debugfs. Both show all devices.

use crate::error::{reason, Error, Kind, Result};
use crate::options::Options;
use crate::{driver, instances};
use binder_logs::{Log, Mode, State, Stats, TransactionLog, UnknownLine};
use std::io;
use std::path::{Path, PathBuf};

const DEBUGFS: &str = "/sys/kernel/debug/binder";

/// The directory of the log files.
#[derive(Clone, Debug)]
pub struct Logs {
    pub directory: PathBuf,
}

impl Logs {
    /// Finds the log files: those of the instance that the options name, of any instance that has them, or of debugfs.
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
                    .hint("root may; others need an instance of binderfs with log files"))
            }
            Err(_) => Err(none("no binderfs is mounted with log files, and debugfs has none")),
        }
    }

    pub fn state(&self) -> Result<State> {
        self.read("state", |state| &state.unknown)
    }

    pub fn stats(&self) -> Result<Stats> {
        self.read("stats", |stats| &stats.unknown)
    }

    pub fn transaction_log(&self) -> Result<TransactionLog> {
        self.read("transaction_log", |log| &log.unknown)
    }

    pub fn failed_transaction_log(&self) -> Result<TransactionLog> {
        self.read("failed_transaction_log", |log| &log.unknown)
    }

    /// Lines that are not understood are left out: a device's name may have a line end in it. A file that begins with
    /// one is something else.
    fn read<T: Log>(&self, name: &str, unknown: fn(&T) -> &[UnknownLine]) -> Result<T> {
        let path = self.directory.join(name);
        let log = T::read(&path, Mode::Lenient).map_err(|error| match error {
            binder_logs::Error::Read(_, why) => unreadable(&path, why),
            error => Error::new(Kind::Io, format!("cannot understand {error}")),
        })?;
        match unknown(&log).first() {
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

const MOUNT: &str =
    "as root: mount -t debugfs debugfs /sys/kernel/debug, or mount -t binder -o stats=global binder DIR";

fn none(what: &str) -> Error {
    match driver::detect() {
        Some(_) => Error::new(Kind::NotThere, what).hint(MOUNT),
        None => driver::missing(),
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
