// SPDX-License-Identifier: GPL-2.0
//! The command line, and which command it means.

use crate::checks::seen::Limits;
use crate::commands::{devices, doctor, explain, graph, list, top, trace, watch};
use crate::error::{Error, Result};
use crate::options::Options;
use clap::{CommandFactory, Parser, Subcommand};
use std::fs;
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0  success; no problem was found
  1  doctor, explain or watch found a problem
  2  the arguments are invalid
  3  permission is denied
  4  the driver, mount, device or process does not exist
  5  the loaded driver does not support the command
  6  the kernel refused the request: the name exists, or the quota is used up
  7  the driver, mount or device that the command watched is gone
  8  a file could not be read, written or parsed";

/// Shows the state of Binder drivers and their devices: what exists, who waits for whom, and why a call failed.
///
/// Works with Rust Binder, the C driver and upstream's Rust driver. Reports each feature that the loaded driver lacks.
#[derive(Debug, Parser)]
#[command(name = "binderctl", version, max_term_width = 100, after_long_help = EXIT_CODES, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the driver, the mounted instances of binderfs and their devices.
    List,
    /// Add a device to a binderfs.
    Add(devices::Add),
    /// Remove devices from a binderfs. Processes that have a device open can still use it.
    Rm(devices::Remove),
    /// Check the setup and the running processes, and print the next step for each problem.
    Doctor(Limits),
    /// Explain failed calls: the cause, and the next step.
    Explain(explain::Arguments),
    /// Print a table of processes every second: threads, calls a second, oneway space, latencies.
    Top(top::Arguments),
    /// Print each call when it ends, with its duration.
    Trace(trace::Arguments),
    /// Report slow calls with the chain of waiting threads, and deadlocks.
    Watch(watch::Arguments),
    /// Show which processes call each other and hold each other's objects.
    Graph(graph::Arguments),
    /// Print the completions of a shell.
    Completions { shell: clap_complete::Shell },
    /// Write manual pages into a directory.
    Man {
        /// The directory: man1 of a manual's directory.
        #[arg(long)]
        dir: PathBuf,
    },
}

impl Cli {
    /// Runs the command, and returns true if it found a problem.
    pub fn run(&self) -> Result<bool> {
        let options = &self.options;
        match &self.command {
            Command::Doctor(limits) => return doctor::run(*limits, options),
            Command::Explain(arguments) => return explain::run(arguments, options),
            Command::Watch(arguments) => return watch::run(arguments, options),
            Command::List => list::run(options),
            Command::Add(arguments) => devices::add(arguments, options),
            Command::Rm(arguments) => devices::remove(arguments, options),
            Command::Top(arguments) => top::run(arguments, options),
            Command::Trace(arguments) => trace::run(arguments, options),
            Command::Graph(arguments) => graph::run(arguments, options),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut Self::command(), "binderctl", &mut script);
                options.write(&String::from_utf8_lossy(&script))
            }
            Command::Man { dir } => fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(Self::command(), dir))
                .map_err(|error| Error::at("write into", dir, error)),
        }
        .map(|()| false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
