// SPDX-License-Identifier: GPL-2.0
//! `binderctl rm`: devices are removed from an instance. Who has one open goes on using it.

use std::fs;

use clap::Args;

use crate::error::Error;
use crate::error::Outcome;
use crate::error::Result;
use crate::instances;
use crate::instances::Changed;
use crate::options::Options;
use crate::output::Output;

/// What to remove.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// The devices' names.
    #[arg(required = true)]
    names: Vec<String>,
}

/// Removes them all, or none of them if one is not there.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<Outcome> {
    let instance = instances::chosen(options)?;
    let devices = instance.devices_named(&arguments.names)?;
    for device in &devices {
        fs::remove_file(&device.path).map_err(|error| {
            Error::at("remove", &device.path, error)
                .hint_if_denied("the owner of the instance may, usually root")
        })?;
    }
    output.print(&Changed { what: "removed", devices })?;
    Ok(Outcome::Fine)
}
