// SPDX-License-Identifier: GPL-2.0
//! `binderctl add`, `rm`, `chmod` and `chown`: the devices of an instance of binderfs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use binder_sys::fs::CONTROL;
use binder_sys::Errno;
use clap::Args;
use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::instances::{self, Device, Instance};
use crate::options::Options;
use crate::output::{Output, Page, Report};

/// The longest name, in bytes.
const LONGEST: usize = 255;

/// What to add.
#[derive(Args, Clone, Debug)]
pub struct Add {
    /// The device's name: at most 255 bytes, no slash.
    name: String,
    /// Permissions of the device, in octal: 0666 lets everybody use it. The driver makes it 0600.
    #[arg(long, value_parser = mode)]
    mode: Option<u32>,
    /// Its owner, as for `chown`.
    #[arg(long, value_name = "USER[:GROUP]", value_parser = owner)]
    owner: Option<Owner>,
}

/// What to remove.
#[derive(Args, Clone, Debug)]
pub struct Remove {
    /// The devices' names.
    #[arg(required = true)]
    names: Vec<String>,
}

/// What to change.
#[derive(Args, Clone, Debug)]
pub struct Chmod {
    /// Permissions in octal, such as 0666.
    #[arg(value_parser = mode)]
    mode: u32,
    /// The devices' names.
    #[arg(required = true)]
    names: Vec<String>,
}

/// Whose devices they are to be.
#[derive(Args, Clone, Debug)]
pub struct Chown {
    /// The new owner, by name or number; one of the two may be left out: `system`, `:system`, `1000:1000`.
    #[arg(value_name = "USER[:GROUP]", value_parser = owner)]
    owner: Owner,
    /// The devices' names.
    #[arg(required = true)]
    names: Vec<String>,
}

/// A user, a group, or both; none where it stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

/// Devices after something was done to them, or before they were removed.
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

/// Adds a device, and removes it again if it cannot be made what was wanted.
pub fn add(Add { name, mode, owner }: &Add, options: &Options, output: Output) -> Result<()> {
    check_name(name)?;
    let instance = instances::chosen(options)?;
    binder_sys::fs::add_device(&instance.directory, name).map_err(|errno| refused(&instance, name, errno))?;
    let settle = || {
        let device = instance.device(name)?;
        owner.map_or(Ok(()), |owner| set_owner(&device.path, owner))?;
        mode.map_or(Ok(()), |mode| set_mode(&device.path, mode))?;
        instance.device(name)
    };
    let device = settle().inspect_err(|_| {
        let _ = fs::remove_file(instance.directory.join(name));
    })?;
    output.print(&Changed { what: "added", devices: vec![device] })
}

/// Removes all devices, or none of them if one is not there.
pub fn remove(arguments: &Remove, options: &Options, output: Output) -> Result<()> {
    let devices = instances::chosen(options)?.devices_named(&arguments.names)?;
    for device in &devices {
        fs::remove_file(&device.path).map_err(|error| {
            Error::at("remove", &device.path, error)
                .hint_if_denied("the owner of the instance may, usually root")
        })?;
    }
    output.print(&Changed { what: "removed", devices })
}

/// Changes the permissions of all devices, or of none of them if one is not there.
pub fn chmod(arguments: &Chmod, options: &Options, output: Output) -> Result<()> {
    change(&arguments.names, options, output, |path| set_mode(path, arguments.mode))
}

/// Changes the owner of all devices, or of none of them if one is not there.
pub fn chown(arguments: &Chown, options: &Options, output: Output) -> Result<()> {
    change(&arguments.names, options, output, |path| set_owner(path, arguments.owner))
}

fn change(
    names: &[String],
    options: &Options,
    output: Output,
    apply: impl Fn(&Path) -> Result<()>,
) -> Result<()> {
    let instance = instances::chosen(options)?;
    instance.devices_named(names)?.iter().try_for_each(|device| apply(&device.path))?;
    output.print(&Changed { what: "changed", devices: instance.devices_named(names)? })
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| {
        Error::at("change the permissions of", path, error).hint_if_denied("its owner may, and root")
    })
}

fn set_owner(path: &Path, owner: Owner) -> Result<()> {
    std::os::unix::fs::chown(path, owner.user, owner.group)
        .map_err(|error| Error::at("change the owner of", path, error).hint_if_denied("root may"))
}

