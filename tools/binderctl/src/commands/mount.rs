// SPDX-License-Identifier: GPL-2.0
//! `binderctl mount`: a new instance of binderfs.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use binder_sys::Errno;
use clap::Args;
use serde::Serialize;

use crate::driver;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Outcome;
use crate::error::Result;
use crate::instances;
use crate::instances::Device;
use crate::output::Output;
use crate::output::Page;
use crate::output::Report;

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
}

#[derive(Serialize)]
struct Mounted {
    directory: PathBuf,
    logs: bool,
    devices: Vec<Device>,
}

/// Mounts binderfs, on a directory that has none yet.
pub fn run(arguments: &Arguments, output: Output) -> Result<Outcome> {
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
    output.print(&mounted)?;
    Ok(Outcome::Fine)
}

fn mount(arguments: &Arguments) -> Result<Mounted> {
    let directory = fs::canonicalize(&arguments.directory)
        .map_err(|error| Error::at("find", &arguments.directory, error))?;
    let is_here = |instance: &instances::Instance| instance.directory == directory;
    if instances::mounted()?.iter().any(is_here) {
        return Err(Error::new(Kind::Refused, format!("{} has a binderfs already", directory.display()))
            .hint("`binderctl list` shows it; another one needs another directory"));
    }
    let max = arguments.max.map(|max| format!("max={max}"));
    let words: Vec<&str> =
        max.as_deref().into_iter().chain(arguments.logs.then_some("stats=global")).collect();
    let words = (!words.is_empty()).then(|| words.join(","));
    binder_sys::fs::mount_at(&directory, words.as_deref())
        .map_err(|errno| refused(&directory, arguments, errno))?;
    let instance = instances::mounted()?.into_iter().find(is_here);
    let instance = instance.ok_or_else(|| {
        Error::new(Kind::Gone, format!("{} was mounted, and is not any more", directory.display()))
    })?;
    Ok(Mounted { logs: instance.logs, devices: instance.devices()?, directory })
}

fn refused(directory: &Path, arguments: &Arguments, errno: Errno) -> Error {
    let failed = format!("cannot mount binderfs on {}", directory.display());
    match errno {
        Errno::ENODEV => Error::new(Kind::NotThere, format!("{failed}: the kernel has no Binder driver"))
            .hint("load one: modprobe binder_rust, or modprobe binder_linux"),
        Errno::EPERM if arguments.logs => {
            Error::new(Kind::Permission, format!("{failed} with log files: {}", errno.desc()))
                .hint("log files are for root of the machine, outside of containers")
        }
        Errno::EPERM | Errno::EACCES => Error::new(Kind::Permission, format!("{failed}: {}", errno.desc()))
            .hint("root may, also that of a user namespace"),
        Errno::ENOSPC => {
            let names = driver::detect()
                .and_then(|driver| driver.parameter("devices").or_else(|| driver.parameter("rust_devices")));
            Error::new(
                Kind::Refused,
                format!("{failed}: it may have fewer devices than each instance starts with"),
            )
            .hint(format!("the driver's parameter for these: {}", names.as_deref().unwrap_or("unknown")))
        }
        Errno::EINVAL => {
            Error::new(Kind::NotOffered, format!("{failed}: the driver does not know these options"))
        }
        errno => Error::at("mount binderfs on", directory, errno),
    }
}

impl Report for Mounted {
    const SCHEMA: &'static str = "binderctl.mount/1";

    fn show(&self, page: &mut Page) {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name.as_str()).collect();
        page.say(format!("mounted {} with {}", self.directory.display(), names.join(", ")));
    }
}
