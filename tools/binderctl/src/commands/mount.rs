// SPDX-License-Identifier: GPL-2.0
//! `binderctl mount`: a new instance of binderfs.

use std::fs;
use std::path::{Path, PathBuf};

use binder_sys::mounting::{Mounting, Refusal};
use binder_sys::Errno;
use clap::Args;
use serde::Serialize;

use crate::driver;
use crate::error::{Error, Kind, Result};
use crate::instances::{self, Device, Instance};
use crate::output::{Output, Page, Report};

/// Where and how to mount.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Where; a directory that is not there is made.
    #[arg(default_value = instances::USUAL)]
    directory: PathBuf,
    /// With the driver's log files in `binder_logs`, which show all instances: root of the machine may read them.
    #[arg(long)]
    logs: bool,
    /// Mount options, as for mount(8): max=4,mode=666.
    #[arg(short, value_name = "OPTION,...", value_delimiter = ',')]
    options: Vec<String>,
}

#[derive(Serialize)]
struct Mounted {
    directory: PathBuf,
    logs: bool,
    devices: Vec<Device>,
}

/// Mounts binderfs, on a directory that has none yet.
pub fn run(arguments: &Arguments, output: Output) -> Result<()> {
    let directory = &arguments.directory;
    let made = !directory.exists();
    if made {
        fs::create_dir_all(directory).map_err(|error| Error::at("make", directory, error))?;
    }
    let mounted = mount(arguments).inspect_err(|_| {
        if made {
            let _ = fs::remove_dir(directory);
        }
    })?;
    output.print(&mounted)
}

fn mount(arguments: &Arguments) -> Result<Mounted> {
    let directory = fs::canonicalize(&arguments.directory)
        .map_err(|error| Error::at("find", &arguments.directory, error))?;
    let is_here = |instance: &Instance| instance.directory == directory;
    if instances::mounted()?.iter().any(is_here) {
        return Err(Error::new(Kind::Refused, format!("{} has a binderfs already", directory.display()))
            .hint("`binderctl list` shows it; another one needs another directory"));
    }
    attach(&directory, arguments).map_err(|refusal| refused(&directory, &refusal))?;
    let instance = instances::mounted()?.into_iter().find(is_here);
    let instance = instance.ok_or_else(|| {
        Error::new(Kind::Gone, format!("{} was mounted, and is no longer", directory.display()))
    })?;
    Ok(Mounted { logs: instance.logs, devices: instance.devices()?, directory })
}

fn attach(directory: &Path, arguments: &Arguments) -> std::result::Result<(), Refusal> {
    let silent = |errno| Refusal { errno, option: None, messages: Vec::new() };
    let mounting = Mounting::new().map_err(silent)?;
    let logs = arguments.logs.then_some("stats=global");
    for option in arguments.options.iter().map(String::as_str).chain(logs) {
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        mounting.set(name, value)?;
    }
    mounting.create()?.move_to(directory).map_err(silent)
}

/// What the kernel says of a refusal, if it says anything.
fn refused(directory: &Path, Refusal { errno, messages, .. }: &Refusal) -> Error {
    if *errno == Errno::ENODEV {
        return driver::missing();
    }
    let mut error = Error::at("mount binderfs on", directory, *errno);
    if !messages.is_empty() {
        error.message = format!("cannot mount binderfs on {}: {}", directory.display(), messages.join("; "));
    }
    if error.message.contains("Unknown parameter") {
        error.kind = Kind::NotOffered;
        error = error.hint("Rust Binder has more options than others");
    } else if error.kind == Kind::Io {
        error.kind = Kind::Refused;
    } else if *errno == Errno::ENOSPC && messages.is_empty() {
        error = error.hint("does max= allow the devices that each instance starts with?");
    }
    error.hint_if_denied("root may, also that of a user namespace; with log files root of the machine alone")
}

impl Report for Mounted {
    const SCHEMA: &'static str = "binderctl.mount/1";

    fn show(&self, page: &mut Page) {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name.as_str()).collect();
        let names = if names.is_empty() { "no devices".to_owned() } else { names.join(", ") };
        page.say(format!("mounted {} with {names}", self.directory.display()));
    }
}
