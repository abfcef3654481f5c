// SPDX-License-Identifier: GPL-2.0
//! Options that every command has.

use clap::Args;
use std::path::PathBuf;

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Print JSON, one object a line, instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// Show only this device, by name or path (default: all devices).
    #[arg(long, global = true, value_name = "NAME|PATH")]
    pub device: Option<String>,
    /// Use the binderfs mounted here (default: /dev/binderfs, or the only one that is mounted).
    #[arg(long, global = true, value_name = "DIR")]
    pub binderfs: Option<PathBuf>,
}

impl Options {
    /// Returns true if the options select the device. Log files contain only its name.
    pub fn wants(&self, name: &str) -> bool {
        self.device.as_deref().is_none_or(|device| device.rsplit('/').next() == Some(name))
    }
}

/// Reads a number of seconds or milliseconds.
pub fn positive(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1e9 => Ok(number),
        _ => Err("must be a number above 0".into()),
    }
}
