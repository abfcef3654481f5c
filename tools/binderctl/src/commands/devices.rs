// SPDX-License-Identifier: GPL-2.0
//! `binderctl add` and `rm`: the devices of an instance of binderfs.

use crate::escape::quoted;
use crate::instances::{self, Device, Instance, DEV};
use crate::prelude::*;
use binder_sys::fs::CONTROL;
use binder_sys::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The longest name, in bytes.
const LONGEST: usize = 255;

/// The arguments of `add`.
#[derive(Args, Clone, Debug)]
pub struct Add {
    /// The device's name: at most 255 bytes, no slash.
    name: String,
    /// Create a link to it in /dev.
    #[arg(long)]
    link: bool,
}

/// The arguments of `rm`.
#[derive(Args, Clone, Debug)]
pub struct Remove {
    /// The devices' names.
    #[arg(required = true)]
    names: Vec<String>,
}

/// A device that was added, or devices before they were removed.
#[derive(Serialize)]
struct Changed {
    what: &'static str,
    devices: Vec<Device>,
}

impl Report for Changed {
    const SCHEMA: &'static str = "binderctl.devices/1";

    fn show(&self, page: &mut Page) {
        for device in &self.devices {
            page.say(format!("{} {}", self.what, device.path.display()));
        }
    }
}

/// Adds a device.
pub fn add(Add { name, link }: &Add, options: &Options) -> Result<()> {
    check_name(name)?;
    let instance = instances::chosen(options)?;
    let place = Path::new(DEV).join(name);
    if *link && place.symlink_metadata().is_ok() {
        return Err(Error::new(Kind::Refused, format!("{} exists", place.display()))
            .hint(format!("without a link: {}", instance.command("add", name))));
    }
    binder_sys::fs::add_device(&instance.directory, name).map_err(|errno| refused(&instance, name, errno))?;
    if *link {
        let target = instance.directory.join(name);
        symlink(target.strip_prefix(DEV).unwrap_or(&target), &place)
            .map_err(|error| Error::at("link", &place, error))?;
    }
    options.print(&Changed { what: "added", devices: vec![instance.device(name)?] })
}

/// Removes all devices with the links to them in `/dev`, or none of them if one is not there.
pub fn remove(arguments: &Remove, options: &Options) -> Result<()> {
    let instance = instances::chosen(options)?;
    let names: BTreeSet<_> = arguments.names.iter().collect();
    let devices: Vec<_> = names.into_iter().map(|name| instance.device(name)).collect::<Result<_>>()?;
    for device in &devices {
        let link = Path::new(DEV).join(&device.name);
        let leads_to_it = fs::read_link(&link).is_ok_and(|target| Path::new(DEV).join(target) == device.path);
        fs::remove_file(&device.path).map_err(|error| {
            Error::at("remove", &device.path, error)
                .hint_if_denied("the owner of the instance may, usually root")
        })?;
        if leads_to_it {
            fs::remove_file(&link).map_err(|error| Error::at("remove", &link, error))?;
        }
    }
    options.print(&Changed { what: "removed", devices })
}

/// Refuses what the kernel would refuse, or cut off without an error.
fn check_name(name: &str) -> Result<()> {
    let wrong = match name {
        "" => "a device's name cannot be empty".to_owned(),
        "." | ".." => format!("{name} is a directory's name"),
        name if name.contains('/') => format!("{name} has a slash: a device is named without its directory"),
        name if name.len() > LONGEST => {
            format!("a name of {} bytes is too long: the limit is {LONGEST} bytes", name.len())
        }
        _ => return Ok(()),
    };
    Err(Error::new(Kind::Usage, wrong))
}

fn refused(instance: &Instance, name: &str, errno: Errno) -> Error {
    let place = instance.directory.display();
    let failed = format!("cannot add {name} to {place}");
    let count = instance.devices().map_or(0, |devices| devices.len());
    match errno {
        Errno::EEXIST => Error::new(Kind::Refused, format!("{failed}: a device of this name exists"))
            .hint(format!("to remove it: {}", instance.command("rm", name))),
        Errno::ENOSPC => match instance.max.filter(|&max| count as u64 >= max.into()) {
            Some(max) => {
                Error::new(Kind::Refused, format!("{failed}: it has {count} devices and may have {max}"))
                    .hint(format!(
                        "remove one, or allow more: mount -o remount,max=N {}",
                        quoted(&instance.directory)
                    ))
            }
            None => Error::new(Kind::Refused, format!("{failed}: no device number is left"))
                .hint("remove devices of other instances, or see the parameter max_user_devices"),
        },
        Errno::EACCES | Errno::EPERM => {
            Error::new(Kind::Permission, format!("{failed}: {CONTROL} may not be opened"))
                .hint(format!("its owner may, usually root: sudo {}", instance.command("add", name)))
        }
        errno => Error::at(&format!("add {name} through"), &instance.directory.join(CONTROL), errno),
    }
}
