// SPDX-License-Identifier: GPL-2.0
//! `binderctl add`: a new device in an instance of binderfs.

use binder_sys::fs::CONTROL;
use binder_sys::Errno;
use clap::Args;

use crate::commands::chmod;
use crate::commands::chown;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Outcome;
use crate::error::Result;
use crate::instances;
use crate::instances::Changed;
use crate::instances::Instance;
use crate::options::Options;
use crate::output::Output;

/// The longest name, in bytes.
const LONGEST: usize = 255;

/// What to add.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// The device's name: at most 255 bytes, no slash.
    name: String,
    /// Permissions of the device, in octal: 0666 lets everybody use it. The driver makes it 0600.
    #[arg(long, value_parser = chmod::mode)]
    mode: Option<u32>,
    /// Its owner, as for `chown`.
    #[arg(long, value_name = "USER[:GROUP]", value_parser = chown::owner)]
    owner: Option<chown::Owner>,
}

/// Adds the device, and takes it away again if it cannot be made what was wanted.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<Outcome> {
    check_name(&arguments.name)?;
    let instance = instances::chosen(options)?;
    binder_sys::fs::add_device(&instance.directory, &arguments.name)
        .map_err(|errno| refused(&instance, &arguments.name, errno))?;
    let settle = || {
        let device = instance.device(&arguments.name)?;
        arguments.owner.as_ref().map_or(Ok(()), |owner| chown::apply(&device.path, owner))?;
        arguments.mode.map_or(Ok(()), |mode| chmod::apply(&device.path, mode))?;
        instance.device(&arguments.name)
    };
    let device = settle().inspect_err(|_| {
        let _ = std::fs::remove_file(instance.directory.join(&arguments.name));
    })?;
    output.print(&Changed { what: "added", devices: vec![device] })?;
    Ok(Outcome::Fine)
}

/// What the kernel would refuse, or cut off without a word.
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
}
