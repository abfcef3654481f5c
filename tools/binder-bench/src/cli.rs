// SPDX-License-Identifier: GPL-2.0
//! Options that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Debug)]
pub struct Common {
    #[command(flatten)]
    pub run: RunBasics,
    /// Measure each point for this many seconds, spread over short blocks.
    #[arg(long, default_value_t = 0.5, value_parser = positive_seconds)]
    pub seconds: f64,
    /// Place clients and their servers on these CPUs.
    #[arg(long, value_enum, default_value_t = Placement::Same)]
    pub placement: Placement,
    /// Count instructions instead, in a guest under `qemu -icount shift=0`; only points with one client.
    #[arg(long, conflicts_with = "seconds")]
    pub count: bool,
    /// With `--count`: also measure points with several clients, which start together, for a plugin that counts all of them.
    #[arg(long, requires = "count")]
    pub together: bool,
    /// Set the lengths of the short and the long window of `--count`, in calls, such as `10,40`.
    #[arg(long, requires = "count", value_parser = two_lengths)]
    pub windows: Option<(u64, u64)>,
}

#[derive(Args, Clone, Debug)]
pub struct RunBasics {
    /// Label the driver in the result: `rust`, `c`, `upstream` …
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub driver: String,
    /// Use this device, which has no context manager yet.
    #[arg(long)]
    pub device: Option<PathBuf>,
    /// Add a device to the binderfs mounted here.
    #[arg(long, default_value = "/dev/binderfs", conflicts_with = "device")]
    pub binderfs: PathBuf,
    /// Write the result to this file, as JSON; `-` is the standard output.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Print only errors if the result goes to a file.
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// Both on one CPU; pairs take turns through the CPUs.
    Same,
    /// On two different CPUs, if there is more than one.
    Other,
    /// On any CPU that the scheduler chooses.
    Free,
}

/// Returns whether `name` is chosen. An empty choice includes every name.
pub fn wants(chosen: &[String], name: &str) -> bool {
    chosen.is_empty() || chosen.iter().any(|wish| wish == name)
}

fn two_lengths(text: &str) -> Result<(u64, u64), String> {
    let parsed =
        text.split_once(',').and_then(|(short, long)| Some((short.parse().ok()?, long.parse().ok()?)));
    match parsed {
        Some((short, long)) if 0 < short && short < long => Ok((short, long)),
        _ => Err("must be two numbers, the smaller first, such as 10,40".into()),
    }
}

/// An option's value: a time that a measurement may take.
pub fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 86_400.0 => Ok(value),
        Ok(_) => Err("must be more than 0 and at most 86400".into()),
        Err(error) => Err(error.to_string()),
    }
}
