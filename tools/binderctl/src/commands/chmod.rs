// SPDX-License-Identifier: GPL-2.0
//! `binderctl chmod`: who may use a device.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Args;

use crate::error::Error;
use crate::error::Outcome;
use crate::error::Result;
use crate::instances;
use crate::instances::Changed;
use crate::options::Options;
use crate::output::Output;

/// What to change.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Permissions in octal, such as 0666.
    #[arg(value_parser = mode)]
    mode: u32,
    /// The devices' names.
    #[arg(required = true)]
    names: Vec<String>,
}

/// Changes them all.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<Outcome> {
    let instance = instances::chosen(options)?;
    for device in instance.devices_named(&arguments.names)? {
        apply(&device.path, arguments.mode)?;
    }
    output.print(&Changed { what: "changed", devices: instance.devices_named(&arguments.names)? })?;
    Ok(Outcome::Fine)
}

/// Sets the permissions of a path.
pub fn apply(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| {
        Error::at("change the permissions of", path, error).hint_if_denied("its owner may, and root")
    })
}

/// Reads permissions in octal.
pub fn mode(text: &str) -> std::result::Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("three octal digits are wanted, such as 666 or 0600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_and_has_no_special_bits() {
        assert_eq!(mode("0666"), Ok(0o666));
        for wrong in ["4755", "rw", "888", "-1", ""] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
    }
}