/// Reads permissions in octal.
pub fn mode(text: &str) -> std::result::Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("three octal digits are wanted, such as 666 or 0600".to_owned()),
    }
}

/// Reads an owner as chown(1) does.
pub fn owner(text: &str) -> std::result::Result<Owner, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let number = |file: &str, name: &str, what| match name {
        "" => Ok(None),
        name => number_of(file, name).map(Some).ok_or(format!("there is no {what} {name}")),
    };
    match (number(USERS, user, "user")?, number(GROUPS, group, "group")?) {
        (None, None) => Err("neither a user nor a group is named".to_owned()),
        (user, group) => Ok(Owner { user, group }),
    }
}

/// Where names of users and groups are; a static program cannot ask other sources.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// The number of a name, or the number itself.
fn number_of(file: &str, name: &str) -> Option<u32> {
    let named = || accounts(file).into_iter().find(|(found, _)| found == name).map(|(_, id)| id);
    name.parse().ok().or_else(named)
}

/// An owner by names, or by numbers where they have none.
pub fn owner_name(device: &Device) -> String {
    let name = |file, number: u32| {
        let found = accounts(file).into_iter().find(|(_, id)| *id == number).map(|(name, _)| name);
        found.unwrap_or_else(|| number.to_string())
    };
    format!("{}:{}", name(USERS, device.uid), name(GROUPS, device.gid))
}

fn accounts(file: &str) -> Vec<(String, u32)> {
    entries(&String::from_utf8_lossy(&fs::read(file).unwrap_or_default()))
}

/// Both files have the name first and the number third.
fn entries(lines: &str) -> Vec<(String, u32)> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
    };
    lines.lines().filter_map(entry).collect()
}

/// Refuses what the kernel would refuse, or cut off without an error.
pub fn check_name(name: &str) -> Result<()> {
    let wrong = match name {
        "" => "a device's name cannot be empty".to_owned(),
        "." | ".." => format!("{name} is a directory's name"),
        name if name.contains('/') => format!("{name} has a slash: a device is named without its directory"),
        name if name.len() > LONGEST => {
            format!("a name of {} bytes is too long: {LONGEST} bytes are the most", name.len())
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
            .hint(format!("`binderctl rm {name}` removes it")),
        Errno::ENOSPC => match instance.max.filter(|&max| count as u64 >= max.into()) {
            Some(max) => {
                Error::new(Kind::Refused, format!("{failed}: it has {count} devices and may have {max}"))
                    .hint(format!("remove one, or allow more: mount -o remount,max=N {place}"))
            }
            None => Error::new(Kind::Refused, format!("{failed}: no device number is left"))
                .hint("other instances of binderfs have them: remove devices there"),
        },
        Errno::EACCES | Errno::EPERM => {
            Error::new(Kind::Permission, format!("{failed}: {CONTROL} may not be opened"))
                .hint(format!("its owner may, usually root: sudo binderctl add {name}"))
        }
        errno => Error::at(&format!("add {name} through"), &instance.directory.join(CONTROL), errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_would_not_take_are_refused_here() {
        for name in ["", ".", "..", "a/b", &"x".repeat(256)] {
            assert_eq!(check_name(name).unwrap_err().kind, Kind::Usage, "{name}");
        }
        assert!(check_name(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn a_mode_is_octal_and_has_no_special_bits() {
        assert_eq!(mode("0666"), Ok(0o666));
        for wrong in ["4755", "rw", "888", "-1", ""] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_owner_is_a_user_a_group_or_both() {
        assert_eq!(owner("1000"), Ok(Owner { user: Some(1000), group: None }));
        assert_eq!(owner(":1001"), Ok(Owner { user: None, group: Some(1001) }));
        assert_eq!(owner("1:2"), Ok(Owner { user: Some(1), group: Some(2) }));
        assert!(owner(":").is_err() && owner("").is_err() && owner("no such user, surely").is_err());
        let found = entries("root:x:0:0::/:/bin/sh\n+::::::\nsystem:x:1000:\n");
        assert_eq!(found, [("root".to_owned(), 0), ("system".to_owned(), 1000)]);
    }
}
