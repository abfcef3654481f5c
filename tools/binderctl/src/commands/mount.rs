// SPDX-License-Identifier: GPL-2.0
//! `binderctl mount`: a new instance of binderfs.

use std::fs;
use std::path::{Path, PathBuf};

use binder_sys::mounting::{Mounting, Refusal};
use binder_sys::Errno;
use clap::Args;
use serde::Serialize;

use crate::commands::devices;
use crate::error::{Error, Kind, Result};
use crate::instances::Device;
use crate::output::{Output, Page, Report};
use crate::{driver, instances};

/// The most devices that binderfs can count.
const MOST: i64 = 1 << 20;

/// Where and how to mount.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Where; a directory that is not there is made.
    #[arg(default_value = instances::USUAL)]
    directory: PathBuf,
    /// How many devices it may have.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=MOST))]
    max: Option<u32>,
    /// With the driver's log files in `binder_logs`. They show all instances: root of the machine may ask for them.
    #[arg(long)]
    logs: bool,
    /// Permissions of its devices, in octal: 0666 lets everybody use them. Rust Binder only, as are the following.
    #[arg(long, value_parser = devices::mode)]
    mode: Option<u32>,
    /// Permissions of binder-control, with which devices are added.
    #[arg(long, value_name = "MODE", value_parser = devices::mode)]
    control_mode: Option<u32>,
    /// Who owns its devices, binder-control and the directory, as for `chown`.
    #[arg(long, value_name = "USER[:GROUP]", value_parser = devices::owner)]
    owner: Option<devices::Owner>,
    /// The devices that it starts with, instead of those that the driver's parameter says.
    #[arg(long, value_name = "NAME,...", value_parser = names)]
    devices: Option<String>,
}

/// Reads names with commas between them, as the mount option has them: with colons.
fn names(text: &str) -> std::result::Result<String, String> {
    let names: Vec<_> = text.split(',').filter(|_| !text.is_empty()).collect();
    for name in &names {
        devices::check_name(name).map_err(|error| error.message)?;
        if name.contains(':') {
            return Err(format!("{name} has a colon: `binderctl add` adds such a device"));
        }
    }
    Ok(names.join(":"))
}

impl Arguments {
    /// The mount options, by name.
    fn options(&self) -> Vec<(&'static str, String)> {
        let owner = self.owner.unwrap_or(devices::Owner::default());
        let octal = |mode: Option<u32>| mode.map(|mode| format!("{mode:o}"));
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let all = [
            ("max", number(self.max)),
            ("stats", self.logs.then(|| "global".to_owned())),
            ("mode", octal(self.mode)),
            ("control_mode", octal(self.control_mode)),
            ("uid", number(owner.user)),
            ("gid", number(owner.group)),
            ("devices", self.devices.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
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
    let is_here = |instance: &instances::Instance| instance.directory == directory;
    if instances::mounted()?.iter().any(is_here) {
        return Err(Error::new(Kind::Refused, format!("{} has a binderfs already", directory.display()))
            .hint("`binderctl list` shows it; another one needs another directory"));
    }
    attach(&directory, arguments).map_err(|refusal| refused(&directory, arguments, &refusal))?;
    let instance = instances::mounted()?.into_iter().find(is_here);
    let instance = instance.ok_or_else(|| {
        Error::new(Kind::Gone, format!("{} was mounted, and is no longer", directory.display()))
    })?;
    Ok(Mounted { logs: instance.logs, devices: instance.devices()?, directory })
}

fn attach(directory: &Path, arguments: &Arguments) -> std::result::Result<(), Refusal> {
    let silent = |errno| Refusal { errno, option: None, messages: Vec::new() };
    let mounting = Mounting::new().map_err(silent)?;
    for (option, value) in arguments.options() {
        mounting.set(option, Some(&value))?;
    }
    mounting.create()?.move_to(directory).map_err(silent)
}

fn refused(directory: &Path, arguments: &Arguments, refusal: &Refusal) -> Error {
    let failed = format!("cannot mount binderfs on {}", directory.display());
    let words = refusal.messages.join("; ");
    match (refusal.errno, &refusal.option) {
        (Errno::ENODEV, _) => {
            Error::new(Kind::NotThere, format!("{failed}: {}", driver::NONE)).hint(driver::LOAD)
        }
        (Errno::EPERM, _) if arguments.logs => {
            Error::new(Kind::Permission, format!("{failed} with log files: {}", Errno::EPERM.desc()))
                .hint("log files are for root of the machine, outside of containers")
        }
        (Errno::EPERM | Errno::EACCES, _) => {
            Error::new(Kind::Permission, format!("{failed}: {}", refusal.errno.desc()))
                .hint("root may, also that of a user namespace")
        }
        (Errno::ENOSPC, _) => no_room(failed, &words),
        (Errno::EINVAL, Some(option)) if words.contains("Unknown parameter") => {
            let name = driver::detect().map_or("the driver", |driver| driver.kind.name());
            Error::new(Kind::NotOffered, format!("{failed}: {name} does not have the option {option}")).hint(
                "Rust Binder has it; with others, mount first, then `binderctl add`, `chmod` or `chown`",
            )
        }
        (_, Some(_)) => Error::new(Kind::Refused, format!("{failed}: {words}")),
        (errno, None) if words.is_empty() => Error::at("mount binderfs on", directory, errno),
        _ => Error::new(Kind::Refused, format!("{failed}: {words}")),
    }
}

fn no_room(failed: String, words: &str) -> Error {
    if words.contains("max_user_devices") {
        return Error::new(Kind::Refused, format!("{failed}: {words}")).hint(
            "remove devices in other containers, or allow more: the driver's parameter max_user_devices",
        );
    }
    let names = driver::detect()
        .and_then(|driver| driver.parameter("devices").or_else(|| driver.parameter("rust_devices")));
    Error::new(Kind::Refused, format!("{failed}: it may have fewer devices than each instance starts with"))
        .hint(format!("the driver's parameter for these: {}", names.as_deref().unwrap_or("unknown")))
}

impl Report for Mounted {
    const SCHEMA: &'static str = "binderctl.mount/1";

    fn show(&self, page: &mut Page) {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name.as_str()).collect();
        let names = if names.is_empty() { "no devices".to_owned() } else { names.join(", ") };
        page.say(format!("mounted {} with {names}", self.directory.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_with_commas_and_mounted_with_colons() {
        assert_eq!(names("binder,anbox-binder").as_deref(), Ok("binder:anbox-binder"));
        assert_eq!(names("").as_deref(), Ok(""));
        for wrong in ["a,,b", ",", "a,", "a/b", "..", "a:b"] {
            assert!(names(wrong).is_err(), "{wrong}");
        }
    }
}
